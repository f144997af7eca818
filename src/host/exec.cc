#include "host/exec.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <mutex>
#include <new>
#include <vector>

#include "base/lock.h"
#include "host/fork.h"
#include "host/process_page.h"

namespace weft::host {
namespace {

struct Listeners {
  base::Lock lock;
  std::vector<ExecListener*> list;

  static Listeners& instance() {
    static Listeners& listeners = *[] {
      call_in_child([] {  // its parent's, and the lock may be anybody's
        new (&instance().lock) base::Lock;
        instance().list.clear();
      });
      return new Listeners;
    }();
    return listeners;
  }
};

/// The process is closed to copies while one lives: if exec succeeds, for good.
class Closed {
 public:
  Closed() : page_(ProcessPage::existing()) {
    if (page_ == nullptr) return;
    page_->close_to_copies(true);
    page_->barrier();
    Listeners& listeners = Listeners::instance();
    const std::lock_guard guard(listeners.lock);
    for (ExecListener* listener : listeners.list) listener->wait_for_copies();
  }
  ~Closed() {
    const int error = errno;
    if (page_ != nullptr) page_->close_to_copies(false);
    errno = error;
  }
  Closed(const Closed&) = delete;
  Closed& operator=(const Closed&) = delete;

 private:
  ProcessPage* page_;
};

/// The C library's own function behind ours.
template <class Function>
Function* original(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

using Strings = char* const*;

int run(const char* path, Strings arguments, Strings environment) {
  const Closed closed;
  return static_cast<int>(syscall(SYS_execve, path, arguments, environment));
}

int run_from_path(const char* file, Strings arguments, Strings environment) {
  static auto* const function = original<int(const char*, Strings, Strings)>("execvpe");
  const Closed closed;
  return function(file, arguments, environment);
}

/// The arguments of execl and its kin as a list; *environment gets what follows the end, if asked.
std::vector<char*> listed(const char* first, std::va_list rest, Strings* environment = nullptr) {
  std::vector<char*> list{const_cast<char*>(first)};
  while (list.back() != nullptr) list.push_back(va_arg(rest, char*));
  if (environment != nullptr) *environment = va_arg(rest, Strings);
  return list;
}

}  // namespace

void add_exec_listener(ExecListener& listener) {
  const std::lock_guard guard(Listeners::instance().lock);
  Listeners::instance().list.push_back(&listener);
}

void remove_exec_listener(ExecListener& listener) {
  const std::lock_guard guard(Listeners::instance().lock);
  std::erase(Listeners::instance().list, &listener);
}

}  // namespace weft::host

// ---- what programs call -----------------------------------------------------------------------

using weft::host::listed;
using weft::host::Strings;

extern "C" {

int execve(const char* path, Strings arguments, Strings environment) noexcept {
  return weft::host::run(path, arguments, environment);
}

int execv(const char* path, Strings arguments) noexcept {
  return weft::host::run(path, arguments, environ);
}

int execvp(const char* file, Strings arguments) noexcept {
  return weft::host::run_from_path(file, arguments, environ);
}

int execvpe(const char* file, Strings arguments, Strings environment) noexcept {
  return weft::host::run_from_path(file, arguments, environment);
}

int fexecve(int fd, Strings arguments, Strings environment) noexcept {
  static auto* const function = weft::host::original<int(int, Strings, Strings)>("fexecve");
  const weft::host::Closed closed;
  return function(fd, arguments, environment);
}

int execveat(int directory, const char* path, Strings arguments, Strings environment,
             int flags) noexcept {
  const weft::host::Closed closed;
  return static_cast<int>(syscall(SYS_execveat, directory, path, arguments, environment, flags));
}

int execl(const char* path, const char* first, ...) noexcept {
  std::va_list rest;
  va_start(rest, first);
  const auto arguments = listed(first, rest);
  va_end(rest);
  return weft::host::run(path, arguments.data(), environ);
}

int execlp(const char* file, const char* first, ...) noexcept {
  std::va_list rest;
  va_start(rest, first);
  const auto arguments = listed(first, rest);
  va_end(rest);
  return weft::host::run_from_path(file, arguments.data(), environ);
}

int execle(const char* path, const char* first, ...) noexcept {
  std::va_list rest;
  va_start(rest, first);
  Strings environment = nullptr;
  const auto arguments = listed(first, rest, &environment);
  va_end(rest);
  return weft::host::run(path, arguments.data(), environment);
}

}  // extern "C"
