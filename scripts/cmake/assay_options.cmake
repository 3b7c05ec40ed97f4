# Target assay_options: what every translation unit of the project is compiled with.
add_library(assay_options INTERFACE)
target_compile_features(assay_options INTERFACE cxx_std_20)
set(assay_warnings -Wall -Wextra -Wconversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # It sees overlaps in std::string that are none (GCC PR105651). Delete with GCC 12.
  list(APPEND assay_warnings -Wno-restrict)
  # Vectors as arguments (oracles/core/lanes.h) meet no other compiler: what takes them is inlined.
  list(APPEND assay_warnings -Wno-psabi)
endif()
if(ASSAY_WERROR)
  list(APPEND assay_warnings -Werror)
endif()
target_compile_options(assay_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${assay_warnings};-Werror=switch>)
if(ASSAY_HAS_CUDA)
  # 554: nvcc names conversions to the own type that a requires-clause has already removed.
  target_compile_options(assay_options INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;--expt-relaxed-constexpr;--extended-lambda;--diag-suppress=554;${ASSAY_CUDA_FLAGS}>)
  if(ASSAY_CUDA_DELAYS)
    target_compile_options(assay_options INTERFACE
      $<$<COMPILE_LANGUAGE:CUDA>:-DASSAY_CUDA_DELAYS=1;-include=${PROJECT_SOURCE_DIR}/kernels/core_cuda/delays.cuh>)
  endif()
  if(ASSAY_WERROR)
    target_compile_options(assay_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings>)
  endif()
endif()
if(ASSAY_SANITIZE)
  # Checks at every pointer take a sixth of the compile time. AddressSanitizer sees null pointers
  # that are used, and nothing here casts between classes.
  target_compile_options(assay_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${ASSAY_SANITIZE};-fno-sanitize=null,vptr;-fno-omit-frame-pointer;-fno-sanitize-recover=all>)
  target_link_options(assay_options INTERFACE -fsanitize=${ASSAY_SANITIZE})
endif()

# Gives the target the generated header assay_build_info.h.
function(assay_add_build_info target)
  set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  if(ASSAY_HAS_CUDA)
    string(APPEND compiler ", nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
  endif()
  set(folder ${PROJECT_BINARY_DIR}/build_info)
  add_custom_target(${target}_build_info BYPRODUCTS ${folder}/assay_build_info.h VERBATIM COMMAND ${CMAKE_COMMAND}
    -D SOURCE=${PROJECT_SOURCE_DIR} -D OUTPUT=${folder}/assay_build_info.h -D VERSION=${PROJECT_VERSION}
    -D "COMPILER=${compiler}" -D BUILD_TYPE=${CMAKE_BUILD_TYPE} -D SANITIZERS=${ASSAY_SANITIZE}
    -P ${ASSAY_CMAKE_DIR}/build_info.cmake)
  add_dependencies(${target} ${target}_build_info)
  target_include_directories(${target} PRIVATE ${folder})
endfunction()
