// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/shared_library.h"

#include <dlfcn.h>

#include "kernels/core/error.h"

namespace assay {

SharedLibrary::SharedLibrary(const std::vector<std::string>& files) {
  std::string why;
  for (const std::string& file : files) {
    file_ = file;
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
    if (why.empty()) why = dlerror();
  }
  throw device_error("a library cannot be loaded: {}", why);
}

SharedLibrary::Function SharedLibrary::function(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (address == nullptr) throw device_error("{} has no function {}", file_, name);
  return Function(address);
}

}  // namespace assay
