#include "kvant/model/catalog.h"

#include <filesystem>

namespace kvant {

const std::vector<KnownModel>& KnownModels() {
  static const std::vector<KnownModel> models = {
      {"smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct, Q4_1, 98 MB"},
  };
  return models;
}

Result<std::string> ResolveModel(const std::string& name_or_path, const std::string& models_folder) {
  std::error_code ignored;
  std::string names;
  for (const KnownModel& known : KnownModels()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
    if (known.name != name_or_path) continue;
    std::string path = fmt::format("{}/{}", models_folder, known.file);
    if (std::filesystem::exists(path, ignored)) return path;
    return Fail("model \"{}\" is not at {}: fetch it with tools/fetch_model, or give the path of a .gguf file",
                known.name, path);
  }
  if (std::filesystem::exists(name_or_path, ignored)) return name_or_path;
  return Fail("model \"{}\" is neither a file nor a known name ({})", name_or_path, names);
}

}  // namespace kvant
