// SPDX-License-Identifier: Apache-2.0
// The one exception type of the host code. A message names the thing that is wrong and its value.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace assay {

// A format string for these arguments that remembers where it was written. One that does not fit
// them does not compile.
template <class... Args>
struct LocatedFormat {
  fmt::format_string<Args...> text;
  std::source_location where;

  template <class Text>
  requires std::convertible_to<const Text&, std::string_view>
  consteval LocatedFormat(const Text& text_, std::source_location where_ = std::source_location::current())
      : text(text_), where(where_) {}
};

// The same as a parameter: the arguments that follow it say what Args are.
template <class... Args>
using FormatOf = LocatedFormat<std::type_identity_t<Args>...>;

class Error : public std::runtime_error {
 public:
  // What the caller can do about it; the program turns it into its exit code.
  enum class Kind {
    kUsage,        // the request is wrong: an unknown name, a bad value, an unreadable file
    kUnsupported,  // the request is right, and this path does not serve it
    kDevice,       // the device is absent or refused
    kInternal,     // a bug of ours
  };

  template <class... Args>
  explicit Error(FormatOf<Args...> format, const Args&... args) : Error(Kind::kInternal, format, args...) {}

  template <class... Args>
  Error(Kind kind, FormatOf<Args...> format, const Args&... args)
      : Error(kind, fmt::vformat(format.text, fmt::make_format_args(args...)), format.where) {}

  Error(Kind kind, const std::string& message, std::source_location where)
      : std::runtime_error(message), kind_(kind), where_(where) {}

  Kind kind() const noexcept { return kind_; }
  const std::source_location& where() const noexcept { return where_; }

 private:
  Kind kind_;
  std::source_location where_;
};

// There is not as much memory as was asked for.
class OutOfMemory : public Error {
 public:
  template <class... Args>
  explicit OutOfMemory(FormatOf<Args...> format, const Args&... args)
      : Error(Kind::kDevice, format, args...) {}
  OutOfMemory(const std::string& message, std::source_location where)
      : Error(Kind::kDevice, message, where) {}
};

template <class... Args>
Error usage_error(FormatOf<Args...> format, const Args&... args) {
  return Error(Error::Kind::kUsage, format, args...);
}
template <class... Args>
Error unsupported_error(FormatOf<Args...> format, const Args&... args) {
  return Error(Error::Kind::kUnsupported, format, args...);
}
template <class... Args>
Error device_error(FormatOf<Args...> format, const Args&... args) {
  return Error(Error::Kind::kDevice, format, args...);
}

}  // namespace assay
