#include "kvant/results/spec.h"

#include <algorithm>
#include <exception>

#include <toml++/toml.h>

#include "kvant/base/sha256.h"
#include "kvant/results/toml_fields_internal.h"

namespace kvant {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr ptrdiff_t kMaxDots = 20000;
constexpr SmokeSpec kDefaultSmoke = {{.end = 128, .length = 64}, 64};

bool IsFileStem(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !name.empty() && name.size() <= 64 && name[0] != '.' && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), plain);
}

class SpecReader {
 public:
  SpecReader(const toml::table& root, std::string_view file_name) : errors_(file_name), root_(root, "", &errors_) {
    spec_.file_name = std::string(file_name);
  }

  Result<ExperimentSpec> Read() {
    root_.RejectUnknown({"name", "question", "model", "text", "reference", "chunk", "seed", "contexts", "spans", "arm",
                         "bar", "floor", "smoke"});
    ReadTexts();
    spec_.chunk = root_.Number("chunk", Need::kOptional).value_or(spec_.chunk);
    spec_.seed = root_.Number("seed", Need::kOptional, 0).value_or(spec_.seed);
    spec_.contexts = root_.Numbers("contexts");
    ReadSpans();
    ReadArms();
    ReadFloor();
    ReadSmoke();
    ReadBars();
    if (!errors_.empty()) return tl::unexpected<Error>(Error{errors_.Join()});
    return std::move(spec_);
  }

 private:
  void ReadTexts() {
    spec_.name = root_.Text("name", Need::kRequired).value_or("");
    if (!spec_.name.empty() && !IsFileStem(spec_.name)) {
      root_.Fail("name", "'name' names the output files; write letters, digits, '-', '_' and '.', at most 64");
    }
    spec_.question = root_.Text("question", Need::kRequired).value_or("");
    spec_.model = root_.Text("model", Need::kRequired).value_or("");
    spec_.text = root_.Text("text", Need::kRequired).value_or("");
    if (std::optional<std::string> reference = root_.Text("reference", Need::kOptional)) {
      spec_.reference = std::move(*reference);
      spec_.reference_place = PlaceOf(root_, "reference");
    }
  }

  // The character after the opening quote.
  static TextPlace PlaceOf(const TomlFields& fields, std::string_view key) {
    return {fields.Line(key), fields.Column(key) + 1};
  }

  void ReadSpans() {
    const toml::node* node = root_.Node("spans");
    if (node != nullptr && node->is_table()) {
      TomlFields fields(*node->as_table(), "spans: ", &errors_);
      fields.RejectUnknown({"ends", "length"});
      const std::optional<uint64_t> length = fields.Number("length", Need::kRequired);
      for (const uint64_t end : fields.Numbers("ends")) {
        if (length) AddSpan({end, *length}, fields, "ends");
      }
      return;
    }
    size_t ordinal = 0;
    for (const toml::table* table : root_.Tables("spans", Need::kRequired)) {
      TomlFields fields(*table, fmt::format("span {}: ", ++ordinal), &errors_);
      fields.RejectUnknown({"end", "length"});
      const std::optional<uint64_t> end = fields.Number("end", Need::kRequired);
      const std::optional<uint64_t> length = fields.Number("length", Need::kRequired);
      if (end && length) AddSpan({*end, *length}, fields, "end");
    }
  }

  void AddSpan(const SpanSpec& span, TomlFields& fields, std::string_view key) {
    if (std::find(spec_.spans.begin(), spec_.spans.end(), span) != spec_.spans.end()) {
      fields.Fail(key,
                  fmt::format("the span of {} tokens that ends at {} is there twice; drop one", span.length, span.end));
      return;
    }
    // The longest, so that the end that the message asks for is enough for all.
    const auto longest = std::max_element(spec_.contexts.begin(), spec_.contexts.end());
    if (longest != spec_.contexts.end() && span.length + *longest > span.end) {
      fields.Fail(key, fmt::format("{} tokens after a context of {} do not fit before token {}; end at {} or later",
                                   span.length, *longest, span.end, span.length + *longest));
    }
    spec_.spans.push_back(span);
  }

  void ReadArms() {
    size_t ordinal = 0;
    for (const toml::table* table : root_.Tables("arm", Need::kRequired)) {
      ++ordinal;
      const std::optional<std::string_view> label = (*table)["name"].value<std::string_view>();
      const bool named = label && IsArmName(*label);
      TomlFields fields(*table, named ? fmt::format("arm '{}': ", *label) : fmt::format("arm {}: ", ordinal), &errors_);
      fields.RejectUnknown({"name", "policy"});
      ArmSpec arm;
      arm.name = fields.Text("name", Need::kRequired).value_or("");
      arm.policy = fields.Text("policy", Need::kRequired).value_or("");
      arm.policy_place = PlaceOf(fields, "policy");
      if (!arm.name.empty() && !named) {
        fields.Fail("name",
                    "'name' must be a letter, then letters, digits, '_', '-', '.', '+', at most 32, and none of "
                    "ref, and, in, of, at, spans, pairs, mean");
      }
      for (const ArmSpec& other : spec_.arms) {
        if (!arm.name.empty() && arm.name == other.name) fields.Fail("name", "the name is there twice; rename one");
        if (!arm.policy.empty() && arm.policy == other.policy) {
          fields.Fail("policy", fmt::format("same policy as arm '{}'; drop one, a comparison of both could not fail",
                                            other.name));
        }
      }
      spec_.arms.push_back(std::move(arm));
    }
  }

  void ReadFloor() {
    const toml::table* table = root_.Table("floor");
    if (table == nullptr) return;
    TomlFields fields(*table, "floor: ", &errors_);
    fields.RejectUnknown({"second_chunk"});
    spec_.floor_second_chunk = fields.Number("second_chunk", Need::kRequired);
    if (spec_.floor_second_chunk == spec_.chunk) {
      fields.Fail("second_chunk",
                  fmt::format("'second_chunk' is {}, the chunk itself; the floor needs another", spec_.chunk));
    }
  }

  void ReadSmoke() {
    const toml::table* table = root_.Table("smoke");
    if (table == nullptr) return;
    TomlFields fields(*table, "smoke: ", &errors_);
    fields.RejectUnknown({"end", "length", "context"});
    const std::optional<uint64_t> end = fields.Number("end", Need::kRequired);
    const std::optional<uint64_t> length = fields.Number("length", Need::kRequired);
    const std::optional<uint64_t> context = fields.Number("context", Need::kRequired);
    if (!end || !length || !context) return;
    if (*length + *context > *end) {
      fields.Fail("end", fmt::format("{} tokens after a context of {} do not fit before token {}; end at {} or later",
                                     *length, *context, *end, *length + *context));
    }
    spec_.smoke = SmokeSpec{{*end, *length}, *context};
  }

  void ReadBars() {
    ClaimScope scope{{}, spec_.contexts, spec_.spans.size()};
    for (const ArmSpec& arm : spec_.arms) scope.arms.push_back(arm.name);
    size_t ordinal = 0;
    for (const toml::table* table : root_.Tables("bar", Need::kOptional)) {
      ++ordinal;
      const std::optional<std::string_view> label = (*table)["name"].value<std::string_view>();
      const bool named = label && label->size() <= 60 && label->find_first_of("\n\r\t") == label->npos;
      TomlFields fields(*table, named ? fmt::format("bar '{}': ", *label) : fmt::format("bar {}: ", ordinal), &errors_);
      fields.RejectUnknown({"name", "claim"});
      BarSpec bar;
      bar.name = fields.Text("name", Need::kRequired).value_or("");
      for (const BarSpec& other : spec_.bars) {
        if (!bar.name.empty() && bar.name == other.name) fields.Fail("name", "the name is there twice; rename one");
      }
      if (std::optional<std::string> claim_text = fields.Text("claim", Need::kRequired)) {
        bar.claim_text = std::move(*claim_text);
        ReadClaim(scope, &bar, fields);
      }
      spec_.bars.push_back(std::move(bar));
    }
  }

  void ReadClaim(const ClaimScope& scope, BarSpec* bar, TomlFields& fields) {
    Result<Claim> claim = ParseClaim(bar->claim_text);
    if (!claim) {
      fields.Fail("claim", fmt::format("claim, {}", claim.error().message));
      return;
    }
    if (Status status = CheckClaim(*claim, scope); !status) {
      fields.Fail("claim", fmt::format("claim: {}", status.error().message));
    }
    bar->claim = std::move(*claim);
  }

  ExperimentSpec spec_;
  SpecErrors errors_;
  TomlFields root_;
};

// Length first, so that no text can imitate the next field.
void AppendField(std::string_view name, std::string_view value, std::string* canonical) {
  *canonical += fmt::format("{}={}:{}\n", name, value.size(), value);
}

}  // namespace

Result<ExperimentSpec> ParseExperiment(std::string_view toml_text, std::string_view file_name) {
  if (toml_text.size() > kMaxFileBytes) {
    return Fail("{}: {} bytes; an experiment is a TOML file of at most {}", file_name, toml_text.size(), kMaxFileBytes);
  }
  // toml++ limits the depth of arrays and inline tables, but not that of dotted keys, which its destructor then walks
  // on the stack: 50,000 levels overflow it.
  if (std::count(toml_text.begin(), toml_text.end(), '.') > kMaxDots) {
    return Fail("{}: more than {} dots: it is nested too deep for an experiment", file_name, kMaxDots);
  }
  // The packaged toml++ throws; nothing of that leaves this function.
  try {
    const toml::table root = toml::parse(toml_text, file_name);
    return SpecReader(root, file_name).Read();
  } catch (const toml::parse_error& error) {
    return Fail("{}:{}: no valid TOML: {} (column {})", file_name, error.source().begin.line, error.description(),
                error.source().begin.column);
  } catch (const std::exception& error) {
    return Fail("{}: cannot be read: {}", file_name, error.what());
  }
}

std::string PlaceText(const ExperimentSpec& spec, const TextPlace& place, size_t offset) {
  if (place.line == 0) return spec.file_name;
  return fmt::format("{}:{}:{}", spec.file_name, place.line, place.column + offset);
}

Status CheckSpansFit(const ExperimentSpec& spec, uint64_t text_tokens) {
  for (const SpanSpec& span : spec.spans) {
    if (span.end > text_tokens) {
      return Fail("{}: the span that ends at token {} is beyond text '{}', which has {} tokens; end it earlier",
                  spec.file_name, span.end, spec.text, text_tokens);
    }
  }
  return {};
}

std::string SpecHash(const ExperimentSpec& spec, const SpecInputs& inputs) {
  std::string canonical = "kvant experiment 1\n";
  AppendField("model", inputs.model_hash, &canonical);
  AppendField("text", inputs.text_hash, &canonical);
  AppendField("reference", spec.reference, &canonical);
  AppendField("chunk", fmt::format("{}", spec.chunk), &canonical);
  std::vector<uint64_t> contexts = spec.contexts;
  std::sort(contexts.begin(), contexts.end());
  for (const uint64_t context : contexts) AppendField("context", fmt::format("{}", context), &canonical);
  std::vector<SpanSpec> spans = spec.spans;
  std::sort(spans.begin(), spans.end());
  for (const SpanSpec& span : spans) AppendField("span", fmt::format("{} {}", span.end, span.length), &canonical);
  std::vector<std::string> policies;
  for (const ArmSpec& arm : spec.arms) policies.push_back(arm.policy);
  std::sort(policies.begin(), policies.end());
  for (const std::string& policy : policies) AppendField("policy", policy, &canonical);
  return Sha256Hex(std::as_bytes(std::span(canonical)));
}

ExperimentSpec SmokeVariant(const ExperimentSpec& spec) {
  const SmokeSpec smoke = spec.smoke.value_or(kDefaultSmoke);
  ExperimentSpec variant = spec;
  variant.contexts = {smoke.context};
  variant.spans = {smoke.span};
  variant.bars.clear();
  variant.floor_second_chunk.reset();
  return variant;
}

}  // namespace kvant
