// Finds tokens that are matched as text before pre-tokenization: control tokens such as <|im_start|> and the tokens
// that a model's author added by hand.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvant {

class SpecialTokens {
 public:
  struct Match {
    size_t begin;
    size_t size;  // bytes; 0: no match
    int32_t id;
  };

  // `text` in raw bytes; empty texts never match.
  void Add(std::string_view text, int32_t id);

  // The first place at or after `from` where a token occurs, and the longest token there (leftmost-longest, as Hugging
  // Face's `tokenizers` does). Costs at most the longest token's bytes per byte of text.
  Match Find(std::string_view text, size_t from) const;

 private:
  // A trie: child of node n by byte b under key n << 8 | b; node 0 is the root.
  std::unordered_map<uint64_t, uint64_t> children_;
  std::vector<int32_t> id_ = {-1};  // by node; -1: no token ends here
  std::bitset<256> first_bytes_;
};

}  // namespace kvant
