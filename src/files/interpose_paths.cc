// The calls of the C library that take a path and give no more than success, a descriptor or a
// stream. Each gives the shown path instead of the program's and is otherwise the next one. The
// functions have names of their own in C++, and those of the C library only for the linker: the
// headers' declarations say more than we may rely on (that no path is null, for one).
#include <dirent.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "files/fd_table.h"
#include "files/interpose_next.h"
#include "files/path_map.h"
#include "files/uverbs_file.h"

namespace weft::files {
namespace {

// Large-file names are the same functions.
static_assert(sizeof(off_t) == 8);

constinit Next<int(const char*, int, mode_t)> next_open{"open"};
constinit Next<int(int, const char*, int, mode_t)> next_openat{"openat"};
constinit Next<int(const char*, int)> next_open_2{"__open_2"};
constinit Next<int(int, const char*, int)> next_openat_2{"__openat_2"};
constinit Next<FILE*(const char*, const char*)> next_fopen{"fopen"};
constinit Next<FILE*(const char*, const char*, FILE*)> next_freopen{"freopen"};
constinit Next<int(const char*, int)> next_access{"access"};
constinit Next<int(int, const char*, int, int)> next_faccessat{"faccessat"};
constinit Next<int(const char*, int)> next_euidaccess{"euidaccess"};
constinit Next<int(const char*)> next_chdir{"chdir"};
constinit Next<DIR*(const char*)> next_opendir{"opendir"};
using Filter = int(const dirent*);
using Order = int(const dirent**, const dirent**);
constinit Next<int(const char*, dirent***, Filter*, Order*)> next_scandir{"scandir"};
constinit Next<ssize_t(const char*, const char*, void*, std::size_t)> next_getxattr{"getxattr"};
constinit Next<ssize_t(const char*, const char*, void*, std::size_t)> next_lgetxattr{"lgetxattr"};
constinit Next<ssize_t(const char*, char*, std::size_t)> next_listxattr{"listxattr"};
constinit Next<ssize_t(const char*, char*, std::size_t)> next_llistxattr{"llistxattr"};

bool takes_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

template <class Open>
int open_shown(const ShownPath& path, int flags, Open open) {
  if (!path.device().empty()) [[unlikely]] {
    emulate_uverbs();
    if (const auto fd = open_emulated(path.device(), flags)) return *fd;
  }
  return open(path.get());
}

}  // namespace

extern "C" {

// ---- open -------------------------------------------------------------------------------------

int weft_open(const char* path, int flags, ...) asm("open");
int weft_open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (takes_mode(flags)) {
    std::va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return open_shown(ShownPath(path), flags,
                    [&](const char* shown) { return next_open(shown, flags, mode); });
}
int weft_open64(const char* path, int flags, ...) asm("open64") __attribute__((alias("open")));

int weft_openat(int directory, const char* path, int flags, ...) asm("openat");
int weft_openat(int directory, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (takes_mode(flags)) {
    std::va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return open_shown(ShownPath(directory, path), flags,
                    [&](const char* shown) { return next_openat(directory, shown, flags, mode); });
}
int weft_openat64(int directory, const char* path, int flags, ...) asm("openat64")
    __attribute__((alias("openat")));

// What compilers make of open and openat in hardened programs.
int weft_open_2(const char* path, int flags) asm("__open_2");
int weft_open_2(const char* path, int flags) {
  return open_shown(ShownPath(path), flags,
                    [&](const char* shown) { return next_open_2(shown, flags); });
}
int weft_open64_2(const char* path, int flags) asm("__open64_2") __attribute__((alias("__open_2")));

int weft_openat_2(int directory, const char* path, int flags) asm("__openat_2");
int weft_openat_2(int directory, const char* path, int flags) {
  return open_shown(ShownPath(directory, path), flags,
                    [&](const char* shown) { return next_openat_2(directory, shown, flags); });
}
int weft_openat64_2(int directory, const char* path, int flags) asm("__openat64_2")
    __attribute__((alias("__openat_2")));

FILE* weft_fopen(const char* path, const char* mode) asm("fopen");
FILE* weft_fopen(const char* path, const char* mode) {
  return next_fopen(ShownPath(path).get(), mode);
}
FILE* weft_fopen64(const char* path, const char* mode) asm("fopen64")
    __attribute__((alias("fopen")));

FILE* weft_freopen(const char* path, const char* mode, FILE* stream) asm("freopen");
FILE* weft_freopen(const char* path, const char* mode, FILE* stream) {
  return next_freopen(ShownPath(path).get(), mode, stream);
}
FILE* weft_freopen64(const char* path, const char* mode, FILE* stream) asm("freopen64")
    __attribute__((alias("freopen")));

// ---- may I ------------------------------------------------------------------------------------

int weft_access(const char* path, int mode) asm("access");
int weft_access(const char* path, int mode) { return next_access(ShownPath(path).get(), mode); }

int weft_faccessat(int directory, const char* path, int mode, int flags) asm("faccessat");
int weft_faccessat(int directory, const char* path, int mode, int flags) {
  return next_faccessat(directory, ShownPath(directory, path).get(), mode, flags);
}

int weft_euidaccess(const char* path, int mode) asm("euidaccess");
int weft_euidaccess(const char* path, int mode) {
  return next_euidaccess(ShownPath(path).get(), mode);
}
int weft_eaccess(const char* path, int mode) asm("eaccess") __attribute__((alias("euidaccess")));

// ---- directories ------------------------------------------------------------------------------

DIR* weft_opendir(const char* path) asm("opendir");
DIR* weft_opendir(const char* path) { return next_opendir(ShownPath(path).get()); }

int weft_scandir(const char* path, dirent*** names, Filter* filter, Order* order) asm("scandir");
int weft_scandir(const char* path, dirent*** names, Filter* filter, Order* order) {
  return next_scandir(ShownPath(path).get(), names, filter, order);
}
int weft_scandir64(const char* path, dirent*** names, Filter* filter, Order* order) asm("scandir64")
    __attribute__((alias("scandir")));

int weft_chdir(const char* path) asm("chdir");
int weft_chdir(const char* path) { return next_chdir(ShownPath(path).get()); }

// ---- extended attributes: ls asks for them ------------------------------------------------------

ssize_t weft_getxattr(const char* path, const char* name, void* value,
                      std::size_t size) asm("getxattr");
ssize_t weft_getxattr(const char* path, const char* name, void* value, std::size_t size) {
  return next_getxattr(ShownPath(path).get(), name, value, size);
}

ssize_t weft_lgetxattr(const char* path, const char* name, void* value,
                       std::size_t size) asm("lgetxattr");
ssize_t weft_lgetxattr(const char* path, const char* name, void* value, std::size_t size) {
  return next_lgetxattr(ShownPath(path).get(), name, value, size);
}

ssize_t weft_listxattr(const char* path, char* list, std::size_t size) asm("listxattr");
ssize_t weft_listxattr(const char* path, char* list, std::size_t size) {
  return next_listxattr(ShownPath(path).get(), list, size);
}

ssize_t weft_llistxattr(const char* path, char* list, std::size_t size) asm("llistxattr");
ssize_t weft_llistxattr(const char* path, char* list, std::size_t size) {
  return next_llistxattr(ShownPath(path).get(), list, size);
}

}  // extern "C"

}  // namespace weft::files
