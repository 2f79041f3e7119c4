#include "kvant/model/weights.h"

#include <array>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/io/temporary_file_for_test.h"
#include "kvant/model/catalog.h"

namespace kvant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two heads of 4 rows and one column. llama.cpp's converter writes Hugging Face's rows 0 1 2 3 of a head as 0 2 1 3:
// row 2j holds row j, row 2j + 1 holds row j + 2.
TEST(WeightMatrix, PutsRotaryPairsBackInHuggingFaceOrder) {
  const std::array<float, 8> stored = {10, 12, 11, 13, 20, 22, 21, 23};
  WeightMatrix matrix;
  matrix.bytes = std::as_bytes(std::span(stored)).data();
  matrix.rows = 8;
  matrix.columns = 1;
  matrix.row_bytes = sizeof(float);
  matrix.order = RowOrder::kInterleavedPairs;
  matrix.head_dim = 4;
  std::vector<float> rows(8);
  for (size_t row = 0; row < rows.size(); ++row) matrix.Expand(row, &rows[row]);
  EXPECT_THAT(rows, ElementsAre(10, 11, 12, 13, 20, 21, 22, 23));
  matrix.order = RowOrder::kPlain;
  for (size_t row = 0; row < rows.size(); ++row) matrix.Expand(row, &rows[row]);
  EXPECT_THAT(rows, ElementsAre(10, 12, 11, 13, 20, 22, 21, 23));
}

TEST(WeightMatrix, TermsOfPartsCountRowsFromTheirFirst) {
  const std::array<float, 6> stored = {1, 2, 3, 4, 5, 6};  // three rows of two
  WeightMatrix matrix;
  matrix.bytes = std::as_bytes(std::span(stored)).data();
  matrix.rows = 3;
  matrix.columns = 2;
  matrix.row_bytes = 2 * sizeof(float);
  float out[3] = {};
  const ProductTerm part = matrix.Term(out, 3, 1, 2);
  EXPECT_EQ(part.columns, 2u);
  EXPECT_FALSE(part.add);
  std::array<float, 2> row{};
  part.expand(1, row.data());
  EXPECT_THAT(row, ElementsAre(5, 6));
  const ProductTerm whole = matrix.Term(out, 3, /*add=*/true);
  EXPECT_EQ(whole.columns, 3u);
  EXPECT_TRUE(whole.add);
}

TEST(Catalog, KnownNamePathAndNeither) {
  const std::string folder = testing::TempDir();
  const KnownModel& known = KnownModels().front();
  const std::string name(known.name);
  const auto absent = ResolveModel(name, folder + "no_such_folder");
  ASSERT_FALSE(absent.has_value());
  EXPECT_THAT(absent.error().message, HasSubstr(folder + "no_such_folder/" + std::string(known.file)));
  EXPECT_THAT(absent.error().message, HasSubstr("tools/fetch_model"));

  const std::string place = folder + std::string(known.file);
  std::ofstream(place) << "model";
  EXPECT_EQ(ResolveModel(name, folder.substr(0, folder.size() - 1)).value(), place);
  EXPECT_EQ(ResolveModel(place, "no_such_folder").value(), place);
  std::filesystem::remove(place);

  const auto unknown = ResolveModel("gpt-5000", folder);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message, HasSubstr("model \"gpt-5000\" is neither a file nor a known name (" + name));
}

}  // namespace
}  // namespace kvant
