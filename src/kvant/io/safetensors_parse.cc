#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "kvant/io/printable.h"
#include "kvant/io/safetensors.h"

namespace kvant {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are read in place: little-endian hosts only");

constexpr uint64_t kLongestHeader = 100'000'000;  // the limit of the safetensors library
constexpr size_t kMostDims = 16;                  // a sane bound; models use 5 at most

struct Dtype {
  const char* name;
  uint64_t bytes;
};
constexpr Dtype kDtypes[] = {{"F32", 4},     {"F16", 2},     {"BF16", 2}, {"I32", 4}, {"I64", 8},
                             {"F64", 8},     {"U64", 8},     {"U32", 4},  {"I16", 2}, {"U16", 2},
                             {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I8", 1},   {"U8", 1},  {"BOOL", 1}};

struct Entry {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> offsets;
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
};

// Takes the JSON as events and keeps only what the format allows, so that no hostile header builds a large tree. Every
// callback returns whether to go on; the first reason to stop is kept in `error`.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::map<std::string, Entry, std::less<>> entries;
  std::string error;

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a bool"); }
  bool number_integer(number_integer_t value) override { return Unexpected(fmt::format("the number {}", value)); }
  bool number_float(number_float_t, const string_t& text) override {
    return Unexpected(fmt::format("the number {}", Printable(text)));
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::kList) return Unexpected(fmt::format("the number {}", value));
    if (list_->size() == kMostDims) return Stop(fmt::format("more than {} numbers in {}", kMostDims, Where()));
    list_->push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) return true;
    if (state_ != State::kEntry || field_ != "dtype") return Unexpected("a string");
    entry_->dtype = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kFile;
    } else if (state_ == State::kFile) {
      state_ = entry_ == nullptr ? State::kMetadata : State::kEntry;
    } else {
      return Unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    state_ = state_ == State::kFile ? State::kDone : State::kFile;
    return true;
  }

  bool key(string_t& name) override {
    if (state_ == State::kMetadata) return true;
    if (state_ == State::kEntry) return Field(name);
    if (name == "__metadata__") {
      name_ = name;
      entry_ = nullptr;
      return !std::exchange(seen_metadata_, true) || Stop("\"__metadata__\" occurs twice");
    }
    const auto [place, added] = entries.try_emplace(name);
    name_ = name;
    entry_ = &place->second;
    return added || Stop(fmt::format("tensor \"{}\" occurs twice", Printable(name)));
  }

  bool start_array(std::size_t) override {
    if (state_ != State::kEntry || field_ == "dtype") return Unexpected("an array");
    state_ = State::kList;
    list_ = field_ == "shape" ? &entry_->shape : &entry_->offsets;
    return true;
  }

  bool end_array() override {
    state_ = State::kEntry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Stop(fmt::format("it is not valid JSON at character {}", position));
  }

 private:
  enum class State { kStart, kFile, kMetadata, kEntry, kList, kDone };

  bool Stop(std::string reason) {
    error = std::move(reason);
    return false;
  }
  std::string Where() const {
    return state_ == State::kStart || state_ == State::kDone ? "the header"
                                                             : fmt::format("the entry \"{}\"", Printable(name_));
  }
  bool Unexpected(const std::string& what) { return Stop(fmt::format("{} is not allowed in {}", what, Where())); }

  bool Field(const std::string& name) {
    bool* seen = name == "dtype"          ? &entry_->has_dtype
                 : name == "shape"        ? &entry_->has_shape
                 : name == "data_offsets" ? &entry_->has_offsets
                                          : nullptr;
    if (seen == nullptr) return Stop(fmt::format("{} has the unknown field \"{}\"", Where(), Printable(name)));
    if (std::exchange(*seen, true)) return Stop(fmt::format("{} has the field \"{}\" twice", Where(), name));
    field_ = name;
    return true;
  }

  State state_ = State::kStart;
  std::string name_;
  std::string field_;
  Entry* entry_ = nullptr;
  std::vector<uint64_t>* list_ = nullptr;
  bool seen_metadata_ = false;
};

// One entry, checked against the data section; `file` and `name` are fit for messages.
Result<SafetensorsTensor> Check(const std::string& file, const std::string& name, Entry& entry,
                                std::span<const std::byte> data) {
  if (!entry.has_dtype || !entry.has_shape || !entry.has_offsets || entry.offsets.size() != 2) {
    return Fail("{}: tensor \"{}\" needs dtype, shape and two data_offsets", file, name);
  }
  const auto* dtype = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                   [&](const Dtype& known) { return entry.dtype == known.name; });
  if (dtype == std::end(kDtypes)) {
    return Fail("{}: tensor \"{}\" has the unknown dtype \"{}\"", file, name, Printable(entry.dtype));
  }
  SafetensorsTensor tensor{entry.dtype, std::move(entry.shape), 1, {}};
  for (const uint64_t dim : tensor.shape) {
    if (dim != 0 && tensor.elems > data.size() / dim) {
      return Fail("{}: the shape of tensor \"{}\" has more values than the file has bytes", file, name);
    }
    tensor.elems *= dim;
  }
  const uint64_t begin = entry.offsets[0];
  const uint64_t end = entry.offsets[1];
  if (begin > end || end > data.size()) {
    return Fail(
        "{}: tensor \"{}\" has the data_offsets [{}, {}] in a data section of {} bytes; the file is cut short "
        "or damaged",
        file, name, begin, end, data.size());
  }
  // No overflow: elems is at most the size of the file.
  if (end - begin != tensor.elems * dtype->bytes) {
    return Fail("{}: tensor \"{}\" has {} bytes of data where {} values of {} need {}", file, name, end - begin,
                tensor.elems, dtype->name, tensor.elems * dtype->bytes);
  }
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

// Tensors must follow each other from the first byte of the data to the last.
Status CheckCover(const std::string& file, const SafetensorsIndex& tensors, std::span<const std::byte> data) {
  std::vector<SafetensorsIndex::const_pointer> order;
  for (const auto& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const auto& left = a->second.bytes;
    const auto& right = b->second.bytes;
    return std::pair(left.data(), left.size()) < std::pair(right.data(), right.size());
  });
  const std::byte* next = data.data();
  for (const auto* tensor : order) {
    if (tensor->second.bytes.data() != next) {
      return Fail("{}: the data of tensor \"{}\" {} in the file", file, Printable(tensor->first),
                  tensor->second.bytes.data() < next ? "overlaps that of another tensor" : "follows unused bytes");
    }
    next += tensor->second.bytes.size();
  }
  const uint64_t unused = static_cast<uint64_t>(data.data() + data.size() - next);
  if (unused != 0) return Fail("{}: ends with {} bytes that belong to no tensor", file, unused);
  return {};
}

}  // namespace

Result<SafetensorsIndex> ParseSafetensors(const std::string& name, std::span<const std::byte> bytes) {
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) {
    return Fail("{}: has {} bytes and is too short for a safetensors file", name, bytes.size());
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const std::span<const std::byte> rest = bytes.subspan(sizeof(header_bytes));
  if (header_bytes > kLongestHeader || header_bytes > rest.size()) {
    return Fail(
        "{}: claims a safetensors header of {} bytes in a file of {}; it is another kind of file, cut short or "
        "damaged",
        name, header_bytes, bytes.size());
  }
  const std::string_view header(reinterpret_cast<const char*>(rest.data()), header_bytes);
  if (!header.starts_with('{')) return Fail("{}: its safetensors header does not begin with {{", name);
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(header.begin(), header.end(), &reader)) {
    return Fail("{}: has a wrong safetensors header: {}", name, reader.error);
  }
  const std::span<const std::byte> data = rest.subspan(header_bytes);
  SafetensorsIndex tensors;
  for (auto& [tensor_name, entry] : reader.entries) {
    KVANT_ASSIGN_OR_RETURN(SafetensorsTensor tensor, Check(name, Printable(tensor_name), entry, data));
    tensors.emplace(tensor_name, std::move(tensor));
  }
  KVANT_RETURN_IF_ERROR(CheckCover(name, tensors, data));
  return tensors;
}

}  // namespace kvant
