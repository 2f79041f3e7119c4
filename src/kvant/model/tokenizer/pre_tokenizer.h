// Pre-tokenizers: how text is cut into words before BPE merges bytes inside each word. GGUF names them in
// `tokenizer.ggml.pre`; the table in pre_tokenizer.cc has one line per name.
//
// A pre-tokenizer is a list of patterns. The first cuts the text at its matches; every match and every gap between
// matches is cut by the next pattern as if it were a text of its own. The pieces after the last pattern are the words.
//
// Letters and numbers are those of PCRE2's Unicode version (14.0 in PCRE2 10.42). Characters added to Unicode later may
// be cut differently by tokenizers with newer tables: of all characters up to 14.0, none is (compared with Hugging Face
// `tokenizers` 0.23.3).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"

namespace kvant {

// The names in the table, in its order.
std::vector<std::string> SupportedPreTokenizers();

class PreTokenizer {
 public:
  // Fails for a name that is not in the table. Where the system forbids executable memory, or `allow_jit` is false, the
  // patterns are interpreted: same words, slower.
  static Result<PreTokenizer> Create(std::string_view name, bool allow_jit = true);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Calls `word` for the words of `text` in order; together they are all of its bytes. `text` must be well-formed UTF-8
  // (utf8.h). Linear in the text for every pattern of the table; thread-safe.
  void Split(std::string_view text, const std::function<void(std::string_view)>& word) const;

 private:
  struct Stages;
  explicit PreTokenizer(std::unique_ptr<const Stages> stages);
  std::unique_ptr<const Stages> stages_;
};

}  // namespace kvant
