#include "kvant/model/tokenizer/test_vocabulary.h"

#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "kvant/io/gguf.h"
#include "kvant/model/tokenizer/byte_alphabet.h"
#include "kvant/model/tokenizer_data.h"

namespace kvant::testing {

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
  KVANT_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  return ReadTokenizerData(file);
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
