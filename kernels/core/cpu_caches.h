// SPDX-License-Identifier: Apache-2.0
// The caches of the CPUs that this system has, as Linux tells them.
#pragma once

#include <cstdint>
#include <filesystem>

namespace assay {

// [bytes] All caches of the last level together, each counted once, of a folder like Linux's
// /sys/devices/system/cpu: cpu*/cache/index*/{level,size,shared_cpu_list}. 0 if it tells none.
//
// sysconf(_SC_LEVEL3_CACHE_SIZE) is no substitute: on a virtual machine it is the cache of the
// whole processor, of which two CPUs have a small part.
int64_t last_level_cache_bytes(const std::filesystem::path& cpus);

}  // namespace assay
