// A file mapped into memory, read-only: weights are read where they lie and the page cache is shared between processes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kvant/base/result.h"

namespace kvant {

// Move-only; the mapping, and so every pointer into it, keeps its address when the object moves and ends with it.
// A file that another program shortens while it is mapped raises SIGBUS when the lost part is read, as with any mmap.
class MappedFile {
 public:
  // Errors: missing, unreadable, a directory, not a regular file (never blocks on a pipe), empty, mmap refused.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::string& path() const { return path_; }
  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace kvant
