// SPDX-License-Identifier: Apache-2.0
#include "kernels/core_cuda/mapped_memory.h"

#include <cstdio>

#include "kernels/core_cuda/driver_function.h"

namespace assay {
namespace {

constexpr unsigned int kVersion = 10020;  // of CUDA, which has had these functions since then

struct Driver {
  PFN_cuDeviceGetAttribute_v2000 get_attribute =
      driver_function<PFN_cuDeviceGetAttribute_v2000>("cuDeviceGetAttribute", 2000);
  PFN_cuMemGetAllocationGranularity_v10020 granularity =
      driver_function<PFN_cuMemGetAllocationGranularity_v10020>("cuMemGetAllocationGranularity", kVersion);
  PFN_cuMemAddressReserve_v10020 reserve =
      driver_function<PFN_cuMemAddressReserve_v10020>("cuMemAddressReserve", kVersion);
  PFN_cuMemAddressFree_v10020 free =
      driver_function<PFN_cuMemAddressFree_v10020>("cuMemAddressFree", kVersion);
  PFN_cuMemCreate_v10020 create = driver_function<PFN_cuMemCreate_v10020>("cuMemCreate", kVersion);
  PFN_cuMemRelease_v10020 release = driver_function<PFN_cuMemRelease_v10020>("cuMemRelease", kVersion);
  PFN_cuMemMap_v10020 map = driver_function<PFN_cuMemMap_v10020>("cuMemMap", kVersion);
  PFN_cuMemUnmap_v10020 unmap = driver_function<PFN_cuMemUnmap_v10020>("cuMemUnmap", kVersion);
  PFN_cuMemSetAccess_v10020 set_access =
      driver_function<PFN_cuMemSetAccess_v10020>("cuMemSetAccess", kVersion);
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

void check(CUresult result, const char* function, int64_t bytes) {
  if (result == CUDA_SUCCESS) return;
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    throw OutOfMemory("cuda: {} of {} bytes failed: out of memory", function, bytes);
  throw device_error("cuda: {} of {} bytes failed with code {}", function, bytes, static_cast<int>(result));
}

void check_noexcept(CUresult result, const char* function) noexcept {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "cuda: %s failed with code %d\n", function, static_cast<int>(result));
}

CUmemAllocationProp physical(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}

void map_part(int device, CUdeviceptr begin, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  const CUmemAllocationProp properties = physical(device);
  CUmemGenericAllocationHandle handle{};
  check(driver().create(&handle, size, &properties, 0), "cuMemCreate", bytes);
  const CUresult mapped = driver().map(begin, size, 0, handle, 0);
  check_noexcept(driver().release(handle), "cuMemRelease");  // the mapping keeps the memory
  check(mapped, "cuMemMap", bytes);
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const CUresult accessible = driver().set_access(begin, size, &access, 1);
  if (accessible != CUDA_SUCCESS) check_noexcept(driver().unmap(begin, size), "cuMemUnmap");
  check(accessible, "cuMemSetAccess", bytes);
}

}  // namespace

int64_t mapped_page_bytes(int device) {
  try {
    int can_map = 0;
    check(driver().get_attribute(&can_map, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device),
          "cuDeviceGetAttribute", 0);
    if (can_map == 0) return 0;
    size_t granularity = 0;
    const CUmemAllocationProp properties = physical(device);
    check(driver().granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
          "cuMemGetAllocationGranularity", 0);
    return static_cast<int64_t>(granularity);
  } catch (const Error&) {
    return 0;
  }
}

void* map_memory(int device, int64_t bytes, const Parts& parts) {
  CUdeviceptr memory = 0;
  check(driver().reserve(&memory, static_cast<size_t>(bytes), 0, 0, 0), "cuMemAddressReserve", bytes);
  Parts mapped;
  try {
    for (const Part& part : parts) {
      map_part(device, memory + static_cast<CUdeviceptr>(part.begin), part.length);
      mapped.push_back(part);
    }
  } catch (...) {
    unmap_memory(reinterpret_cast<void*>(memory), bytes, mapped);
    throw;
  }
  return reinterpret_cast<void*>(memory);
}

void unmap_memory(void* memory, int64_t bytes, const Parts& parts) noexcept {
  const auto begin = reinterpret_cast<CUdeviceptr>(memory);
  for (const Part& part : parts) {
    check_noexcept(
        driver().unmap(begin + static_cast<CUdeviceptr>(part.begin), static_cast<size_t>(part.length)),
        "cuMemUnmap");
  }
  check_noexcept(driver().free(begin, static_cast<size_t>(bytes)), "cuMemAddressFree");
}

}  // namespace assay
