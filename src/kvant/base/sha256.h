// SHA-256 of bytes and files, as lower-case hex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kvant/base/result.h"

namespace kvant {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Update(std::span<const std::byte> bytes);
  void Update(const std::string& text) { Update(std::as_bytes(std::span(text))); }
  std::string Hex();  // ends the computation; call once

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string Sha256Hex(std::span<const std::byte> bytes);
Result<std::string> Sha256OfFile(const std::string& path);

}  // namespace kvant
