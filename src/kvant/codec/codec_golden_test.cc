// Bytes and values that a second implementation (tests/golden/codec_golden.py) computed from the pages in docs/format/,
// and the examples on those pages, against both twins. Whoever changes a format meets this test.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/cpu_target.h"
#include "kvant/base/each_target_test.h"
#include "kvant/codec/codec.h"
#include "kvant/codec/transform.h"

namespace kvant {
namespace {

namespace fs = std::filesystem;

// "key rest of the line"
using Case = std::map<std::string, std::string>;

std::vector<std::string> Lines(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void AddLine(const std::string& line, Case& to) {
  const size_t space = line.find(' ');
  to[line.substr(0, space)] = space == std::string::npos ? "" : line.substr(space + 1);
}

std::vector<Case> GoldenCases(const fs::path& path) {
  std::vector<Case> cases;
  for (const std::string& line : Lines(path)) {
    if (line.empty() || line[0] == '#') continue;
    if (line.rfind("case ", 0) == 0) cases.emplace_back();
    AddLine(line, cases.back());
  }
  return cases;
}

std::vector<Case> PageExamples(const fs::path& path) {
  std::vector<Case> cases;
  bool inside = false;
  for (const std::string& line : Lines(path)) {
    if (line == "```kvant-example") {
      cases.emplace_back();
      inside = true;
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      AddLine(line, cases.back());
    }
  }
  return cases;
}

std::vector<float> Floats(const std::string& text) {
  std::vector<float> values;
  std::istringstream words(text);
  for (std::string word; words >> word;) values.push_back(std::strtof(word.c_str(), nullptr));
  return values;
}

std::vector<std::byte> Bytes(const std::string& text) {
  std::string digits;
  for (const char c : text) {
    if (c != ' ') digits += c;
  }
  std::vector<std::byte> bytes;
  for (size_t at = 0; at + 1 < digits.size(); at += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(digits.substr(at, 2), nullptr, 16)));
  }
  return bytes;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t index = 0; index < a.size(); ++index) {
    if (std::isnan(a[index]) && std::isnan(b[index])) continue;  // text has no payloads
    if (std::memcmp(&a[index], &b[index], sizeof(float)) != 0) return false;
  }
  return true;
}

void CheckCodecCase(const Case& expected, const std::string& where) {
  SCOPED_TRACE(where);
  const CodecSpec spec = ParseCodec(expected.at("codec")).value();
  const std::vector<float> x = Floats(expected.at("input"));
  std::vector<std::byte> bytes = Bytes(expected.at("bytes"));
  if (spec.family == CodecFamily::kF32) {  // NaN has many patterns: compare those of the others
    for (size_t index = 0; index < x.size(); ++index) {
      if (std::isnan(x[index])) std::memcpy(bytes.data() + 4 * index, &x[index], 4);
    }
  }
  const std::vector<float> decoded = Floats(expected.at("decoded"));
  ASSERT_EQ(bytes.size(), UnitBytes(spec, x.size()));
  ASSERT_EQ(decoded.size(), x.size());
  for (const bool fast : {false, true}) {
    std::vector<std::byte> packed(bytes.size());
    std::vector<float> out(x.size());
    EncodeStats stats;
    if (fast) {
      EncodeUnit(spec, x.data(), x.size(), packed.data(), &stats);
      DecodeUnits(spec, {bytes.data(), bytes.size(), 1, x.size(), 0, x.size()}, out.data(), x.size());
    } else {
      reference::EncodeUnit(spec, x.data(), x.size(), packed.data(), &stats);
      reference::DecodeUnit(spec, bytes.data(), x.size(), out.data());
    }
    EXPECT_EQ(packed, bytes) << (fast ? "fast" : "reference");
    EXPECT_TRUE(SameBits(out, decoded)) << (fast ? "fast" : "reference");
    if (expected.count("stats") != 0) {
      EXPECT_EQ(
          std::to_string(stats.values) + " " + std::to_string(stats.saturated) + " " + std::to_string(stats.non_finite),
          expected.at("stats"));
    }
  }
}

using Golden = EachTargetTest;
INSTANTIATE_TEST_SUITE_P(Targets, Golden, testing::ValuesIn(SupportedTargets()), TargetOfTest);

TEST_P(Golden, BytesAndValues) {
  std::set<CodecFamily> families;
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(KVANT_SOURCE_DIR "/tests/golden/codec")) {
    for (const Case& golden : GoldenCases(entry.path())) {
      CheckCodecCase(golden, entry.path().filename().string() + ": " + golden.at("codec") + " " + golden.at("case"));
      families.insert(ParseCodec(golden.at("codec")).value().family);
      ++count;
    }
  }
  for (const CodecSpec& spec : AllCodecs()) EXPECT_TRUE(families.count(spec.family)) << ToText(spec);
  EXPECT_GT(count, 200u);
}

TEST_P(Golden, ExamplesOfThePages) {
  std::set<CodecFamily> families;
  std::set<std::string> transforms;
  for (const auto& entry : fs::directory_iterator(KVANT_SOURCE_DIR "/docs/format")) {
    const std::string page = entry.path().filename().string();
    for (const Case& example : PageExamples(entry.path())) {
      if (example.count("codec") != 0) {
        CheckCodecCase(example, page + ": " + example.at("codec"));
        families.insert(ParseCodec(example.at("codec")).value().family);
        continue;
      }
      const std::string name = example.at("transform");
      ASSERT_TRUE(name == "had" || name == "interleave") << page << " " << name;
      const TransformKind kind = name == "had" ? TransformKind::kHadamard : TransformKind::kInterleave;
      std::vector<float> x = Floats(example.at("input"));
      ApplyTransforms({kind}, x.data(), 1, x.size(), x.size());
      EXPECT_TRUE(SameBits(x, Floats(example.at("output")))) << page << " " << name;
      transforms.insert(name);
    }
  }
  EXPECT_EQ(transforms.size(), 2u);
  for (const CodecSpec& spec : AllCodecs()) {
    if (spec.family == CodecFamily::kF32) continue;  // nothing to show
    EXPECT_TRUE(families.count(spec.family)) << ToText(spec);
  }
}

}  // namespace
}  // namespace kvant
