// The weft command as people start it, and what became of it. For tests of whole programs; one
// thread.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

namespace weft::test {

/// For the programs that the test starts, where weft's library is built with the address sanitizer:
/// then each of them has its runtime.
inline void add_asan_options(const std::string& options) {
  const char* const before = std::getenv("ASAN_OPTIONS");
  setenv("ASAN_OPTIONS", ((before != nullptr ? before + std::string(":") : "") + options).c_str(),
         1);
}

struct Ended {
  int status = 0;  ///< as waitpid tells it
  std::string output;

  int exit_status() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
  int signal() const { return WIFSIGNALED(status) ? WTERMSIG(status) : 0; }
  bool says(const std::string& text) const { return output.find(text) != std::string::npos; }
};

/// A running command whose standard output and error can be read.
class Started {
 public:
  explicit Started(const std::vector<std::string>& command) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);  // job control passes by the groups that nobody watches
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      std::vector<char*> arguments;
      for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      execvp(arguments[0], arguments.data());
      _exit(125);
    }
    close(ends[1]);
    from_ = ends[0];
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  ~Started() {
    if (pid_ > 0) wait();
    close(from_);
  }

  pid_t pid() const { return pid_; }
  void send(int signal) const { kill(pid_, signal); }
  /// Reads until the text has come or the output ends.
  bool wait_for(const std::string& text) {
    while (output_.find(text) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }
  Ended wait() {
    while (read_some()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return {status, output_};
  }

 private:
  bool read_some() {
    std::array<char, 4096> buffer;
    const ssize_t got = read(from_, buffer.data(), buffer.size());
    if (got > 0) output_.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  pid_t pid_ = -1;
  int from_ = -1;
  std::string output_;
};

inline std::vector<std::string> weft_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), WEFT_BIN_DIR "/weft");
  return arguments;
}

inline Ended weft(std::vector<std::string> arguments) {
  return Started(weft_command(std::move(arguments))).wait();
}

}  // namespace weft::test
