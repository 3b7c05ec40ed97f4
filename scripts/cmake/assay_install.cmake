# cmake --install: the program, the libraries with their headers, and the package that
# find_package(assay) finds. The package also lies in the build folder: -Dassay_DIR=<build>/package
# builds on what is not installed.
include(CMakePackageConfigHelpers)
set(assay_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/assay)
set(assay_build_package ${PROJECT_BINARY_DIR}/package)

get_property(assay_installed GLOBAL PROPERTY ASSAY_LIBRARIES)
get_property(assay_ops GLOBAL PROPERTY ASSAY_OPS)
foreach(op IN LISTS assay_ops)
  foreach(part kernels oracle properties bench)
    set_target_properties(assay_${op}_${part} PROPERTIES EXPORT_NAME ${op}_${part})
    list(APPEND assay_installed assay_${op}_${part})
  endforeach()
endforeach()
install(TARGETS ${assay_installed} EXPORT assayTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS assay RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT assayTargets NAMESPACE assay:: DESTINATION ${assay_package_dir})

file(GLOB_RECURSE assay_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     kernels/*.h kernels/*.cuh oracles/*.h properties/*.h bench/*.h bench/*.cuh probe/*.h study/*.h reports/*.h)
list(FILTER assay_headers EXCLUDE REGEX "/self/")
foreach(header IN LISTS assay_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/assay/${folder})
endforeach()

configure_package_config_file(${ASSAY_CMAKE_DIR}/assayConfig.cmake.in ${assay_build_package}/assayConfig.cmake
                              INSTALL_DESTINATION ${assay_package_dir})
write_basic_package_version_file(${assay_build_package}/assayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
foreach(file ${ASSAY_CMAKE_DIR}/assay_cuda.cmake ${ASSAY_CMAKE_DIR}/assay_add_op.cmake
             ${ASSAY_CMAKE_DIR}/registry.cpp.in ${PROJECT_SOURCE_DIR}/reports/main.cpp)
  configure_file(${file} ${assay_build_package} COPYONLY)
endforeach()
install(DIRECTORY ${assay_build_package}/ DESTINATION ${assay_package_dir} PATTERN assayTargets*.cmake EXCLUDE)
export(EXPORT assayTargets NAMESPACE assay:: FILE ${assay_build_package}/assayTargets.cmake)

# What shells and man need, as the program that is installed prints it.
set(assay_shell_dir ${PROJECT_BINARY_DIR}/shell)
function(assay_install_printed file folder)
  list(JOIN ARGN " " arguments)
  install(CODE "execute_process(COMMAND $<TARGET_FILE:assay> ${arguments} OUTPUT_FILE ${assay_shell_dir}/${file}
                                COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${assay_shell_dir}/${file} DESTINATION ${folder})
endfunction()
file(MAKE_DIRECTORY ${assay_shell_dir})
assay_install_printed(assay ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
assay_install_printed(_assay ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completion zsh)
assay_install_printed(assay.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)
assay_install_printed(assay.1 ${CMAKE_INSTALL_MANDIR}/man1 manual)
