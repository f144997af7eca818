#include "host/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <utility>

#include "base/assert.h"
#include "host/fork.h"
#include "host/system_error.h"

namespace weft::host {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Linux 6.3 and later: never executable, and what vm.memfd_noexec=2 insists on.
constexpr unsigned kNoExecSeal = 0x0008;

// One call gives at most this many bytes: a signal undoes only the call that it interrupts.
constexpr std::size_t kReserveStep = std::size_t{16} << 20;

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

std::string describe(std::size_t bytes) {
  return std::to_string(bytes) + " bytes of shared memory";
}

Fd make_memfd(const char* name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const ForkHold hold;
  const int fd = memfd_create(name, kFlags | kNoExecSeal);
  return Fd(fd < 0 && errno == EINVAL ? memfd_create(name, kFlags) : fd);
}

// Above the limit the kernel would also send SIGXFSZ.
Result<void> check_file_size_limit(std::size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    return fail(Errc::kOutOfMemory, describe(bytes) +
                                        ": more than RLIMIT_FSIZE allows; ask for less, or raise "
                                        "the limit (ulimit -f)");
  }
  return {};
}

Result<void> check_received(int fd, std::size_t least, std::size_t most, std::size_t* size) {
  const auto refuse = [](const std::string& why) {
    return fail(Errc::kInvalidArgument, "shared memory from a peer: " + why);
  };
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return refuse("not a memfd");
  if ((seals & kSeals) != kSeals) return refuse("not sealed against a change of its size");
  struct statfs filesystem {};
  if (fstatfs(fd, &filesystem) != 0) return system_error("fstatfs of shared memory", errno);
  // Huge pages can be missing when they are touched.
  if (filesystem.f_type != TMPFS_MAGIC) return refuse("not made of ordinary pages");
  struct stat status {};
  if (fstat(fd, &status) != 0) return system_error("fstat of shared memory", errno);
  const auto found = static_cast<std::size_t>(std::max<off_t>(status.st_size, 0));
  if (found == 0 || found < least || found > most || found % page_bytes() != 0) {
    return refuse(std::to_string(found) + " bytes, where " + std::to_string(least) + " to " +
                  std::to_string(most) + " in whole pages are expected");
  }
  *size = found;
  return {};
}

}  // namespace

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      fd_(std::move(other.fd_)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    unmap();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    fd_ = std::move(other.fd_);
  }
  return *this;
}

SharedMemory::~SharedMemory() { unmap(); }

void SharedMemory::unmap() {
  if (data_ == nullptr) return;
  const ForkHold hold;
  mapping_is_gone(data_);
  munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

bool SharedMemory::replace_by(SharedMemory other) {
  WEFT_ASSERT(other.size_ == size_);
  const ForkHold hold;
  if (mremap(other.data_, size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED, data_) == MAP_FAILED) {
    return false;
  }
  mapping_is_gone(std::exchange(other.data_, nullptr));
  fd_ = std::move(other.fd_);
  return true;
}

Result<SharedMemory> SharedMemory::map(Fd fd, std::size_t size, int protection) {
  const ForkHold hold;
  void* const data = mmap(nullptr, size, protection, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    if (errno == EPERM || errno == EACCES) {
      return fail(Errc::kNotPermitted, describe(size) + ": its owner does not allow this access");
    }
    return system_error("mapping " + describe(size), errno);
  }
  know_by_inode(fd.get());
  SharedMemory memory;
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = size;
  memory.fd_ = std::move(fd);
  forget_mapping_in_child(data, size);
  return memory;
}

Result<SharedMemory> SharedMemory::create(const char* name, std::size_t bytes, std::size_t reserved,
                                          Peers peers) {
  const std::size_t page = page_bytes();
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<off_t>::max());
  if (bytes == 0 || bytes > kMost - page || reserved > bytes) {
    return fail(Errc::kInvalidArgument, describe(bytes) + ", " + std::to_string(reserved) +
                                            " reserved: no such size, or more reserved than there "
                                            "are");
  }
  const std::size_t size = (bytes + page - 1) / page * page;
  if (auto allowed = check_file_size_limit(size); !allowed) {
    return tl::unexpected(allowed.error());
  }
  Fd fd = make_memfd(name);
  if (!fd) return system_error("making " + describe(size), errno);
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return system_error("sizing " + describe(size), errno);
  }
  const int memfd = fd.get();
  auto memory = map(std::move(fd), size, PROT_READ | PROT_WRITE);
  if (!memory) return memory;
  // Kernels before 5.1 do not know this seal; there peers keep to reading because they map that
  // way.
  if (peers == Peers::kRead) static_cast<void>(fcntl(memfd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
  if (fcntl(memfd, F_ADD_SEALS, kSeals) != 0) {
    return system_error("sealing " + describe(size), errno);
  }
  if (reserved > 0) {
    if (auto done = memory->reserve(0, reserved); !done) return tl::unexpected(done.error());
  }
  return memory;
}

Result<SharedMemory> SharedMemory::receive(StrangeFd fd, std::size_t least, std::size_t most,
                                           Peers mine) {
  std::size_t size = 0;
  if (auto good = check_received(fd.get(), least, most, &size); !good) {
    return tl::unexpected(good.error());
  }
  return map(fd.claim(), size, mine == Peers::kWrite ? PROT_READ | PROT_WRITE : PROT_READ);
}

void SharedMemory::discard() {
  const int fd = fd_.checked();
  if (fd < 0) return;
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (fallocate(fd, kHole, 0, static_cast<off_t>(size_)) != 0 && errno == EINTR) {
  }
}

Result<void> SharedMemory::reserve(std::size_t offset, std::size_t bytes) {
  WEFT_ASSERT(offset <= size_ && bytes <= size_ - offset);
  const int fd = fd_.checked();
  if (fd < 0) {
    return fail(Errc::kInvalidState,
                "shared memory: its descriptor is closed, or is that of the parent process");
  }
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t step = std::min(kReserveStep, bytes - done);
    if (fallocate(fd, 0, static_cast<off_t>(offset + done), static_cast<off_t>(step)) == 0) {
      done += step;
    } else if (errno != EINTR) {
      return system_error("reserving " + describe(bytes), errno);
    }
  }
  return {};
}

}  // namespace weft::host
