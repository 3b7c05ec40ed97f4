// SPDX-License-Identifier: Apache-2.0
// A shared library that is loaded when it is needed, not when the program starts.
#pragma once

#include <string>
#include <vector>

namespace assay {

// Stays loaded until the process ends: what such a library has started may outlive any owner.
class SharedLibrary {
 public:
  // The address of a function, which converts to its type.
  class Function {
   public:
    explicit Function(void* address) : address_(address) {}
    template <class Result, class... Arguments>
    using Pointer = Result (*)(Arguments...);
    template <class Result, class... Arguments>
    operator Pointer<Result, Arguments...>() const {
      return reinterpret_cast<Pointer<Result, Arguments...>>(address_);
    }

   private:
    void* address_;
  };

  // Loads the first of these files that is there. A name without a folder is looked for as the
  // system does. Throws Error (device) that says why the first one cannot be loaded.
  explicit SharedLibrary(const std::vector<std::string>& files);

  // Throws Error (device) if the library has no such function.
  Function function(const char* name) const;

 private:
  std::string file_;
  void* handle_ = nullptr;
};

}  // namespace assay
