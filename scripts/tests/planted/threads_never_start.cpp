// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD: in workers the start of a thread never returns, as in a libtbb that waits for a
// thread for which there was no memory.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) {
  std::ifstream file("/proc/self/cmdline");
  const std::string arguments{std::istreambuf_iterator<char>(file), {}};
  while (arguments.find("--worker") != std::string::npos) pause();
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, start, argument);
}
