// readlink, realpath and their kin: what they give must not show where the tree is, or a program
// that goes on from there would leave what it is shown. See interpose_paths.cc for why the
// functions have two names.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "files/interpose_next.h"
#include "files/path_map.h"

namespace weft::files {
namespace {

constinit Next<ssize_t(const char*, char*, std::size_t)> next_readlink{"readlink"};
constinit Next<ssize_t(int, const char*, char*, std::size_t)> next_readlinkat{"readlinkat"};
constinit Next<char*(const char*, char*)> next_realpath{"realpath"};
constinit Next<char*(const char*, char*, std::size_t)> next_realpath_chk{"__realpath_chk"};
constinit Next<char*(const char*)> next_canonicalize{"canonicalize_file_name"};

ssize_t told(ssize_t length, char* link) {
  if (length <= 0) return length;
  return static_cast<ssize_t>(without_root(link, static_cast<std::size_t>(length)));
}

char* told(char* path) {
  if (path != nullptr) path[without_root(path, std::strlen(path))] = '\0';
  return path;
}

}  // namespace

extern "C" {

ssize_t weft_readlink(const char* path, char* link, std::size_t size) asm("readlink");
ssize_t weft_readlink(const char* path, char* link, std::size_t size) {
  return told(next_readlink(ShownPath(path).get(), link, size), link);
}

ssize_t weft_readlinkat(int directory, const char* path, char* link,
                        std::size_t size) asm("readlinkat");
ssize_t weft_readlinkat(int directory, const char* path, char* link, std::size_t size) {
  return told(next_readlinkat(directory, ShownPath(directory, path).get(), link, size), link);
}

char* weft_realpath(const char* path, char* resolved) asm("realpath");
char* weft_realpath(const char* path, char* resolved) {
  return told(next_realpath(ShownPath(path).get(), resolved));
}

char* weft_realpath_chk(const char* path, char* resolved, std::size_t size) asm("__realpath_chk");
char* weft_realpath_chk(const char* path, char* resolved, std::size_t size) {
  return told(next_realpath_chk(ShownPath(path).get(), resolved, size));
}

char* weft_canonicalize(const char* path) asm("canonicalize_file_name");
char* weft_canonicalize(const char* path) { return told(next_canonicalize(ShownPath(path).get())); }

}  // extern "C"

}  // namespace weft::files
