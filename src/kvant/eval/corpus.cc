#include "kvant/eval/corpus.h"

#include <array>
#include <filesystem>
#include <memory>

#include <zlib.h>

#include "kvant/model/tokenizer/utf8.h"

namespace kvant {
namespace {

constexpr std::string_view kPythonFolder = "/usr/lib/python3.11/";

// Long, hand-written modules of different kinds; about 1.5 MB. Part of the text's definition: a change makes a new
// text.
constexpr std::array kPythonModules = {
    "argparse.py",
    "ast.py",
    "asyncio/base_events.py",
    "asyncio/streams.py",
    "asyncio/tasks.py",
    "bdb.py",
    "calendar.py",
    "codecs.py",
    "collections/__init__.py",
    "configparser.py",
    "csv.py",
    "dataclasses.py",
    "datetime.py",
    "difflib.py",
    "dis.py",
    "doctest.py",
    "email/_header_value_parser.py",
    "enum.py",
    "fractions.py",
    "ftplib.py",
    "functools.py",
    "heapq.py",
    "http/client.py",
    "http/server.py",
    "imaplib.py",
    "importlib/_bootstrap.py",
    "inspect.py",
    "ipaddress.py",
    "json/encoder.py",
    "logging/__init__.py",
    "mailbox.py",
    "multiprocessing/managers.py",
    "optparse.py",
    "pathlib.py",
    "pdb.py",
    "pickle.py",
    "pickletools.py",
    "platform.py",
    "plistlib.py",
    "random.py",
    "shutil.py",
    "smtplib.py",
    "socket.py",
    "ssl.py",
    "statistics.py",
    "string.py",
    "subprocess.py",
    "tarfile.py",
    "tempfile.py",
    "textwrap.py",
    "threading.py",
    "tokenize.py",
    "traceback.py",
    "turtle.py",
    "typing.py",
    "unittest/mock.py",
    "urllib/request.py",
    "uuid.py",
    "xml/dom/minidom.py",
    "zipfile.py",
};

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool IsUtf8WithoutNul(std::string_view text) {
  return WellFormedPrefix(text) == text.size() && text.find('\0') == std::string_view::npos;
}

// zlib's reader passes files that are not gzip through unchanged.
Result<std::string> ReadText(const std::string& path, size_t max_bytes) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return Fail("{}: is a directory, not a text", path);
  // Opening a pipe without a writer would wait for ever, and a device may have no end.
  if (!std::filesystem::is_regular_file(path, error)) {
    return Fail("{}: is not a regular file; copy the text to a file", path);
  }
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), &gzclose);
  if (!file) return Fail("{}: cannot be opened for reading", path);
  const bool unpacked = gzdirect(file.get()) == 0;
  std::string text;
  std::string buffer(1 << 20, '\0');
  while (true) {
    const int got = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    if (got < 0) return Fail("{}: reading failed or the gzip data is damaged", path);
    if (got == 0) break;
    if (static_cast<size_t>(got) > max_bytes - text.size()) {
      return Fail("{}: is larger than {} bytes; cut the part that you want to measure", path, max_bytes);
    }
    text.append(buffer, 0, static_cast<size_t>(got));
  }
  // gzread ends quietly where a gzip file is cut off; only the error state tells.
  int status = Z_OK;
  gzerror(file.get(), &status);
  if (status != Z_OK || (!unpacked && !text.empty() && path.ends_with(".gz"))) {
    return Fail("{}: the gzip data is damaged or cut off", path);
  }
  return text;
}

Result<std::string> ReadFirst(const std::vector<std::string>& candidates, const KnownText& known, size_t max_bytes) {
  for (const std::string& path : candidates) {
    if (Exists(path)) return ReadText(path, max_bytes);
  }
  return Fail("text \"{}\" is not on this machine: {}", known.name, known.how_to_get);
}

Result<std::string> ReadPythonStdlib(const KnownText& known, size_t max_bytes) {
  std::string text;
  for (const char* module : kPythonModules) {
    const std::string path = std::string(kPythonFolder) + module;
    if (!Exists(path)) return Fail("text \"{}\": {} is missing: {}", known.name, path, known.how_to_get);
    KVANT_ASSIGN_OR_RETURN(const std::string part, ReadText(path, max_bytes - text.size()));
    text += part;
    if (text.size() < max_bytes) text += '\n';
  }
  return text;
}

Result<std::string> LoadUnchecked(const std::string& name_or_path, const CorpusPlaces& places, size_t max_bytes) {
  const auto in_places = [&](const char* file) {
    std::vector<std::string> paths;
    for (const std::string& folder : {places.texts, places.cache}) {
      if (!folder.empty()) paths.push_back(folder + "/" + file);
    }
    return paths;
  };
  for (const KnownText& known : KnownTexts()) {
    if (known.name != name_or_path) continue;
    if (known.name == "jargon") {
      std::vector<std::string> paths = in_places("jargon.txt.gz");
      paths.emplace_back("/usr/share/doc/jargon-text/jargon.txt.gz");
      return ReadFirst(paths, known, max_bytes);
    }
    if (known.name == "python-stdlib") return ReadPythonStdlib(known, max_bytes);
    return ReadFirst(in_places("wiki.test.raw"), known, max_bytes);
  }
  if (Exists(name_or_path)) return ReadText(name_or_path, max_bytes);
  std::string names;
  for (const KnownText& known : KnownTexts()) names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  return Fail("text \"{}\" is neither a file nor a known name ({})", name_or_path, names);
}

}  // namespace

const std::vector<KnownText>& KnownTexts() {
  static const std::vector<KnownText> texts = {
      {"jargon", "the Jargon File 4.4.7 (public domain)",
       "install it with tools/setup demo (Debian package jargon-text)"},
      {"python-stdlib", "modules of Python 3.11's standard library: code",
       "install it with tools/setup demo (Debian package libpython3.11-stdlib)"},
      {"wikitext-2-test", "WikiText-2, raw test split",
       "set KVANT_TEXTS to a folder that holds its file wiki.test.raw"},
  };
  return texts;
}

Result<std::string> LoadText(const std::string& name_or_path, const CorpusPlaces& places, size_t max_bytes) {
  KVANT_ASSIGN_OR_RETURN(std::string text, LoadUnchecked(name_or_path, places, max_bytes));
  if (text.empty()) return Fail("text \"{}\" is empty", name_or_path);
  if (!IsUtf8WithoutNul(text)) return Fail("text \"{}\" is not UTF-8 text", name_or_path);
  return text;
}

}  // namespace kvant
