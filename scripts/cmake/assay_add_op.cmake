# The build vocabulary of Assay, for this project and, through find_package(assay), for projects
# that add ops of their own:
#   assay_add_library(<name> FROM <folder>... LINK <target>...)   a layer of Assay itself
#   assay_add_op(<op>)                                            an op; a missing part is an error
#   assay_add_program(<name> [MAIN <file>])                       a program with all ops so far

function(assay_add_library name)
  cmake_parse_arguments(arg "" "" "FROM;LINK" ${ARGN})
  set(globs)
  foreach(folder IN LISTS arg_FROM)
    list(APPEND globs ${folder}/*.cpp ${folder}/*.cu)
  endforeach()
  _assay_add_static(assay_${name} "${globs}" ${arg_LINK})
  set_target_properties(assay_${name} PROPERTIES EXPORT_NAME ${name})
  add_library(assay::${name} ALIAS assay_${name})
  set_property(GLOBAL APPEND PROPERTY ASSAY_LIBRARIES assay_${name})
endfunction()

# kernels/<op>/<op>.h and its sources, there or one folder below, oracles/<op>/, properties/<op>.cpp
# (with properties/specimens/<op>.cpp and properties/probed/<op>.cpp if they are there) and
# bench/<op>.cpp become static libraries.
# Only the kernels and the properties link the kernels: an oracle that calls what it judges does not
# link.
function(assay_add_op op)
  foreach(part kernels/${op}/${op}.h oracles/${op}/${op}.cpp properties/${op}.cpp bench/${op}.cpp)
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${part})
      message(FATAL_ERROR "The op '${op}' is incomplete: ${part} is missing.")
    endif()
  endforeach()
  _assay_add_static(assay_${op}_kernels
                    "kernels/${op}/*.cpp;kernels/${op}/*.cu;kernels/${op}/*/*.cpp;kernels/${op}/*/*.cu"
                    assay::core $<TARGET_NAME_IF_EXISTS:assay::core_cuda>)
  _assay_add_static(assay_${op}_oracle oracles/${op}/*.cpp assay::oracle_core)
  target_compile_options(assay_${op}_oracle PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
  _assay_add_static(assay_${op}_properties "properties/${op}.cpp;properties/specimens/${op}.cpp;properties/specimens/${op}_*.cpp;properties/specimens/${op}_*.cu;properties/probed/${op}.cpp"
                    assay::properties_core assay_${op}_kernels)
  _assay_add_static(assay_${op}_bench bench/${op}.cpp assay::bench_core assay_${op}_kernels)
  set_property(GLOBAL APPEND PROPERTY ASSAY_OPS ${op})
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/properties/probed/${op}.cpp)
    set_property(GLOBAL APPEND PROPERTY ASSAY_PROBED_OPS ${op})
  endif()
endfunction()

function(assay_add_program name)
  cmake_parse_arguments(arg "" "MAIN" "" ${ARGN})
  if(NOT arg_MAIN)
    set(arg_MAIN ${ASSAY_MAIN})
  endif()
  get_property(ops GLOBAL PROPERTY ASSAY_OPS)
  get_property(probed GLOBAL PROPERTY ASSAY_PROBED_OPS)
  set(ASSAY_REGISTRY_DECLARATIONS)
  set(ASSAY_REGISTRY_CALLS)
  set(ASSAY_SWEEP_CALLS)
  set(libraries)
  foreach(op IN LISTS ops)
    string(APPEND ASSAY_REGISTRY_DECLARATIONS "namespace ${op} {\nconst std::vector<Op>& ops();\n"
           "std::vector<Oracle> oracles();\nstd::vector<Specimen> specimens();\nstd::vector<Law> laws();\n"
           "std::vector<Sweep> sweeps();\n}  // namespace ${op}\n")
    string(APPEND ASSAY_REGISTRY_CALLS
           "    all.add(${op}::ops(), ${op}::oracles(), ${op}::specimens(), ${op}::laws());\n")
    if(op IN_LIST probed)
      string(APPEND ASSAY_REGISTRY_DECLARATIONS "namespace ${op} {\nstd::vector<ProbedSum> probed_sums();\n}\n")
      string(APPEND ASSAY_REGISTRY_CALLS "    all.add_probed(${op}::probed_sums());\n")
    endif()
    string(APPEND ASSAY_SWEEP_CALLS "    for (const Sweep& sweep : ${op}::sweeps()) all.push_back(sweep);\n")
    foreach(part kernels oracle properties bench)
      list(APPEND libraries assay_${op}_${part})
    endforeach()
  endforeach()
  configure_file(${ASSAY_CMAKE_DIR}/registry.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/${name}_registry.cpp @ONLY)
  _assay_add_static(${name}_registry ${CMAKE_CURRENT_BINARY_DIR}/${name}_registry.cpp assay::bench_core ${libraries})
  add_executable(${name} ${arg_MAIN})
  target_link_libraries(${name} PRIVATE assay::reports ${name}_registry $<TARGET_NAME_IF_EXISTS:assay_options>)
  if(ASSAY_BUNDLE_LIBS)
    _assay_bundle_libraries(${name})
  endif()
endfunction()

function(_assay_add_static target globs)
  if(NOT ASSAY_HAS_CUDA)
    list(FILTER globs EXCLUDE REGEX "[.]cu$")
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/assay>)
  target_link_libraries(${target} PUBLIC ${ARGN} PRIVATE $<BUILD_INTERFACE:$<TARGET_NAME_IF_EXISTS:assay_options>>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  if(ASSAY_COVERAGE AND target MATCHES "^assay_core$|_kernels$")
    target_compile_options(${target} PRIVATE --coverage -fprofile-update=atomic)
    target_link_options(${target} PUBLIC --coverage)
  endif()
endfunction()

# Copies the shared libraries that Debian has no static version of beside the program, which then
# looks there first.
function(_assay_bundle_libraries program)
  set_target_properties(${program} PROPERTIES BUILD_RPATH "$ORIGIN" BUILD_RPATH_USE_ORIGIN ON)
  foreach(library fmt::fmt hwy::hwy TBB::tbb)
    add_custom_command(TARGET ${program} POST_BUILD COMMAND ${CMAKE_COMMAND} -E copy_if_different
      $<TARGET_FILE:${library}> $<TARGET_FILE_DIR:${program}>/$<TARGET_SONAME_FILE_NAME:${library}>)
  endforeach()
endfunction()
