#include "kvant/model/tokenizer/special_tokens.h"

namespace kvant {

void SpecialTokens::Add(std::string_view text, int32_t id) {
  if (text.empty()) return;
  first_bytes_.set(static_cast<uint8_t>(text[0]));
  uint64_t node = 0;
  for (const char character : text) {
    const auto [child, added] = children_.emplace(node << 8 | static_cast<uint8_t>(character), id_.size());
    if (added) id_.push_back(-1);
    node = child->second;
  }
  id_[node] = id;
}

SpecialTokens::Match SpecialTokens::Find(std::string_view text, size_t from) const {
  if (first_bytes_.none()) return {text.size(), 0, -1};
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!first_bytes_.test(static_cast<uint8_t>(text[begin]))) continue;
    Match longest = {begin, 0, -1};
    uint64_t node = 0;
    for (size_t end = begin; end < text.size(); ++end) {
      const auto child = children_.find(node << 8 | static_cast<uint8_t>(text[end]));
      if (child == children_.end()) break;
      node = child->second;
      if (id_[node] >= 0) longest = {begin, end + 1 - begin, id_[node]};
    }
    if (longest.size > 0) return longest;
  }
  return {text.size(), 0, -1};
}

}  // namespace kvant
