#include "kvant/model/tokenizer_data.h"

#include <optional>
#include <string_view>
#include <vector>

namespace kvant {
namespace {

// An absent key leaves `out` alone; a wrong type is an error.
Status ReadStrings(const GgufFile& file, std::string_view key, std::vector<std::string>& out) {
  if (file.Find(key) == nullptr) return {};
  KVANT_ASSIGN_OR_RETURN(const std::vector<std::string_view> strings, file.GetStringArray(key));
  out.assign(strings.begin(), strings.end());
  return {};
}

Status ReadTokenId(const GgufFile& file, std::string_view key, std::optional<int32_t>& out) {
  if (file.Find(key) == nullptr) return {};
  KVANT_ASSIGN_OR_RETURN(const uint32_t id, file.GetU32(key));
  out = static_cast<int32_t>(id);
  return {};
}

}  // namespace

Result<TokenizerData> ReadTokenizerData(const GgufFile& file) {
  TokenizerData data;
  KVANT_ASSIGN_OR_RETURN(data.model, file.GetString("tokenizer.ggml.model"));
  KVANT_ASSIGN_OR_RETURN(data.pre, file.GetStringOr("tokenizer.ggml.pre", "gpt-2"));
  KVANT_ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens, file.GetStringArray("tokenizer.ggml.tokens"));
  data.tokens.assign(tokens.begin(), tokens.end());
  if (file.Find("tokenizer.ggml.token_type") != nullptr) {
    KVANT_ASSIGN_OR_RETURN(data.token_types, file.GetI32Array("tokenizer.ggml.token_type"));
  }
  KVANT_RETURN_IF_ERROR(ReadStrings(file, "tokenizer.ggml.merges", data.merges));
  KVANT_RETURN_IF_ERROR(ReadTokenId(file, "tokenizer.ggml.bos_token_id", data.bos));
  KVANT_RETURN_IF_ERROR(ReadTokenId(file, "tokenizer.ggml.eos_token_id", data.eos));
  KVANT_RETURN_IF_ERROR(ReadTokenId(file, "tokenizer.ggml.unknown_token_id", data.unk));
  KVANT_RETURN_IF_ERROR(ReadTokenId(file, "tokenizer.ggml.padding_token_id", data.pad));
  KVANT_ASSIGN_OR_RETURN(data.add_bos, file.GetBoolOr("tokenizer.ggml.add_bos_token", false));
  KVANT_ASSIGN_OR_RETURN(data.add_eos, file.GetBoolOr("tokenizer.ggml.add_eos_token", false));
  KVANT_ASSIGN_OR_RETURN(data.add_space_prefix, file.GetBoolOr("tokenizer.ggml.add_space_prefix", false));
  return data;
}

}  // namespace kvant
