// A file in the temporary folder that is removed with the object.
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

namespace kvant {

class TemporaryFile {
 public:
  explicit TemporaryFile(std::span<const std::byte> bytes) {
    static int count = 0;
    path_ = testing::TempDir() + "kvant_io_" + std::to_string(getpid()) + "_" + std::to_string(count++);
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    EXPECT_TRUE(file.good());
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace kvant
