#include "kvant/eval/span.h"

#include <algorithm>

namespace kvant {

Result<SpanTokens> CutSpan(std::span<const int32_t> text, const Span& span, std::optional<int32_t> bos) {
  if (span.scored == 0) return Fail("a span must score at least 1 token");
  if (span.end > text.size()) {
    return Fail("the span ends at token {} but the text has only {} tokens: end it earlier or take a longer text",
                span.end, text.size());
  }
  if (span.scored > span.end || span.context > span.end - span.scored) {
    // Saturating: both come from a command line and may be anything.
    const size_t needed = span.scored + std::min(span.context, SIZE_MAX - span.scored);
    return Fail(
        "{} scored tokens after {} tokens of context do not fit before token {}: the span must end at token {} "
        "or later",
        span.scored, span.context, span.end, needed);
  }
  SpanTokens cut;
  cut.scored = span.scored;
  if (bos) cut.tokens.push_back(*bos);
  const auto fed = text.subspan(span.end - span.scored - span.context, span.context + span.scored);
  cut.tokens.insert(cut.tokens.end(), fed.begin(), fed.end());
  return cut;
}

}  // namespace kvant
