// SPDX-License-Identifier: Apache-2.0
#include "properties/core/thrown.h"

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>

#include "kernels/core/error.h"
#include "kernels/core/printable.h"

namespace assay {
namespace {

Verdict in_short(VerdictKind kind, std::string_view reason) {
  return {.kind = kind, .reason = excerpt(reason, kLongestReason), .outputs = {}};
}

Verdict verdict_of(const Error& error) {
  switch (error.kind()) {
    case Error::Kind::kUnsupported:
      return in_short(VerdictKind::kFail,
                      fmt::format("the path refuses a problem that it says it serves: {}", error.what()));
    case Error::Kind::kUsage:
      return in_short(VerdictKind::kFail, fmt::format("the path refused a legal call: {}", error.what()));
    case Error::Kind::kDevice:
    case Error::Kind::kInternal:
      return in_short(VerdictKind::kCrashed, error.what());
  }
  throw Error("Error::Kind({}) is not a kind of error", static_cast<int>(error.kind()));
}

// The type of the exception that is being handled: "int".
std::string type_of_exception() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an unknown type";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : type->name();
}

}  // namespace

Verdict verdict_on_thrown() {
  try {
    throw;
  } catch (const Error& error) {
    return verdict_of(error);
  } catch (const std::exception& error) {
    // A message may have any length, and copying it takes time.
    constexpr size_t kMost = kLongestReason - 32;
    return in_short(VerdictKind::kCrashed,
                    fmt::format("the path threw: {}", excerpt(message_of(error), kMost)));
  } catch (const abi::__forced_unwind&) {  // ends the thread
    throw;
  } catch (...) {
    return in_short(VerdictKind::kCrashed,
                    fmt::format("the path threw an object of the type {}", type_of_exception()));
  }
}

Verdict in_step(Verdict verdict, std::string_view step) {
  verdict.reason += fmt::format(", in {}", step);
  return verdict;
}

}  // namespace assay
