# Tests: a GoogleTest executable per layer from its self/ folder, and the scripts' own tests.
find_package(GTest REQUIRED)
include(GoogleTest)

function(assay_add_test_program name)
  cmake_parse_arguments(arg "" "" "FROM;LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${arg_FROM}/*.cpp)
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gtest_main assay_options)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
                       PROPERTIES TIMEOUT 900 SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
  if(ASSAY_BUNDLE_LIBS)
    _assay_bundle_libraries(${name})
  endif()
endfunction()
