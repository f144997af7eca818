#include "port/pcap_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace weft::port {
namespace {

// The classic format in the writer's byte order; this magic says that times are in nanoseconds.
constexpr std::uint32_t kMagicNanoseconds = 0xA1B23C4D;
constexpr std::uint32_t kVersion = 2u | 4u << 16;  // two 16-bit fields, major first
constexpr std::uint32_t kLinkTypeRaw = 101;
constexpr std::uint32_t kSnapLength = 65535;
constexpr std::size_t kGatherBytes = 256 * 1024;
/// Another writer has the lock for itself while it writes the file's header, which takes no time.
constexpr int kLockTries = 1000;

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

/// Whoever gets the lock for itself is alone; all writers share it afterwards. A file system that
/// has no locks has one writer.
bool is_alone(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

bool share(int fd) {
  for (int i = 0; i < kLockTries; ++i) {
    if (flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

/// What is no file, a pipe for example, counts as empty.
bool is_empty(int fd) {
  struct stat status;
  return fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0;
}

bool begin(int fd, PcapWriter::Old old) {
  const bool alone = is_alone(fd);
  if (alone && old == PcapWriter::Old::kReplace && ftruncate(fd, 0) != 0 && errno != EINVAL) {
    return false;
  }
  if (alone && is_empty(fd)) {
    const std::array<std::uint32_t, 6> header{kMagicNanoseconds, kVersion,    0, 0,
                                              kSnapLength,       kLinkTypeRaw};
    if (!write_all(fd, std::as_bytes(std::span(header)))) return false;
  }
  return share(fd);
}

}  // namespace

Result<std::unique_ptr<PcapWriter>> PcapWriter::open(const std::string& path, Old old) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return fail(Errc::kSystem, path + ": " + std::strerror(errno));
  std::unique_ptr<PcapWriter> writer(new PcapWriter(fd));
  if (!begin(fd, old)) return fail(Errc::kSystem, path + ": " + std::strerror(errno));
  return writer;
}

PcapWriter::PcapWriter(int fd) : fd_(fd) {}

PcapWriter::~PcapWriter() {
  flush();
  close(fd_);
}

void PcapWriter::write(Nanoseconds when, std::initializer_list<std::span<const std::byte>> parts) {
  std::size_t size = 0;
  for (const auto part : parts) size += part.size();
  const auto words = std::array<std::uint32_t, 4>{static_cast<std::uint32_t>(when / 1'000'000'000),
                                                  static_cast<std::uint32_t>(when % 1'000'000'000),
                                                  static_cast<std::uint32_t>(size),
                                                  static_cast<std::uint32_t>(size)};
  const auto header = std::as_bytes(std::span(words));
  const std::lock_guard guard(mutex_);
  if (broken_) return;
  waiting_.insert(waiting_.end(), header.begin(), header.end());
  for (const auto part : parts) waiting_.insert(waiting_.end(), part.begin(), part.end());
  if (waiting_.size() >= kGatherBytes) flush_locked();
}

bool PcapWriter::flush() {
  const std::lock_guard guard(mutex_);
  return flush_locked();
}

bool PcapWriter::flush_locked() {
  if (!broken_ && !write_all(fd_, waiting_)) broken_ = true;
  waiting_.clear();
  return !broken_;
}

}  // namespace weft::port
