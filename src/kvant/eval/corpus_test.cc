#include "kvant/eval/corpus.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvant {
namespace {

using ::testing::HasSubstr;

// A folder of its own for each test, removed with it.
class CorpusTest : public testing::Test {
 protected:
  CorpusTest() : folder_(testing::TempDir() + "kvant_corpus_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~CorpusTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    std::ofstream file(Path(name), std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return Path(name);
  }
  // Of a file that holds `bytes`.
  std::string ErrorOf(const std::string& bytes, size_t max_bytes = kMaxTextBytes) const {
    return Error(Write("bytes.txt", bytes), {}, max_bytes);
  }
  static std::string Error(const std::string& name, const CorpusPlaces& places = {}, size_t max_bytes = kMaxTextBytes) {
    const auto text = LoadText(name, places, max_bytes);
    return text ? "" : text.error().message;
  }

  std::string folder_;
};

std::string Gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST_F(CorpusTest, AFileIsItsBytes) {
  const std::string text = "line\r\n\tna\xc3\xafve \xe2\x82\xac \xf0\x9f\x99\x82\n";
  EXPECT_EQ(LoadText(Write("a.txt", text), {}).value(), text);
  EXPECT_EQ(LoadText(Write("one", "x"), {}).value(), "x");
  const std::string large(3 << 20, 'a');  // several of the reader's buffers
  EXPECT_EQ(LoadText(Write("large", large), {}).value(), large);
}

TEST_F(CorpusTest, GzipIsUnpacked) {
  std::string text;
  for (int line = 0; line < 200000; ++line) text += "line " + std::to_string(line) + "\n";
  EXPECT_EQ(LoadText(Write("a.txt.gz", Gzip(text)), {}).value(), text);
  // Two members one after the other are one text, as gzip(1) reads them.
  EXPECT_EQ(LoadText(Write("b.gz", Gzip("first ") + Gzip("second")), {}).value(), "first second");
}

TEST_F(CorpusTest, DamagedGzip) {
  std::string text;
  for (int line = 0; line < 5000; ++line) text += std::to_string(line * 7919) + " ";
  const std::string packed = Gzip(text);
  for (const size_t keep : {packed.size() - 1, packed.size() - 8, packed.size() / 2, size_t{11}, size_t{3}}) {
    EXPECT_THAT(Error(Write("cut.gz", packed.substr(0, keep))), HasSubstr("damaged")) << keep;
  }
  for (const size_t at : {packed.size() / 2, packed.size() - 6, size_t{2}}) {
    std::string flipped = packed;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x55);
    EXPECT_THAT(Error(Write("flipped.gz", flipped)), HasSubstr("damaged")) << at;
  }
  EXPECT_THAT(Error(Write("named.gz", "this was never packed")), HasSubstr("named.gz: the gzip data is damaged"));
}

TEST_F(CorpusTest, OnlyUtf8WithoutNul) {
  EXPECT_THAT(ErrorOf(std::string("a\0b", 3)), HasSubstr("is not UTF-8 text"));
  for (const char* bad : {
           "\x80",                  // a continuation alone
           "a\xc3",                 // cut off
           "\xe2\x82",              //
           "\xf0\x9f\x99",          //
           "\xc3(",                 // not continued
           "\xe2\x82(",             //
           "\xc0\x80",              // overlong, two bytes: NUL in disguise
           "\xc1\xbf",              //
           "\xe0\x80\xaf",          // overlong, three bytes: a slash
           "\xe0\x9f\xbf",          //
           "\xf0\x80\x80\xaf",      // overlong, four bytes
           "\xf0\x8f\xbf\xbf",      //
           "\xed\xa0\x80",          // the first surrogate
           "\xed\xbf\xbf",          // the last one
           "\xf4\x90\x80\x80",      // U+110000
           "\xf5\x80\x80\x80",      // beyond
           "\xf8\x88\x80\x80\x80",  // five bytes
           "\xfe",
           "\xff\xfe"
           "a",        // a UTF-16 mark
           "caf\xe9",  // Latin-1
       }) {
    EXPECT_THAT(ErrorOf(bad), HasSubstr("is not UTF-8 text")) << testing::PrintToString(std::string(bad));
    EXPECT_THAT(ErrorOf(std::string("text before ") + bad + " and after"), HasSubstr("is not UTF-8 text"));
  }
  // The borders on the other side.
  for (const char* good : {"\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(ErrorOf(good), "") << testing::PrintToString(std::string(good));
  }
}

TEST_F(CorpusTest, EmptyDirectoryPipeAndDevice) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("is empty"));
  EXPECT_THAT(Error(Write("empty.gz", "")), HasSubstr("is empty"));
  EXPECT_THAT(Error(Write("packed.gz", Gzip(""))), HasSubstr("is empty"));
  EXPECT_THAT(Error(folder_), HasSubstr("is a directory"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(Error(Path("pipe")), HasSubstr("is not a regular file"));  // and does not wait for a writer
  EXPECT_THAT(Error("/dev/zero"), HasSubstr("is not a regular file"));
}

TEST_F(CorpusTest, LimitOfSize) {
  EXPECT_EQ(ErrorOf("12345678", 8), "");
  EXPECT_THAT(ErrorOf("123456789", 8), HasSubstr("is larger than 8 bytes"));
  // What counts is the unpacked text: a megabyte of zeros packs into a kilobyte.
  const std::string bomb = Write("bomb.gz", Gzip(std::string(1 << 20, '0')));
  EXPECT_THAT(Error(bomb, {}, 1 << 19), HasSubstr("is larger than 524288 bytes"));
  EXPECT_EQ(Error(bomb, {}, 1 << 20), "");
}

TEST_F(CorpusTest, UnknownNameListsTheNames) {
  const std::string error = Error("wikitext");
  EXPECT_THAT(error, HasSubstr("text \"wikitext\" is neither a file nor a known name"));
  ASSERT_EQ(KnownTexts().size(), 3u);
  for (const KnownText& known : KnownTexts()) EXPECT_THAT(error, HasSubstr(std::string(known.name)));
}

TEST_F(CorpusTest, TextsComeBeforeCacheBeforeThePackage) {
  CorpusPlaces places{Path("texts"), Path("cache")};
  Write("cache/jargon.txt.gz", Gzip("from the cache"));
  EXPECT_EQ(LoadText("jargon", places).value(), "from the cache");
  Write("texts/jargon.txt.gz", Gzip("from the texts"));
  EXPECT_EQ(LoadText("jargon", places).value(), "from the texts");
  places.texts.clear();
  EXPECT_EQ(LoadText("jargon", places).value(), "from the cache");

  EXPECT_THAT(Error("wikitext-2-test", places), HasSubstr("set KVANT_TEXTS to a folder"));
  Write("cache/wiki.test.raw", " = Title = \n");
  EXPECT_EQ(LoadText("wikitext-2-test", places).value(), " = Title = \n");
  // A damaged first choice is an error and does not fall through to another text.
  places.texts = Path("texts");
  Write("texts/jargon.txt.gz", "\x1f\x8b\x08");
  EXPECT_THAT(Error("jargon", places), HasSubstr("damaged"));
}

// The packages may or may not be there: the text is right, or the message says how to get it.
TEST_F(CorpusTest, TextsOfPackages) {
  const auto jargon = LoadText("jargon", {});
  if (jargon) {
    EXPECT_THAT(*jargon, HasSubstr("Jargon File"));
    EXPECT_GT(jargon->size(), size_t{1} << 20);
  } else {
    EXPECT_THAT(jargon.error().message, HasSubstr("install it with tools/setup demo (Debian package jargon-text)"));
  }
  const auto code = LoadText("python-stdlib", {});
  if (code) {
    EXPECT_THAT(*code, HasSubstr("class ArgumentParser("));
    EXPECT_GT(code->size(), size_t{1} << 20);
    EXPECT_THAT(Error("python-stdlib", {}, 1 << 20), HasSubstr("is larger than"));
  } else {
    EXPECT_THAT(code.error().message, HasSubstr("Debian package libpython3.11-stdlib"));
  }
}

TEST_F(CorpusTest, AKnownNameIsNotAFileOfThatName) {
  const std::filesystem::path before = std::filesystem::current_path();
  Write("wikitext-2-test", "a file in this folder");
  std::filesystem::current_path(folder_);
  EXPECT_THAT(Error("wikitext-2-test"), HasSubstr("is not on this machine"));
  EXPECT_EQ(LoadText("./wikitext-2-test", {}).value(), "a file in this folder");
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace kvant
