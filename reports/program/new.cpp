// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "reports/program/commands.h"
#include "reports/program/program.h"
#include "reports/scaffold/project.h"
#include "reports/store/files.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// A folder under a name of its own until it is complete.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& target)
      : target_(target), partial_(fmt::format(".{}.{}", target.string(), getpid())) {}
  ~NewFolder() {
    std::error_code ignored;
    fs::remove_all(partial_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void write(const ProjectFile& file) const {
    const fs::path path = partial_ / file.path;
    make_output_directory(path.parent_path());
    write_file_atomically(path, file.text);
  }
  void complete() const {
    std::error_code error;
    fs::rename(partial_, target_, error);
    if (error) throw usage_error("cannot create {}: {}", target_.string(), error.message());
  }

 private:
  fs::path target_;
  fs::path partial_;
};

// The folder of the assayConfig.cmake that this program was built or installed with.
std::optional<fs::path> package_folder() {
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* folder : {"../package", ASSAY_PACKAGE_DIR}) {
    const fs::path package = (bin / folder).lexically_normal();
    if (fs::exists(package / "assayConfig.cmake", error)) return package;
  }
  return std::nullopt;
}

}  // namespace

int run_new(const Registry& registry, const Options& options) {
  const std::string& op = options.subject;
  require_op_name(op);
  for (const Op* known : registry.ops()) {
    if (known->name == op) throw usage_error("there is an op {} already: {}", op, known->formula);
  }
  const Formula formula = parse_formula(options.formula);
  const std::vector<ProjectFile> files = project_files(op, formula);
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(op, ignored)))
    throw usage_error("{} is there already, and is not overwritten", op);
  const NewFolder folder(op);
  for (const ProjectFile& file : files) folder.write(file);
  folder.complete();

  const auto package = package_folder();
  fmt::print("{0}/ is the project of {1}. Put your kernel in place of the loop in {0}/kernels/{0}/cpu.cpp.\n",
             op, to_string(formula));
  if (!package) fmt::print("  cmake --install BUILD --prefix DIR    # BUILD is a build folder of Assay\n");
  fmt::print(
      "  cd {0} && cmake -B build -Dassay_DIR='{1}' && cmake --build build -j && build/{0}_assay verify\n",
      op, package ? package->string() : "DIR/lib/cmake/assay");
  return kExitPassed;
}

}  // namespace assay
