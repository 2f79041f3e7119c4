#include "kvant/model/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <unordered_map>

#include "kvant/model/tokenizer/byte_alphabet.h"

namespace kvant {
namespace {

constexpr uint64_t kNoPair = ~uint64_t{0};  // no pair has ids of -1
constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kNoNode = std::numeric_limits<uint32_t>::max();
constexpr size_t kMaxWordBytes = size_t{1} << 30;  // node numbers are 32 bits
// Below this a scan of all pairs per merge beats the heap (SmolLM2 on WikiText-2: words average 5 bytes).
constexpr size_t kShortWordBytes = 48;

uint64_t Pair(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

using Vocabulary = std::unordered_map<std::string_view, int32_t>;

Result<int32_t> FindToken(const Vocabulary& vocabulary, std::string_view text, size_t merge) {
  const auto found = vocabulary.find(text);
  if (found != vocabulary.end()) return found->second;
  return Fail("merge {} names \"{}\", which is no token of the vocabulary; convert the model again", merge, text);
}

}  // namespace

size_t Bpe::SlotOf(int32_t left, int32_t right) const {
  const uint64_t pair = Pair(left, right);
  const size_t mask = slots_.size() - 1;
  size_t index = (pair * 0x9e3779b97f4a7c15u) >> shift_;  // 2^64 / golden ratio: the upper bits are well mixed
  while (slots_[index].pair != pair && slots_[index].pair != kNoPair) index = (index + 1) & mask;
  return index;
}

Result<Bpe> Bpe::Create(const std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
  if (tokens.empty()) return Fail("the vocabulary has no tokens; the model file lacks tokenizer.ggml.tokens");
  if (tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()) || merges.size() >= kNoRank / 4) {
    return Fail("the vocabulary has {} tokens and {} merges, more than 32-bit ids can count", tokens.size(),
                merges.size());
  }
  Vocabulary vocabulary(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    const auto [first, added] = vocabulary.emplace(tokens[id], static_cast<int32_t>(id));
    if (!added) {
      return Fail("tokens {} and {} are both \"{}\"; tokens must differ, convert the model again", first->second, id,
                  tokens[id]);
    }
  }
  Bpe bpe;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = AlphabetCharacter(static_cast<uint8_t>(byte));
    const auto found = vocabulary.find(character);
    bpe.byte_id_[byte] = found == vocabulary.end() ? -1 : found->second;
    if (bpe.byte_id_[byte] < 0 && byte >= 0x20 && byte < 0x7f) {
      return Fail("the vocabulary has no token \"{}\" for byte 0x{:02x}; it is not a byte-level BPE vocabulary",
                  character, byte);
    }
  }
  const size_t slots = std::bit_ceil(std::max<size_t>(4, 2 * merges.size()));
  bpe.slots_.assign(slots, {kNoPair, kNoRank, -1});
  bpe.shift_ = 64 - std::countr_zero(slots);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == merge.size() ||
        merge.find(' ', space + 1) != std::string_view::npos) {
      return Fail("merge {} is \"{}\" where two symbols with one space between them belong; convert the model again",
                  rank, merge);
    }
    KVANT_ASSIGN_OR_RETURN(const int32_t left, FindToken(vocabulary, merge.substr(0, space), rank));
    KVANT_ASSIGN_OR_RETURN(const int32_t right, FindToken(vocabulary, merge.substr(space + 1), rank));
    const std::string result = tokens[left] + tokens[right];
    KVANT_ASSIGN_OR_RETURN(const int32_t id, FindToken(vocabulary, result, rank));
    Slot& slot = bpe.slots_[bpe.SlotOf(left, right)];
    if (slot.pair != kNoPair) {
      return Fail("merge {} repeats \"{}\" of merge {}; convert the model again", rank, merge, slot.rank);
    }
    slot = {Pair(left, right), static_cast<uint32_t>(rank), id};
  }
  return bpe;
}

void Bpe::Append(std::string_view word, BpeScratch* scratch, std::vector<int32_t>* ids) const {
  if (word.size() <= kShortWordBytes) return AppendShort(word, ids);
  for (size_t done = 0; done < word.size(); done += kMaxWordBytes) {
    AppendLong(word.substr(done, kMaxWordBytes), scratch, ids);
  }
}

void Bpe::AppendShort(std::string_view word, std::vector<int32_t>* ids) const {
  int32_t symbols[kShortWordBytes];
  struct {
    uint32_t rank;
    int32_t id;
  } merge[kShortWordBytes];  // of symbols [n] and [n + 1]
  size_t count = 0;
  for (const char character : word) {
    const int32_t id = byte_id_[static_cast<uint8_t>(character)];
    if (id >= 0) symbols[count++] = id;
  }
  const auto look_up = [&](size_t index) {
    const Slot& slot = Find(symbols[index], symbols[index + 1]);
    merge[index] = {slot.rank, slot.id};
  };
  for (size_t index = 0; index + 1 < count; ++index) look_up(index);
  while (count > 1) {
    size_t best = 0;
    for (size_t index = 1; index + 1 < count; ++index) {
      if (merge[index].rank < merge[best].rank) best = index;
    }
    if (merge[best].rank == kNoRank) break;
    symbols[best] = merge[best].id;
    --count;
    for (size_t index = best + 1; index < count; ++index) {
      symbols[index] = symbols[index + 1];
      merge[index - 1] = merge[index];
    }
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  ids->insert(ids->end(), symbols, symbols + count);
}

void Bpe::AppendLong(std::string_view word, BpeScratch* scratch, std::vector<int32_t>* ids) const {
  auto& nodes = scratch->nodes;
  auto& queue = scratch->queue;
  nodes.clear();
  queue.clear();
  for (const char character : word) {
    const int32_t id = byte_id_[static_cast<uint8_t>(character)];
    if (id < 0) continue;
    const auto node = static_cast<uint32_t>(nodes.size());
    if (node > 0) nodes.back().next = node;
    nodes.push_back({id, kNoRank, node > 0 ? node - 1 : kNoNode, kNoNode});
  }
  const auto look_up = [&](uint32_t node) {
    const uint32_t next = nodes[node].next;
    nodes[node].rank = next == kNoNode ? kNoRank : Find(nodes[node].id, nodes[next].id).rank;
    return nodes[node].rank;
  };
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    const uint64_t rank = look_up(node);
    if (rank != kNoRank) queue.push_back(rank << 32 | node);
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  const auto push = [&](uint32_t node) {
    const uint64_t rank = look_up(node);
    if (rank == kNoRank) return;
    queue.push_back(rank << 32 | node);
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(queue.back() >> 32);
    const auto node = static_cast<uint32_t>(queue.back());
    queue.pop_back();
    // A node that was merged away has no rank, and one whose neighbour changed has another one (or the same again, when
    // the new pair is the same pair: then merging now is right).
    if (nodes[node].rank != rank) continue;
    const uint32_t gone = nodes[node].next;
    nodes[node].id = Find(nodes[node].id, nodes[gone].id).id;
    nodes[node].next = nodes[gone].next;
    if (nodes[gone].next != kNoNode) nodes[nodes[gone].next].previous = node;
    nodes[gone].rank = kNoRank;
    push(node);
    if (nodes[node].previous != kNoNode) push(nodes[node].previous);
  }
  for (uint32_t node = nodes.empty() ? kNoNode : 0; node != kNoNode; node = nodes[node].next) {
    ids->push_back(nodes[node].id);
  }
}

}  // namespace kvant
