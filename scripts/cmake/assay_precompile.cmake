# Headers of libraries, parsed once for each set of flags. Kernels and oracles are precompiled for
# sanitizers only: the other builds show that each of their files includes what it uses, and
# ASSAY_PRECOMPILE=OFF shows it of all. ccache works with precompiled headers if CCACHE_SLOPPINESS
# is as in the build presets.
if(NOT ASSAY_PRECOMPILE)
  return()
endif()
set(library_headers <algorithm> <filesystem> <functional> <map> <memory> <mutex> <optional> <span> <string> <unordered_map>
                    <vector> <fmt/format.h>)
target_precompile_headers(assay_reports PRIVATE ${library_headers} <chrono> <fmt/ranges.h> <nlohmann/json.hpp>)
target_precompile_headers(assay_properties_core PRIVATE ${library_headers} <fmt/ranges.h> <rapidcheck.h>)
if(TARGET assay_properties_test)
  target_precompile_headers(assay_properties_test PRIVATE ${library_headers} <chrono> <fmt/ranges.h> <gmock/gmock.h>
                                                          <rapidcheck.h>)
endif()
# What is mostly templates of libraries is compiled several files at a time: they are instantiated
# once.
foreach(target assay_reports assay_reports_test assay_properties_core assay_properties_test assay_probe assay_study)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endforeach()
# Its class holds what its file keeps to itself.
set_source_files_properties(properties/core/fenced_memory.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
if(ASSAY_SANITIZE)
  target_precompile_headers(assay_core PRIVATE ${library_headers})
endif()

get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  get_target_property(own ${target} PRECOMPILE_HEADERS)
  if(own OR NOT type MATCHES "EXECUTABLE|LIBRARY" OR type STREQUAL "INTERFACE_LIBRARY")
    continue()
  endif()
  if(target MATCHES "_test$")
    target_precompile_headers(${target} REUSE_FROM assay_properties_test)
  elseif(target MATCHES "_(properties|bench|bench_core|probe|study|registry)$")
    target_precompile_headers(${target} REUSE_FROM assay_properties_core)
  elseif(ASSAY_SANITIZE)
    target_precompile_headers(${target} REUSE_FROM assay_core)
  endif()
endforeach()
# Not instrumented by ThreadSanitizer, and so of other flags.
set_source_files_properties(kernels/core/parallel.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
