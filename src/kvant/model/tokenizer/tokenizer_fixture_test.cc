// Ids of other implementations: tests/parity/tokenizer (Hugging Face `tokenizers` 0.23.3) and llama.cpp's vocabulary
// test files, found through KVANT_TEXTS.
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kvant/model/tokenizer/test_vocabulary.h"
#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {
namespace {

class Parity : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Parity, EveryCase) {
  const auto [folder, pre] = GetParam();
  const std::string path = std::string(KVANT_SOURCE_DIR "/tests/parity/tokenizer/") + folder;
  const auto data = testing::VocabularyFromJson(path + "/tokenizer.json", pre);
  ASSERT_TRUE(data) << data.error().message;
  const auto tokenizer = Tokenizer::Create(*data);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocab_size(), 1000);
  const auto cases_text = testing::ReadFile(path + "/cases.json");
  ASSERT_TRUE(cases_text) << cases_text.error().message;
  const auto cases = nlohmann::json::parse(*cases_text)["cases"];
  ASSERT_EQ(cases.size(), 97u);
  int with_special = 0;
  for (const auto& one : cases) {
    const std::string text = one["text"];
    const std::vector<int32_t> parsed = one["ids"];
    EXPECT_EQ(tokenizer->Encode(text, {.parse_special = true}), parsed) << one;
    with_special += one.contains("ids_special_as_text");
    const std::vector<int32_t> plain = one.contains("ids_special_as_text") ? one["ids_special_as_text"] : one["ids"];
    EXPECT_EQ(tokenizer->Encode(text), plain) << one;
    EXPECT_EQ(tokenizer->Decode(parsed).value(), text);
    EXPECT_EQ(tokenizer->Decode(plain).value(), text);
  }
  EXPECT_GE(with_special, 2);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, Parity,
                         ::testing::Values(std::pair("gpt2", "gpt-2"), std::pair("smollm2", "smollm")),
                         [](const auto& instance) { return std::string(instance.param.first); });

TEST(GgmlVocabulary, Gpt2GivesTheListedIds) {
  const char* texts = std::getenv("KVANT_TEXTS");
  if (texts == nullptr) GTEST_SKIP() << "KVANT_TEXTS is not set: no vocab/ggml-vocab-gpt-2.gguf";
  const std::string path = std::string(texts) + "/vocab/ggml-vocab-gpt-2.gguf";
  const auto data = testing::VocabularyFromGguf(path);
  ASSERT_TRUE(data) << data.error().message;
  const auto tokenizer = Tokenizer::Create(*data);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->bos(), 50256);

  std::string inputs = testing::ReadFile(path + ".inp").value();
  std::istringstream outputs(testing::ReadFile(path + ".out").value());
  const std::string separator = "\n__ggml_vocab_test__\n";
  int count = 0;
  for (bool more = true; more; ++count) {
    const size_t end = inputs.find(separator);
    more = end != std::string::npos;
    const std::string text = inputs.substr(0, end);
    if (more) inputs.erase(0, end + separator.size());
    std::string line;
    std::getline(outputs, line);
    std::istringstream numbers(line);
    const std::vector<int32_t> expected{std::istream_iterator<int32_t>(numbers), {}};
    EXPECT_EQ(tokenizer->Encode(text), expected) << "case " << count << ": " << text;
    EXPECT_EQ(tokenizer->Decode(expected).value(), text);
  }
  EXPECT_EQ(count, 47);
}

}  // namespace
}  // namespace kvant
