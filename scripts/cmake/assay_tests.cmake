# Tests, by label:
#   unit          a GoogleTest program per layer, from its self/ folder, in shards: a process for
#                 each test would take longer than most tests. A test says in its code what it costs
#                 (properties/self/marks.h).
#   program       reports/self/test_*.py: the program `assay` as its users see it
#   check         what the repository promises of itself: layers, headers, format, the installed
#                 package, the scripts
#   slow          not in scripts/test --quick
#   nightly       in scripts/test --nightly only
#
# A test that computes takes two of the 2n + 1 slots that scripts/test gives ctest on n cores, and
# one that mostly waits takes one (`assay_waits`): it runs beside the others.
find_package(GTest REQUIRED)
# The one that apt installs packages for.
find_program(ASSAY_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(ASSAY_PYTHON python3 REQUIRED)
find_library(ASSAY_MPFR mpfr REQUIRED)

# A virtual machine tells the cache of a whole processor, half a gigabyte to flush before each cold
# call.
set(assay_test_cache ASSAY_CACHE_BYTES=33554432)

# Compiling the tests takes longer than running them.
set(assay_test_optimisation -O1)
if(ASSAY_SANITIZE)
  set(assay_test_optimisation -O0)
endif()

# assay_add_test_program(<name> FROM <folder> [SHARDS <n>] [SERIAL]
#                        [SOURCES <file>...] [LINK <target>...])
# GoogleTest deals tests to shards in turns: a number of shards that has no common factor with the
# numbers of ops and paths keeps those of one op apart. Each shard leaves its results in
# test-results/<name>.<shard>.xml.
function(assay_add_test_program name)
  cmake_parse_arguments(arg "SERIAL" "FROM;SHARDS" "LINK;SOURCES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${arg_FROM}/*.cpp ${arg_FROM}/*.cu)
  if(NOT ASSAY_HAS_CUDA)
    list(FILTER sources EXCLUDE REGEX "[.]cu$")
  endif()
  if(ASSAY_SANITIZE STREQUAL "thread")
    foreach(source IN LISTS sources)
      file(STRINGS ${source} marks REGEX "^// Marks:.* threads" LIMIT_COUNT 1)
      if(source MATCHES "_test[.]cpp$" AND NOT marks)
        list(REMOVE_ITEM sources ${source})
      endif()
    endforeach()
    if(NOT "${sources}" MATCHES "_test[.]cpp")
      return()
    endif()
  endif()
  add_executable(${name} ${sources} ${arg_SOURCES})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${assay_test_optimisation}>)
  target_link_libraries(${name} PRIVATE assay_registry rapidcheck ${arg_LINK}
                                        GTest::gmock GTest::gtest_main assay_options)
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(test ${name}.${shard})
    add_test(NAME ${test} COMMAND ${name} --gtest_brief=1
                                          --gtest_output=xml:${PROJECT_BINARY_DIR}/test-results/${test}.xml)
    set_tests_properties(${test} PROPERTIES LABELS unit TIMEOUT 1800 PROCESSORS 2 RUN_SERIAL ${arg_SERIAL}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${shard};${assay_test_cache}")
  endforeach()
  if(ASSAY_BUNDLE_LIBS)
    _assay_bundle_libraries(${name})
  endif()
endfunction()

# The audits of the oracles, oracles/<op>/self/audit.cpp, and a list of them.
file(GLOB assay_audits CONFIGURE_DEPENDS oracles/*/self/audit.cpp)
set(declarations)
set(calls)
foreach(audit IN LISTS assay_audits)
  string(REGEX REPLACE "^.*/oracles/(.*)/self/audit.cpp$" "\\1" op ${audit})
  string(APPEND declarations "namespace ${op} { std::vector<test::Audit> audits(); }\n")
  string(APPEND calls "  for (const Audit& audit : ${op}::audits()) all.push_back(audit);\n")
endforeach()
set(assay_audit_list ${PROJECT_BINARY_DIR}/assay_audits.cpp)
file(CONFIGURE OUTPUT ${assay_audit_list} @ONLY CONTENT [[// Generated from the files oracles/<op>/self/audit.cpp.
#include "oracles/core/self/audit.h"

namespace assay {
@declarations@
namespace test {

std::vector<Audit> all_audits() {
  std::vector<Audit> all;
@calls@  return all;
}

}  // namespace test
}  // namespace assay
]])

assay_add_test_program(assay_properties_test FROM properties/self SHARDS 11 SOURCES ${assay_audits} ${assay_audit_list}
                                             LINK ${ASSAY_MPFR})
assay_add_test_program(assay_bench_test      FROM bench/self SERIAL)
assay_add_test_program(assay_probe_test      FROM probe/self LINK assay::probe)
assay_add_test_program(assay_study_test      FROM study/self LINK assay_study)
assay_add_test_program(assay_reports_test    FROM reports/self SHARDS 2 LINK assay::reports)
# Libraries of NVIDIA's driver with made-up values, of today and of an old driver.
if(TARGET assay_bench_test)
  foreach(library assay_fake_nvml assay_old_nvml)
    add_library(${library} MODULE bench/self/fake_nvml/fake_nvml.cpp)
    set_target_properties(${library} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
                                                DISABLE_PRECOMPILE_HEADERS ON)
    target_include_directories(${library} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${library} PRIVATE assay_options)
    add_dependencies(assay_bench_test ${library})
  endforeach()
  target_compile_definitions(assay_old_nvml PRIVATE ASSAY_OLD_NVML=1)
endif()
set_source_files_properties(reports/self/readers_test.cpp PROPERTIES
  COMPILE_DEFINITIONS ASSAY_CORPUS="${PROJECT_SOURCE_DIR}/reports/self/corpus")

# Sanitizers look at our own code; what follows tests the program and the repository.
if(ASSAY_SANITIZE)
  target_compile_options(assay_reports PRIVATE -O0)
  return()
endif()

# assay_add_script_test(<name> <label> <script> [argument...])
function(assay_add_script_test name label script)
  add_test(NAME ${name} COMMAND ${ASSAY_PYTHON} ${PROJECT_SOURCE_DIR}/${script} ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 900 PROCESSORS 2 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;${assay_test_cache}")
endfunction()

file(GLOB assay_program_tests CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} reports/self/test_*.py)
foreach(test IN LISTS assay_program_tests)
  cmake_path(GET test STEM stem)
  assay_add_script_test(program.${stem} program ${test} $<TARGET_FILE:assay>)
endforeach()

foreach(check layers text format)
  assay_add_script_test(check.${check} check scripts/checks/${check}.py ${PROJECT_SOURCE_DIR})
endforeach()
foreach(test checks setup count mutate gpu_table gpu_check gpu_claims)
  assay_add_script_test(check.scripts.${test} check scripts/tests/test_${test}.py)
endforeach()
assay_add_script_test(check.mutants check scripts/mutate --check)
assay_add_script_test(mutants nightly scripts/mutate --in ${PROJECT_BINARY_DIR}/mutants)
assay_add_script_test(mutants.kernels nightly scripts/mutate --verify --seeds 1 --in ${PROJECT_BINARY_DIR}/verify_mutants)
assay_add_script_test(coverage nightly scripts/coverage)
set_tests_properties(mutants mutants.kernels coverage PROPERTIES TIMEOUT 7200 RUN_SERIAL ON)
foreach(test install workers killed limits)
  assay_add_script_test(check.${test} check scripts/tests/test_${test}.py ${PROJECT_BINARY_DIR})
endforeach()

# The longest tests begin first, so that none is left alone at the end.
set(assay_waits check.limits 2000 check.killed 900 check.workers 850 program.test_terminal 800 program.test_journal 700)
while(assay_waits)
  list(POP_FRONT assay_waits test cost)
  set_tests_properties(${test} PROPERTIES PROCESSORS 1 COST ${cost})
endwhile()
# What runs the program many times, to see what becomes of it at any moment and limit.
set_tests_properties(check.limits check.killed PROPERTIES LABELS "check;slow")
set_tests_properties(program.test_journal program.test_shards program.test_terminal PROPERTIES LABELS "program;slow")

# assay_add_build_test(<name> <target> [FAILS_WITH <regex>]): building the target succeeds, or fails
# with that message.
function(assay_add_build_test name target)
  cmake_parse_arguments(arg "" "FAILS_WITH" "" ${ARGN})
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target ${target})
  set_tests_properties(${name} PROPERTIES LABELS check TIMEOUT 900 PROCESSORS 2 RESOURCE_LOCK build)
  if(arg_FAILS_WITH)
    set_tests_properties(${name} PROPERTIES PASS_REGULAR_EXPRESSION "${arg_FAILS_WITH}")
  endif()
endfunction()

# Every header compiles alone, and twice in one source. Those that their own source includes first
# are left to that source, and to the build of scripts/test --nightly without precompiled headers,
# which hide what is missing; they are included twice together, but for device code.
function(assay_add_header_check target)
  set(sources)
  set(own_headers)
  foreach(header IN LISTS ARGN)
    string(REGEX REPLACE "[.]h$" ".cpp" own ${PROJECT_SOURCE_DIR}/${header})
    string(REGEX REPLACE "[.]cuh$" ".cu" own ${own})
    set(first)
    if(EXISTS ${own})
      file(STRINGS ${own} first REGEX "^ *# *include" LIMIT_COUNT 1)
    endif()
    if(first STREQUAL "#include \"${header}\"")
      if(header MATCHES "[.]h$")
        string(APPEND own_headers "#include \"${header}\"\n")
      endif()
      continue()
    endif()
    set(source ${PROJECT_BINARY_DIR}/${target}/${header}.cpp)
    string(REGEX REPLACE "[.]cuh[.]cpp$" ".cuh.cu" source ${source})
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
    list(APPEND sources ${source})
  endforeach()
  if(own_headers)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${target}/own_headers.cpp CONTENT "${own_headers}${own_headers}")
    list(APPEND sources ${PROJECT_BINARY_DIR}/${target}/own_headers.cpp)
  endif()
  add_library(${target} OBJECT ${sources})
  # No object code: in a third of the time.
  set_target_properties(${target} PROPERTIES CUDA_PTX_COMPILATION ON CUDA_ARCHITECTURES 90a)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fsyntax-only>)
  target_link_libraries(${target} PRIVATE assay::reports assay_registry assay_options)
endfunction()

file(GLOB_RECURSE assay_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     kernels/*.h kernels/*.cuh oracles/*.h properties/*.h bench/*.h bench/*.cuh probe/*.h study/*.h reports/*.h)
if(NOT ASSAY_HAS_CUDA)
  list(FILTER assay_headers EXCLUDE REGEX "^kernels/core_cuda/|[.]cuh$")
endif()
assay_add_header_check(assay_header_check ${assay_headers})
assay_add_build_test(check.headers assay_header_check)
set_tests_properties(check.headers PROPERTIES LABELS "check;slow" COST 1000)
assay_add_header_check(assay_planted_header scripts/tests/planted/needs_another_header.h)
assay_add_build_test(check.headers.planted assay_planted_header FAILS_WITH "needs_another_header.h:[0-9:]+ error")

# An oracle that calls the kernel it judges does not link.
add_executable(assay_planted_oracle scripts/tests/planted/oracle_calls_kernel.cpp)
target_link_libraries(assay_planted_oracle PRIVATE assay_dynamic_conv_oracle assay_options)
assay_add_build_test(check.oracle_link.planted assay_planted_oracle FAILS_WITH "undefined reference to .*forward_cpu")

# A message that lacks a value does not compile.
add_library(assay_planted_error OBJECT scripts/tests/planted/error_without_argument.cpp)
target_link_libraries(assay_planted_error PRIVATE assay_core assay_options)
assay_add_build_test(check.error_format.planted assay_planted_error FAILS_WITH "error_without_argument.cpp:.*argument not found")
