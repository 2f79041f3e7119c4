#include <cmath>

#include "kvant/model/arch/arch.h"

namespace kvant {
namespace {

// Head sizes that the cache and attention are built for (codec.h).
constexpr size_t kMaxHeadDim = 512;
// Far above any model; keeps products of sizes from overflowing.
constexpr uint32_t kMaxSize = 1u << 20;

Result<size_t> GetSize(const GgufFile& file, const std::string& key) {
  KVANT_ASSIGN_OR_RETURN(const uint32_t value, file.GetU32(key));
  if (value == 0 || value > kMaxSize) {
    return Fail("{}: {} is {}, which is not a size from 1 to {}", file.path(), key, value, kMaxSize);
  }
  return value;
}

// Radians per position: base^(-2j / rotary_dim) in f32, as Hugging Face computes them, each divided by the file's
// rope_freqs entry where it has them (Llama 3's scaling).
Result<std::vector<float>> RotaryFrequencies(const GgufFile& file, size_t rotary_dim, float base) {
  std::vector<float> frequencies(rotary_dim / 2);
  for (size_t pair = 0; pair < frequencies.size(); ++pair) {
    const float exponent = static_cast<float>(2 * pair) / static_cast<float>(rotary_dim);
    frequencies[pair] = 1.0f / std::pow(base, exponent);
  }
  if (file.HasTensor("rope_freqs.weight")) {
    KVANT_ASSIGN_OR_RETURN(const std::vector<float> divisors,
                           WeightLoader(file).Vector("rope_freqs.weight", frequencies.size()));
    for (size_t pair = 0; pair < frequencies.size(); ++pair) {
      if (!(divisors[pair] > 0))
        return Fail("{}: rope_freqs.weight[{}] is {}, not positive", file.path(), pair, divisors[pair]);
      frequencies[pair] /= divisors[pair];
    }
  }
  return frequencies;
}

Result<ModelConfig> ReadConfig(const GgufFile& file) {
  ModelConfig config;
  config.architecture = "llama";
  KVANT_ASSIGN_OR_RETURN(const std::string_view name, file.GetStringOr("general.name", "unnamed"));
  config.name = name;
  KVANT_ASSIGN_OR_RETURN(config.hidden, GetSize(file, "llama.embedding_length"));
  KVANT_ASSIGN_OR_RETURN(config.context_limit, GetSize(file, "llama.context_length"));
  KVANT_ASSIGN_OR_RETURN(config.norm_epsilon, file.GetF32("llama.attention.layer_norm_rms_epsilon"));
  KVANT_ASSIGN_OR_RETURN(const size_t layers, GetSize(file, "llama.block_count"));
  KVANT_ASSIGN_OR_RETURN(const size_t ffn_width, GetSize(file, "llama.feed_forward_length"));
  KVANT_ASSIGN_OR_RETURN(const size_t q_heads, GetSize(file, "llama.attention.head_count"));
  size_t kv_heads = q_heads;
  if (file.Find("llama.attention.head_count_kv") != nullptr) {
    KVANT_ASSIGN_OR_RETURN(kv_heads, GetSize(file, "llama.attention.head_count_kv"));
  }
  KVANT_ASSIGN_OR_RETURN(const uint32_t experts, file.GetU32Or("llama.expert_count", 0));
  if (experts != 0) {
    return Fail("{}: a mixture of {} experts is not supported for architecture llama", file.path(), experts);
  }
  size_t k_head_dim = config.hidden / q_heads;
  if (file.Find("llama.attention.key_length") != nullptr) {
    KVANT_ASSIGN_OR_RETURN(k_head_dim, GetSize(file, "llama.attention.key_length"));
  }
  size_t v_head_dim = k_head_dim;
  if (file.Find("llama.attention.value_length") != nullptr) {
    KVANT_ASSIGN_OR_RETURN(v_head_dim, GetSize(file, "llama.attention.value_length"));
  }
  size_t rotary_dim = k_head_dim;
  if (file.Find("llama.rope.dimension_count") != nullptr) {
    KVANT_ASSIGN_OR_RETURN(rotary_dim, GetSize(file, "llama.rope.dimension_count"));
  }
  KVANT_ASSIGN_OR_RETURN(const float rope_base, file.GetF32Or("llama.rope.freq_base", 10000.0f));
  KVANT_ASSIGN_OR_RETURN(const std::string_view scaling, file.GetStringOr("llama.rope.scaling.type", "none"));
  KVANT_ASSIGN_OR_RETURN(const uint32_t window, file.GetU32Or("llama.attention.sliding_window", 0));

  if (q_heads % kv_heads != 0) {
    return Fail("{}: {} query heads cannot share {} KV heads evenly", file.path(), q_heads, kv_heads);
  }
  for (const size_t head_dim : {k_head_dim, v_head_dim}) {
    if (head_dim % 8 != 0 || head_dim > kMaxHeadDim) {
      return Fail("{}: head size {} is not supported: it must be a multiple of 8 up to {}", file.path(), head_dim,
                  kMaxHeadDim);
    }
  }
  if (rotary_dim != k_head_dim) {
    return Fail(
        "{}: llama.rope.dimension_count is {} and the head size {}: partial rotation is not supported for "
        "architecture llama",
        file.path(), rotary_dim, k_head_dim);
  }
  if (!(config.norm_epsilon > 0) || !(rope_base > 0)) {
    return Fail("{}: norm epsilon {} and rope base {} must be positive", file.path(), config.norm_epsilon, rope_base);
  }
  if (scaling != "none") {
    return Fail("{}: llama.rope.scaling.type \"{}\" is not supported (supported: none, and Llama 3's rope_freqs)",
                file.path(), scaling);
  }
  if (window != 0) {
    return Fail("{}: a sliding window ({} tokens) is not supported for architecture llama", file.path(), window);
  }
  KVANT_ASSIGN_OR_RETURN(const GgufTensor* embedding, file.Tensor("token_embd.weight"));
  config.vocabulary = embedding->dims[1];
  config.tied_head = !file.HasTensor("output.weight");
  KVANT_ASSIGN_OR_RETURN(config.rotary_frequencies, RotaryFrequencies(file, rotary_dim, rope_base));
  const AttentionConfig attention{q_heads,    kv_heads,   k_head_dim,
                                  v_head_dim, rotary_dim, 1.0f / std::sqrt(static_cast<float>(k_head_dim))};
  config.layers.assign(layers, {attention, ffn_width});
  return config;
}

Result<LayerWeights> ReadLayer(const WeightLoader& load, const std::string& prefix, const ModelConfig& config,
                               const LayerConfig& layer) {
  const AttentionConfig& at = layer.attention;
  const size_t hidden = config.hidden;
  LayerWeights out;
  KVANT_ASSIGN_OR_RETURN(out.attention_norm, load.Vector(prefix + "attn_norm.weight", hidden));
  KVANT_ASSIGN_OR_RETURN(out.q,
                         load.HeadMatrix(prefix + "attn_q.weight", at.q_heads * at.k_head_dim, hidden, at.k_head_dim));
  KVANT_ASSIGN_OR_RETURN(out.k,
                         load.HeadMatrix(prefix + "attn_k.weight", at.kv_heads * at.k_head_dim, hidden, at.k_head_dim));
  KVANT_ASSIGN_OR_RETURN(out.v, load.Matrix(prefix + "attn_v.weight", at.kv_heads * at.v_head_dim, hidden));
  KVANT_ASSIGN_OR_RETURN(out.attention_out,
                         load.Matrix(prefix + "attn_output.weight", hidden, at.q_heads * at.v_head_dim));
  KVANT_ASSIGN_OR_RETURN(out.ffn_norm, load.Vector(prefix + "ffn_norm.weight", hidden));
  KVANT_ASSIGN_OR_RETURN(out.gate, load.Matrix(prefix + "ffn_gate.weight", layer.ffn_width, hidden));
  KVANT_ASSIGN_OR_RETURN(out.up, load.Matrix(prefix + "ffn_up.weight", layer.ffn_width, hidden));
  KVANT_ASSIGN_OR_RETURN(out.down, load.Matrix(prefix + "ffn_down.weight", hidden, layer.ffn_width));
  return out;
}

Result<ModelWeights> ReadWeights(const GgufFile& file, const ModelConfig& config) {
  const WeightLoader load(file);
  ModelWeights weights;
  KVANT_ASSIGN_OR_RETURN(weights.embedding, load.Matrix("token_embd.weight", config.vocabulary, config.hidden));
  KVANT_ASSIGN_OR_RETURN(weights.final_norm, load.Vector("output_norm.weight", config.hidden));
  weights.head = weights.embedding;
  if (!config.tied_head) {
    KVANT_ASSIGN_OR_RETURN(weights.head, load.Matrix("output.weight", config.vocabulary, config.hidden));
  }
  for (size_t layer = 0; layer < config.layers.size(); ++layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    // Biases change the result; a family that has them is another architecture.
    for (const char* bias : {"attn_q.bias", "attn_k.bias", "attn_v.bias"}) {
      if (load.Has(prefix + bias))
        return Fail("{}: {}{} is not supported for architecture llama", file.path(), prefix, bias);
    }
    KVANT_ASSIGN_OR_RETURN(LayerWeights read, ReadLayer(load, prefix, config, config.layers[layer]));
    weights.layers.push_back(std::move(read));
  }
  return weights;
}

}  // namespace

const Architecture kLlamaArchitecture{"llama", ReadConfig, ReadWeights};

}  // namespace kvant
