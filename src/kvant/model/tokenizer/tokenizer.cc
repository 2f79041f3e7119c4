#include "kvant/model/tokenizer/tokenizer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kvant/base/check.h"
#include "kvant/model/tokenizer/bpe.h"
#include "kvant/model/tokenizer/byte_alphabet.h"
#include "kvant/model/tokenizer/pre_tokenizer.h"
#include "kvant/model/tokenizer/special_tokens.h"
#include "kvant/model/tokenizer/utf8.h"

namespace kvant {
namespace {

constexpr size_t kMinCacheSlots = 64;
constexpr size_t kMaxCacheSlots = size_t{1} << 15;  // 768 KiB; WikiText-2 has 27,000 different words
constexpr size_t kMaxCachedBytes = 48;              // longer words rarely come twice

// Multiplies and folds eight bytes at a time; speed matters, collisions only cost a miss.
uint64_t HashWord(std::string_view word) {
  uint64_t hash = word.size();
  while (!word.empty()) {
    uint64_t part = 0;
    const size_t size = std::min(word.size(), sizeof(part));
    std::memcpy(&part, word.data(), size);
    hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    word.remove_prefix(size);
  }
  return hash;
}

// One Encode call. A cached word is a place in the text and its ids are a place in the output, so that the cache
// (direct-mapped, the newest word wins) owns nothing and words cost no allocation.
class Encoder {
 public:
  Encoder(const Bpe& bpe, size_t text_bytes, bool cache) : bpe_(bpe) {
    if (cache) slots_.resize(std::clamp(std::bit_ceil(text_bytes / 8 + 1), kMinCacheSlots, kMaxCacheSlots));
    ids_.reserve(text_bytes / 4 + 8);
  }

  void AppendId(int32_t id) { ids_.push_back(id); }

  void AppendWord(std::string_view word) {
    if (slots_.empty() || word.size() > kMaxCachedBytes) return bpe_.Append(word, &scratch_, &ids_);
    Slot& slot = slots_[HashWord(word) & (slots_.size() - 1)];
    if (slot.size == word.size() && std::memcmp(slot.text, word.data(), word.size()) == 0) {
      const size_t end = ids_.size();
      ids_.resize(end + slot.id_count);
      std::copy_n(ids_.begin() + slot.first_id, slot.id_count, ids_.begin() + end);
      return;
    }
    const size_t first = ids_.size();
    bpe_.Append(word, &scratch_, &ids_);
    slot = {word.data(), first, static_cast<uint32_t>(word.size()), static_cast<uint32_t>(ids_.size() - first)};
  }

  std::vector<int32_t> TakeIds() { return std::move(ids_); }

 private:
  struct Slot {
    const char* text = nullptr;
    size_t first_id = 0;
    uint32_t size = 0;  // 0: empty; words never are
    uint32_t id_count = 0;
  };
  const Bpe& bpe_;
  BpeScratch scratch_;
  std::vector<Slot> slots_;
  std::vector<int32_t> ids_;
};

Status CheckId(std::optional<int32_t> id, size_t tokens, const char* name) {
  if (!id || (*id >= 0 && static_cast<size_t>(*id) < tokens)) return {};
  return Fail("tokenizer.ggml.{}_token_id is {}, but the vocabulary has {} tokens; convert the model again", name, *id,
              tokens);
}

Status CheckData(const TokenizerData& data) {
  if (data.model != "gpt2") return Fail("tokenizer model \"{}\" is not supported; supported are: gpt2", data.model);
  if (data.add_space_prefix) return Fail("tokenizer.ggml.add_space_prefix = true is not supported for model gpt2");
  if (!data.token_types.empty() && data.token_types.size() != data.tokens.size()) {
    return Fail("the vocabulary has {} tokens but {} token types; convert the model again", data.tokens.size(),
                data.token_types.size());
  }
  for (size_t id = 0; id < data.token_types.size(); ++id) {
    const int32_t type = data.token_types[id];
    if (type < static_cast<int32_t>(TokenType::kNormal) || type > static_cast<int32_t>(TokenType::kByte)) {
      return Fail("token {} has type {}, types are 1 to 6; convert the model again", id, type);
    }
  }
  KVANT_RETURN_IF_ERROR(CheckId(data.bos, data.tokens.size(), "bos"));
  KVANT_RETURN_IF_ERROR(CheckId(data.eos, data.tokens.size(), "eos"));
  KVANT_RETURN_IF_ERROR(CheckId(data.unk, data.tokens.size(), "unknown"));
  return CheckId(data.pad, data.tokens.size(), "padding");
}

}  // namespace

struct Tokenizer::Impl {
  Bpe bpe;
  PreTokenizer pre_tokenizer;
  SpecialTokens user_defined;
  SpecialTokens special;          // user-defined and control
  std::string bytes;              // of all tokens
  std::vector<size_t> bytes_end;  // by id: where its bytes end; they begin where those of id - 1 end
  std::vector<bool> is_control;   // by id
  std::optional<int32_t> bos, eos, unk, pad;
  bool add_bos, add_eos;

  bool IsToken(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < bytes_end.size(); }
  std::string_view TokenBytes(int32_t id) const {
    const size_t begin = id == 0 ? 0 : bytes_end[id - 1];
    return std::string_view(bytes).substr(begin, bytes_end[id] - begin);
  }
  void AddToken(const std::string& text, TokenType type) {
    const auto id = static_cast<int32_t>(bytes_end.size());
    // A normal token outside the alphabet is one that was added and lost its type: it stands for its own text.
    bytes += type == TokenType::kNormal ? AlphabetToBytes(text).value_or(text) : text;
    bytes_end.push_back(bytes.size());
    is_control.push_back(type == TokenType::kControl);
    if (type == TokenType::kUserDefined) user_defined.Add(text, id);
    if (type == TokenType::kUserDefined || type == TokenType::kControl) special.Add(text, id);
  }
};

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::Create(const TokenizerData& data) {
  KVANT_RETURN_IF_ERROR(CheckData(data));
  KVANT_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Create(data.pre));
  KVANT_ASSIGN_OR_RETURN(Bpe bpe, Bpe::Create(data.tokens, data.merges));
  auto impl = std::unique_ptr<Impl>(new Impl{.bpe = std::move(bpe),
                                             .pre_tokenizer = std::move(pre_tokenizer),
                                             .user_defined = {},
                                             .special = {},
                                             .bytes = {},
                                             .bytes_end = {},
                                             .is_control = {},
                                             .bos = data.bos,
                                             .eos = data.eos,
                                             .unk = data.unk,
                                             .pad = data.pad,
                                             .add_bos = data.add_bos,
                                             .add_eos = data.add_eos});
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    impl->AddToken(data.tokens[id],
                   data.token_types.empty() ? TokenType::kNormal : static_cast<TokenType>(data.token_types[id]));
  }
  return Tokenizer(std::move(impl));
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  Encoder encoder(impl_->bpe, text.size(), options.word_cache);
  const std::function<void(std::string_view)> append_word = [&encoder](std::string_view word) {
    encoder.AppendWord(word);
  };
  const auto append_text = [&](std::string_view rest) {
    while (!rest.empty()) {
      const size_t well_formed = WellFormedPrefix(rest);
      impl_->pre_tokenizer.Split(rest.substr(0, well_formed), append_word);
      rest.remove_prefix(well_formed);
      const size_t ill_formed = IllFormedPrefix(rest);
      if (ill_formed > 0) encoder.AppendWord(rest.substr(0, ill_formed));
      rest.remove_prefix(ill_formed);
    }
  };
  const SpecialTokens& special = options.parse_special ? impl_->special : impl_->user_defined;
  size_t done = 0;
  while (done < text.size()) {
    const SpecialTokens::Match match = special.Find(text, done);
    append_text(text.substr(done, match.begin - done));
    if (match.size > 0) encoder.AppendId(match.id);
    done = match.begin + match.size;
  }
  return encoder.TakeIds();
}

Result<std::string> Tokenizer::Decode(std::span<const int32_t> ids, DecodeOptions options) const {
  std::string text;
  text.reserve(ids.size() * 4);
  for (size_t index = 0; index < ids.size(); ++index) {
    const int32_t id = ids[index];
    if (!impl_->IsToken(id)) {
      return Fail("token id {} at position {} is outside the vocabulary of {} tokens", id, index, vocab_size());
    }
    if (options.skip_special && impl_->is_control[id]) continue;
    text += impl_->TokenBytes(id);
  }
  return text;
}

size_t Tokenizer::UncoveredBytes(std::string_view text) const {
  return std::count_if(text.begin(), text.end(),
                       [this](char character) { return !impl_->bpe.covers(static_cast<uint8_t>(character)); });
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  KVANT_CHECK(impl_->IsToken(id));
  return impl_->TokenBytes(id);
}

bool Tokenizer::IsControl(int32_t id) const {
  KVANT_CHECK(impl_->IsToken(id));
  return impl_->is_control[id];
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->bytes_end.size()); }
std::optional<int32_t> Tokenizer::bos() const { return impl_->bos; }
std::optional<int32_t> Tokenizer::eos() const { return impl_->eos; }
std::optional<int32_t> Tokenizer::unk() const { return impl_->unk; }
std::optional<int32_t> Tokenizer::pad() const { return impl_->pad; }
bool Tokenizer::add_bos() const { return impl_->add_bos; }
bool Tokenizer::add_eos() const { return impl_->add_eos; }

}  // namespace kvant
