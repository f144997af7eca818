#include "weft/result.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Result, value_throws_what_went_wrong) {
  const Result<int> none = fail(Errc::kNotFound, "device: there is none");
  try {
    static_cast<void>(none.value());
    FAIL() << "a value that is not there";
  } catch (const std::exception& thrown) {
    EXPECT_STREQ(thrown.what(), "device: there is none");
  }
  EXPECT_THROW(static_cast<void>(none.value()), tl::bad_expected_access<Error>);
}

}  // namespace
}  // namespace weft
