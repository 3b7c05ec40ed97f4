// SPDX-License-Identifier: Apache-2.0
// The one exception type of the host code. A message names the thing that is wrong and its value.
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace assay {

// A format string that remembers where it was written.
struct LocatedFormat {
  std::string_view text;
  std::source_location where;

  template <class Text>
  LocatedFormat(const Text& text_, std::source_location where_ = std::source_location::current())
      : text(text_), where(where_) {}
};

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
  explicit Error(LocatedFormat format, const Args&... args) : Error(Kind::kInternal, format, args...) {}

  template <class... Args>
  Error(Kind kind, LocatedFormat format, const Args&... args)
      : std::runtime_error(fmt::vformat(format.text, fmt::make_format_args(args...))),
        kind_(kind),
        where_(format.where) {}

  Kind kind() const noexcept { return kind_; }
  const std::source_location& where() const noexcept { return where_; }

 private:
  Kind kind_;
  std::source_location where_;
};

template <class... Args>
Error usage_error(LocatedFormat format, const Args&... args) {
  return Error(Error::Kind::kUsage, format, args...);
}
template <class... Args>
Error unsupported_error(LocatedFormat format, const Args&... args) {
  return Error(Error::Kind::kUnsupported, format, args...);
}
template <class... Args>
Error device_error(LocatedFormat format, const Args&... args) {
  return Error(Error::Kind::kDevice, format, args...);
}

}  // namespace assay
