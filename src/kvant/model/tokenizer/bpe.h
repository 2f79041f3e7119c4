// Byte-pair encoding of one word: bytes become their tokens, then the adjacent pair whose merge has the lowest rank
// (the leftmost of equals) is replaced by its token until no pair has a merge. Sennrich et al. 2016; Radford et al.
// 2019.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"

namespace kvant {

// Scratch memory of Bpe::Append, kept by the caller so that words cost no allocation. It grows to at most 32 bytes per
// byte of the longest word.
struct BpeScratch {
  struct Node {
    int32_t id;
    uint32_t rank;  // of the pair (this, next)
    uint32_t previous;
    uint32_t next;
  };
  std::vector<Node> nodes;
  std::vector<uint64_t> queue;  // heap of rank << 32 | node
};

class Bpe {
 public:
  // `tokens` by id and `merges` ("left right", by rank) are in the byte alphabet (byte_alphabet.h). Fails when there is
  // no token, a token occurs twice, a printable ASCII character has no token, a merge is not two symbols or occurs
  // twice, or a symbol or result of a merge is no token. Other bytes may lack a token: real vocabularies leave out
  // bytes that never occurred in their training text.
  static Result<Bpe> Create(const std::vector<std::string>& tokens, const std::vector<std::string>& merges);

  // Appends the ids of `word`. Bytes without a token are left out before merging, as Hugging Face's `tokenizers` does.
  // O(n log n) for a word of n bytes; words above 1 GiB are cut there.
  void Append(std::string_view word, BpeScratch* scratch, std::vector<int32_t>* ids) const;

  bool covers(uint8_t byte) const { return byte_id_[byte] >= 0; }

 private:
  struct Slot {
    uint64_t pair;  // left id << 32 | right id; kNoPair: empty
    uint32_t rank;
    int32_t id;
  };
  Bpe() = default;
  size_t SlotOf(int32_t left, int32_t right) const;  // of the pair, or the empty slot where it would be
  const Slot& Find(int32_t left, int32_t right) const { return slots_[SlotOf(left, right)]; }
  void AppendShort(std::string_view word, std::vector<int32_t>* ids) const;
  void AppendLong(std::string_view word, BpeScratch* scratch, std::vector<int32_t>* ids) const;

  std::array<int32_t, 256> byte_id_{};  // -1: no token
  std::vector<Slot> slots_;             // open addressing, at most half full
  int shift_ = 0;                       // 64 - log2(slots)
};

}  // namespace kvant
