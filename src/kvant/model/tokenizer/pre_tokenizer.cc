#include "kvant/model/tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include <fmt/ranges.h>

#include "kvant/base/check.h"

namespace kvant {
namespace {

// Unicode's White_Space, as the regex engines of the original tokenizers understand \s. PCRE2's own \s also takes
// U+180E, which lost the property in Unicode 6.3.
#define KVANT_SPACE R"(\t-\r\x{85}\p{Z})"

// Radford et al. 2019, encoder.py: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
#define KVANT_GPT2                                                                                \
  R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" KVANT_SPACE R"(\p{L}\p{N}]+|[)" KVANT_SPACE \
  R"(]+(?![^)" KVANT_SPACE R"(])|[)" KVANT_SPACE R"(]+)"

constexpr int kMaxStages = 2;

struct TableLine {
  const char* name;
  std::array<const char*, kMaxStages> patterns;  // nullptr: no further stage
};

// Patterns hold no repeated group, so that neither PCRE2's JIT stack nor its backtracking depends on the text.
constexpr TableLine kTable[] = {
    {"gpt-2", {KVANT_GPT2}},
    {"smollm", {R"(\p{N})", KVANT_GPT2}},  // every digit by itself: tokenizer.json's Digits(individual_digits)
};

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

struct Pattern {
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool jit = false;
};

Pattern Compile(const char* text, bool allow_jit) {
  int error = 0;
  PCRE2_SIZE where = 0;
  Pattern pattern;
  pattern.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                   &error, &where, nullptr));
  KVANT_CHECK(pattern.code != nullptr);  // the table is ours
  pattern.jit = allow_jit && pcre2_jit_compile(pattern.code.get(), PCRE2_JIT_COMPLETE) == 0;
  return pattern;
}

}  // namespace

struct PreTokenizer::Stages {
  std::vector<Pattern> patterns;
};

namespace {

struct Cutter {
  const std::vector<Pattern>& patterns;
  pcre2_match_data* match;
  pcre2_match_context* context;
  const std::function<void(std::string_view)>& word;

  // True when there is a match at or after `from`; its bounds are in *begin and *end.
  bool Find(const Pattern& pattern, std::string_view text, size_t from, size_t* begin, size_t* end) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const int found =
        pattern.jit ? pcre2_jit_match(pattern.code.get(), subject, text.size(), from, PCRE2_NOTEMPTY, match, context)
                    : pcre2_match(pattern.code.get(), subject, text.size(), from, PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK,
                                  match, context);
    KVANT_CHECK(found > 0 || found == PCRE2_ERROR_NOMATCH);
    if (found <= 0) return false;
    *begin = pcre2_get_ovector_pointer(match)[0];
    *end = pcre2_get_ovector_pointer(match)[1];
    return true;
  }

  void Cut(size_t stage, std::string_view text) const {
    if (stage == patterns.size()) {
      word(text);
      return;
    }
    size_t done = 0;
    size_t begin = 0;
    size_t end = 0;
    while (done < text.size() && Find(patterns[stage], text, done, &begin, &end)) {
      if (begin > done) Cut(stage + 1, text.substr(done, begin - done));
      Cut(stage + 1, text.substr(begin, end - begin));
      done = end;
    }
    if (done < text.size()) Cut(stage + 1, text.substr(done));
  }
};

}  // namespace

PreTokenizer::PreTokenizer(std::unique_ptr<const Stages> stages) : stages_(std::move(stages)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

std::vector<std::string> SupportedPreTokenizers() {
  std::vector<std::string> names;
  for (const TableLine& line : kTable) names.emplace_back(line.name);
  return names;
}

Result<PreTokenizer> PreTokenizer::Create(std::string_view name, bool allow_jit) {
  for (const TableLine& line : kTable) {
    if (line.name != name) continue;
    auto stages = std::make_unique<Stages>();
    for (const char* text : line.patterns) {
      if (text != nullptr) stages->patterns.push_back(Compile(text, allow_jit));
    }
    return PreTokenizer(std::move(stages));
  }
  return Fail("pre-tokenizer \"{}\" is not supported; supported are: {}", name,
              fmt::join(SupportedPreTokenizers(), ", "));
}

void PreTokenizer::Split(std::string_view text, const std::function<void(std::string_view)>& word) const {
  if (text.empty()) return;
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeContext> context(pcre2_match_context_create(nullptr));
  KVANT_CHECK(match != nullptr && context != nullptr);
  // The limits guard against patterns that explode; these cannot, and must not stop in a long word.
  pcre2_set_match_limit(context.get(), UINT32_MAX);
  Cutter{stages_->patterns, match.get(), context.get(), word}.Cut(0, text);
}

}  // namespace kvant
