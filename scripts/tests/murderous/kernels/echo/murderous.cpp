// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <cfenv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <locale>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "kernels/core/context.h"
#include "kernels/core/parallel.h"
#include "kernels/echo/echo.h"

namespace assay::echo {
namespace {

// Where the compiler does not see what a pointer points to.
template <class T>
T* hidden(T* pointer) {
  asm volatile("" : "+r"(pointer));
  return pointer;
}

void hang() {
  for (;;) pause();
}

[[gnu::noinline]] int overflow_stack(int depth) {
  volatile char frame[4096];
  frame[depth % 4096] = 1;
  return overflow_stack(depth + 1) + frame[0];
}

void damage_heap() {
  char* block = hidden(static_cast<char*>(std::malloc(24)));
  std::memset(block, 0xFF, 256);
  for (int i = 0; i < 100; ++i) std::free(hidden(std::malloc(static_cast<size_t>(i) * 100)));
  std::free(block);
  std::abort();  // if the library has not noticed
}

void free_twice() {
  char* block = hidden(static_cast<char*>(std::malloc(24)));
  std::free(block);
  std::free(hidden(block));
}

// Four TiB that the system need not reserve, so it promises them wherever no limit is set.
void take_all_memory() {
  constexpr size_t kBytes = size_t{1} << 42;
  void* memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  std::memset(memory, 1, kBytes);
}

// And keeps it, in pieces that fit into whatever is left.
void keep_all_memory() {
  for (size_t bytes = size_t{1} << 42; bytes >= 4096;) {
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) bytes /= 2;
  }
}

// Less than the judge calls a loss, in the first call alone.
void keep_some_memory() {
  [[maybe_unused]] static const void* const kept = mmap(nullptr, size_t{60} << 20, PROT_READ | PROT_WRITE,
                                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// Addresses alone.
void keep_all_addresses() {
  for (size_t bytes = size_t{1} << 46; bytes >= size_t{1} << 20;) {
    if (mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) bytes /= 2;
  }
}

void block_all_signals() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
}

struct Comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
};

void abort_if(bool is_so) {
  if (is_so) std::abort();
}

void die_in_fortieth_call() {
  static int calls = 0;
  abort_if(++calls == 40);
}

void refuse_from_hundredth_call_on() {
  static int calls = 0;
  if (++calls >= 100) throw usage_error("it is enough");
}

void write_to_channel() {
  for (int descriptor = 3; descriptor < 10; ++descriptor) {
    if (write(descriptor, "\4\0\0\0oops", 8) == 8) return;
  }
}

constexpr int kSocket = 3, kMemory = 4;  // descriptors of a worker

// Makes an answer whose tensors this memory could hold.
void send_false_sizes() {
  using namespace std::string_view_literals;
  constexpr std::string_view kAnswer = "\x25\0\0\0{\"bytes\":[4398046511104],\"counts\":[]}"sv;
  static_assert(kAnswer.size() == 4 + 0x25);
  if (ftruncate(kMemory, off_t{1} << 43) != 0) std::abort();
  if (write(kSocket, kAnswer.data(), kAnswer.size()) < 0) std::abort();
  hang();
}

void limit(__rlimit_resource_t resource) {
  const rlimit little{.rlim_cur = 4096, .rlim_max = 4096};
  if (setrlimit(resource, &little) != 0) std::abort();
}

// With a number that the request would have if requests were counted.
void answer_twice(char number) {
  std::string answer = R"(....{"verdict":"unsupported","reason":"","number":)";
  answer += number;
  answer += '}';
  const auto length = static_cast<char>(answer.size() - 4);
  answer.replace(0, 4, {length, '\0', '\0', '\0'});
  if (write(kSocket, answer.data(), answer.size()) < 0) std::abort();
}

// A message that would be larger than any.
void promise_too_much() {
  if (write(kSocket, "\0\0\x20\0", 4) < 0) std::abort();
  hang();
}

// A message that never ends, and never lets its reader wait long.
void trickle() {
  if (write(kSocket, "\0\0\1\0", 4) < 0) std::abort();
  while (write(kSocket, "x", 1) == 1) usleep(10'000);
}

void write_to_closed_pipe() {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  close(ends[0]);
  if (write(ends[1], "x", 1) >= 0 || errno != EPIPE) std::abort();
}

// The child outlives the group of the process.
void leave_a_session() {
  if (fork() != 0) return;
  setsid();
  hang();
}

// The child holds what the process had open.
void leave_a_child() {
  if (fork() == 0) hang();
}

struct SaysNothing : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

Path path(std::string_view name, void (*action)(const Call&)) {
  Path made = f32_path(
      name, DeviceKind::kCpu,
      [action](const Call& call) {
        copy(call);
        action(call);
      },
      name);
  made.dtypes = {DType::kF32};
  return made;
}

// A path that copies, and does something else where it is asked whether it serves a case.
Path asked(std::string_view name, void (*action)()) {
  Path made = path(name, [](const Call&) {});
  made.unsupported = [action](const Dims&, DType) -> std::optional<std::string> {
    action();
    return std::nullopt;
  };
  return made;
}

// The same where it is asked for its recipe.
Path with_recipe(std::string_view name, Recipe (*recipe)(const Dims&, DType)) {
  Path made = path(name, [](const Call&) {});
  made.recipe = recipe;
  return made;
}

bool is_in_worker() {
  return fcntl(kMemory, F_GET_SEALS) >= 0;
}

}  // namespace

std::vector<Path> paths_that_do_not_answer() {
  return {asked("exits_when_asked", [] { std::exit(0); }),
          asked("_exits_when_asked", [] { _exit(0); }),
          asked("dies_when_asked", [] { raise(SIGSEGV); }),
          asked("throws_int_when_asked", [] { throw 7; }),
          asked("throws_when_asked", [] { throw std::runtime_error("\xff it is"); }),
          asked("refuses_by_throwing", [] { throw unsupported_error("n is {}", "odd"); }),
          asked("hangs_when_asked", [] { hang(); }),
          asked("answers_when_asked", [] { answer_twice('0'); }),
          asked("leaves_a_session_when_asked", [] { leave_a_session(); }),
          with_recipe("leaves_a_session_in_its_recipe",
                      [](const Dims& dims, DType dtype) {
                        leave_a_session();
                        return f32_recipe(dims, dtype);
                      }),
          with_recipe("throws_in_its_recipe", [](const Dims&, DType) -> Recipe { throw 7; }),
          with_recipe("exits_in_its_recipe", [](const Dims&, DType) -> Recipe { _exit(0); }),
          with_recipe("hangs_in_its_recipe",
                      [](const Dims&, DType) -> Recipe {
                        hang();
                        return {};
                      }),
          with_recipe("has_its_recipe_in_workers",
                      [](const Dims& dims, DType dtype) {
                        if (!is_in_worker()) _exit(0);
                        return f32_recipe(dims, dtype);
                      }),
          asked("keeps_all_addresses_when_asked", keep_all_addresses),
          asked("rounds_up_when_asked", [] { std::fesetround(FE_UPWARD); }),
          with_recipe("rounds_up_in_its_recipe", [](const Dims& dims, DType dtype) {
            std::fesetround(FE_UPWARD);
            return f32_recipe(dims, dtype);
          })};
}

std::vector<Path> murderous_paths() {
  return {
      path("exit", [](const Call&) { std::exit(0); }),
      path("_exit", [](const Call&) { _exit(0); }),
      path("quick_exit", [](const Call&) { std::quick_exit(0); }),
      path("abort", [](const Call&) { std::abort(); }),
      path("segv", [](const Call&) { *hidden(static_cast<volatile int*>(nullptr)) = 1; }),
      path("divides_by_zero", [](const Call&) { raise(SIGFPE); }),
      path("wild_write", [](const Call& call) { static_cast<char*>(call.outputs[kOut].data)[-100] = 1; }),
      path("double_free", [](const Call&) { free_twice(); }),
      path("heap_damage", [](const Call&) { damage_heap(); }),
      path("stack_overflow", [](const Call&) { overflow_stack(0); }),
      path("throws_int", [](const Call&) { throw 7; }),
      path("throws_in_a_thread", [](const Call&) { std::thread([] { throw 7; }).join(); }),
      path("hang", [](const Call&) { hang(); }),
      path("hang_deaf",
           [](const Call&) {
             block_all_signals();
             hang();
           }),
      path("stops", [](const Call&) { raise(SIGSTOP); }),
      path("all_memory", [](const Call&) { take_all_memory(); }),
      path("keeps_all_memory", [](const Call&) { keep_all_memory(); }),
      path("keeps_some_memory", [](const Call&) { keep_some_memory(); }),
      path("keeps_all_memory_and_files",
           [](const Call&) {
             const rlimit few{.rlim_cur = 64, .rlim_max = 64};
             setrlimit(RLIMIT_NOFILE, &few);
             while (open("/dev/null", O_RDONLY) >= 0) continue;
             keep_all_memory();
           }),
      path("closes_files",
           [](const Call&) {
             for (int descriptor = 0; descriptor < 1024; ++descriptor) close(descriptor);
           }),
      path("closes_files_and_hangs",
           [](const Call&) {
             for (int descriptor = 0; descriptor < 1024; ++descriptor) close(descriptor);
             hang();
           }),
      path("says_nonsense", [](const Call&) { write_to_channel(); }),
      path("sends_false_sizes", [](const Call&) { send_false_sizes(); }),
      path("grows_shared_memory", [](const Call&) { abort_if(ftruncate(kMemory, off_t{1} << 47) != 0); }),
      path("seals_shared_memory", [](const Call&) { fcntl(kMemory, F_ADD_SEALS, F_SEAL_GROW); }),
      path("loses_shared_memory",
           [](const Call&) { abort_if(dup2(open("/dev/zero", O_RDWR), kMemory) != kMemory); }),
      path("limits_memory", [](const Call&) { limit(RLIMIT_AS); }),
      path("limits_private_memory_softly",
           [](const Call&) {
             rlimit limit{};
             getrlimit(RLIMIT_DATA, &limit);
             limit.rlim_cur = 4096;
             setrlimit(RLIMIT_DATA, &limit);
           }),
      path("limits_files", [](const Call&) { limit(RLIMIT_FSIZE); }),
      path("ends_its_thread", [](const Call&) { pthread_exit(nullptr); }),
      path("healthy_and_parallel",
           [](const Call&) { parallel_for(64, 1, [](int64_t, int64_t) { usleep(10); }); }),
      path("healthy_with_scratch",
           [](const Call& call) { call.context->workspace().lease(int64_t{1} << 28, call.stream); }),
      path("asks_for_more_than_exists",
           [](const Call& call) { call.context->workspace().lease(int64_t{1} << 47, call.stream); }),
      path("throws_at_length",
           [](const Call&) { throw std::runtime_error(std::string(20'000'000, '\x1b')); }),
      path("throws_without_a_word", [](const Call&) { throw SaysNothing(); }),
      path("answers_twice", [](const Call&) { answer_twice('1'); }),
      path("trickles", [](const Call&) { trickle(); }),
      path("promises_too_much", [](const Call&) { promise_too_much(); }),
      path("returns_twice", [](const Call&) { abort_if(fork() < 0); }),
      path("writes_to_closed_pipe", [](const Call&) { write_to_closed_pipe(); }),
      path("refuses_odd_sizes",
           [](const Call& call) {
             if (call.dims[kN] % 2 != 0) throw unsupported_error("{} is odd", call.dims[kN]);
           }),
      path("refuses_with_a_result",
           [](const Call& call) {
             if (call.outputs[kOut].shape[0] > 0) call.outputs[kOut].as<float>()[0] = 1e30F;
             throw unsupported_error("it is {}", "wrong");
           }),
      path("outlives_its_program",
           [](const Call&) {
             prctl(PR_SET_PDEATHSIG, 0);
             hang();
           }),
      path("is_slow", [](const Call&) { std::this_thread::sleep_for(std::chrono::milliseconds(120)); }),
      path("leaves_a_session", [](const Call&) { leave_a_session(); }),
      path("leaves_a_child", [](const Call&) { leave_a_child(); }),
      path("leaves_a_child_and_aborts",
           [](const Call&) {
             leave_a_child();
             std::abort();
           }),
      path("waits_for_its_children",
           [](const Call&) {
             if (fork() == 0) _exit(0);
             while (wait(nullptr) > 0) continue;
           }),
      path("asks_to_be_traced",
           [](const Call&) {
             ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
             raise(SIGUSR1);  // stops it, and its parent would have to wake it
             hang();
           }),
      path("leaves_its_group",
           [](const Call&) {
             prctl(PR_SET_PDEATHSIG, 0);
             if (setpgid(0, getpgid(getppid())) != 0) std::abort();
             hang();
           }),
      path("changes_folder", [](const Call&) { abort_if(chdir("/") != 0); }),
      path("rounds_up", [](const Call&) { std::fesetround(FE_UPWARD); }),
      path("flushes_to_zero", [](const Call&) { _mm_setcsr(_mm_getcsr() | 0x8000); }),
      path("takes_zero_for_denormal", [](const Call&) { _mm_setcsr(_mm_getcsr() | 0x0040); }),
      path("changes_locale", [](const Call&) { std::locale::global(std::locale(std::locale(), new Comma)); }),
      path("outliving_thread",
           [](const Call& call) {
             std::thread([out = call.outputs[kOut]] {
               std::this_thread::sleep_for(std::chrono::milliseconds(2));
               if (out.size() > 0) out.as<float>()[0] = 1;
               hang();
             }).detach();
           }),
      path("interrupts_its_group", [](const Call&) { kill(0, SIGINT); }),
      path("kills_itself", [](const Call&) { raise(SIGKILL); }),
      path("prints", [](const Call&) { std::printf("{\"this\": \"is no record\"}"); }),
      path("prints_and_ends",
           [](const Call&) {
             std::printf("a line from where it ends\n");
             _exit(0);
           }),
      path("dies_in_fortieth_call", [](const Call&) { die_in_fortieth_call(); }),
      // It is timed with 65536.
      path("dies_near_its_timed_size", [](const Call& call) { abort_if(call.dims[kN] / 8192 == 7); }),
      path("refuses_from_hundredth_call_on", [](const Call&) { refuse_from_hundredth_call_on(); }),
  };
}

}  // namespace assay::echo
