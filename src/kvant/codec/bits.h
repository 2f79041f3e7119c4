// Eight codes of B bits <-> B bytes. Eight values are the unit of work of every kernel here: they fill whole bytes at
// any width, and group sizes are multiples of eight. Internal to codec/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kvant::codec_detail {

inline constexpr uint64_t kEveryByte = 0x0101010101010101u;

// Eight codes, one in each byte of `codes` and below 2^B, to the low 8 * B bits. Three steps that each close the gap
// between neighbours: pairs of bytes, of 16 bits, of 32 bits.
template <int B>
inline uint64_t PackEight(uint64_t codes) {
  if constexpr (B == 8) return codes;
  uint64_t x = codes;
  x = (x & 0x00ff00ff00ff00ffu) | ((x & 0xff00ff00ff00ff00u) >> (8 - B));
  x = (x & 0x0000ffff0000ffffu) | ((x & 0xffff0000ffff0000u) >> (16 - 2 * B));
  return (x & 0xffffffffu) | ((x >> 32) << (4 * B));
}

// Reads or writes exactly B bytes: a unit may end right after them.
template <int B>
inline uint64_t LoadBytes(const uint8_t* bytes) {
  uint64_t x = 0;
  std::memcpy(&x, bytes, B);
  return x;
}
template <int B>
inline void StoreBytes(uint64_t x, uint8_t* bytes) {
  std::memcpy(bytes, &x, B);
}

}  // namespace kvant::codec_detail
