// One file per model family: metadata to config, names to weights, nothing else.
#pragma once

#include <string_view>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/io/gguf.h"
#include "kvant/model/model.h"

namespace kvant {

struct Architecture {
  std::string_view name;  // GGUF's general.architecture
  Result<ModelConfig> (*read_config)(const GgufFile& file);
  Result<ModelWeights> (*read_weights)(const GgufFile& file, const ModelConfig& config);
};

// All families that this build knows.
const std::vector<Architecture>& Architectures();

// llama.cc: Llama 2 and 3, Mistral without sliding window, SmolLM, TinyLlama ...
extern const Architecture kLlamaArchitecture;

}  // namespace kvant
