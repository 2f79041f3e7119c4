#include "kvant/model/tokenizer/test_vocabulary.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "kvant/model/tokenizer/byte_alphabet.h"

namespace kvant::testing {
namespace {

// GGUF metadata from front to back; only the types that vocabularies use are kept.
class GgufMetadata {
 public:
  explicit GgufMetadata(std::string_view bytes) : bytes_(bytes) {}

  TokenizerData Read() {
    bytes_.remove_prefix(16);  // magic, version, number of tensors
    const auto count = Take<uint64_t>();
    for (uint64_t index = 0; index < count; ++index) {
      key_ = TakeString();
      TakeValue(Take<uint32_t>());
    }
    return std::move(data_);
  }

 private:
  template <typename T>
  T Take() {
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return value;
  }
  std::string TakeString() {
    const auto size = Take<uint64_t>();
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  bool Is(const char* name) const { return key_ == std::string("tokenizer.ggml.") + name; }

  void TakeValue(uint32_t type) {
    switch (type) {
      case 0:
      case 1:
        bytes_.remove_prefix(1);
        break;
      case 2:
      case 3:
        bytes_.remove_prefix(2);
        break;
      case 4:
        TakeInt(static_cast<int32_t>(Take<uint32_t>()));
        break;
      case 5:
        TakeInt(Take<int32_t>());
        break;
      case 6:
        bytes_.remove_prefix(4);
        break;
      case 7:
        TakeBool(Take<uint8_t>() != 0);
        break;
      case 8:
        TakeText(TakeString());
        break;
      case 9: {
        const auto element = Take<uint32_t>();
        const auto count = Take<uint64_t>();
        for (uint64_t index = 0; index < count; ++index) TakeValue(element);
        break;
      }
      default:
        bytes_.remove_prefix(8);
    }
  }
  void TakeInt(int32_t value) {
    if (Is("token_type")) data_.token_types.push_back(value);
    if (Is("bos_token_id")) data_.bos = value;
    if (Is("eos_token_id")) data_.eos = value;
    if (Is("unknown_token_id")) data_.unk = value;
    if (Is("padding_token_id")) data_.pad = value;
  }
  void TakeBool(bool value) {
    if (Is("add_bos_token")) data_.add_bos = value;
    if (Is("add_eos_token")) data_.add_eos = value;
    if (Is("add_space_prefix")) data_.add_space_prefix = value;
  }
  void TakeText(std::string value) {
    if (Is("model")) data_.model = value;
    if (Is("pre")) data_.pre = value;
    if (Is("tokens")) data_.tokens.push_back(value);
    if (Is("merges")) data_.merges.push_back(value);
  }

  std::string_view bytes_;
  std::string key_;
  TokenizerData data_;
};

}  // namespace

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail("{}: cannot be read", path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<TokenizerData> VocabularyFromJson(const std::string& path, const std::string& pre) {
  KVANT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const auto json = nlohmann::json::parse(text);
  TokenizerData data;
  data.model = "gpt2";
  data.pre = pre;
  const auto put = [&data](size_t id, const std::string& token, TokenType type) {
    if (id >= data.tokens.size()) data.tokens.resize(id + 1);
    data.token_types.resize(data.tokens.size(), static_cast<int32_t>(TokenType::kNormal));
    data.tokens[id] = token;
    data.token_types[id] = static_cast<int32_t>(type);
  };
  for (const auto& [token, id] : json["model"]["vocab"].items()) put(id, token, TokenType::kNormal);
  for (const auto& added : json["added_tokens"]) {
    put(added["id"], added["content"], added["special"] ? TokenType::kControl : TokenType::kUserDefined);
  }
  for (const auto& merge : json["model"]["merges"]) {
    data.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return data;
}

Result<TokenizerData> VocabularyFromGguf(const std::string& path) {
  KVANT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  return GgufMetadata(bytes).Read();
}

TokenizerData ByteVocabulary(const std::vector<std::string>& merges) {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) data.tokens.push_back(AlphabetCharacter(static_cast<uint8_t>(byte)));
  for (const std::string& merge : merges) {
    std::string result = merge;
    result.erase(result.find(' '), 1);
    data.tokens.push_back(result);
  }
  data.merges = merges;
  return data;
}

}  // namespace kvant::testing
