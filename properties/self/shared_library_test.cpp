// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/shared_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "kernels/core/error.h"

namespace assay {
namespace {

using testing::HasSubstr;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kDevice);
    return error.what();
  }
  return "none";
}

TEST(SharedLibrary, LoadsTheFirstFileThatIsThere) {
  const SharedLibrary library({"libassay_absent.so.7", "libm.so.6"});
  double (*const square_root)(double) = library.function("sqrt");
  EXPECT_EQ(square_root(9), 3);
}

TEST(SharedLibrary, NamesTheFileThatIsAbsentAndTheFunctionThatIsMissing) {
  EXPECT_THAT(error_of([] {
                SharedLibrary({"libassay_absent.so.7", "/nowhere/libassay_absent.so.7"});
              }),
              HasSubstr("a library cannot be loaded: libassay_absent.so.7: cannot open"));
  EXPECT_EQ(error_of([] { SharedLibrary({"libm.so.6"}).function("no_such_function"); }),
            "libm.so.6 has no function no_such_function");
}

}  // namespace
}  // namespace assay
