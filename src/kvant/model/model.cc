#include "kvant/model/model.h"

#include "kvant/io/printable.h"
#include "kvant/model/arch/arch.h"

namespace kvant {
namespace {

std::string SupportedNames() {
  std::string names;
  for (const Architecture& architecture : Architectures()) {
    if (!names.empty()) names += ", ";
    names += architecture.name;
  }
  return names;
}

// An absent key gives no id; a wrong type is an error.
Status ReadTokenId(const GgufFile& file, std::string_view key, std::optional<int32_t>& out) {
  if (file.Find(key) == nullptr) return {};
  KVANT_ASSIGN_OR_RETURN(const uint32_t id, file.GetU32(key));
  out = static_cast<int32_t>(id);
  return {};
}

}  // namespace

Result<Model> Model::Load(const std::string& path) {
  KVANT_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(path));
  KVANT_ASSIGN_OR_RETURN(const std::string_view name, file.GetString("general.architecture"));
  for (const Architecture& architecture : Architectures()) {
    if (architecture.name != name) continue;
    Model model;
    model.file_ = std::make_unique<GgufFile>(std::move(file));
    KVANT_ASSIGN_OR_RETURN(model.config_, architecture.read_config(*model.file_));
    KVANT_ASSIGN_OR_RETURN(model.weights_, architecture.read_weights(*model.file_, model.config_));
    return model;
  }
  return Fail("{}: architecture \"{}\" is not supported (supported: {})", path, Printable(name), SupportedNames());
}

Result<Tokenizer> Model::LoadTokenizer() const {
  const GgufFile& file = *file_;
  TokenizerData data;
  KVANT_ASSIGN_OR_RETURN(data.model, file.GetString("tokenizer.ggml.model"));
  KVANT_ASSIGN_OR_RETURN(data.pre, file.GetStringOr("tokenizer.ggml.pre", "gpt-2"));
  KVANT_ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens, file.GetStringArray("tokenizer.ggml.tokens"));
  data.tokens.assign(tokens.begin(), tokens.end());
  if (data.tokens.size() != config_.vocabulary) {
    return Fail("{}: the vocabulary has {} tokens but the embedding {} rows", file.path(), data.tokens.size(),
                config_.vocabulary);
  }
  if (file.Find("tokenizer.ggml.token_type") != nullptr) {
    KVANT_ASSIGN_OR_RETURN(data.token_types, file.GetI32Array("tokenizer.ggml.token_type"));
  }
  if (file.Find("tokenizer.ggml.merges") != nullptr) {
    KVANT_ASSIGN_OR_RETURN(const std::vector<std::string_view> merges, file.GetStringArray("tokenizer.ggml.merges"));
    data.merges.assign(merges.begin(), merges.end());
  }
  KVANT_RETURN_IF_ERROR(ReadTokenId(file, "tokenizer.ggml.bos_token_id", data.bos));
  KVANT_RETURN_IF_ERROR(ReadTokenId(file, "tokenizer.ggml.eos_token_id", data.eos));
  KVANT_RETURN_IF_ERROR(ReadTokenId(file, "tokenizer.ggml.unknown_token_id", data.unk));
  KVANT_RETURN_IF_ERROR(ReadTokenId(file, "tokenizer.ggml.padding_token_id", data.pad));
  KVANT_ASSIGN_OR_RETURN(data.add_bos, file.GetBoolOr("tokenizer.ggml.add_bos_token", false));
  KVANT_ASSIGN_OR_RETURN(data.add_eos, file.GetBoolOr("tokenizer.ggml.add_eos_token", false));
  KVANT_ASSIGN_OR_RETURN(data.add_space_prefix, file.GetBoolOr("tokenizer.ggml.add_space_prefix", false));
  auto tokenizer = Tokenizer::Create(data);
  if (!tokenizer) return Fail("{}: {}", file.path(), tokenizer.error().message);
  return tokenizer;
}

}  // namespace kvant
