// How values become bytes: the codec of a format and the three operations that everything above is built on.
//
// A *unit* is what is encoded together: the head_dim values of one head of one token, or, for codecs whose group is
// the whole vector, the kv_heads * head_dim values of one token. Units stand alone: no state crosses them, so
// appending one by one and in bulk give the same bytes. Packed bytes never depend on the SIMD width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"

namespace kvant {

// One line of codecs.def per family feeds this enum, the registry, tests, benches and `kvant codecs`.
enum class CodecFamily : uint8_t {
#define KVANT_CODEC(id, ...) k##id,
#include "kvant/codec/codecs.def"
#undef KVANT_CODEC
};

// Values of CodecSpec::group that are not a number of values.
inline constexpr int kGroupHead = -1;    // one group per head vector
inline constexpr int kGroupVector = -2;  // one group per token: all KV heads together
inline constexpr int kGroupNone = 0;     // the family has no group option

struct CodecSpec {
  CodecFamily family;
  int bits = 0;            // 1..8 for affine and absmax, else 0
  int group = kGroupNone;  // 32, 64, 128, kGroupHead or kGroupVector for affine and absmax
  bool symmetric = false;  // absmax only: the grid -(2^(B-1)-1)..2^(B-1)-1 in place of the signed-max grid

  bool operator==(const CodecSpec&) const = default;
};

// "q4_0", "affine4/g64", "affine4/head", "affine4/vector", "absmax4/g32", "absmax4/g32/sym", "dict3", "f16".
std::string ToText(const CodecSpec& spec);
// Error messages carry the character offset within `text`, from 0: "at character 6: ...". Total round trip:
// ToText(ParseCodec(t)) == t for every accepted t.
Result<CodecSpec> ParseCodec(std::string_view text);

// All codecs with all their options that `kvant codecs` lists and tests enumerate.
std::vector<CodecSpec> AllCodecs();
// One line for people: what the family does and where it comes from.
std::string_view Describe(CodecFamily family);

// Multiples of 8: a run of 8 codes of B bits is B whole bytes.
inline constexpr size_t kMinHeadDim = 32;
inline constexpr size_t kMaxHeadDim = 512;
inline constexpr size_t kMaxKvHeads = 4096;  // far above any model; keeps sizes of units far from overflow

// Head sizes are multiples of 8 from 32 to 512. Refuses by name what the codec cannot store: a ggml block type with a
// head size that 32 does not divide, a group larger than the head. A group that does not divide the head is accepted:
// the last group is shorter. head_dim and kv_heads as in the model.
Status Supports(const CodecSpec& spec, size_t kv_heads, size_t head_dim);

// Values that share one unit: head_dim, or kv_heads * head_dim for kGroupVector.
size_t UnitElems(const CodecSpec& spec, size_t kv_heads, size_t head_dim);
// Bytes of one unit of `elems` values, metadata and padding included.
size_t UnitBytes(const CodecSpec& spec, size_t elems);

// What encoding could not represent; a caller adds them up and reports them.
struct EncodeStats {
  uint64_t values = 0;
  // Finite values beyond what the format can hold, clamped. f16: |x| > 65504. Formats with half metadata: values
  // outside the grid of a group whose scale or minimum had to be clamped to 65504 (so |x| > 65504, or affine1 and the
  // like with a range above 65504). dict3: |x| > 59296. f32 has none.
  uint64_t saturated = 0;
  // NaN or infinity: the input was already broken. NaN counts as 0 and +-infinity as +-65504 (bf16: its largest) when
  // encoding; f32 stores the bits as they are.
  uint64_t non_finite = 0;

  bool operator==(const EncodeStats&) const = default;
};

// Encodes one unit, x[elems], to out[UnitBytes(spec, elems)]; every byte is written, padding as 0. Deterministic; the
// same bytes on every SIMD target. Decoded values are finite for every input (f32 keeps what it gets); what was clamped
// is counted. `stats` may
// be null. elems is a multiple of 8 (of 32 for ggml types), as Supports() demands. No alignment is needed.
// Units with a value above 32000 in magnitude, or NaN, take the slower reference path: real caches have none.
void EncodeUnit(const CodecSpec& spec, const float* x, size_t elems, std::byte* out, EncodeStats* stats);

// Units that stand `stride_bytes` apart, and the part of each that is wanted.
struct UnitRun {
  const std::byte* bytes = nullptr;  // first unit
  size_t stride_bytes = 0;
  size_t units = 0;       // tokens
  size_t unit_elems = 0;  // values in one unit
  size_t elem_begin = 0;  // first value wanted, any multiple of 8 (head * head_dim for kGroupVector)
  size_t elems = 0;       // values wanted from each unit, a multiple of 8 (head_dim)
};

// Decodes `run.units` rows of `run.elems` f32 to out, out_stride values apart. Writes nothing beyond run.elems of a
// row and reads nothing outside the units. One dispatch per call; the same bits on every SIMD target (payloads of NaN
// aside, which only foreign bytes can hold). 16 or more units per call amortise the dispatch. Any bytes decode to
// something: there is nothing to validate.
void DecodeUnits(const CodecSpec& spec, const UnitRun& run, float* out, size_t out_stride);

// The readable definition, one value at a time, following docs/format/<codec>.md step by step. The formats define each
// step in f32 or half arithmetic, so there is nothing left to round differently: EncodeUnit gives the same bytes and
// stats, DecodeUnits the same f32, and tests compare them bit for bit.
namespace reference {
void EncodeUnit(const CodecSpec& spec, const float* x, size_t elems, std::byte* out, EncodeStats* stats);
void DecodeUnit(const CodecSpec& spec, const std::byte* bytes, size_t elems, float* out);
}  // namespace reference

}  // namespace kvant
