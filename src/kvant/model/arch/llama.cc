#include <array>
#include <cmath>
#include <set>

#include "kvant/codec/codec.h"
#include "kvant/io/printable.h"
#include "kvant/model/arch/arch.h"

namespace kvant {
namespace {

// Far above any model; keep products of sizes from overflowing and lists of layers small.
constexpr uint32_t kMaxSize = 1u << 20;
constexpr uint32_t kMaxLayers = 4096;

// The matrices and vectors of one layer, after "blk.N.".
constexpr std::array kLayerTensors = {
    "attn_norm.weight", "attn_q.weight",   "attn_k.weight", "attn_v.weight",   "attn_output.weight",
    "ffn_norm.weight",  "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight",
};

Result<size_t> GetSize(const GgufFile& file, const std::string& key, uint32_t max = kMaxSize) {
  KVANT_ASSIGN_OR_RETURN(const uint32_t value, file.GetU32(key));
  if (value == 0 || value > max) {
    return Fail("{}: {} is {}, which is not a size from 1 to {}", file.path(), key, value, max);
  }
  return value;
}

bool IsPositive(float value) { return std::isfinite(value) && value > 0; }

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
      if (!IsPositive(divisors[pair]))
        return Fail("{}: rope_freqs.weight[{}] is {}, not a positive number", file.path(), pair, divisors[pair]);
      frequencies[pair] /= divisors[pair];
    }
  }
  return frequencies;
}

Result<AttentionConfig> ReadAttention(const GgufFile& file, size_t hidden) {
  AttentionConfig at;
  KVANT_ASSIGN_OR_RETURN(at.q_heads, GetSize(file, "llama.attention.head_count"));
  at.kv_heads = at.q_heads;
  if (file.Find("llama.attention.head_count_kv") != nullptr) {
    KVANT_ASSIGN_OR_RETURN(at.kv_heads, GetSize(file, "llama.attention.head_count_kv"));
  }
  if (at.q_heads % at.kv_heads != 0 || at.kv_heads > kMaxKvHeads) {
    return Fail("{}: {} query heads cannot share {} KV heads evenly, of which there may be {}", file.path(), at.q_heads,
                at.kv_heads, kMaxKvHeads);
  }
  if (file.Find("llama.attention.key_length") != nullptr) {
    KVANT_ASSIGN_OR_RETURN(at.k_head_dim, GetSize(file, "llama.attention.key_length"));
  } else if (hidden % at.q_heads == 0) {
    at.k_head_dim = hidden / at.q_heads;
  } else {
    return Fail("{}: {} heads do not divide llama.embedding_length {}, and llama.attention.key_length is missing",
                file.path(), at.q_heads, hidden);
  }
  at.v_head_dim = at.k_head_dim;
  if (file.Find("llama.attention.value_length") != nullptr) {
    KVANT_ASSIGN_OR_RETURN(at.v_head_dim, GetSize(file, "llama.attention.value_length"));
  }
  for (const size_t head_dim : {at.k_head_dim, at.v_head_dim}) {
    if (head_dim % 8 != 0 || head_dim < kMinHeadDim || head_dim > kMaxHeadDim) {
      return Fail("{}: head size {} is not supported: it must be a multiple of 8 from {} to {}", file.path(), head_dim,
                  kMinHeadDim, kMaxHeadDim);
    }
  }
  at.rotary_dim = at.k_head_dim;
  if (file.Find("llama.rope.dimension_count") != nullptr) {
    KVANT_ASSIGN_OR_RETURN(at.rotary_dim, GetSize(file, "llama.rope.dimension_count"));
  }
  if (at.rotary_dim != at.k_head_dim) {
    return Fail(
        "{}: llama.rope.dimension_count is {} and the head size {}: partial rotation is not supported for "
        "architecture llama",
        file.path(), at.rotary_dim, at.k_head_dim);
  }
  at.score_scale = 1.0f / std::sqrt(static_cast<float>(at.k_head_dim));
  return at;
}

// What would change the result and is not computed here.
Status RefuseExtensions(const GgufFile& file) {
  for (const char* key : {"llama.attention.scale", "llama.logit_scale", "llama.attn_logit_softcapping",
                          "llama.final_logit_softcapping", "llama.residual_scale", "llama.embedding_scale"}) {
    if (file.Find(key) != nullptr) return Fail("{}: {} is not supported for architecture llama", file.path(), key);
  }
  KVANT_ASSIGN_OR_RETURN(const bool causal, file.GetBoolOr("llama.attention.causal", true));
  if (!causal) return Fail("{}: attention that is not causal is not supported", file.path());
  KVANT_ASSIGN_OR_RETURN(const uint32_t experts, file.GetU32Or("llama.expert_count", 0));
  if (experts != 0) {
    return Fail("{}: a mixture of {} experts is not supported for architecture llama", file.path(), experts);
  }
  KVANT_ASSIGN_OR_RETURN(const uint32_t window, file.GetU32Or("llama.attention.sliding_window", 0));
  if (window != 0) {
    return Fail("{}: a sliding window ({} tokens) is not supported for architecture llama", file.path(), window);
  }
  constexpr std::string_view kScalingType = "llama.rope.scaling.type";
  KVANT_ASSIGN_OR_RETURN(const std::string_view scaling, file.GetStringOr(kScalingType, "none"));
  if (scaling != "none") {
    return Fail("{}: {} \"{}\" is not supported (supported: none, and Llama 3's rope_freqs)", file.path(), kScalingType,
                Printable(scaling));
  }
  // Without a type, llama.cpp takes a factor for linear scaling; 0 and 1 scale nothing. The second key is the older
  // one.
  if (file.Find(kScalingType) != nullptr) return {};
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    KVANT_ASSIGN_OR_RETURN(const float factor, file.GetF32Or(key, 1.0f));
    if (factor != 0.0f && factor != 1.0f) {
      return Fail("{}: {} is {}: linear RoPE scaling is not supported for architecture llama", file.path(), key,
                  factor);
    }
  }
  return {};
}

Result<ModelConfig> ReadConfig(const GgufFile& file) {
  ModelConfig config;
  config.architecture = "llama";
  KVANT_ASSIGN_OR_RETURN(const std::string_view name, file.GetStringOr("general.name", "unnamed"));
  config.name = name;
  KVANT_ASSIGN_OR_RETURN(config.hidden, GetSize(file, "llama.embedding_length"));
  KVANT_ASSIGN_OR_RETURN(config.context_limit, GetSize(file, "llama.context_length", UINT32_MAX));
  KVANT_ASSIGN_OR_RETURN(config.norm_epsilon, file.GetF32("llama.attention.layer_norm_rms_epsilon"));
  KVANT_ASSIGN_OR_RETURN(const size_t layers, GetSize(file, "llama.block_count", kMaxLayers));
  KVANT_ASSIGN_OR_RETURN(const size_t ffn_width, GetSize(file, "llama.feed_forward_length"));
  KVANT_ASSIGN_OR_RETURN(const float rope_base, file.GetF32Or("llama.rope.freq_base", 10000.0f));
  if (!IsPositive(config.norm_epsilon) || !IsPositive(rope_base)) {
    return Fail("{}: norm epsilon {} and rope base {} must be positive numbers", file.path(), config.norm_epsilon,
                rope_base);
  }
  KVANT_RETURN_IF_ERROR(RefuseExtensions(file));
  KVANT_ASSIGN_OR_RETURN(const AttentionConfig attention, ReadAttention(file, config.hidden));
  KVANT_ASSIGN_OR_RETURN(const GgufTensor* embedding, file.Tensor("token_embd.weight"));
  if (embedding->rank != 2 || embedding->dims[1] > kMaxSize) {
    return Fail("{}: tensor token_embd.weight has rank {} and {} rows: it must have rank 2 and at most {} rows",
                file.path(), embedding->rank, embedding->dims[1], kMaxSize);
  }
  config.vocabulary = embedding->dims[1];
  config.tied_head = !file.HasTensor("output.weight");
  KVANT_ASSIGN_OR_RETURN(config.rotary_frequencies, RotaryFrequencies(file, attention.rotary_dim, rope_base));
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

// Biases, experts, norms of q and k or further layers change the result: a tensor that nothing here reads makes the
// file a model of another kind. Old converters wrote RoPE's frequencies per layer, which are those of the metadata.
Status RefuseUnreadTensors(const GgufFile& file, size_t layers) {
  std::set<std::string, std::less<>> read = {"token_embd.weight", "output_norm.weight", "output.weight",
                                             "rope_freqs.weight"};
  for (size_t layer = 0; layer < layers; ++layer) {
    for (const char* name : kLayerTensors) read.insert(fmt::format("blk.{}.{}", layer, name));
  }
  for (const GgufTensor& tensor : file.tensors()) {
    if (read.contains(tensor.name) || tensor.name.ends_with(".attn_rot_embd")) continue;
    return Fail("{}: tensor {} is not supported for architecture llama with {} layers", file.path(),
                Printable(tensor.name), layers);
  }
  return {};
}

Result<ModelWeights> ReadWeights(const GgufFile& file, const ModelConfig& config) {
  KVANT_RETURN_IF_ERROR(RefuseUnreadTensors(file, config.layers.size()));
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
    KVANT_ASSIGN_OR_RETURN(LayerWeights read, ReadLayer(load, prefix, config, config.layers[layer]));
    weights.layers.push_back(std::move(read));
  }
  return weights;
}

}  // namespace

const Architecture kLlamaArchitecture{"llama", ReadConfig, ReadWeights};

}  // namespace kvant
