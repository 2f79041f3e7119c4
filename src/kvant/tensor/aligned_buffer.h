// Owned memory, aligned for every SIMD target (64 bytes). Move-only; contents start uninitialised.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace kvant {

inline constexpr size_t kBufferAlignment = 64;

template <typename T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t elems)
      : data_(elems == 0 ? nullptr
                         : static_cast<T*>(::operator new(elems * sizeof(T), std::align_val_t(kBufferAlignment)))),
        size_(elems) {}

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }
  T& operator[](size_t index) { return data_.get()[index]; }
  const T& operator[](size_t index) const { return data_.get()[index]; }

  // Grows to at least `elems` without keeping the contents; for scratch.
  void Reserve(size_t elems) {
    if (elems > size_) *this = AlignedBuffer(elems);
  }

 private:
  struct Free {
    void operator()(T* pointer) const { ::operator delete(pointer, std::align_val_t(kBufferAlignment)); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

}  // namespace kvant
