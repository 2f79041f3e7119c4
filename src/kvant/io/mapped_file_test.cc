#include "kvant/io/mapped_file.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/io/temporary_file_for_test.h"

namespace kvant {
namespace {

using testing::HasSubstr;

std::string OpenError(const std::string& path) {
  const Result<MappedFile> file = MappedFile::Open(path);
  return file ? "opened" : file.error().message;
}

TEST(MappedFile, GivesTheBytesAndKeepsTheirAddressWhenMoved) {
  const std::string text = "some bytes";
  const TemporaryFile file(std::as_bytes(std::span(text)));
  Result<MappedFile> opened = MappedFile::Open(file.path());
  ASSERT_TRUE(opened) << opened.error().message;
  const std::byte* address = opened->bytes().data();
  MappedFile moved = std::move(*opened);
  MappedFile assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.bytes().data(), address);
  EXPECT_EQ(assigned.path(), file.path());
  ASSERT_EQ(assigned.size(), text.size());
  EXPECT_EQ(std::memcmp(assigned.bytes().data(), text.data(), text.size()), 0);
}

TEST(MappedFile, NamesWhatIsWrong) {
  const std::string missing = testing::TempDir() + "kvant_no_such_file";
  EXPECT_THAT(OpenError(missing), testing::AllOf(HasSubstr(missing), HasSubstr("No such file")));
  EXPECT_THAT(OpenError(testing::TempDir()), HasSubstr("is a directory"));
  EXPECT_THAT(OpenError("/dev/null"), HasSubstr("not a regular file"));
  const TemporaryFile empty({});
  EXPECT_THAT(OpenError(empty.path()), HasSubstr("is empty"));
  // A pipe without a writer: opening it must not wait.
  const std::string pipe = testing::TempDir() + "kvant_pipe_" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(OpenError(pipe), HasSubstr("not a regular file"));
  std::filesystem::remove(pipe);
}

// Root may read every file by its capabilities, so a child process gives them up.
[[noreturn]] void PrintOpenErrorWithoutCapabilities(const std::string& path) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  const bool dropped = syscall(SYS_capset, &header, none) == 0;
  std::fprintf(stderr, "%s\n", dropped ? OpenError(path).c_str() : "the capabilities could not be dropped");
  _exit(0);
}

TEST(MappedFileDeathTest, NamesAnUnreadableFile) {
  const std::string text = "x";
  const TemporaryFile file(std::as_bytes(std::span(text)));
  ASSERT_EQ(chmod(file.path().c_str(), 0), 0);
  EXPECT_EXIT(PrintOpenErrorWithoutCapabilities(file.path()), testing::ExitedWithCode(0),
              testing::AllOf(HasSubstr(file.path()), HasSubstr("Permission denied")));
}

}  // namespace
}  // namespace kvant
