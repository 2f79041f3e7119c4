// Metadata values of validated files: decoding and the typed getters.
#include <cstring>
#include <limits>
#include <optional>

#include "kvant/base/check.h"
#include "kvant/io/gguf.h"
#include "kvant/io/gguf_parse.h"
#include "kvant/io/printable.h"

namespace kvant {
namespace {

template <typename T>
T Take(std::span<const std::byte>& rest) {
  KVANT_CHECK(rest.size() >= sizeof(T));
  T value;
  std::memcpy(&value, rest.data(), sizeof(T));
  rest = rest.subspan(sizeof(T));
  return value;
}

std::span<const std::byte> TakeBytes(std::span<const std::byte>& rest, size_t count) {
  KVANT_CHECK(count <= rest.size());
  const std::span<const std::byte> bytes = rest.first(count);
  rest = rest.subspan(count);
  return bytes;
}

void SkipElements(const GgufArray& array, std::span<const std::byte>& rest);

GgufArray TakeArray(std::span<const std::byte>& rest) {
  GgufArray array;
  array.elem_type = static_cast<GgufValueType>(Take<uint32_t>(rest));
  array.count = Take<uint64_t>(rest);
  std::span<const std::byte> after = rest;
  SkipElements(array, after);
  array.bytes = TakeBytes(rest, rest.size() - after.size());
  return array;
}

void SkipElements(const GgufArray& array, std::span<const std::byte>& rest) {
  if (const size_t size = GgufScalarBytes(array.elem_type); size != 0) {
    TakeBytes(rest, size * array.count);
    return;
  }
  for (uint64_t element = 0; element < array.count; ++element) {
    if (array.elem_type == GgufValueType::kString) {
      TakeBytes(rest, Take<uint64_t>(rest));
    } else {
      TakeArray(rest);
    }
  }
}

std::optional<int64_t> AsSigned(const GgufValue& value) {
  if (const auto* wide = std::get_if<int64_t>(&value.value)) return *wide;
  if (const auto* wide = std::get_if<uint64_t>(&value.value)) {
    if (*wide <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return static_cast<int64_t>(*wide);
  }
  return std::nullopt;
}

bool IsInteger(GgufValueType type) {
  return type != GgufValueType::kF32 && type != GgufValueType::kF64 && type != GgufValueType::kBool &&
         type != GgufValueType::kString && type != GgufValueType::kArray;
}

}  // namespace

const char* Name(GgufValueType type) {
  static constexpr const char* kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};
  const auto id = static_cast<size_t>(type);
  return id < std::size(kNames) ? kNames[id] : "unknown";
}

GgufValue DecodeGgufValueUnchecked(GgufValueType type, std::span<const std::byte>& rest) {
  const auto u = [type](uint64_t x) { return GgufValue{type, x}; };
  const auto i = [type](int64_t x) { return GgufValue{type, x}; };
  switch (type) {
    case GgufValueType::kU8:
      return u(Take<uint8_t>(rest));
    case GgufValueType::kI8:
      return i(Take<int8_t>(rest));
    case GgufValueType::kU16:
      return u(Take<uint16_t>(rest));
    case GgufValueType::kI16:
      return i(Take<int16_t>(rest));
    case GgufValueType::kU32:
      return u(Take<uint32_t>(rest));
    case GgufValueType::kI32:
      return i(Take<int32_t>(rest));
    case GgufValueType::kU64:
      return u(Take<uint64_t>(rest));
    case GgufValueType::kI64:
      return i(Take<int64_t>(rest));
    case GgufValueType::kF32:
      return {type, double{Take<float>(rest)}};
    case GgufValueType::kF64:
      return {type, Take<double>(rest)};
    case GgufValueType::kBool:
      return {type, Take<uint8_t>(rest) != 0};
    case GgufValueType::kString: {
      const std::span<const std::byte> text = TakeBytes(rest, Take<uint64_t>(rest));
      return {type, std::string_view(reinterpret_cast<const char*>(text.data()), text.size())};
    }
    case GgufValueType::kArray:
      return {type, TakeArray(rest)};
  }
  KVANT_CHECK(false);
}

std::vector<GgufValue> DecodeArray(const GgufArray& array) {
  std::vector<GgufValue> values;
  values.reserve(array.count);
  std::span<const std::byte> rest = array.bytes;
  for (uint64_t element = 0; element < array.count; ++element) {
    values.push_back(DecodeGgufValueUnchecked(array.elem_type, rest));
  }
  return values;
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = contents_.metadata.find(key);
  return found == contents_.metadata.end() ? nullptr : &found->second;
}

Result<const GgufValue*> GgufFile::Require(std::string_view key) const {
  if (const GgufValue* value = Find(key)) return value;
  return Fail("{}: metadata key \"{}\" is missing; convert the model again with a current converter", path(),
              Printable(key));
}

tl::unexpected<Error> GgufFile::WrongType(std::string_view key, const GgufValue& value, const char* wanted) const {
  const auto* array = std::get_if<GgufArray>(&value.value);
  const std::string type = array == nullptr ? Name(value.type) : fmt::format("array of {}", Name(array->elem_type));
  return Fail("{}: metadata key \"{}\" has type {} where {} is needed", path(), Printable(key), type, wanted);
}

Result<uint64_t> GgufFile::GetU64(std::string_view key) const {
  KVANT_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (const auto* wide = std::get_if<uint64_t>(&value->value)) return *wide;
  const auto* wide = std::get_if<int64_t>(&value->value);
  if (wide == nullptr) return WrongType(key, *value, "an integer");
  if (*wide < 0) return Fail("{}: metadata key \"{}\" is {} and must not be negative", path(), Printable(key), *wide);
  return static_cast<uint64_t>(*wide);
}

Result<uint32_t> GgufFile::GetU32(std::string_view key) const {
  KVANT_ASSIGN_OR_RETURN(const uint64_t value, GetU64(key));
  if (value > std::numeric_limits<uint32_t>::max()) {
    return Fail("{}: metadata key \"{}\" is {} and must be below 2^32", path(), Printable(key), value);
  }
  return static_cast<uint32_t>(value);
}

Result<float> GgufFile::GetF32(std::string_view key) const {
  KVANT_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (const auto* number = std::get_if<double>(&value->value)) return static_cast<float>(*number);
  return WrongType(key, *value, "a floating-point number");
}

Result<bool> GgufFile::GetBool(std::string_view key) const {
  KVANT_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (const auto* flag = std::get_if<bool>(&value->value)) return *flag;
  return WrongType(key, *value, "a bool");
}

Result<std::string_view> GgufFile::GetString(std::string_view key) const {
  KVANT_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (const auto* text = std::get_if<std::string_view>(&value->value)) return *text;
  return WrongType(key, *value, "a string");
}

Result<uint32_t> GgufFile::GetU32Or(std::string_view key, uint32_t fallback) const {
  return Find(key) == nullptr ? fallback : GetU32(key);
}

Result<float> GgufFile::GetF32Or(std::string_view key, float fallback) const {
  return Find(key) == nullptr ? fallback : GetF32(key);
}

Result<bool> GgufFile::GetBoolOr(std::string_view key, bool fallback) const {
  return Find(key) == nullptr ? fallback : GetBool(key);
}

Result<std::string_view> GgufFile::GetStringOr(std::string_view key, std::string_view fallback) const {
  return Find(key) == nullptr ? fallback : GetString(key);
}

Result<std::vector<std::string_view>> GgufFile::GetStringArray(std::string_view key) const {
  KVANT_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  const auto* array = std::get_if<GgufArray>(&value->value);
  if (array == nullptr || array->elem_type != GgufValueType::kString) {
    return WrongType(key, *value, "an array of strings");
  }
  std::vector<std::string_view> texts;
  texts.reserve(array->count);
  std::span<const std::byte> rest = array->bytes;
  for (uint64_t element = 0; element < array->count; ++element) {
    const std::span<const std::byte> text = TakeBytes(rest, Take<uint64_t>(rest));
    texts.emplace_back(reinterpret_cast<const char*>(text.data()), text.size());
  }
  return texts;
}

Result<std::vector<float>> GgufFile::GetF32Array(std::string_view key) const {
  KVANT_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  const auto* array = std::get_if<GgufArray>(&value->value);
  if (array == nullptr || (array->elem_type != GgufValueType::kF32 && array->elem_type != GgufValueType::kF64)) {
    return WrongType(key, *value, "an array of floating-point numbers");
  }
  std::vector<float> numbers;
  numbers.reserve(array->count);
  std::span<const std::byte> rest = array->bytes;
  for (uint64_t element = 0; element < array->count; ++element) {
    const GgufValue number = DecodeGgufValueUnchecked(array->elem_type, rest);
    numbers.push_back(static_cast<float>(std::get<double>(number.value)));
  }
  return numbers;
}

Result<std::vector<int32_t>> GgufFile::GetI32Array(std::string_view key) const {
  KVANT_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  const auto* array = std::get_if<GgufArray>(&value->value);
  if (array == nullptr || !IsInteger(array->elem_type)) return WrongType(key, *value, "an array of integers");
  std::vector<int32_t> numbers;
  numbers.reserve(array->count);
  std::span<const std::byte> rest = array->bytes;
  for (uint64_t element = 0; element < array->count; ++element) {
    const std::optional<int64_t> number = AsSigned(DecodeGgufValueUnchecked(array->elem_type, rest));
    if (!number || *number < std::numeric_limits<int32_t>::min() || *number > std::numeric_limits<int32_t>::max()) {
      return Fail("{}: element {} of metadata key \"{}\" does not fit into 32 bits", path(), element, Printable(key));
    }
    numbers.push_back(static_cast<int32_t>(*number));
  }
  return numbers;
}

Result<std::vector<bool>> GgufFile::GetBoolArray(std::string_view key) const {
  KVANT_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  const auto* array = std::get_if<GgufArray>(&value->value);
  if (array == nullptr || array->elem_type != GgufValueType::kBool) return WrongType(key, *value, "an array of bools");
  std::vector<bool> flags;
  flags.reserve(array->count);
  for (const std::byte flag : array->bytes) flags.push_back(flag != std::byte{0});
  return flags;
}

}  // namespace kvant
