#include "kvant/io/gguf.h"

#include <utility>

#include "kvant/io/gguf_parse.h"
#include "kvant/io/printable.h"

namespace kvant {

Result<GgufFile> GgufFile::Open(const std::string& path) {
  GgufFile gguf;
  KVANT_ASSIGN_OR_RETURN(gguf.file_, MappedFile::Open(path));
  KVANT_ASSIGN_OR_RETURN(gguf.contents_, ParseGguf(path, gguf.file_.bytes()));
  return gguf;
}

Result<const GgufTensor*> GgufFile::Tensor(std::string_view name) const {
  const auto found = contents_.tensor_index.find(name);
  if (found == contents_.tensor_index.end()) {
    return Fail("{}: tensor \"{}\" is missing; the file is not a complete model of its architecture", path(),
                Printable(name));
  }
  const GgufTensor& tensor = contents_.tensors[found->second];
  if (!Info(tensor.type).decodable) {
    return Fail("{}: tensor \"{}\" has type {}, which is not supported; supported are {}", path(), Printable(name),
                Info(tensor.type).name, DecodableGgmlTypes());
  }
  return &tensor;
}

}  // namespace kvant
