#include "kvant/io/gguf_parse.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "kvant/io/printable.h"

namespace kvant {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place: little-endian hosts only");

constexpr size_t kLongestKey = 65535;  // the specification's limit
constexpr size_t kLongestTensorName = 65535;
constexpr size_t kMostDims = 4;
constexpr int kDeepestArray = 8;  // recursion limit; known files nest once at most
// The least that one entry takes in the file; a larger count is refused before anything is read for it.
constexpr uint64_t kLeastKeyBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kLeastTensorBytes = 8 + 1 + 4 + 4 + 8;

// A position in the bytes that cannot pass their end.
class Cursor {
 public:
  Cursor(const std::string& file, std::span<const std::byte> bytes) : file_(file), bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  std::span<const std::byte> From(uint64_t start) const { return bytes_.subspan(start, position_ - start); }

  [[nodiscard]] bool Skip(uint64_t count) {
    if (count > remaining()) return false;
    position_ += count;
    return true;
  }

  template <typename T>
  [[nodiscard]] bool Read(T* value) {
    if (sizeof(T) > remaining()) return false;
    std::memcpy(value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }

  // A length and so many bytes.
  [[nodiscard]] bool ReadString(std::string_view* text) {
    const uint64_t start = position_;
    uint64_t length = 0;
    if (!Read(&length) || length > remaining()) {
      position_ = start;
      return false;
    }
    *text = {reinterpret_cast<const char*>(bytes_.data() + position_), length};
    position_ += length;
    return true;
  }

  // For after a failed read of `what`.
  tl::unexpected<Error> Truncated(const std::string& what) const {
    return Fail("{}: {} at byte {} reaches past the end of the file ({} bytes); the file is cut short or damaged",
                file_, what, position_, bytes_.size());
  }

 private:
  const std::string& file_;
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

class Parser {
 public:
  Parser(const std::string& file, std::span<const std::byte> bytes)
      : file_(file), bytes_(bytes), cursor_(file, bytes) {}

  Result<GgufContents> Parse() {
    KVANT_RETURN_IF_ERROR(Header());
    for (uint64_t index = 0; index < key_count_; ++index) KVANT_RETURN_IF_ERROR(KeyValue(index));
    KVANT_RETURN_IF_ERROR(Alignment());
    std::vector<uint64_t> offsets;
    for (uint64_t index = 0; index < tensor_count_; ++index) {
      KVANT_ASSIGN_OR_RETURN(const uint64_t offset, TensorInfo(index));
      offsets.push_back(offset);
    }
    KVANT_RETURN_IF_ERROR(Place(offsets));
    return std::move(contents_);
  }

 private:
  Status Header() {
    char magic[4] = {};
    if (!cursor_.Read(&magic)) return cursor_.Truncated("the GGUF magic");
    if (std::memcmp(magic, "FUGG", 4) == 0) return BigEndian();
    if (std::memcmp(magic, "GGUF", 4) != 0) {
      return Fail("{}: begins with \"{}\" and not with \"GGUF\": it is not a GGUF model file", file_,
                  Printable({magic, 4}));
    }
    if (!cursor_.Read(&contents_.version)) return cursor_.Truncated("the GGUF version");
    // A version of 2 or 3 in the other byte order has its low half zero.
    if (contents_.version != 0 && (contents_.version & 0xffffu) == 0) return BigEndian();
    if (contents_.version != 2 && contents_.version != 3) {
      return Fail("{}: has GGUF version {}, and only 2 and 3 are supported; convert the model again", file_,
                  contents_.version);
    }
    if (!cursor_.Read(&tensor_count_)) return cursor_.Truncated("the number of tensors");
    if (!cursor_.Read(&key_count_)) return cursor_.Truncated("the number of metadata entries");
    KVANT_RETURN_IF_ERROR(CountFits("metadata entries", key_count_, kLeastKeyBytes));
    return CountFits("tensors", tensor_count_, kLeastTensorBytes);
  }

  tl::unexpected<Error> BigEndian() const {
    return Fail("{}: is a big-endian GGUF file, and only little-endian ones are supported; convert the model again",
                file_);
  }

  Status CountFits(const char* what, uint64_t count, uint64_t least_bytes) const {
    if (count <= cursor_.remaining() / least_bytes) return {};
    return Fail("{}: claims {} {}, more than its {} bytes can hold; the file is cut short or damaged", file_, count,
                what, bytes_.size());
  }

  Status KeyValue(uint64_t index) {
    std::string_view key;
    if (!cursor_.ReadString(&key)) return cursor_.Truncated(fmt::format("the key of metadata entry {}", index));
    if (key.empty() || key.size() > kLongestKey) {
      return Fail("{}: the key of metadata entry {} has {} bytes and must have 1 to {}", file_, index, key.size(),
                  kLongestKey);
    }
    uint32_t type = 0;
    if (!cursor_.Read(&type)) {
      return cursor_.Truncated(fmt::format("the value type of metadata key \"{}\"", Printable(key)));
    }
    const uint64_t start = cursor_.position();
    KVANT_RETURN_IF_ERROR(SkipValue(key, type, 0));
    std::span<const std::byte> encoded = cursor_.From(start);
    if (contents_.metadata.contains(key)) {
      return Fail("{}: metadata key \"{}\" occurs twice", file_, Printable(key));
    }
    contents_.metadata.emplace(key, DecodeGgufValueUnchecked(static_cast<GgufValueType>(type), encoded));
    return {};
  }

  // Validates one value and moves past it.
  Status SkipValue(std::string_view key, uint32_t type_id, int depth) {
    const auto type = static_cast<GgufValueType>(type_id);
    if (type == GgufValueType::kArray) return SkipArray(key, depth);
    if (type == GgufValueType::kString) {
      std::string_view text;
      return cursor_.ReadString(&text) ? Status{} : ValueTruncated(key);
    }
    const size_t size = GgufScalarBytes(type);
    if (size == 0) return UnknownType(key, type_id);
    const uint64_t start = cursor_.position();
    if (!cursor_.Skip(size)) return ValueTruncated(key);
    return type == GgufValueType::kBool ? CheckBools(key, start) : Status{};
  }

  Status SkipArray(std::string_view key, int depth) {
    if (depth == kDeepestArray) {
      return Fail("{}: metadata key \"{}\" nests arrays more than {} deep", file_, Printable(key), kDeepestArray);
    }
    uint32_t type_id = 0;
    uint64_t count = 0;
    if (!cursor_.Read(&type_id) || !cursor_.Read(&count)) return ValueTruncated(key);
    const auto type = static_cast<GgufValueType>(type_id);
    const bool nested = type == GgufValueType::kArray;
    const size_t scalar = GgufScalarBytes(type);
    if (scalar == 0 && !nested && type != GgufValueType::kString) return UnknownType(key, type_id);
    const uint64_t least_bytes = scalar != 0 ? scalar : nested ? 12 : 8;
    if (count > cursor_.remaining() / least_bytes) {
      return Fail(
          "{}: metadata key \"{}\" claims an array of {} elements, more than the file can hold; it is cut "
          "short or damaged",
          file_, Printable(key), count);
    }
    if (scalar != 0) {
      const uint64_t start = cursor_.position();
      if (!cursor_.Skip(count * scalar)) return ValueTruncated(key);
      return type == GgufValueType::kBool ? CheckBools(key, start) : Status{};
    }
    for (uint64_t element = 0; element < count; ++element) {
      KVANT_RETURN_IF_ERROR(SkipValue(key, type_id, depth + 1));
    }
    return {};
  }

  Status CheckBools(std::string_view key, uint64_t start) const {
    for (const std::byte flag : cursor_.From(start)) {
      if (flag > std::byte{1}) {
        return Fail("{}: metadata key \"{}\" holds a bool with the value {}, and only 0 and 1 are allowed", file_,
                    Printable(key), std::to_integer<int>(flag));
      }
    }
    return {};
  }

  Status ValueTruncated(std::string_view key) const {
    return cursor_.Truncated(fmt::format("the value of metadata key \"{}\"", Printable(key)));
  }

  Status UnknownType(std::string_view key, uint32_t type_id) const {
    return Fail("{}: metadata key \"{}\" has the unknown value type {}", file_, Printable(key), type_id);
  }

  Status Alignment() {
    const auto found = contents_.metadata.find("general.alignment");
    if (found == contents_.metadata.end()) return {};
    const auto* alignment = std::get_if<uint64_t>(&found->second.value);
    if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment > (uint64_t{1} << 30)) {
      const std::string value = alignment == nullptr ? Name(found->second.type) : fmt::format("{}", *alignment);
      return Fail("{}: general.alignment is {} and must be a power of two up to 2^30", file_, value);
    }
    contents_.alignment = *alignment;
    return {};
  }

  // Everything of a tensor but its place; returns its offset.
  Result<uint64_t> TensorInfo(uint64_t index) {
    GgufTensor tensor;
    if (!cursor_.ReadString(&tensor.name)) return cursor_.Truncated(fmt::format("the name of tensor {}", index));
    if (tensor.name.empty() || tensor.name.size() > kLongestTensorName) {
      return Fail("{}: the name of tensor {} has {} bytes and must have 1 to {}", file_, index, tensor.name.size(),
                  kLongestTensorName);
    }
    const std::string name = Printable(tensor.name);
    const auto truncated = [&] { return cursor_.Truncated(fmt::format("the description of tensor \"{}\"", name)); };
    if (contents_.tensor_index.contains(tensor.name)) return Fail("{}: tensor \"{}\" occurs twice", file_, name);
    uint32_t rank = 0;
    if (!cursor_.Read(&rank)) return truncated();
    if (rank > kMostDims) {
      return Fail("{}: tensor \"{}\" has {} dimensions and may have {} at most", file_, name, rank, kMostDims);
    }
    tensor.rank = rank;
    for (size_t dim = 0; dim < rank; ++dim) {
      if (!cursor_.Read(&tensor.dims[dim])) return truncated();
    }
    uint32_t type_id = 0;
    uint64_t offset = 0;
    if (!cursor_.Read(&type_id) || !cursor_.Read(&offset)) return truncated();
    for (size_t dim = 0; dim < rank; ++dim) {
      if (tensor.dims[dim] == 0) return Fail("{}: dimension {} of tensor \"{}\" is 0", file_, dim, name);
      if (tensor.dims[dim] > kMostElems / tensor.elems) {
        return Fail("{}: the dimensions of tensor \"{}\" multiply to more than 2^60 values", file_, name);
      }
      tensor.elems *= tensor.dims[dim];
    }
    const GgmlTypeInfo* info = FindGgmlType(type_id);
    if (info == nullptr) {
      return Fail("{}: tensor \"{}\" has the unknown type {}; supported are {}", file_, name, type_id,
                  DecodableGgmlTypes());
    }
    tensor.type = info->type;
    if (tensor.row_elems() % info->block_elems != 0) {
      return Fail("{}: tensor \"{}\" has rows of {} values, which is not a multiple of the {}-value blocks of {}",
                  file_, name, tensor.row_elems(), info->block_elems, info->name);
    }
    if (offset % contents_.alignment != 0) {
      return Fail("{}: tensor \"{}\" has the offset {}, which is not a multiple of the alignment {}", file_, name,
                  offset, contents_.alignment);
    }
    contents_.tensor_index.emplace(tensor.name, contents_.tensors.size());
    contents_.tensors.push_back(tensor);
    return offset;
  }

  // Puts the tensors into the data section: inside the file and apart from each other.
  Status Place(const std::vector<uint64_t>& offsets) {
    if (offsets.empty()) return {};  // a vocabulary file may end without the padding
    const uint64_t mask = contents_.alignment - 1;
    const uint64_t data_start = (cursor_.position() + mask) & ~mask;  // no overflow: both are far below 2^63
    const uint64_t data_bytes = data_start < bytes_.size() ? bytes_.size() - data_start : 0;
    for (size_t index = 0; index < offsets.size(); ++index) {
      GgufTensor& tensor = contents_.tensors[index];
      const uint64_t size = GgmlBytes(tensor.type, tensor.elems);
      if (offsets[index] > data_bytes || size > data_bytes - offsets[index]) {
        return Fail(
            "{}: the {} bytes of tensor \"{}\" at data offset {} reach past the end of the file (data section "
            "of {} bytes); the file is cut short or damaged",
            file_, size, Printable(tensor.name), offsets[index], data_bytes);
      }
      tensor.bytes = bytes_.subspan(data_start + offsets[index], size);
    }
    std::vector<size_t> order(offsets.size());
    for (size_t index = 0; index < order.size(); ++index) order[index] = index;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
    for (size_t next = 1; next < order.size(); ++next) {
      const GgufTensor& before = contents_.tensors[order[next - 1]];
      if (offsets[order[next]] - offsets[order[next - 1]] < before.bytes.size()) {
        return Fail("{}: tensors \"{}\" and \"{}\" overlap in the file", file_, Printable(before.name),
                    Printable(contents_.tensors[order[next]].name));
      }
    }
    return {};
  }

  // So that bytes, at most 8 a value, cannot overflow either.
  static constexpr uint64_t kMostElems = uint64_t{1} << 60;

  const std::string& file_;
  const std::span<const std::byte> bytes_;
  Cursor cursor_;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  GgufContents contents_;
};

}  // namespace

size_t GgufScalarBytes(GgufValueType type) {
  switch (type) {
    case GgufValueType::kU8:
    case GgufValueType::kI8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kU16:
    case GgufValueType::kI16:
      return 2;
    case GgufValueType::kU32:
    case GgufValueType::kI32:
    case GgufValueType::kF32:
      return 4;
    case GgufValueType::kU64:
    case GgufValueType::kI64:
    case GgufValueType::kF64:
      return 8;
    default:
      return 0;
  }
}

Result<GgufContents> ParseGguf(const std::string& name, std::span<const std::byte> bytes) {
  return Parser(name, bytes).Parse();
}

}  // namespace kvant
