// SPDX-License-Identifier: Apache-2.0
// Specimens that harm the process they run in, and one that does not.
#include "kernels/echo/echo.h"

#include <unistd.h>

#include <csignal>
#include <functional>

#include "properties/core/specimen.h"

namespace assay::echo {
namespace {

Specimen specimen(std::string_view name, std::string_view fault, std::function<void(const Call&)> run) {
  Path path = f32_path(name, DeviceKind::kCpu, std::move(run), fault);
  path.dtypes = {DType::kF32};
  return {.op = "echo", .fault = fault, .path = path};
}

}  // namespace

std::vector<Specimen> specimens() {
  return {specimen("specimen.copies_nothing", "nothing is copied", [](const Call&) {}),
          specimen("specimen.segv", "it dies", [](const Call&) { raise(SIGSEGV); }),
          specimen("specimen.hang", "it does not return", [](const Call&) {
            for (;;) pause();
          })};
}

std::vector<Law> laws() {
  return {};
}

}  // namespace assay::echo
