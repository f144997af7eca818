#include "memory/mappings.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace weft::memory {
namespace {

struct Mapping {
  std::uint64_t start = 0, end = 0;
  bool readable = false, writable = false;
};

/// Mappings in ascending order are added until the range is covered or something is wrong.
class Range {
 public:
  Range(std::uint64_t first, std::uint64_t last, Intent intent)
      : next_(first), last_(last), intent_(intent) {}

  std::uint64_t next() const { return next_; }  ///< all before it is good
  Fault fault() const { return fault_; }
  /// False: no further one is needed.
  bool add(const Mapping& mapping) {
    if (mapping.end <= next_) return true;
    if (mapping.start > next_) return false;
    if (!(intent_ == Intent::kRead ? mapping.readable : mapping.writable)) {
      fault_ = Fault::kProtection;
      return false;
    }
    next_ = mapping.end;
    if (next_ > last_) fault_ = Fault::kNone;
    return next_ <= last_;
  }

 private:
  std::uint64_t next_;
  const std::uint64_t last_;
  const Intent intent_;
  Fault fault_ = Fault::kUnmapped;
};

// ---- one at a time ------------------------------------------------------------------------------

/// PROCMAP_QUERY of <linux/fs.h>, which older headers lack.
struct Query {
  std::uint64_t size = sizeof(Query);
  std::uint64_t query_flags = 0;
  std::uint64_t query_address = 0;
  std::uint64_t start = 0, end = 0;
  std::uint64_t flags = 0;
  std::uint64_t page_size = 0, offset = 0, inode = 0;
  std::uint32_t device_major = 0, device_minor = 0;
  std::uint32_t name_size = 0, build_id_size = 0;
  std::uint64_t name = 0, build_id = 0;
};
static_assert(sizeof(Query) == 104);
constexpr std::uint64_t kReadable = 1, kWritable = 2;
constexpr unsigned long kProcmapQuery = _IOWR('f', 17, Query);

/// False: this kernel does not answer such questions.
bool ask(int maps, Range& range) {
  for (;;) {
    Query query;
    query.query_address = range.next();
    if (ioctl(maps, kProcmapQuery, &query) != 0) return errno == ENOENT;  // nothing is there
    const Mapping mapping{query.start, query.end, (query.flags & kReadable) != 0,
                          (query.flags & kWritable) != 0};
    if (!range.add(mapping)) return true;
  }
}

// ---- all of them --------------------------------------------------------------------------------

/// "start-end rwxp ...", numbers in hexadecimal.
std::optional<Mapping> parse_line(const char* line, const char* end) {
  Mapping mapping;
  auto next = std::from_chars(line, end, mapping.start, 16);
  if (next.ec != std::errc() || next.ptr == end || *next.ptr != '-') return {};
  next = std::from_chars(next.ptr + 1, end, mapping.end, 16);
  if (next.ec != std::errc() || end - next.ptr < 3) return {};
  mapping.readable = next.ptr[1] == 'r';
  mapping.writable = next.ptr[2] == 'w';
  return mapping;
}

/// False: it cannot be read.
bool read_all(int maps, Range& range) {
  std::array<char, 8192> text;  // no line is longer: a path has at most 4096 bytes
  std::size_t filled = 0;
  for (;;) {
    const ssize_t n = ::read(maps, text.data() + filled, text.size() - filled);
    if (n <= 0) return n == 0;
    const char* line = text.data();
    const char* const end = line + filled + static_cast<std::size_t>(n);
    for (const char* stop = nullptr; (stop = std::find(line, end, '\n')) != end; line = stop + 1) {
      const auto mapping = parse_line(line, stop);
      if (!mapping || !range.add(*mapping)) return true;
    }
    filled = static_cast<std::size_t>(end - line);
    std::memmove(text.data(), line, filled);
  }
}

}  // namespace

std::optional<Fault> check_mappings(std::uint64_t first, std::uint64_t last, Intent intent,
                                    MappingSource source) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return {};
  Range asked(first, last, intent), listed(first, last, intent);
  std::optional<Fault> fault;
  if (source == MappingSource::kBest && ask(maps, asked)) {
    fault = asked.fault();
  } else if (read_all(maps, listed)) {
    fault = listed.fault();
  }
  ::close(maps);
  return fault;
}

}  // namespace weft::memory
