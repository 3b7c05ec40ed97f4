// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "kernels/core/read_file.h"
#include "reports/self/error_of.h"
#include "reports/store/files.h"
#include "reports/store/locked_file.h"
#include "reports/store/safetensors.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// An empty directory for each test.
class Store : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() /
                 fmt::format("assay_store_{}_{}", getpid(), testing::UnitTest::GetInstance()->random_seed());
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(directory_), {})); }

  fs::path directory_;
};

void expect_error(const std::string& error, const std::string& message) {
  EXPECT_NE(error.find(message), std::string::npos) << error;
}

// ---- files

TEST_F(Store, WritesAndReplacesWholeFiles) {
  const fs::path path = directory_ / "a.txt";
  write_file_atomically(path, "first");
  EXPECT_EQ(read_file(path), "first");
  write_file_atomically(path, std::string_view("a\0b", 3));
  EXPECT_EQ(read_file(path), std::string("a\0b", 3));
  write_file_atomically(path, "");
  EXPECT_EQ(read_file(path), "");
  EXPECT_EQ(files(), 1u);
}

TEST_F(Store, WritesThroughALink) {
  write_file_atomically(directory_ / "real", "old");
  fs::create_symlink("real", directory_ / "link");
  write_file_atomically(directory_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(directory_ / "link"));
  EXPECT_EQ(read_file(directory_ / "real"), "new");
}

TEST_F(Store, NamesAMissingDirectory) {
  const fs::path path = directory_ / "none" / "a.txt";
  expect_error(error_of([&] { write_file_atomically(path, "x"); }),
               fmt::format("cannot write {}: No such file or directory", path.string()));
}

TEST_F(Store, RefusesToReplaceWhatIsNoFile) {
  expect_error(error_of([&] { write_file_atomically(directory_, "x"); }), "is not a regular file");
  expect_error(error_of([&] { write_file_atomically("/dev/null", "x"); }),
               "cannot write /dev/null: it is there and is not");
  struct stat device {};
  ASSERT_EQ(stat("/dev/null", &device), 0);
  EXPECT_TRUE(S_ISCHR(device.st_mode));
}

// With a limit on file sizes, write() fails as on a full disk.
TEST_F(Store, LeavesTheOldFileWhenTheDiskIsFull) {
  const fs::path path = directory_ / "a.txt";
  write_file_atomically(path, "old");
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of([&] { write_file_atomically(path, std::string(5000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  expect_error(error, fmt::format("cannot write {}: File too large", path.string()));
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(Store, ReplacesSeveralFilesAsOne) {
  const fs::path a = directory_ / "a", b = directory_ / "b";
  write_files_atomically(std::vector<NamedContent>{{a, "1"}, {b, "2"}});
  EXPECT_EQ(read_file(a) + read_file(b), "12");
  fs::create_directory(directory_ / "c");
  const std::vector<NamedContent> three{{a, "3"}, {b, "4"}, {directory_ / "c", "5"}};
  expect_error(error_of([&] { write_files_atomically(three); }), "is not a regular file");
  EXPECT_EQ(read_file(a) + read_file(b), "12");
  EXPECT_EQ(files(), 3u);
}

// Some file systems have no files without a name. From here on this process finds none that has.
void refuse_files_without_name() {
  const auto flags = static_cast<uint32_t>(offsetof(seccomp_data, args) + 2 * sizeof(uint64_t));
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_TMPFILE),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_TMPFILE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(filter), .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    throw Error("no filter of system calls: {}", std::strerror(errno));
  const int descriptor = open(".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (descriptor >= 0 || errno != EOPNOTSUPP) throw Error("the filter lets files without a name pass");
}

using StoreDeathTest = Store;

TEST_F(StoreDeathTest, WritesWholeFilesWhereEachHasAName) {
  const fs::path a = directory_ / "a", b = directory_ / "b", full = directory_ / "full";
  const auto write = [&] {
    refuse_files_without_name();
    // The first name that is tried for `a` is taken.
    write_file_atomically(directory_ / fmt::format("a.{}.0.tmp", getpid()), "of another process");
    write_file_atomically(a, "old");
    write_files_atomically(std::vector<NamedContent>{{a, "new"}, {b, "b"}});
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{.rlim_cur = 10, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string error = error_of([&] { write_file_atomically(full, "more than ten bytes"); });
    limit.rlim_cur = RLIM_INFINITY;  // for the errors of the test
    setrlimit(RLIMIT_FSIZE, &limit);
    fmt::print(stderr, "{}", error);
    std::_Exit(0);
  };
  EXPECT_EXIT(write(), testing::ExitedWithCode(0), "cannot write .*full: File too large$");
  EXPECT_EQ(read_file(a), "new");
  EXPECT_EQ(read_file(b), "b");
  EXPECT_EQ(files(), 3u);
}

TEST_F(Store, NamesWhatCannotBeRead) {
  expect_error(error_of([&] { read_file(directory_ / "none"); }), "none: No such file or directory");
  expect_error(error_of([&] { read_file(directory_); }), "Is a directory");
  expect_error(error_of([&] { read_file("/dev/zero"); }), "cannot read /dev/zero: it is not a regular file");
  ASSERT_EQ(mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  expect_error(error_of([&] { read_file(directory_ / "pipe"); }), "pipe: it is not a regular file");
  fs::create_symlink("loop", directory_ / "loop");
  expect_error(error_of([&] { read_file(directory_ / "loop"); }), "loop: Too many levels of symbolic links");
  expect_error(error_of([&] { write_file_atomically(directory_ / "loop", "x"); }),
               "loop: Too many levels of symbolic links");
}

TEST_F(Store, ReadsFilesUpToALimit) {
  write_file_atomically(directory_ / "a", "four");
  EXPECT_EQ(read_file(directory_ / "a", 4), "four");
  expect_error(error_of([&] { read_file(directory_ / "a", 3); }), "a: it has more than 3 bytes");
}

TEST_F(Store, MakesOutputDirectories) {
  make_output_directory(directory_ / "a" / "b");
  make_output_directory(directory_ / "a" / "b");
  EXPECT_TRUE(fs::is_directory(directory_ / "a" / "b"));
  write_file_atomically(directory_ / "file", "x");
  expect_error(error_of([&] { make_output_directory(directory_ / "file"); }), "file");
  expect_error(error_of([&] { make_output_directory(directory_ / "file" / "c"); }), "Not a directory");
}

// ---- a locked file

TEST_F(Store, OneAtATimeHoldsALockedFile) {
  const fs::path path = directory_ / "j";
  auto first = LockedFile::open(path);
  ASSERT_TRUE(first.has_value());
  first->append("one\n");
  EXPECT_FALSE(LockedFile::open(path).has_value());
  EXPECT_TRUE(LockedFile::is_held(path));
  EXPECT_EQ(read_file(path), "one\n");
  first.reset();
  EXPECT_FALSE(LockedFile::is_held(path));
  auto second = LockedFile::open(path);
  ASSERT_TRUE(second.has_value());
  second->append("two\n");
  EXPECT_EQ(second->content(), "one\ntwo\n");
  second->cut(4);
  second->append("three\n");
  EXPECT_EQ(second->content(), "one\nthree\n");
  second->remove();
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(Store, AFileInMemoryIsInNoFolder) {
  LockedFile file = LockedFile::in_memory();
  file.append(std::string(100000, 'x'));
  EXPECT_EQ(file.content().size(), 100000u);
  file.cut(0);
  EXPECT_EQ(file.content(), "");
  file.remove();
}

TEST_F(Store, NamesWhatCannotBeLocked) {
  expect_error(error_of([&] { LockedFile::open(directory_); }), "cannot write ");
  expect_error(error_of([&] { LockedFile::open(directory_ / "none" / "j"); }), "No such file or directory");
  expect_error(error_of([&] { LockedFile::open("/dev/null"); }), "is not a regular file");
  auto file = LockedFile::open(directory_ / "j");
  fs::remove(directory_ / "j");
  expect_error(error_of([&] { file->remove(); }), "cannot remove ");
}

// ---- safetensors

std::vector<std::byte> counted(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

TensorFile example() {
  return {.tensors = {{"a half", {DType::kF16, {3}, counted(6)}},
                      {"a truth", {std::nullopt, {3}, {std::byte{1}, std::byte{0}, std::byte{1}}}},
                      {"bf", {DType::kBF16, {2, 1, 5}, counted(20)}},
                      {"double", {DType::kF64, {2}, counted(16)}},
                      {"empty", {DType::kF32, {4, 0}, {}}},
                      {"scalar", {DType::kF32, {}, counted(4)}}},
          .metadata = {{"case", "dynamic_conv/cpu/f32"}}};
}

// A file with this header and `data_bytes` bytes of data.
std::string file_with(std::string_view header, size_t data_bytes, std::optional<uint64_t> claimed = {}) {
  const uint64_t length = claimed.value_or(header.size());
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + std::string(header) + std::string(data_bytes, 'x');
}

void expect_refusal(const std::string& content, const std::string& message) {
  try {
    parse_safetensors(content, "a.safetensors");
    ADD_FAILURE() << "accepted, expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    EXPECT_EQ(std::string(error.what()).find("a.safetensors: "), 0u) << error.what();
    expect_error(error.what(), message);
  }
}

TEST_F(Store, TensorsSurviveAFile) {
  for (const TensorFile& file : {example(), TensorFile{}}) {
    write_safetensors(directory_ / "a.safetensors", file);
    EXPECT_EQ(read_safetensors(directory_ / "a.safetensors"), file);
  }
}

TEST_F(Store, TensorDataIsAligned) {
  write_safetensors(directory_ / "a.safetensors", example());
  const std::string content = read_file(directory_ / "a.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, content.data(), 8);
  EXPECT_EQ(header % 8, 0u);
  EXPECT_EQ(content[8], '{');
  // The doubles come first, so that a reader may map them in place.
  EXPECT_EQ(std::memcmp(content.data() + 8 + header, counted(16).data(), 16), 0);
}

TEST_F(Store, RefusesToWriteInconsistentTensors) {
  TensorFile file = example();
  file.tensors["scalar"].bytes.resize(3);
  expect_error(error_of([&] { write_safetensors(directory_ / "a", file); }),
               "'scalar' has 3 bytes, but F32 of shape () take 4");
  file = example();
  file.tensors["a truth"].bytes[2] = std::byte{3};
  expect_error(error_of([&] { write_safetensors(directory_ / "a", file); }),
               "tensor 'a truth': element 2 of its BOOL is 3, expected 0 or 1");
  file = {.tensors = {{"__metadata__", {DType::kF32, {}, counted(4)}}}, .metadata = {}};
  expect_error(error_of([&] { write_safetensors(directory_ / "a", file); }), "cannot be named __metadata__");
  EXPECT_EQ(files(), 0u);
}

TEST(Safetensors, RefusesEveryCutOfAFile) {
  const std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string whole = file_with(header, 8);
  EXPECT_EQ(parse_safetensors(whole, "a").tensors.size(), 1u);
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(parse_safetensors(whole.substr(0, length), "a"), Error) << length;
  }
}

TEST(Safetensors, RefusesForeignFiles) {
  expect_refusal("", "0 bytes are less than");
  expect_refusal("PK\x03\x04 some zip archive", "by its first 8 bytes, the header has");
  expect_refusal(
      file_with("{}", 0, uint64_t{1} << 63),
      "a.safetensors: not a safetensors file: by its first 8 bytes, the header has 9223372036854775808 "
      "bytes; at most 100000000 are read");
  expect_refusal(file_with("{}", 0, 100), "cut short: a header of 100 bytes, 2 are there");
  expect_refusal(file_with("hello", 0), "the header: not JSON");
  expect_refusal(file_with("[1]", 0), "the header is no JSON object");
}

TEST(Safetensors, RefusesBadEntries) {
  const auto with = [](std::string_view entry, size_t data_bytes = 8) {
    return file_with(fmt::format("{{\"x\":{}}}", entry), data_bytes);
  };
  expect_refusal(with("7"), "tensor 'x': dtype is missing");
  expect_refusal(with(R"({"dtype":"F32","shape":[2]})"), "tensor 'x': data_offsets is missing");
  expect_refusal(with(R"({"dtype":"I64","shape":[1],"data_offsets":[0,8]})"),
                 "the dtype is 'I64', expected F64, F32, F16, BF16 or BOOL");
  expect_refusal(with(R"({"dtype":3,"shape":[1],"data_offsets":[0,8]})"), "the dtype is '3'");
  expect_refusal(with(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "shape is [-2], expected");
  expect_refusal(with(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), "shape is [2.0], expected");
  expect_refusal(with(R"({"dtype":"F32","shape":null,"data_offsets":[0,8]})"), "shape is null, expected");
  expect_refusal(with(R"({"dtype":"F32","shape":[1,1,1,1,1,1,2],"data_offsets":[0,8]})"),
                 "more than 6 dimensions");
  expect_refusal(with(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), "data_offsets are [8,0]");
  expect_refusal(with(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"), "data_offsets are [0]");
  expect_refusal(with(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
                 "8 bytes of data, but F32 of shape (3) take 12");
  expect_refusal(with(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
                 "more than 2^62 elements");
  expect_refusal(with(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]})"),
                 "the shape (4611686018427387904) has more than 2^62 bytes");
  expect_refusal(file_with(R"({"__metadata__":{"a":1}})", 0), "expected an object of strings");
  expect_refusal(file_with(R"({"__metadata__":null})", 0), "expected an object of strings");
}

TEST(Safetensors, BooleansAreBytesOf0And1) {
  const std::string header = R"({"x":{"dtype":"BOOL","shape":[1,3],"data_offsets":[0,3]}})";
  const std::string head = file_with(header, 0);
  const StoredTensor x = parse_safetensors(head + std::string("\1\0\1", 3), "a").tensors.at("x");
  EXPECT_EQ(x, (StoredTensor{std::nullopt, {1, 3}, {std::byte{1}, std::byte{0}, std::byte{1}}}));
  expect_refusal(head + std::string("\1\0\2", 3), "tensor 'x': element 2 of its BOOL is 2, expected 0 or 1");
  expect_refusal(head + std::string("\xff\0\1", 3), "tensor 'x': element 0 of its BOOL is 255, expected");
  expect_refusal(file_with(R"({"x":{"dtype":"BOOL","shape":[3],"data_offsets":[0,12]}})", 12),
                 "12 bytes of data, but BOOL of shape (3) take 3");
}

TEST(Safetensors, RefusesDataThatDoesNotFit) {
  const auto two = [](std::string_view a, std::string_view b, size_t data_bytes) {
    return file_with(
        fmt::format(
            R"({{"a":{{"dtype":"F32","shape":[2],"data_offsets":{}}},"b":{{"dtype":"F32","shape":[1],"data_offsets":{}}}}})",
            a, b),
        data_bytes);
  };
  EXPECT_EQ(parse_safetensors(two("[4,12]", "[0,4]", 12), "a").tensors.size(), 2u);
  expect_refusal(two("[0,8]", "[4,8]", 8), "tensor 'b' begins at byte 4 of the data");
  expect_refusal(two("[0,8]", "[12,16]", 16), "tensor 'b' begins at byte 12 of the data, after the end 8");
  expect_refusal(two("[0,8]", "[8,12]", 10), "tensor 'b' ends at byte 12 of the data, which has 10");
  expect_refusal(two("[0,8]", "[8,12]", 15), "3 bytes follow the last tensor");
}

TEST(Safetensors, RefusesNamesThatStandTwice) {
  const std::string entry = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  expect_refusal(file_with(fmt::format("{{\"x\":{0},\"x\":{0}}}", entry), 4),
                 "the header: it holds 'x' twice");
  expect_refusal(file_with(R"({"x":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}})", 4),
                 "the header: it holds 'dtype' twice");
}

}  // namespace
}  // namespace assay
