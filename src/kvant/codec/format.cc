// Text and limits of formats: transforms joined to a codec.
#include <bit>

#include "kvant/codec/spec_parser.h"
#include "kvant/codec/transform.h"

namespace kvant {
namespace {

struct TransformName {
  TransformKind kind;
  std::string_view name;
};
// kInterleave has no name here: it is a policy's order=interleaved.
constexpr TransformName kTransformNames[] = {{TransformKind::kHadamard, "had"}, {TransformKind::kHadamard64, "had64"}};

}  // namespace

std::string ToText(const Format& format) {
  std::string text;
  for (const TransformKind kind : format.transforms) {
    for (const TransformName& candidate : kTransformNames) {
      if (candidate.kind == kind) text.append(candidate.name).append("+");
    }
  }
  return text + ToText(format.codec);
}

Result<Format> ParseFormat(std::string_view text) {
  Format format;
  size_t at = 0;
  for (size_t plus = text.find('+'); plus != std::string_view::npos; plus = text.find('+', at)) {
    const std::string_view part = text.substr(at, plus - at);
    const TransformName* found = nullptr;
    for (const TransformName& candidate : kTransformNames) {
      if (candidate.name == part) found = &candidate;
    }
    if (found == nullptr) {
      return Fail("at character {}: transform \"{}\" is not one of had, had64 (the codec comes last, as in had+q4_0)",
                  at, part);
    }
    if (!format.transforms.empty() && format.transforms.back() == found->kind) {
      return Fail("at character {}: {} twice in a row is no transform, remove both", at, part);
    }
    format.transforms.push_back(found->kind);
    at = plus + 1;
  }
  KVANT_ASSIGN_OR_RETURN(format.codec, codec_detail::ParseCodecAt(text.substr(at), at));
  return format;
}

Status Supports(const Format& format, size_t kv_heads, size_t head_dim) {
  KVANT_RETURN_IF_ERROR(Supports(format.codec, kv_heads, head_dim));
  for (const TransformKind kind : format.transforms) {
    if (kind == TransformKind::kHadamard && !std::has_single_bit(head_dim)) {
      return Fail("had needs a head size that is a power of two, not {}: use had64 if 64 divides it, or no transform",
                  head_dim);
    }
    if (kind == TransformKind::kHadamard64 && head_dim % 64 != 0) {
      return Fail("had64 needs a head size that 64 divides, not {}: use no transform", head_dim);
    }
  }
  return {};
}

}  // namespace kvant
