// Counts the system calls of other processes, thread by thread, between start() and stop(): it
// traces them (ptrace), so that not one goes unseen, whoever makes it. For children of the test
// process that have no other tracer; start, run and stop on one thread. When the object goes, the
// traced go on by themselves.
#pragma once

#include <dirent.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace weft::test {

class SystemCalls {
 public:
  /// By number; what a thread has called since start().
  using Counts = std::map<std::int64_t, std::uint64_t>;

  /// True: a thread of the process has only begun, and does not have its own name yet.
  static bool has_unnamed_thread(pid_t process) {
    for (const pid_t thread : threads_of(process)) {
      if (thread != process && name_of(process, thread) == name_of(process, process)) return true;
    }
    return false;
  }

  /// False: this kernel, or whoever confines the test, does not let it trace.
  bool start(const std::vector<pid_t>& processes) {
    for (const pid_t process : processes) {
      for (const pid_t thread : threads_of(process)) {
        if (ptrace_call(PTRACE_SEIZE, thread, kOptions) != 0) return false;
        threads_[thread] = {process, {}};
        ptrace_call(PTRACE_INTERRUPT, thread, 0);
      }
    }
    std::size_t stopped = 0;
    for (const auto& [thread, traced] : threads_) {
      int status = 0;
      if (waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status)) ++stopped;
    }
    for (const auto& [thread, traced] : threads_) ptrace_call(PTRACE_SYSCALL, thread, 0);
    return stopped == threads_.size();
  }

  /// Lets the traced run until `over()`; false: that took too long, or one of them ended.
  template <class Over>
  bool run_until(Over over, std::chrono::seconds patience = std::chrono::seconds(60)) {
    const auto give_up = std::chrono::steady_clock::now() + patience;
    while (!over()) {
      if (std::chrono::steady_clock::now() > give_up || !serve()) return false;
    }
    return true;
  }

  /// Nothing is counted any more.
  void stop() {
    for (const auto& [thread, traced] : threads_) ptrace_call(PTRACE_INTERRUPT, thread, 0);
    for (auto& [thread, traced] : threads_) {
      int status = 0;
      if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) continue;
      ptrace_call(PTRACE_DETACH, thread, 0);
    }
    threads_.clear();
  }
  ~SystemCalls() { stop(); }
  SystemCalls() = default;
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  /// Of all threads of the process but those of this name.
  Counts of_program(pid_t process, const std::string& but) const {
    return sum(process, [&](const std::string& name) { return name != but; });
  }
  Counts of_threads_named(pid_t process, const std::string& wanted) const {
    return sum(process, [&](const std::string& name) { return name == wanted; });
  }
  static std::uint64_t total(const Counts& counts) {
    std::uint64_t n = 0;
    for (const auto& [number, times] : counts) n += times;
    return n;
  }
  static std::string to_string(const Counts& counts) {
    std::string text;
    for (const auto& [number, times] : counts) {
      text += " call " + std::to_string(number) + ": " + std::to_string(times) + " times;";
    }
    return text;
  }

 private:
  struct Traced {
    pid_t process;
    Counts counts;
  };
  static constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;

  static long ptrace_call(long request, pid_t thread, std::uintptr_t data) {
    return syscall(SYS_ptrace, request, thread, 0, data);
  }

  static std::vector<pid_t> threads_of(pid_t process) {
    std::vector<pid_t> threads;
    DIR* tasks = opendir(("/proc/" + std::to_string(process) + "/task").c_str());
    if (tasks == nullptr) return threads;
    while (const dirent* task = readdir(tasks)) {
      if (task->d_name[0] != '.') threads.push_back(std::stoi(task->d_name));
    }
    closedir(tasks);
    return threads;
  }
  static std::string name_of(pid_t process, pid_t thread) {
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(process) + "/task/" +
                               std::to_string(thread) + "/comm"),
                 name);
    return name;
  }
  template <class Wanted>
  Counts sum(pid_t process, Wanted wanted) const {
    Counts counts;
    for (const auto& [thread, traced] : threads_) {
      if (traced.process != process || !wanted(name_of(process, thread))) continue;
      for (const auto& [number, times] : traced.counts) counts[number] += times;
    }
    return counts;
  }

  /// Whatever has stopped goes on. False: one of them has ended.
  bool serve() {
    bool some = false;
    std::vector<std::pair<pid_t, pid_t>> born;
    for (auto& [thread, traced] : threads_) {
      int status = 0;
      if (waitpid(thread, &status, __WALL | WNOHANG) != thread) continue;
      some = true;
      if (!WIFSTOPPED(status)) return false;
      int signal = WSTOPSIG(status);
      const int event = status >> 16;
      if (signal == (SIGTRAP | 0x80)) {
        count(thread, traced);
        signal = 0;
      } else if (event == PTRACE_EVENT_CLONE) {
        std::uint64_t child = 0;
        ptrace_call(PTRACE_GETEVENTMSG, thread, reinterpret_cast<std::uintptr_t>(&child));
        born.emplace_back(static_cast<pid_t>(child), traced.process);
        signal = 0;
      } else if (event != 0) {
        signal = 0;
      }
      ptrace_call(PTRACE_SYSCALL, thread, static_cast<std::uintptr_t>(signal));
    }
    // A new thread is traced from its birth, and its first stop comes by itself.
    for (const auto& [thread, process] : born) threads_[thread] = {process, {}};
    if (!some) std::this_thread::sleep_for(std::chrono::microseconds(50));
    return true;
  }

  static void count(pid_t thread, Traced& traced) {
    __ptrace_syscall_info info{};
    if (syscall(SYS_ptrace, PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0) return;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
      ++traced.counts[static_cast<std::int64_t>(info.entry.nr)];
    }
  }

  std::map<pid_t, Traced> threads_;
};

}  // namespace weft::test
