// A model: its configuration and its weights in the mapped file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/io/gguf.h"
#include "kvant/model/config.h"
#include "kvant/model/tokenizer/tokenizer.h"
#include "kvant/model/weights.h"

namespace kvant {

struct LayerWeights {
  std::vector<float> attention_norm;
  WeightMatrix q;
  WeightMatrix k;
  WeightMatrix v;
  WeightMatrix attention_out;
  std::vector<float> ffn_norm;
  WeightMatrix gate;
  WeightMatrix up;
  WeightMatrix down;
};

struct ModelWeights {
  WeightMatrix embedding;
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;
  WeightMatrix head;  // the embedding when tied
};

// Move-only; weights point into the mapping that it owns.
class Model {
 public:
  // Opens a GGUF file. Refuses an unsupported architecture by name, with the list of those that are supported.
  static Result<Model> Load(const std::string& path);

  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }
  const GgufFile& file() const { return *file_; }
  // Built on demand: tests of layers need none.
  Result<Tokenizer> LoadTokenizer() const;

 private:
  std::unique_ptr<GgufFile> file_;
  ModelConfig config_;
  ModelWeights weights_;
};

}  // namespace kvant
