#include "cli/supervise.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "host/system_error.h"

namespace weft::cli {
namespace {

constexpr int kHandedOn[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                             SIGUSR2, SIGTSTP, SIGCONT, SIGALRM, SIGWINCH};

/// From before the program starts to after it has ended, these wait to be asked for.
class Signals {
 public:
  Signals() {
    sigemptyset(&wanted_);
    for (const int signal : kHandedOn) sigaddset(&wanted_, signal);
    sigaddset(&wanted_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &wanted_, &before_);
    // Whoever ignores it cannot wait for children.
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &usual, &child_before_);
  }
  ~Signals() { restore(); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  void restore() const {
    sigaction(SIGCHLD, &child_before_, nullptr);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  siginfo_t next() const {
    siginfo_t info{};
    while (sigwaitinfo(&wanted_, &info) < 0 && errno == EINTR) {
    }
    return info;
  }

 private:
  sigset_t wanted_;
  sigset_t before_;
  struct sigaction child_before_ {};
};

[[noreturn]] void become(const std::vector<std::string>& program, const Signals& signals,
                         pid_t parent, int report) {
  // If somebody kills the command, the program is not left behind.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(EXIT_FAILURE);
  signals.restore();
  std::vector<char*> arguments;
  for (const std::string& argument : program)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(report, &error, sizeof error);
  _exit(EXIT_FAILURE);
}

/// 0, or why exec failed.
int error_of_exec(int report) {
  int error = 0;
  ssize_t got = 0;
  while ((got = read(report, &error, sizeof error)) < 0 && errno == EINTR) {
  }
  return got == sizeof error ? error : 0;
}

bool is_of_job_control(int signal) {
  return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/// The program's end, if it has come. A stop by job control is our stop too: the shell looks at us.
bool has_ended(pid_t child, int& status) {
  while (waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
    if (!WIFSTOPPED(status)) return true;
    if (!is_of_job_control(WSTOPSIG(status))) continue;
    raise(SIGSTOP);
    kill(child, SIGCONT);
  }
  return false;
}

}  // namespace

Result<int> supervise(const std::vector<std::string>& program) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return host::system_error("pipe", errno);
  const Signals signals;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) become(program, signals, parent, report[1]);
  const int fork_error = errno;
  close(report[1]);
  if (child < 0) {
    close(report[0]);
    return host::system_error("fork", fork_error);
  }
  const int exec_error = error_of_exec(report[0]);
  close(report[0]);
  int status = 0;
  if (exec_error != 0) {
    waitpid(child, &status, 0);
    return fail(exec_error == ENOENT ? Errc::kNotFound : Errc::kSystem,
                fmt::format("{}: {}", program[0], std::strerror(exec_error)));
  }
  while (!has_ended(child, status)) {
    const siginfo_t info = signals.next();
    // What the terminal sends, it sends to the program as well; what people send comes here alone.
    const bool by_somebody = info.si_code <= 0 && info.si_pid != child;
    if (info.si_signo != SIGCHLD && by_somebody) kill(child, info.si_signo);
  }
  return status;
}

int end_like(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return WEXITSTATUS(wait_status);
  const int signal = WTERMSIG(wait_status);
  prctl(PR_SET_DUMPABLE, 0);  // The program has left its core; ours would be in the way.
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  sigaction(signal, &usual, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  raise(signal);
  return 128 + signal;
}

}  // namespace weft::cli
