// stat and its kin: the shown path instead of the program's, and what the tree has as empty files
// in /dev/infiniband is said to be character devices, by path and by descriptor. See
// interpose_paths.cc for why the functions have two names.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <optional>

#include "files/fd_table.h"
#include "files/interpose_next.h"
#include "files/path_map.h"
#include "files/uverbs_file.h"

namespace weft::files {
namespace {

// Large-file names and structures are the same.
static_assert(sizeof(struct stat) == sizeof(struct stat64));

constexpr mode_t kModeOfDevice = S_IFCHR | 0666;

constinit Next<int(const char*, struct stat*)> next_stat{"stat"};
constinit Next<int(const char*, struct stat*)> next_lstat{"lstat"};
constinit Next<int(int, struct stat*)> next_fstat{"fstat"};
constinit Next<int(int, const char*, struct stat*, int)> next_fstatat{"fstatat"};
constinit Next<int(int, const char*, int, unsigned, struct statx*)> next_statx{"statx"};
constinit Next<int(int, const char*, struct stat*)> next_xstat{"__xstat"};
constinit Next<int(int, const char*, struct stat*)> next_lxstat{"__lxstat"};
constinit Next<int(int, int, struct stat*)> next_fxstat{"__fxstat"};
constinit Next<int(int, int, const char*, struct stat*, int)> next_fxstatat{"__fxstatat"};

std::optional<dev_t> number_of(const ShownPath& path) {
  if (path.device().empty()) [[likely]]
    return {};
  emulate_uverbs();
  return emulated_number(path.device());
}

std::optional<dev_t> number_of(int fd) {
  if (!may_be_char_file(fd)) [[likely]]
    return {};
  const auto file = find_char_file(fd);
  if (!file) return {};
  return file->number;
}

/// fstatat(fd, "") is fstat(fd).
std::optional<dev_t> number_of(int fd, const ShownPath& path, int flags) {
  const bool of_fd = (flags & AT_EMPTY_PATH) != 0 && (path.get() == nullptr || *path.get() == '\0');
  return of_fd ? number_of(fd) : number_of(path);
}

int told(int result, struct stat* answer, std::optional<dev_t> number) {
  if (result == 0 && number) {
    answer->st_mode = kModeOfDevice;
    answer->st_rdev = *number;
    answer->st_size = 0;
  }
  return result;
}

}  // namespace

extern "C" {

int weft_stat(const char* path, struct stat* answer) asm("stat");
int weft_stat(const char* path, struct stat* answer) {
  const ShownPath shown(path);
  return told(next_stat(shown.get(), answer), answer, number_of(shown));
}
int weft_stat64(const char* path, struct stat* answer) asm("stat64") __attribute__((alias("stat")));

int weft_lstat(const char* path, struct stat* answer) asm("lstat");
int weft_lstat(const char* path, struct stat* answer) {
  const ShownPath shown(path);
  return told(next_lstat(shown.get(), answer), answer, number_of(shown));
}
int weft_lstat64(const char* path, struct stat* answer) asm("lstat64")
    __attribute__((alias("lstat")));

int weft_fstat(int fd, struct stat* answer) asm("fstat");
int weft_fstat(int fd, struct stat* answer) {
  return told(next_fstat(fd, answer), answer, number_of(fd));
}
int weft_fstat64(int fd, struct stat* answer) asm("fstat64") __attribute__((alias("fstat")));

int weft_fstatat(int directory, const char* path, struct stat* answer, int flags) asm("fstatat");
int weft_fstatat(int directory, const char* path, struct stat* answer, int flags) {
  const ShownPath shown(directory, path);
  return told(next_fstatat(directory, shown.get(), answer, flags), answer,
              number_of(directory, shown, flags));
}
int weft_fstatat64(int directory, const char* path, struct stat* answer, int flags) asm("fstatat64")
    __attribute__((alias("fstatat")));

int weft_statx(int directory, const char* path, int flags, unsigned mask,
               struct statx* answer) asm("statx");
int weft_statx(int directory, const char* path, int flags, unsigned mask, struct statx* answer) {
  const ShownPath shown(directory, path);
  const int result = next_statx(directory, shown.get(), flags, mask, answer);
  const auto number = number_of(directory, shown, flags);
  if (result == 0 && number) {
    answer->stx_mode = kModeOfDevice;
    answer->stx_rdev_major = major(*number);
    answer->stx_rdev_minor = minor(*number);
    answer->stx_size = 0;
  }
  return result;
}

// ---- the names that programs built before version 2.33 of the C library have ------------------

int weft_xstat(int version, const char* path, struct stat* answer) asm("__xstat");
int weft_xstat(int version, const char* path, struct stat* answer) {
  const ShownPath shown(path);
  return told(next_xstat(version, shown.get(), answer), answer, number_of(shown));
}
int weft_xstat64(int version, const char* path, struct stat* answer) asm("__xstat64")
    __attribute__((alias("__xstat")));

int weft_lxstat(int version, const char* path, struct stat* answer) asm("__lxstat");
int weft_lxstat(int version, const char* path, struct stat* answer) {
  const ShownPath shown(path);
  return told(next_lxstat(version, shown.get(), answer), answer, number_of(shown));
}
int weft_lxstat64(int version, const char* path, struct stat* answer) asm("__lxstat64")
    __attribute__((alias("__lxstat")));

int weft_fxstat(int version, int fd, struct stat* answer) asm("__fxstat");
int weft_fxstat(int version, int fd, struct stat* answer) {
  return told(next_fxstat(version, fd, answer), answer, number_of(fd));
}
int weft_fxstat64(int version, int fd, struct stat* answer) asm("__fxstat64")
    __attribute__((alias("__fxstat")));

int weft_fxstatat(int version, int directory, const char* path, struct stat* answer,
                  int flags) asm("__fxstatat");
int weft_fxstatat(int version, int directory, const char* path, struct stat* answer, int flags) {
  const ShownPath shown(directory, path);
  return told(next_fxstatat(version, directory, shown.get(), answer, flags), answer,
              number_of(directory, shown, flags));
}
int weft_fxstatat64(int version, int directory, const char* path, struct stat* answer,
                    int flags) asm("__fxstatat64") __attribute__((alias("__fxstatat")));

}  // extern "C"

}  // namespace weft::files
