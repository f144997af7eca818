#include "files/fd_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "host/fd_mark.h"
#include "host/fork.h"

namespace weft::files {
namespace {

struct Emulated {
  std::string path;
  dev_t number;
  OpenCharFile open;
};

class Table {
 public:
  static Table& instance() {
    // Never destroyed: the program closes files until its very end.
    static Table& table = *[] {
      host::call_in_child([] { instance().owner_ = getpid(); });
      return new Table;
    }();
    return table;
  }

  void emulate(Emulated device) {
    const Guard guard(*this);
    for (Emulated& known : devices_) {
      if (known.path == device.path) return void(known = std::move(device));
    }
    devices_.push_back(std::move(device));
  }

  std::optional<Emulated> device(std::string_view path) {
    const Guard guard(*this);
    for (const Emulated& known : devices_) {
      if (known.path == path) return known;
    }
    return {};
  }

  void add(int fd, OpenCharDevice device) {
    const OpenCharDevice before = take(fd);
    const Guard guard(*this);
    files_.insert_or_assign(fd, std::move(device));
    count();
  }

  std::optional<OpenCharDevice> find(int fd) {
    {
      const Guard guard(*this);
      const auto at = files_.find(fd);
      if (at == files_.end()) return {};
      // The C library closes without asking us, in fclose for one: then the number may be anything.
      if (host::is_ours(fd)) return at->second;
    }
    take(fd);
    return {};
  }

  /// The caller lets it go, outside the lock: the object's end may take its time.
  OpenCharDevice take(int fd) {
    OpenCharDevice taken;
    const Guard guard(*this);
    const auto at = files_.find(fd);
    if (at == files_.end()) return taken;
    taken = std::move(at->second);
    files_.erase(at);
    count();
    return taken;
  }

  std::vector<OpenCharDevice> take(int first, int last) {
    std::vector<OpenCharDevice> taken;
    const Guard guard(*this);
    for (auto at = files_.lower_bound(first); at != files_.end() && at->first <= last;) {
      taken.push_back(std::move(at->second));
      at = files_.erase(at);
    }
    count();
    return taken;
  }

  /// A child after vfork runs in its parent's memory, but has descriptors of its own.
  bool is_owner() const { return owner_ == getpid(); }

 private:
  /// A child must find neither the lock held nor the table half changed.
  class Guard {
   public:
    explicit Guard(Table& table) : guard_(table.lock_) {}

   private:
    host::ForkHold hold_;
    std::lock_guard<base::Lock> guard_;
  };

  void count() {
    detail::open_char_files.store(static_cast<unsigned>(files_.size()), std::memory_order_relaxed);
  }

  base::Lock lock_;
  std::vector<Emulated> devices_;
  std::map<int, OpenCharDevice> files_;
  pid_t owner_ = getpid();
};

}  // namespace

void emulate(std::string path, dev_t number, OpenCharFile open) {
  Table::instance().emulate({std::move(path), number, open});
}

std::optional<dev_t> emulated_number(std::string_view path) {
  const auto device = Table::instance().device(path);
  if (!device) return {};
  return device->number;
}

std::optional<int> open_emulated(std::string_view path, int flags) {
  const auto device = Table::instance().device(path);
  if (!device) return {};
  std::shared_ptr<CharFile> file = device->open(flags);
  if (file == nullptr) return -1;
  const bool on_exec = (flags & O_CLOEXEC) != 0;
  const int fd = fcntl(file->fd(), on_exec ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
  if (fd < 0) return -1;
  host::mark_as_ours(fd);
  Table::instance().add(fd, {std::move(file), device->number});
  return fd;
}

std::optional<OpenCharDevice> find_char_file(int fd) {
  if (!Table::instance().is_owner()) return {};
  return Table::instance().find(fd);
}

void forget_char_files(int first, int last) {
  if (!Table::instance().is_owner()) return;
  const int error = errno;
  Table::instance().take(first, last);
  errno = error;
}

void share_char_file(int from, int to) {
  if (from == to || !Table::instance().is_owner()) return;
  const int error = errno;
  if (auto device = Table::instance().find(from)) Table::instance().add(to, std::move(*device));
  errno = error;
}

}  // namespace weft::files
