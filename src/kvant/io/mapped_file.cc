#include "kvant/io/mapped_file.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kvant {
namespace {

std::string ErrorText(int error) { return std::generic_category().message(error); }

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a pipe without a writer would wait for ever; it changes nothing for regular files.
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return Fail("{}: cannot be opened for reading ({})", path, ErrorText(errno));
  struct stat info {};
  if (fstat(file.fd, &info) != 0) return Fail("{}: cannot be examined ({})", path, ErrorText(errno));
  if (S_ISDIR(info.st_mode)) return Fail("{}: is a directory, give the path of a file in it", path);
  if (!S_ISREG(info.st_mode)) return Fail("{}: is not a regular file and cannot be mapped; copy it to a file", path);
  if (info.st_size <= 0) return Fail("{}: is empty; it was probably not downloaded or copied completely", path);
  const size_t size = static_cast<size_t>(info.st_size);
  void* const address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED) {
    return Fail("{}: its {} bytes cannot be mapped into memory ({})", path, size, ErrorText(errno));
  }
  MappedFile mapped;
  mapped.path_ = path;
  mapped.bytes_ = {static_cast<const std::byte*>(address), size};
  return mapped;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace kvant
