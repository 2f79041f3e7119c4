// Byte-level BPE: text to token ids and back, exactly as the model was trained with.
//
//   text -> special tokens split out -> words (pre_tokenizer.h) -> ids (bpe.h)
//
// Ids are those of Hugging Face's `tokenizers` and of llama.cpp for the same vocabulary. Where those two differ, the
// former is followed, since models are trained with it. No normalization (NFC) takes place.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"

namespace kvant {

// Values of tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  kNormal = 1,       // text in the byte alphabet (byte_alphabet.h)
  kUnknown = 2,      // this and the following: raw text
  kControl = 3,      // <|im_start|>: has a meaning for the model, not for the reader
  kUserDefined = 4,  // added by hand: split out of every text
  kUnused = 5,
  kByte = 6,
};

// A vocabulary as GGUF stores it under tokenizer.ggml.*; the comment names the key where it is not the field's name.
struct TokenizerData {
  std::string model;                 // "gpt2"
  std::string pre;                   // "gpt-2", "smollm"
  std::vector<std::string> tokens;   // by id; normal tokens in the byte alphabet
  std::vector<int32_t> token_types;  // token_type: by id, values of TokenType; empty: all normal
  std::vector<std::string> merges;   // "left right", by rank
  std::optional<int32_t> bos;        // bos_token_id, and so on
  std::optional<int32_t> eos;
  std::optional<int32_t> unk;
  std::optional<int32_t> pad;
  bool add_bos = false;           // add_bos_token
  bool add_eos = false;           // add_eos_token
  bool add_space_prefix = false;  // true is refused: no byte-level model in use asks for it
};

struct EncodeOptions {
  // Control tokens written out in the text become their id; otherwise they are text like any other (the right choice
  // for text of unknown origin). User-defined tokens become their id either way.
  bool parse_special = false;
  // Ids of words met before in this text are copied. Off only to test that this changes nothing.
  bool word_cache = true;
};

struct DecodeOptions {
  bool skip_special = false;  // control tokens add no text
};

// Immutable, move-only, and safe to use from many threads.
class Tokenizer {
 public:
  // Fails, naming the culprit, for a model or pre-tokenizer that is not supported and for a vocabulary that is damaged:
  // types or special ids that do not fit the tokens, and all that Bpe::Create (bpe.h) refuses.
  static Result<Tokenizer> Create(const TokenizerData& data);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids of `text`, any bytes; never adds BOS or EOS (see add_bos). Linear in the text, n log n in its longest word.
  //
  // Bytes that are not well-formed UTF-8 are encoded like any others: a maximal run of them is one word, and the text
  // before and the text after it are cut into words as if they stood alone. Decode gives back the same bytes, with one
  // exception: bytes for which the vocabulary has no token (SmolLM2 lacks 21, such as 04, c0 and f1) are left out, as
  // the original does. UncoveredBytes counts them.
  std::vector<int32_t> Encode(std::string_view text, EncodeOptions options = {}) const;

  // The bytes of the tokens one after another. Not necessarily UTF-8: a token may end inside a character. Fails for an
  // id outside the vocabulary.
  Result<std::string> Decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  // Bytes of `text` that Encode leaves out.
  size_t UncoveredBytes(std::string_view text) const;

  // The bytes that token `id` stands for; 0 <= id < vocab_size(). Valid as long as the tokenizer.
  std::string_view TokenBytes(int32_t id) const;
  // Whether `id` is a control token; same range.
  bool IsControl(int32_t id) const;

  int32_t vocab_size() const;
  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;
  std::optional<int32_t> unk() const;
  std::optional<int32_t> pad() const;
  bool add_bos() const;  // the model expects bos() before a text: for the caller to do
  bool add_eos() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace kvant
