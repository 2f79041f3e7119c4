#include "kvant/cache/policy.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace kvant {
namespace {

constexpr std::string_view kKnownKeys = "k, v, k[LAYERS], v[LAYERS], window, sinks, exact, at, order";
constexpr size_t kMaxTokens = size_t{1} << 31;

Format FormatFor(const Format& base, const std::vector<LayerOverride>& overrides, size_t layer, size_t layers) {
  const Format* chosen = &base;
  for (const LayerOverride& override : overrides) {
    for (const int index : override.layers) {
      const int64_t resolved = index < 0 ? index + static_cast<int64_t>(layers) : index;
      if (resolved == static_cast<int64_t>(layer)) chosen = &override.format;
    }
  }
  return *chosen;
}

// One `key=value` of the text, with offsets for errors.
struct Item {
  std::string_view key;
  std::string_view value;
  size_t key_at = 0;
  size_t value_at = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Policy> Parse() {
    policy_.text = std::string(text_);
    for (size_t at = 0; at < text_.size();) {
      if (text_[at] == ' ') {
        ++at;
        continue;
      }
      const size_t end = std::min(text_.find(' ', at), text_.size());
      const size_t equals = text_.substr(at, end - at).find('=');
      if (equals == std::string_view::npos) {
        return Error(at, fmt::format("\"{}\" is not of the form key=value", text_.substr(at, end - at)));
      }
      const Item item{text_.substr(at, equals), text_.substr(at + equals + 1, end - at - equals - 1), at,
                      at + equals + 1};
      if (item.value.empty()) return Error(item.value_at, fmt::format("{} has no value", item.key));
      KVANT_RETURN_IF_ERROR(Read(item));
      at = end;
    }
    if (!seen_k_)
      return Error(text_.size(), "k is missing: write k=f32 to keep keys exact (in a shell, quote the whole policy)");
    if (!seen_v_)
      return Error(text_.size(), "v is missing: write v=f32 to keep values exact (in a shell, quote the whole policy)");
    return policy_;
  }

 private:
  tl::unexpected<kvant::Error> Error(size_t at, std::string_view what) const {
    return Fail("policy \"{}\": at character {}: {}", text_, at, what);
  }

  Status Read(const Item& item) {
    if (item.key.find('[') != std::string_view::npos) return ReadOverride(item);
    if (std::find(seen_.begin(), seen_.end(), item.key) != seen_.end()) {
      return Error(item.key_at, fmt::format("{} is given twice", item.key));
    }
    seen_.push_back(item.key);
    if (item.key == "k") return seen_k_ = true, ReadFormat(item, policy_.k);
    if (item.key == "v") return seen_v_ = true, ReadFormat(item, policy_.v);
    if (item.key == "window") return ReadTokens(item, policy_.window);
    if (item.key == "sinks") return ReadTokens(item, policy_.sinks);
    if (item.key == "exact") return ReadExact(item);
    if (item.key == "at") return ReadPoint(item);
    if (item.key == "order") return ReadOrder(item);
    return Error(item.key_at, fmt::format("unknown key \"{}\" (known: {})", item.key, kKnownKeys));
  }

  Status ReadFormat(const Item& item, Format& out) {
    auto format = ParseFormat(item.value);
    if (!format) return FormatError(item, format.error());
    out = *std::move(format);
    return {};
  }

  // ParseFormat's "at character N: ..." counts within the value; users see the whole policy.
  Status FormatError(const Item& item, const kvant::Error& error) const {
    constexpr std::string_view kPrefix = "at character ";
    std::string_view message = error.message;
    const size_t prefix = message.find(kPrefix);
    size_t offset = 0;
    if (prefix != std::string_view::npos) {
      const char* first = message.data() + prefix + kPrefix.size();
      const auto parsed = std::from_chars(first, message.data() + message.size(), offset);
      message.remove_prefix(static_cast<size_t>(parsed.ptr - message.data()));
      while (!message.empty() && (message.front() == ':' || message.front() == ' ')) message.remove_prefix(1);
    }
    return Error(item.value_at + offset, message);
  }

  Status ReadTokens(const Item& item, size_t& out) {
    const char* end = item.value.data() + item.value.size();
    const auto parsed = std::from_chars(item.value.data(), end, out);
    if (parsed.ec != std::errc() || parsed.ptr != end || out > kMaxTokens) {
      return Error(item.value_at, fmt::format("{} wants a number of tokens from 0 to {}, not \"{}\"", item.key,
                                              kMaxTokens, item.value));
    }
    return {};
  }

  Status ReadExact(const Item& item) {
    if (item.value == "f32") return policy_.exact = {CodecFamily::kF32}, Status();
    if (item.value == "f16") return policy_.exact = {CodecFamily::kF16}, Status();
    if (item.value == "bf16") return policy_.exact = {CodecFamily::kBf16}, Status();
    return Error(item.value_at, fmt::format("exact is f32, f16 or bf16, not \"{}\"", item.value));
  }

  Status ReadPoint(const Item& item) {
    if (item.value == "post_rope") return {};
    if (item.value == "pre_rope" || item.value == "k_proj") {
      return Error(item.value_at, fmt::format("at={} is not available in this version, only at=post_rope", item.value));
    }
    return Error(item.value_at, fmt::format("at is post_rope, not \"{}\"", item.value));
  }

  Status ReadOrder(const Item& item) {
    if (item.value == "half") return policy_.order = ChannelOrder::kHalf, Status();
    if (item.value == "interleaved") return policy_.order = ChannelOrder::kInterleaved, Status();
    return Error(item.value_at, fmt::format("order is half or interleaved, not \"{}\"", item.value));
  }

  Status ReadOverride(const Item& item) {
    const bool keys = item.key.starts_with("k[");
    if ((!keys && !item.key.starts_with("v[")) || item.key.back() != ']') {
      return Error(item.key_at, fmt::format("unknown key \"{}\" (known: {})", item.key, kKnownKeys));
    }
    LayerOverride override;
    const size_t list_at = 2;
    for (size_t at = list_at; at < item.key.size(); ++at) {
      int layer = 0;
      const char* first = item.key.data() + at;
      const auto parsed = std::from_chars(first, item.key.data() + item.key.size() - 1, layer);
      const size_t next = static_cast<size_t>(parsed.ptr - item.key.data());
      if (parsed.ec != std::errc() || (item.key[next] != ',' && item.key[next] != ']')) {
        return Error(item.key_at + at, "layers are a comma-separated list of integers such as k[0,1,-1]");
      }
      override.layers.push_back(layer);
      at = next;
    }
    if (override.layers.empty()) return Error(item.key_at + list_at, "the list of layers is empty");
    KVANT_RETURN_IF_ERROR(ReadFormat(item, override.format));
    (keys ? policy_.k_overrides : policy_.v_overrides).push_back(std::move(override));
    return {};
  }

  std::string_view text_;
  Policy policy_;
  std::vector<std::string_view> seen_;
  bool seen_k_ = false;
  bool seen_v_ = false;
};

// Codecs whose values do not share anything: the order of channels changes nothing that they store.
bool StoresValuesAlone(const Format& format) {
  const CodecFamily family = format.codec.family;
  return format.transforms.empty() &&
         (family == CodecFamily::kF32 || family == CodecFamily::kF16 || family == CodecFamily::kBf16);
}

std::string OverrideText(char side, const LayerOverride& override) {
  return fmt::format(" {}[{}]={}", side, fmt::join(override.layers, ","), ToText(override.format));
}

}  // namespace

StreamPolicy Simplified(StreamPolicy policy) {
  if (policy.format.codec == policy.exact) policy.window = policy.sinks = 0;
  return policy;
}

StreamPolicy Policy::KeysOf(size_t layer, size_t layers) const {
  StreamPolicy stream{FormatFor(k, k_overrides, layer, layers), window, sinks, exact};
  // Permuting what needs no permuting would sum the products of a score in another order: an identity arm would no
  // longer have the reference's bits.
  if (order == ChannelOrder::kInterleaved && !StoresValuesAlone(stream.format)) {
    stream.format.transforms.insert(stream.format.transforms.begin(), TransformKind::kInterleave);
  }
  return Simplified(std::move(stream));
}

StreamPolicy Policy::ValuesOf(size_t layer, size_t layers) const {
  return Simplified({FormatFor(v, v_overrides, layer, layers), window, sinks, exact});
}

Result<Policy> ParsePolicy(std::string_view text) { return Parser(text).Parse(); }

std::string CanonicalText(const Policy& policy) {
  std::string text = fmt::format("k={} v={}", ToText(policy.k), ToText(policy.v));
  for (const LayerOverride& override : policy.k_overrides) text += OverrideText('k', override);
  for (const LayerOverride& override : policy.v_overrides) text += OverrideText('v', override);
  if (policy.window != 0) text += fmt::format(" window={}", policy.window);
  if (policy.sinks != 0) text += fmt::format(" sinks={}", policy.sinks);
  if ((policy.window != 0 || policy.sinks != 0) && policy.exact.family != CodecFamily::kF32) {
    text += fmt::format(" exact={}", ToText(policy.exact));
  }
  if (policy.order == ChannelOrder::kInterleaved) text += " order=interleaved";
  return text;
}

}  // namespace kvant
