#include "shim/command_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <string_view>

#include "verbs/controller.h"

namespace weft::shim {
namespace {

constexpr char kName[] = "weft-uverbs";

/// A descriptor has one of these, whatever its number and however it was duplicated.
using Identity = std::pair<dev_t, ino_t>;

struct Files {
  std::mutex mutex;
  std::map<Identity, std::weak_ptr<CommandFile>> all;
};

Files& files() {
  static auto& made = *new Files;
  return made;
}

bool identify(int fd, Identity* identity) {
  struct stat about {};
  if (fstat(fd, &about) != 0) return false;
  *identity = {about.st_dev, about.st_ino};
  return true;
}

}  // namespace

DmState::~DmState() {
  if (bytes != nullptr) munmap(bytes, mapped);
}

std::shared_ptr<CommandFile> CommandFile::make(ibv_device* device, const verbs::Device& opened,
                                               int* fd) {
  // Of no use but as a number that is open, and to be known again.
  *fd = memfd_create(kName, MFD_CLOEXEC);
  Identity identity;
  if (*fd < 0) return nullptr;
  if (!identify(*fd, &identity)) {
    close(*fd);
    return nullptr;
  }
  auto file = std::make_shared<CommandFile>(device, opened);
  Files& known = files();
  const std::lock_guard guard(known.mutex);
  std::erase_if(known.all, [](const auto& each) { return each.second.expired(); });
  known.all[identity] = file;
  return file;
}

bool CommandFile::is_one(int fd) {
  char path[64], target[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(path, target, sizeof target);
  return n > 0 && std::string_view(target, static_cast<std::size_t>(n)).find(kName) !=
                      std::string_view::npos;
}

std::shared_ptr<CommandFile> CommandFile::find(int fd) {
  Identity identity;
  if (!identify(fd, &identity)) return nullptr;
  Files& known = files();
  const std::lock_guard guard(known.mutex);
  const auto at = known.all.find(identity);
  auto file = at != known.all.end() ? at->second.lock() : nullptr;
  return file != nullptr && !file->opened_.controller()->inherited() ? file : nullptr;
}

void CommandFile::keep(std::shared_ptr<void> state) {
  const std::lock_guard guard(mutex_);
  kept_.push_back(std::move(state));
}

std::uint32_t next_handle() {
  // relaxed: only that no two are alike matters.
  static std::atomic<std::uint32_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace weft::shim
