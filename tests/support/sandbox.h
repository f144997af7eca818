// Environments in which a partner can put itself before it opens anything of weft: another user,
// system calls refused, namespaces of its own. Where the machine does not allow one, the output
// says so and the partner goes on as it is. Linux, one thread.
#pragma once

#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "support/partner.h"

namespace weft::test {

inline constexpr uid_t kNobody = 65'534;

/// Says what this machine does not allow; the test goes on with the nearest thing.
inline void note_refusal(const char* what) {
  std::printf("note: this machine refuses %s (%s); tested without\n", what, std::strerror(errno));
  std::fflush(stdout);
}

/// False: this process may not, and stays who it is. Who is not root is unprivileged already.
inline bool become(uid_t user) {
  if (geteuid() != 0) return false;
  if (setgroups(0, nullptr) != 0 || setresgid(user, user, user) != 0 ||
      setresuid(user, user, user) != 0) {
    note_refusal("to become another user");
    return false;
  }
  // As after a login: a change of user alone leaves a process that nobody may look into.
  require(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0, "PR_SET_DUMPABLE");
  return true;
}

inline void filter_calls(std::vector<sock_filter>& program) {
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
  require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0, "a seccomp filter");
}

inline sock_filter refusal_with(int error) {
  return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (static_cast<unsigned>(error) & 0xFFFF));
}

/// From now on no socket of this family can be made.
inline void refuse_sockets(int family, int error) {
  std::vector<sock_filter> program{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(family), 0, 1),
      refusal_with(error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  filter_calls(program);
}

/// From now on these system calls give `error`.
inline void refuse_calls(std::initializer_list<long> calls, int error) {
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    program.push_back(refusal_with(error));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  filter_calls(program);
}

inline void write_file(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.flush();
  require(file.good(), path);
}

/// Namespaces of these kinds, if need be with the help of a user namespace in which the user keeps
/// its identity as root. False: not even that is allowed.
inline bool enter_namespaces(int kinds, bool own_user) {
  if (!own_user && unshare(kinds) == 0) return true;
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(kinds | CLONE_NEWUSER) != 0) return false;
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
  write_file("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
  return true;
}

/// Runs the work as the first process of a pid namespace of its own, and ends with its status.
inline void in_pid_namespace(bool own_user, const std::function<void()>& work) {
  if (!enter_namespaces(CLONE_NEWPID, own_user)) {
    note_refusal("a pid namespace");
    return work();
  }
  const pid_t child = fork();
  require(child >= 0, "a first process for the namespace");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    require(getpid() == 1, "to be the first process");
    work();
    _exit(0);
  }
  int status = 0;
  require(waitpid(child, &status, 0) == child, "the first process's end");
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 9);
}

/// What is written to standard error while one lives.
class CaughtErrors {
 public:
  CaughtErrors() : file_(memfd_create("caught", 0)), before_(dup(2)) {
    require(dup2(file_, 2) == 2, "standard error");
  }
  ~CaughtErrors() {
    const std::string text = get();
    dup2(before_, 2);
    std::fputs(text.c_str(), stderr);
    close(before_);
    close(file_);
  }
  CaughtErrors(const CaughtErrors&) = delete;
  CaughtErrors& operator=(const CaughtErrors&) = delete;

  std::string get() const {
    std::string text(static_cast<std::size_t>(lseek(file_, 0, SEEK_END)), '\0');
    require(pread(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()), "read");
    return text;
  }
  int count(const std::string& what) const {
    const std::string text = get();
    int n = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  }

 private:
  int file_, before_;
};

}  // namespace weft::test
