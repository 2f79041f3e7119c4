// The block structs of ggml, byte for byte: shared by weights read from GGUF (io/) and by cache codecs (codec/).
// Sources: ggml's block definitions as restated in docs/format/. All fields little-endian; halves as raw bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvant {

inline constexpr size_t kGgmlBlock = 32;        // values per legacy block
inline constexpr size_t kGgmlSuperBlock = 256;  // values per K-quant block

// In the nibble formats byte j holds value j (low nibble) and value j + 16 (high nibble). In q5_x bit j of the
// little-endian word qh is the fifth bit of value j, for both halves.
struct BlockQ4_0 {  // 4.5 bits: | half d | 16 bytes of nibbles |          x = (q - 8) * d
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

struct BlockQ4_1 {  // 5.0 bits: | half d | half m | 16 bytes of nibbles | x = q * d + m
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

struct BlockQ5_0 {  // 5.5 bits: | half d | u32 qh | 16 bytes of nibbles | x = (q - 16) * d
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

struct BlockQ5_1 {  // 6.0 bits: | half d | half m | u32 qh | 16 bytes | x = q * d + m
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

struct BlockQ8_0 {  // 8.5 bits: | half d | 32 x int8 |                    x = q * d
  uint16_t d;
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

}  // namespace kvant
