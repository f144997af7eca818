#include "ucma/errors.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

namespace weft::ucma {
namespace {

TEST(UcmaErrors, are_those_of_the_kernel) {
  EXPECT_EQ(errno_of({}), 0);
  for (const auto& [code, error] :
       {std::pair(Errc::kInvalidState, EINVAL), std::pair(Errc::kInvalidArgument, EINVAL),
        std::pair(Errc::kBusy, EADDRINUSE), std::pair(Errc::kNotFound, EADDRNOTAVAIL),
        std::pair(Errc::kOutOfMemory, ENOMEM), std::pair(Errc::kSystem, EMFILE)}) {
    EXPECT_EQ(errno_of(fail(code, "why")), error);
  }
}

}  // namespace
}  // namespace weft::ucma
