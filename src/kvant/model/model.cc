#include "kvant/model/model.h"

#include "kvant/io/printable.h"
#include "kvant/model/arch/arch.h"
#include "kvant/model/tokenizer_data.h"

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
  KVANT_ASSIGN_OR_RETURN(const TokenizerData data, ReadTokenizerData(*file_));
  if (data.tokens.size() != config_.vocabulary) {
    return Fail("{}: the vocabulary has {} tokens but the embedding {} rows", file_->path(), data.tokens.size(),
                config_.vocabulary);
  }
  auto tokenizer = Tokenizer::Create(data);
  if (!tokenizer) return Fail("{}: {}", file_->path(), tokenizer.error().message);
  return tokenizer;
}

}  // namespace kvant
