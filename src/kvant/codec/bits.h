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

template <typename T>
inline uint64_t LoadWord(const uint8_t* bytes) {
  T word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// Reads or writes exactly B bytes: a unit may end right after them. One or two whole loads: a memcpy of 3, 5, 6 or 7
// bytes is assembled in memory, and reading it back stalls (measured 0.75 against 5 G values/s on a Zen CPU).
template <int B>
inline uint64_t LoadBytes(const uint8_t* bytes) {
  static_assert(B >= 1 && B <= 8);
  if constexpr (B == 1) return bytes[0];
  if constexpr (B == 2) return LoadWord<uint16_t>(bytes);
  if constexpr (B == 3) return LoadWord<uint16_t>(bytes) | uint64_t{bytes[2]} << 16;
  if constexpr (B == 4) return LoadWord<uint32_t>(bytes);
  if constexpr (B == 5) return LoadWord<uint32_t>(bytes) | uint64_t{bytes[4]} << 32;
  if constexpr (B == 6) return LoadWord<uint32_t>(bytes) | LoadWord<uint16_t>(bytes + 4) << 32;
  if constexpr (B == 7) return LoadWord<uint32_t>(bytes) | LoadWord<uint32_t>(bytes + 3) << 24;
  return LoadWord<uint64_t>(bytes);
}
template <int B>
inline void StoreBytes(uint64_t x, uint8_t* bytes) {
  std::memcpy(bytes, &x, B);
}

}  // namespace kvant::codec_detail
