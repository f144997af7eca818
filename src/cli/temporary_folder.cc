#include "cli/temporary_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "host/system_error.h"

namespace weft::cli {
namespace {

constexpr std::string_view kPrefix = "weft-run-";
/// A new directory is not locked in its first moment.
constexpr std::time_t kYoung_s = 60;

void remove_folder(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

bool is_left_behind(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat status {};
  const bool nobodys = fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
                       status.st_mtime + kYoung_s < std::time(nullptr) &&
                       flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  return nobodys;
}

void sweep(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> names(opendir(folder.c_str()), closedir);
  if (names == nullptr) return;
  while (const dirent* entry = readdir(names.get())) {
    if (!std::string_view(entry->d_name).starts_with(kPrefix)) continue;
    const std::string path = folder + "/" + entry->d_name;
    if (is_left_behind(path)) remove_folder(path);
  }
}

}  // namespace

std::string runtime_folder() {
  // Memory before disks: a tree is a hundred small files, which a busy disk takes 50 ms for.
  for (const char* folder : {static_cast<const char*>(std::getenv("XDG_RUNTIME_DIR")), "/dev/shm",
                             static_cast<const char*>(std::getenv("TMPDIR"))}) {
    if (folder != nullptr && folder[0] == '/' && access(folder, W_OK | X_OK) == 0) return folder;
  }
  return "/tmp";
}

Result<TemporaryFolder> TemporaryFolder::make() {
  std::string path = runtime_folder() + "/" + std::string(kPrefix) + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return host::system_error(path, errno);
  const int lock = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0 || flock(lock, LOCK_SH) != 0) {
    const int error = errno;
    if (lock >= 0) close(lock);
    rmdir(path.c_str());
    return host::system_error(path, error);
  }
  return TemporaryFolder(std::move(path), lock);
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  remove_folder(path_);
  close(lock_);
  sweep(path_.substr(0, path_.rfind('/')));
}

}  // namespace weft::cli
