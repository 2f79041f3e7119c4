// Writes GGUF bytes field by field for tests, with no check at all, so that every field can be wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kvant/io/gguf.h"

namespace kvant {

class GgufBuilder {
 public:
  std::vector<std::byte> bytes;

  template <typename T>
  GgufBuilder& Put(T value) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), first, first + sizeof(T));
    return *this;
  }
  GgufBuilder& Text(const std::string& text) {
    Put<uint64_t>(text.size());
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), first, first + text.size());
    return *this;
  }
  GgufBuilder& Header(uint32_t version, uint64_t tensors, uint64_t keys) {
    return Put('G').Put('G').Put('U').Put('F').Put(version).Put(tensors).Put(keys);
  }
  GgufBuilder& Key(const std::string& key, GgufValueType type) { return Text(key).Put(static_cast<uint32_t>(type)); }
  template <typename T>
  GgufBuilder& Scalar(const std::string& key, GgufValueType type, T value) {
    return Key(key, type).Put(value);
  }
  GgufBuilder& ArrayHead(GgufValueType elem_type, uint64_t count) {
    return Put(static_cast<uint32_t>(elem_type)).Put(count);
  }
  GgufBuilder& Tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    Text(name).Put(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) Put(dim);
    return Put(type).Put(offset);
  }
  GgufBuilder& PadTo(size_t alignment) {
    while (bytes.size() % alignment != 0) Put('\0');
    return *this;
  }
};

// A valid file with every value type, nested arrays and tensors of rank 0, 1, 2 and 4.
inline std::vector<std::byte> SmallGguf(uint32_t version = 3) {
  using T = GgufValueType;
  GgufBuilder file;
  file.Header(version, 4, 17);
  file.Key("general.architecture", T::kString).Text("llama");
  file.Scalar<uint32_t>("general.alignment", T::kU32, 64);
  file.Scalar<uint8_t>("t.u8", T::kU8, 200).Scalar<int8_t>("t.i8", T::kI8, -3);
  file.Scalar<uint16_t>("t.u16", T::kU16, 60000).Scalar<int16_t>("t.i16", T::kI16, -300);
  file.Scalar<int32_t>("t.i32", T::kI32, -70000).Scalar<float>("t.f32", T::kF32, 1e-5f);
  file.Scalar<uint8_t>("t.bool", T::kBool, 1).Scalar<double>("t.f64", T::kF64, 0.25);
  file.Scalar<uint64_t>("t.u64", T::kU64, uint64_t{1} << 40).Scalar<int64_t>("t.i64", T::kI64, -5);
  file.Key("t.strings", T::kArray).ArrayHead(T::kString, 3).Text("a").Text("").Text("\xc4\xa0the");
  file.Key("t.floats", T::kArray).ArrayHead(T::kF32, 2).Put(-1.5f).Put(0.0f);
  file.Key("t.ints", T::kArray).ArrayHead(T::kU16, 3).Put<uint16_t>(1).Put<uint16_t>(2).Put<uint16_t>(65535);
  file.Key("t.bools", T::kArray).ArrayHead(T::kBool, 3).Put<uint8_t>(1).Put<uint8_t>(0).Put<uint8_t>(1);
  file.Key("t.nested", T::kArray).ArrayHead(T::kArray, 2);
  file.ArrayHead(T::kI8, 2).Put<int8_t>(-1).Put<int8_t>(7).ArrayHead(T::kString, 1).Text("deep");
  file.Tensor("scalar", {}, 0, 0);
  file.Tensor("norm", {5}, 0, 64);
  file.Tensor("weight", {64, 3}, 3, 128);  // Q4_1: 3 rows of 2 blocks of 20 bytes
  file.Tensor("cube", {2, 1, 3, 2}, 1, 256);
  file.PadTo(64);
  file.Put(42.0f).PadTo(64);
  for (int value = 0; value < 5; ++value) file.Put(static_cast<float>(value) + 0.5f);
  file.PadTo(64);
  for (int byte = 0; byte < 120; ++byte) file.Put(static_cast<uint8_t>(byte));
  file.PadTo(64);
  for (int word = 0; word < 12; ++word) file.Put(static_cast<uint16_t>(0x3c00 + word));
  return file.bytes;
}

}  // namespace kvant
