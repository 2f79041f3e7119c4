// A small Llama file for tests, of which every key and tensor can be changed, dropped or added before it is written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/rng.h"
#include "kvant/io/ggml_type.h"
#include "kvant/io/gguf_test_builder.h"

namespace kvant {

struct LlamaTestShape {
  uint32_t hidden = 64;
  uint32_t vocabulary = 96;
  uint32_t layers = 2;
  uint32_t q_heads = 2;
  uint32_t kv_heads = 1;
  uint32_t head_dim = 32;
  uint32_t ffn_width = 48;
};

class LlamaTestFile {
 public:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // GGUF order: the row length first
    GgmlType type = GgmlType::kF32;
    std::vector<float> values;  // F32 only; empty: all zero bytes
  };

  // Weights are normal with deviation 1 / sqrt(row length), norms 1.
  explicit LlamaTestFile(const LlamaTestShape& shape = {}) {
    SetText("general.architecture", "llama");
    SetU32("llama.embedding_length", shape.hidden);
    SetU32("llama.context_length", 4096);
    SetU32("llama.block_count", shape.layers);
    SetU32("llama.feed_forward_length", shape.ffn_width);
    SetU32("llama.attention.head_count", shape.q_heads);
    SetU32("llama.attention.head_count_kv", shape.kv_heads);
    SetU32("llama.attention.key_length", shape.head_dim);
    SetU32("llama.attention.value_length", shape.head_dim);
    SetU32("llama.rope.dimension_count", shape.head_dim);
    SetF32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    Matrix("token_embd.weight", shape.vocabulary, shape.hidden);
    Ones("output_norm.weight", shape.hidden);
    for (uint32_t layer = 0; layer < shape.layers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      Ones(prefix + "attn_norm.weight", shape.hidden);
      Matrix(prefix + "attn_q.weight", shape.q_heads * shape.head_dim, shape.hidden);
      Matrix(prefix + "attn_k.weight", shape.kv_heads * shape.head_dim, shape.hidden);
      Matrix(prefix + "attn_v.weight", shape.kv_heads * shape.head_dim, shape.hidden);
      Matrix(prefix + "attn_output.weight", shape.hidden, shape.q_heads * shape.head_dim);
      Ones(prefix + "ffn_norm.weight", shape.hidden);
      Matrix(prefix + "ffn_gate.weight", shape.ffn_width, shape.hidden);
      Matrix(prefix + "ffn_up.weight", shape.ffn_width, shape.hidden);
      Matrix(prefix + "ffn_down.weight", shape.hidden, shape.ffn_width);
    }
  }

  void SetU32(const std::string& key, uint32_t value) {
    Set(key, [=](GgufBuilder& file) { file.Scalar(key, GgufValueType::kU32, value); });
  }
  void SetF32(const std::string& key, float value) {
    Set(key, [=](GgufBuilder& file) { file.Scalar(key, GgufValueType::kF32, value); });
  }
  void SetText(const std::string& key, const std::string& value) {
    Set(key, [=](GgufBuilder& file) { file.Key(key, GgufValueType::kString).Text(value); });
  }
  void DropKey(const std::string& key) {
    const auto at = FindKey(key);
    ASSERT_NE(at, keys_.end()) << key;
    keys_.erase(at);
  }

  Tensor& At(const std::string& name) {
    const auto at = FindTensor(name);
    EXPECT_NE(at, tensors_.end()) << name;
    return *at;
  }
  void DropTensor(const std::string& name) {
    const auto at = FindTensor(name);
    ASSERT_NE(at, tensors_.end()) << name;
    tensors_.erase(at);
  }
  void Add(Tensor tensor) { tensors_.push_back(std::move(tensor)); }

  std::vector<std::byte> Bytes() const {
    constexpr size_t kAlignment = 32;
    GgufBuilder file;
    file.Header(3, tensors_.size(), keys_.size());
    for (const Key& key : keys_) key.write(file);
    size_t offset = 0;
    for (const Tensor& tensor : tensors_) {
      file.Tensor(tensor.name, tensor.dims, static_cast<uint32_t>(tensor.type), offset);
      offset += (DataBytes(tensor) + kAlignment - 1) / kAlignment * kAlignment;
    }
    file.PadTo(kAlignment);
    for (const Tensor& tensor : tensors_) {
      const size_t begin = file.bytes.size();
      file.bytes.resize(begin + DataBytes(tensor));
      if (!tensor.values.empty()) {
        EXPECT_EQ(tensor.values.size() * sizeof(float), DataBytes(tensor)) << tensor.name;
        std::memcpy(&file.bytes[begin], tensor.values.data(), DataBytes(tensor));
      }
      file.PadTo(kAlignment);
    }
    return file.bytes;
  }

 private:
  struct Key {
    std::string name;
    std::function<void(GgufBuilder&)> write;
  };

  std::vector<Key>::iterator FindKey(const std::string& name) {
    return std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) { return key.name == name; });
  }
  std::vector<Tensor>::iterator FindTensor(const std::string& name) {
    return std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& tensor) { return tensor.name == name; });
  }
  void Set(const std::string& key, std::function<void(GgufBuilder&)> write) {
    const auto at = FindKey(key);
    if (at != keys_.end()) {
      at->write = std::move(write);
    } else {
      keys_.push_back({key, std::move(write)});
    }
  }
  void Matrix(const std::string& name, uint64_t rows, uint64_t columns) {
    const CounterRng rng(tensors_.size());
    std::vector<float> values(rows * columns);
    for (size_t index = 0; index < values.size(); ++index) {
      values[index] = static_cast<float>(rng.Normal(index) / std::sqrt(static_cast<double>(columns)));
    }
    tensors_.push_back({name, {columns, rows}, GgmlType::kF32, std::move(values)});
  }
  void Ones(const std::string& name, uint64_t elems) {
    tensors_.push_back({name, {elems}, GgmlType::kF32, std::vector<float>(elems, 1.0f)});
  }
  static size_t DataBytes(const Tensor& tensor) {
    size_t elems = 1;
    for (const uint64_t dim : tensor.dims) elems *= dim;
    return GgmlBytes(tensor.type, elems);
  }

  std::vector<Key> keys_;
  std::vector<Tensor> tensors_;
};

}  // namespace kvant
