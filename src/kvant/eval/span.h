// Which tokens of a text are fed and which are scored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvant/base/result.h"

namespace kvant {

// The `scored` tokens before token `end` of a text, after `context` tokens of context.
struct Span {
  size_t end = 0;
  size_t scored = 0;
  size_t context = 0;
};

struct SpanTokens {
  std::vector<int32_t> tokens;  // BOS if any, then context, then scored tokens
  size_t scored = 0;            // the last ones of `tokens`
};

// A BOS, where the vocabulary asks for one, comes before the context and is not counted in it. Fails when the text is
// too short or the span is empty.
Result<SpanTokens> CutSpan(std::span<const int32_t> text, const Span& span, std::optional<int32_t> bos);

}  // namespace kvant
