// Models by short name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"

namespace kvant {

struct KnownModel {
  std::string_view name;
  std::string_view file;  // in the models folder
  std::string_view about;
};

const std::vector<KnownModel>& KnownModels();

// A path to a file stays as it is; a known name becomes its file in `models_folder`, and an error that says how to get
// it when it is not there.
Result<std::string> ResolveModel(const std::string& name_or_path, const std::string& models_folder);

}  // namespace kvant
