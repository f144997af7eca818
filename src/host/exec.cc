#include "host/exec.h"

#include <alloca.h>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
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

using Strings = char* const*;

/// The C library's own functions behind ours. Looked up when this is loaded: a child of vfork,
/// which lives in its parent's memory, must neither allocate nor take the loader's lock.
struct Originals {
  int (*execvpe)(const char*, Strings, Strings);
  int (*fexecve)(int, Strings, Strings);
};
constinit Originals originals{};
[[gnu::constructor]] void find_originals() {
  originals.execvpe = reinterpret_cast<decltype(Originals::execvpe)>(dlsym(RTLD_NEXT, "execvpe"));
  originals.fexecve = reinterpret_cast<decltype(Originals::fexecve)>(dlsym(RTLD_NEXT, "fexecve"));
}
const Originals& found() {
  if (originals.fexecve == nullptr) find_originals();  // another constructor came first
  return originals;
}

int run(const char* path, Strings arguments, Strings environment) {
  const Closed closed;
  return static_cast<int>(syscall(SYS_execve, path, arguments, environment));
}

int run_from_path(const char* file, Strings arguments, Strings environment) {
  const Closed closed;
  return found().execvpe(file, arguments, environment);
}

/// Runs use(list, rest) with the arguments of execl and its kin as a list, on the stack as the C
/// library has it. `rest` stands behind the end of the list then.
template <class Use>
int with_list(const char* first, std::va_list rest, Use use) {
  std::size_t count = 1;
  std::va_list ahead;
  va_copy(ahead, rest);
  for (const char* next = first; next != nullptr; ++count) next = va_arg(ahead, const char*);
  va_end(ahead);
  auto* const list = static_cast<char**>(alloca(count * sizeof(char*)));
  list[0] = const_cast<char*>(first);
  for (std::size_t i = 1; i < count; ++i) list[i] = va_arg(rest, char*);
  return use(list, rest);
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

using weft::host::Strings;
using weft::host::with_list;

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
  const weft::host::Closed closed;
  return weft::host::found().fexecve(fd, arguments, environment);
}

int execveat(int directory, const char* path, Strings arguments, Strings environment,
             int flags) noexcept {
  const weft::host::Closed closed;
  return static_cast<int>(syscall(SYS_execveat, directory, path, arguments, environment, flags));
}

int execl(const char* path, const char* first, ...) noexcept {
  std::va_list rest;
  va_start(rest, first);
  const int result = with_list(first, rest, [&](char** arguments, std::va_list) {
    return weft::host::run(path, arguments, environ);
  });
  va_end(rest);
  return result;
}

int execlp(const char* file, const char* first, ...) noexcept {
  std::va_list rest;
  va_start(rest, first);
  const int result = with_list(first, rest, [&](char** arguments, std::va_list) {
    return weft::host::run_from_path(file, arguments, environ);
  });
  va_end(rest);
  return result;
}

int execle(const char* path, const char* first, ...) noexcept {
  std::va_list rest;
  va_start(rest, first);
  const int result = with_list(first, rest, [&](char** arguments, std::va_list behind) {
    return weft::host::run(path, arguments, va_arg(behind, Strings));
  });
  va_end(rest);
  return result;
}

}  // extern "C"
