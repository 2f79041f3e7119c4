#include "kvant/model/tokenizer_data.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/base/result_for_test.h"
#include "kvant/io/gguf_test_builder.h"
#include "kvant/io/temporary_file_for_test.h"

namespace kvant {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;
using T = GgufValueType;

// `keys` follow model and tokens, which are all that a vocabulary needs.
Result<TokenizerData> ReadWith(const GgufBuilder& keys, uint64_t count) {
  GgufBuilder file;
  file.Header(3, 0, 2 + count);
  file.Key("tokenizer.ggml.model", T::kString).Text("gpt2");
  file.Key("tokenizer.ggml.tokens", T::kArray).ArrayHead(T::kString, 3).Text("a").Text("").Text("<|end|>");
  file.bytes.insert(file.bytes.end(), keys.bytes.begin(), keys.bytes.end());
  const TemporaryFile saved(file.bytes);
  Result<GgufFile> opened = GgufFile::Open(saved.path());
  if (!opened) return Fail("{}", opened.error().message);
  return ReadTokenizerData(*opened);  // outlives the file
}

std::string ErrorWith(const GgufBuilder& keys) { return ErrorOf(ReadWith(keys, 1)); }

TEST(TokenizerData, TakesEveryKey) {
  GgufBuilder keys;
  keys.Key("tokenizer.ggml.pre", T::kString).Text("smollm");
  keys.Key("tokenizer.ggml.token_type", T::kArray).ArrayHead(T::kI32, 3).Put(1).Put(4).Put(3);
  keys.Key("tokenizer.ggml.merges", T::kArray).ArrayHead(T::kString, 2).Text("a b").Text("ab c");
  keys.Scalar<uint32_t>("tokenizer.ggml.bos_token_id", T::kU32, 1);
  keys.Scalar<int32_t>("tokenizer.ggml.eos_token_id", T::kI32, 2);
  keys.Scalar<uint32_t>("tokenizer.ggml.unknown_token_id", T::kU32, 0);
  keys.Scalar<uint64_t>("tokenizer.ggml.padding_token_id", T::kU64, 2);
  keys.Scalar<uint8_t>("tokenizer.ggml.add_bos_token", T::kBool, 1);
  keys.Scalar<uint8_t>("tokenizer.ggml.add_eos_token", T::kBool, 1);
  keys.Scalar<uint8_t>("tokenizer.ggml.add_space_prefix", T::kBool, 1);
  const auto data = ReadWith(keys, 10);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->model, "gpt2");
  EXPECT_EQ(data->pre, "smollm");
  EXPECT_THAT(data->tokens, ElementsAre("a", "", "<|end|>"));
  EXPECT_THAT(data->token_types, ElementsAre(1, 4, 3));
  EXPECT_THAT(data->merges, ElementsAre("a b", "ab c"));
  EXPECT_THAT(data->bos, Optional(1));
  EXPECT_THAT(data->eos, Optional(2));
  EXPECT_THAT(data->unk, Optional(0));
  EXPECT_THAT(data->pad, Optional(2));
  EXPECT_TRUE(data->add_bos);
  EXPECT_TRUE(data->add_eos);
  EXPECT_TRUE(data->add_space_prefix);
}

TEST(TokenizerData, AbsentKeysKeepTheirDefaults) {
  const auto data = ReadWith({}, 0);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->pre, "gpt-2");
  EXPECT_THAT(data->token_types, IsEmpty());
  EXPECT_THAT(data->merges, IsEmpty());
  for (const auto& id : {data->bos, data->eos, data->unk, data->pad}) EXPECT_FALSE(id.has_value());
  EXPECT_FALSE(data->add_bos || data->add_eos || data->add_space_prefix);
}

TEST(TokenizerData, NamesAKeyOfTheWrongType) {
  for (const char* key : {"pre", "merges", "token_type", "bos_token_id", "eos_token_id", "unknown_token_id",
                          "padding_token_id", "add_bos_token", "add_eos_token", "add_space_prefix"}) {
    const std::string name = std::string("tokenizer.ggml.") + key;
    EXPECT_THAT(ErrorWith(GgufBuilder().Scalar<float>(name, T::kF32, 1.0f)), HasSubstr(name));
  }
  EXPECT_THAT(ErrorWith(GgufBuilder().Scalar<int32_t>("tokenizer.ggml.bos_token_id", T::kI32, -1)),
              AllOf(HasSubstr("bos_token_id"), HasSubstr("-1")));
}

TEST(TokenizerData, NeedsModelAndTokens) {
  GgufBuilder file;
  file.Header(3, 0, 1).Key("tokenizer.ggml.model", T::kString).Text("gpt2");
  const TemporaryFile saved(file.bytes);
  const auto opened = GgufFile::Open(saved.path());
  ASSERT_TRUE(opened) << opened.error().message;
  const auto data = ReadTokenizerData(*opened);
  ASSERT_FALSE(data.has_value());
  EXPECT_THAT(data.error().message, HasSubstr("tokenizer.ggml.tokens"));
}

}  // namespace
}  // namespace kvant
