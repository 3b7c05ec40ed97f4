# Writes ${OUTPUT}, a header with the version, the commit and how this is built, if any of it
# changed. Run at every build, so that a record names the commit that was built and not the one that
# was configured.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE no_git)
set(dirty false)
if(no_git)
  set(commit unknown)
else()
  execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    set(dirty true)
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[// Generated at build time.
#pragma once

namespace assay::build_info {

inline constexpr const char* kVersion = "@VERSION@";
inline constexpr const char* kGitCommit = "@commit@";
inline constexpr bool kGitDirty = @dirty@;
inline constexpr const char* kCompiler = "@COMPILER@";
inline constexpr const char* kBuildType = "@BUILD_TYPE@";
inline constexpr const char* kSanitizers = "@SANITIZERS@";

}  // namespace assay::build_info
]])
