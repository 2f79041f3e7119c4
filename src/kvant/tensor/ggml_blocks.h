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

// K-quants: 256 values share two halves; runs of 32 (Q4_K, Q5_K) or 16 (Q6_K) values have an integer scale of their
// own.
//
// Six-bit scales of Q4_K and Q5_K: 8 scales s and 8 mins m in 12 bytes. Byte by byte, high bits first:
//   0..3   | s[4+i] bits 5..4 | s[i] bits 5..0 |            i = 0..3
//   4..7   | m[4+i] bits 5..4 | m[i] bits 5..0 |
//   8..11  | m[4+i] bits 3..0 | s[4+i] bits 3..0 |
inline constexpr size_t kGgmlScaleBytes = 12;

// Values come in four runs of 64: byte l of run r (qs[32 r + l]) holds value 64 r + l in its low nibble, which uses
// scale 2 r, and value 64 r + 32 + l in its high nibble, which uses scale 2 r + 1.
struct BlockQ4_K {  // 4.5 bits: | half d | half dmin | 12 scale bytes | 128 bytes of nibbles | x = (d s) q - (dmin m)
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[kGgmlScaleBytes];
  uint8_t qs[kGgmlSuperBlock / 2];
};
static_assert(sizeof(BlockQ4_K) == 144);
static_assert(offsetof(BlockQ4_K, scales) == 4 && offsetof(BlockQ4_K, qs) == 16);

// Nibbles as in Q4_K. Bit 2 r of qh[l] is the fifth bit of value 64 r + l, bit 2 r + 1 that of value 64 r + 32 + l.
struct BlockQ5_K {  // 5.5 bits: | half d | half dmin | 12 scale bytes | 32 bytes qh | 128 bytes of nibbles | as Q4_K
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[kGgmlScaleBytes];
  uint8_t qh[kGgmlSuperBlock / 8];
  uint8_t qs[kGgmlSuperBlock / 2];
};
static_assert(sizeof(BlockQ5_K) == 176);
static_assert(offsetof(BlockQ5_K, qh) == 16 && offsetof(BlockQ5_K, qs) == 48);

// Values come in two runs of 128, each of four quarters of 32. In run r, value l of quarter t has its low four bits in
// a nibble of ql (quarter 0: low of ql[64 r + l], 1: low of ql[64 r + 32 + l], 2 and 3: the high nibbles of the same)
// and its upper two in bits 2 t + 1 .. 2 t of qh[32 r + l]. Value v of the block uses scales[v / 16].
struct BlockQ6_K {  // 6.5625 bits: | 128 bytes ql | 64 bytes qh | 16 x int8 scales | half d | x = (d s) (q - 32)
  uint8_t ql[kGgmlSuperBlock / 2];
  uint8_t qh[kGgmlSuperBlock / 4];
  int8_t scales[kGgmlSuperBlock / 16];
  uint16_t d;
};
static_assert(sizeof(BlockQ6_K) == 210);
static_assert(offsetof(BlockQ6_K, qh) == 128 && offsetof(BlockQ6_K, scales) == 192 && offsetof(BlockQ6_K, d) == 208);

}  // namespace kvant
