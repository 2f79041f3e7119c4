// Names, sizes and limits of codecs: everything that needs no value to be encoded.
#include <array>
#include <cstring>

#include "kvant/base/check.h"
#include "kvant/codec/codec.h"
#include "kvant/codec/layout.h"
#include "kvant/codec/spec_parser.h"

namespace kvant {
namespace {

enum class Options : uint8_t { none, bits_group };

struct FamilyInfo {
  CodecFamily family;
  std::string_view name;
  Options options;
  std::string_view description;
};

constexpr FamilyInfo kFamilies[] = {
#define KVANT_CODEC(id, name, options, description) {CodecFamily::k##id, name, Options::options, description},
#include "kvant/codec/codecs.def"
#undef KVANT_CODEC
};

struct GroupName {
  int group;
  std::string_view name;
};
constexpr GroupName kGroups[] = {
    {32, "g32"}, {64, "g64"}, {128, "g128"}, {kGroupHead, "head"}, {kGroupVector, "vector"}};

const FamilyInfo& InfoOf(CodecFamily family) { return kFamilies[static_cast<size_t>(family)]; }

bool IsGgml(CodecFamily family) {
  switch (family) {
    case CodecFamily::kQ4_0:
    case CodecFamily::kQ4_1:
    case CodecFamily::kQ5_0:
    case CodecFamily::kQ5_1:
    case CodecFamily::kQ8_0:
      return true;
    default:
      return false;
  }
}

size_t GgmlBlockBytes(CodecFamily family) {
  switch (family) {
    case CodecFamily::kQ4_0:
      return sizeof(BlockQ4_0);
    case CodecFamily::kQ4_1:
      return sizeof(BlockQ4_1);
    case CodecFamily::kQ5_0:
      return sizeof(BlockQ5_0);
    case CodecFamily::kQ5_1:
      return sizeof(BlockQ5_1);
    default:
      return sizeof(BlockQ8_0);
  }
}

std::string KnownNames() {
  std::string names;
  for (const FamilyInfo& info : kFamilies) {
    if (!names.empty()) names += ", ";
    names += info.name;
    if (info.options == Options::bits_group) names += "B/GROUP";
  }
  return names;
}

// A part of the text up to the next '/', with the offset to report.
struct Part {
  std::string_view text;
  size_t at;
  bool last;
};

Part TakePart(std::string_view text, size_t from, size_t base) {
  const size_t slash = text.find('/', from);
  const bool last = slash == std::string_view::npos;
  return {text.substr(from, last ? std::string_view::npos : slash - from), base + from, last};
}

Result<CodecSpec> ParseOptions(const FamilyInfo& info, std::string_view text, const Part& head, size_t base) {
  const std::string_view bits = head.text.substr(info.name.size());
  if (bits.size() != 1 || bits[0] < '1' || bits[0] > '8') {
    return Fail("at character {}: {} needs its bits, one digit from 1 to 8, in place of \"{}\", as in {}4/g64",
                head.at + info.name.size(), info.name, bits, info.name);
  }
  CodecSpec spec{info.family};
  spec.bits = bits[0] - '0';
  if (head.last) {
    return Fail("at character {}: {} needs a group: add /g32, /g64, /g128, /head or /vector", base + text.size(),
                head.text);
  }
  const Part group = TakePart(text, head.text.size() + 1, base);
  for (const GroupName& candidate : kGroups) {
    if (candidate.name == group.text) spec.group = candidate.group;
  }
  if (spec.group == kGroupNone) {
    return Fail("at character {}: group \"{}\" is not one of g32, g64, g128, head, vector", group.at, group.text);
  }
  if (group.last) return spec;
  const Part option = TakePart(text, group.at - base + group.text.size() + 1, base);
  if (info.family != CodecFamily::kAbsmax || option.text != "sym" || !option.last) {
    return Fail("at character {}: \"{}\" is not an option of {}{}", option.at, text.substr(option.at - base), info.name,
                info.family == CodecFamily::kAbsmax ? " (only sym is)" : ", which has none after its group");
  }
  if (spec.bits < 2) {
    return Fail("at character {}: sym needs 2 bits or more, absmax1 has only zero on that grid", option.at);
  }
  spec.symmetric = true;
  return spec;
}

// A spec built by hand rather than parsed may hold anything.
Status CheckSpec(const CodecSpec& spec) {
  if (static_cast<size_t>(spec.family) >= std::size(kFamilies)) {
    return Fail("codec family {} does not exist: use one of CodecFamily", static_cast<int>(spec.family));
  }
  const FamilyInfo& info = InfoOf(spec.family);
  if (info.options == Options::none) {
    if (spec.bits != 0 || spec.group != kGroupNone || spec.symmetric) {
      return Fail("{} has no options: leave bits, group and symmetric at their defaults", info.name);
    }
    return {};
  }
  if (spec.bits < 1 || spec.bits > 8) return Fail("{} with {} bits: use 1 to 8", info.name, spec.bits);
  bool known = false;
  for (const GroupName& candidate : kGroups) known = known || candidate.group == spec.group;
  if (!known) return Fail("{}{} with group {}: use 32, 64, 128, head or vector", info.name, spec.bits, spec.group);
  if (spec.symmetric && (spec.family != CodecFamily::kAbsmax || spec.bits < 2)) {
    return Fail("{}{} has no symmetric grid: only absmax with 2 bits or more has", info.name, spec.bits);
  }
  return {};
}

}  // namespace

std::string ToText(const CodecSpec& spec) {
  const FamilyInfo& info = InfoOf(spec.family);
  std::string text(info.name);
  if (info.options == Options::none) return text;
  text += std::to_string(spec.bits);
  for (const GroupName& candidate : kGroups) {
    if (candidate.group == spec.group) text.append("/").append(candidate.name);
  }
  if (spec.symmetric) text += "/sym";
  return text;
}

namespace codec_detail {

Result<CodecSpec> ParseCodecAt(std::string_view text, size_t base) {
  const Part head = TakePart(text, 0, base);
  for (const FamilyInfo& info : kFamilies) {
    if (info.options == Options::bits_group) {
      if (head.text.substr(0, info.name.size()) == info.name) return ParseOptions(info, text, head, base);
    } else if (head.text == info.name) {
      if (!head.last) {
        return Fail("at character {}: {} has no options, remove \"{}\"", base + head.text.size(), info.name,
                    text.substr(head.text.size()));
      }
      return CodecSpec{info.family};
    }
  }
  return Fail("at character {}: codec \"{}\" is not one of {}", base, head.text, KnownNames());
}

}  // namespace codec_detail

Result<CodecSpec> ParseCodec(std::string_view text) { return codec_detail::ParseCodecAt(text, 0); }

std::vector<CodecSpec> AllCodecs() {
  std::vector<CodecSpec> all;
  for (const FamilyInfo& info : kFamilies) {
    if (info.options == Options::none) {
      all.push_back({info.family});
      continue;
    }
    for (int bits = 1; bits <= 8; ++bits) {
      for (const GroupName& group : kGroups) {
        all.push_back({info.family, bits, group.group});
        if (info.family == CodecFamily::kAbsmax && bits >= 2) all.push_back({info.family, bits, group.group, true});
      }
    }
  }
  return all;
}

std::string_view Describe(CodecFamily family) { return InfoOf(family).description; }

Status Supports(const CodecSpec& spec, size_t kv_heads, size_t head_dim) {
  KVANT_RETURN_IF_ERROR(CheckSpec(spec));
  const std::string name = ToText(spec);
  if (kv_heads < 1 || kv_heads > kMaxKvHeads) {
    return Fail("{} with {} KV heads: a model has from 1 to {}", name, kv_heads, kMaxKvHeads);
  }
  if (head_dim % 8 != 0 || head_dim < kMinHeadDim || head_dim > kMaxHeadDim) {
    return Fail("{} with head size {}: use a multiple of 8 from {} to {}", name, head_dim, kMinHeadDim, kMaxHeadDim);
  }
  if (IsGgml(spec.family) && head_dim % kGgmlBlock != 0) {
    return Fail(
        "{} stores blocks of 32 values and cannot hold head size {}: use a codec whose last group may be shorter", name,
        head_dim);
  }
  if (spec.group > 0 && static_cast<size_t>(spec.group) > head_dim) {
    return Fail("{} has groups of {} values, more than head size {}: use a smaller group, or /head", name, spec.group,
                head_dim);
  }
  return {};
}

size_t UnitElems(const CodecSpec& spec, size_t kv_heads, size_t head_dim) {
  return spec.group == kGroupVector ? kv_heads * head_dim : head_dim;
}

size_t UnitBytes(const CodecSpec& spec, size_t elems) {
  KVANT_DCHECK(elems % 8 == 0);
  switch (spec.family) {
    case CodecFamily::kF32:
      return elems * sizeof(float);
    case CodecFamily::kF16:
    case CodecFamily::kBf16:
      return elems * sizeof(uint16_t);
    case CodecFamily::kAffine:
    case CodecFamily::kAbsmax:
      return codec_detail::LayoutOf(spec, elems).unit_bytes;
    case CodecFamily::kDict3:
      return codec_detail::Dict3UnitBytes(elems);
    default:
      KVANT_DCHECK(elems % kGgmlBlock == 0);
      return elems / kGgmlBlock * GgmlBlockBytes(spec.family);
  }
}

}  // namespace kvant
