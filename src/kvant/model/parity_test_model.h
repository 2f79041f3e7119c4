// The parity models (tests/parity/README.md) for tests of layers above: the model, its token ids, its reference arrays.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kvant/base/rng.h"
#include "kvant/io/safetensors.h"
#include "kvant/model/model.h"

namespace kvant {

struct ParityModel {
  Model model;
  SafetensorsFile arrays;
  std::vector<int32_t> tokens;  // 160
  nlohmann::json reference;

  explicit ParityModel(const std::string& name)
      : model(*Model::Load(Folder(name) + "/" + name + ".gguf")),
        arrays(*SafetensorsFile::Open(Folder(name) + "/reference.safetensors")) {
    const std::vector<int64_t> ids = *arrays.Integers("tokens");
    tokens.assign(ids.begin(), ids.end());
    std::ifstream file(Folder(name) + "/reference.json");
    reference = nlohmann::json::parse(file);
  }

  static std::string Folder(const std::string& name) { return std::string(KVANT_SOURCE_DIR) + "/tests/parity/" + name; }
};

inline std::vector<int32_t> RandomTokens(size_t count, size_t vocabulary, uint64_t seed) {
  const CounterRng rng(seed);
  std::vector<int32_t> tokens(count);
  for (size_t index = 0; index < count; ++index) tokens[index] = static_cast<int32_t>(rng.Below(index, vocabulary));
  return tokens;
}

}  // namespace kvant
