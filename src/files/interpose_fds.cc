// The calls that use, close or duplicate descriptors: the open character devices are kept account
// of, and what the program writes to one goes to its object. A descriptor of anything else costs
// one load. See interpose_paths.cc for why the functions have two names.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <climits>
#include <cstdarg>
#include <cstddef>
#include <span>

#include "files/fd_table.h"
#include "files/interpose_next.h"
#include "host/fd_flags.h"

namespace weft::files {
namespace {

constinit Next<ssize_t(int, const void*, std::size_t)> next_write{"write"};
constinit Next<ssize_t(int, const iovec*, int)> next_writev{"writev"};
constinit Next<int(int)> next_close{"close"};
constinit Next<int(unsigned, unsigned, int)> next_close_range{"close_range"};
constinit Next<void(int)> next_closefrom{"closefrom"};
constinit Next<int(int)> next_dup{"dup"};
constinit Next<int(int, int)> next_dup2{"dup2"};
constinit Next<int(int, int, int)> next_dup3{"dup3"};
constinit Next<int(int, int, void*)> next_fcntl{"fcntl"};
constinit Next<int(int, unsigned long, void*)> next_ioctl{"ioctl"};

std::span<const std::byte> bytes_of(const void* data, std::size_t size) {
  return {static_cast<const std::byte*>(data), size};
}

/// The kernel does the same with devices that know only write: piece by piece.
ssize_t write_pieces(CharFile& file, const iovec* pieces, int count) {
  ssize_t sum = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t written = file.write(bytes_of(pieces[i].iov_base, pieces[i].iov_len));
    if (written < 0) return sum > 0 ? sum : written;
    sum += written;
    if (static_cast<std::size_t>(written) < pieces[i].iov_len) break;
  }
  return sum;
}

int shared(int from, int to) {
  if (to >= 0 && may_be_char_file(from)) [[unlikely]]
    share_char_file(from, to);
  return to;
}

void forget(int first, int last) {
  if (may_be_char_file(last)) [[unlikely]]
    forget_char_files(first, last);
}

}  // namespace

extern "C" {

ssize_t weft_write(int fd, const void* data, std::size_t size) asm("write");
ssize_t weft_write(int fd, const void* data, std::size_t size) {
  if (may_be_char_file(fd)) [[unlikely]] {
    if (const auto device = find_char_file(fd)) return device->file->write(bytes_of(data, size));
  }
  return next_write(fd, data, size);
}

ssize_t weft_writev(int fd, const iovec* pieces, int count) asm("writev");
ssize_t weft_writev(int fd, const iovec* pieces, int count) {
  if (may_be_char_file(fd)) [[unlikely]] {
    if (const auto device = find_char_file(fd)) return write_pieces(*device->file, pieces, count);
  }
  return next_writev(fd, pieces, count);
}

// Forgotten before they are closed: afterwards another thread may have got the number.
int weft_close(int fd) asm("close");
int weft_close(int fd) {
  forget(fd, fd);
  return next_close(fd);
}

int weft_close_range(unsigned first, unsigned last, int flags) asm("close_range");
int weft_close_range(unsigned first, unsigned last, int flags) {
  constexpr int kOnlyMark = 1 << 2;  // CLOSE_RANGE_CLOEXEC
  if ((flags & kOnlyMark) == 0 && first <= last && first <= INT_MAX) {
    forget(static_cast<int>(first), last > INT_MAX ? INT_MAX : static_cast<int>(last));
  }
  return next_close_range(first, last, flags);
}

void weft_closefrom(int first) asm("closefrom");
void weft_closefrom(int first) {
  forget(first < 0 ? 0 : first, INT_MAX);
  next_closefrom(first);
}

int weft_dup(int fd) asm("dup");
int weft_dup(int fd) { return shared(fd, next_dup(fd)); }

int weft_dup2(int from, int to) asm("dup2");
int weft_dup2(int from, int to) {
  if (from != to) forget(to, to);
  return shared(from, next_dup2(from, to));
}

int weft_dup3(int from, int to, int flags) asm("dup3");
int weft_dup3(int from, int to, int flags) {
  if (from != to) forget(to, to);
  return shared(from, next_dup3(from, to, flags));
}

int weft_fcntl(int fd, int command, ...) asm("fcntl");
int weft_fcntl(int fd, int command, ...) {
  std::va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);  // as wide as any that a command has
  va_end(rest);
  const int result = next_fcntl(fd, command, argument);
  if (command == F_SETFL && result == 0 &&
      (reinterpret_cast<std::uintptr_t>(argument) & O_NONBLOCK) == 0) {
    weft::host::tell_descriptor_blocks();
  }
  return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? shared(fd, result) : result;
}
int weft_ioctl(int fd, unsigned long request, ...) asm("ioctl");
int weft_ioctl(int fd, unsigned long request, ...) {
  std::va_list rest;
  va_start(rest, request);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  const int result = next_ioctl(fd, request, argument);
  // The other way to change O_NONBLOCK.
  if (request == FIONBIO && result == 0 && *static_cast<const int*>(argument) == 0) {
    weft::host::tell_descriptor_blocks();
  }
  return result;
}
int weft_fcntl64(int fd, int command, ...) asm("fcntl64") __attribute__((alias("fcntl")));

}  // extern "C"

}  // namespace weft::files
