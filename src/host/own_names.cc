#include "host/own_names.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <span>
#include <utility>

#include "base/lock.h"
#include "base/random.h"
#include "host/abstract_name.h"
#include "host/fd.h"
#include "host/fork.h"
#include "host/same_user.h"

namespace weft::host {
namespace {

/// Some 600,000 names; a list that is longer is cut.
constexpr std::size_t kMostListBytes = 64 << 20;
/// Names whose owner is not known that are called in one look, and those that are remembered.
constexpr std::size_t kMostCalls = 256, kMostVerdicts = 16'384;
constexpr Nanoseconds kShortestPause_ns = 1'000'000;

// relaxed: it stands for itself.
constinit std::atomic<bool> told{true};

Nanoseconds clock_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<Nanoseconds>(std::chrono::nanoseconds(now).count());
}

template <class T>
std::optional<T> load(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(T)) return {};
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  const void* const any = bytes.data();
  return {static_cast<const char*>(any), bytes.size()};
}

std::span<const std::byte> after(std::span<const std::byte> bytes, std::size_t size) {
  return bytes.subspan(std::min(size, bytes.size()));
}

// ---- with owners: sock_diag ---------------------------------------------------------------------

using Visit = std::function<void(std::string_view name, uid_t owner)>;

Fd ask_for_sockets() {
  const ForkHold hold;
  Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd) return {};
  // The kernel answers in the call that reads; this is for one that does not.
  const timeval patience{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  struct {
    nlmsghdr header{};
    unix_diag_req body{};
  } request;
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.sdiag_family = AF_UNIX;
  // Bound or listening: sockets that were accepted have the name too, and are not meant.
  request.body.udiag_states = 1u << TCP_LISTEN | 1u << TCP_CLOSE;
  request.body.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID;
  if (send(fd.get(), &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return {};
  return fd;
}

/// False: the kernel does not tell owners.
bool visit_socket(std::span<const std::byte> body, const Visit& visit) {
  const auto socket = load<unix_diag_msg>(body);
  if (!socket || socket->udiag_type != SOCK_SEQPACKET) return true;
  std::optional<uid_t> owner;
  std::string_view name;
  for (auto rest = after(body, NLMSG_ALIGN(sizeof *socket)); rest.size() >= sizeof(rtattr);) {
    const rtattr attribute = *load<rtattr>(rest);
    if (attribute.rta_len < sizeof attribute || attribute.rta_len > rest.size()) break;
    const auto value = rest.first(attribute.rta_len).subspan(sizeof attribute);
    if (attribute.rta_type == UNIX_DIAG_NAME) name = as_text(value);
    if (attribute.rta_type == UNIX_DIAG_UID) owner = load<uid_t>(value);
    rest = after(rest, RTA_ALIGN(attribute.rta_len));
  }
  if (!owner) return false;
  if (name.size() > 1 && name[0] == '\0') visit(name.substr(1), *owner);
  return true;
}

enum class Step { kMore, kEnd, kRefused };

Step visit_messages(std::span<const std::byte> bytes, const Visit& visit) {
  for (auto rest = bytes; rest.size() >= sizeof(nlmsghdr);) {
    const nlmsghdr header = *load<nlmsghdr>(rest);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest.size()) return Step::kRefused;
    if (header.nlmsg_type == NLMSG_DONE) return Step::kEnd;
    if (header.nlmsg_type == NLMSG_ERROR) return Step::kRefused;
    if (!visit_socket(rest.first(header.nlmsg_len).subspan(sizeof header), visit)) {
      return Step::kRefused;
    }
    rest = after(rest, NLMSG_ALIGN(header.nlmsg_len));
  }
  return Step::kMore;
}

/// False: the kernel does not do this, or somebody does not allow it.
bool visit_names(const Visit& visit) {
  const Fd fd = ask_for_sockets();
  if (!fd) return false;
  std::vector<std::byte> buffer(64 * 1024);
  for (std::size_t total = 0; total < kMostListBytes;) {
    sockaddr_nl from{};
    socklen_t size = sizeof from;
    void* const any = &from;
    const ssize_t n =
        recvfrom(fd.get(), buffer.data(), buffer.size(), 0, static_cast<sockaddr*>(any), &size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    if (from.nl_pid != 0) continue;  // not the kernel
    total += static_cast<std::size_t>(n);
    const Step step = visit_messages(std::span(buffer).first(static_cast<std::size_t>(n)), visit);
    if (step != Step::kMore) return step == Step::kEnd;
  }
  return true;
}

// ---- without: /proc/net/unix, and a call to each ------------------------------------------------

std::string read_list() {
  const ForkHold hold;
  const Fd file(open("/proc/net/unix", O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!file) return text;
  constexpr std::size_t kChunk = 64 * 1024;
  while (text.size() < kMostListBytes) {
    const std::size_t before = text.size();
    text.resize(before + kChunk);
    const ssize_t n = read(file.get(), text.data() + before, kChunk);
    text.resize(before + static_cast<std::size_t>(n > 0 ? n : 0));
    if (n <= 0) break;
  }
  return text;
}

/// "<inode> @<name>", the end of a line. Whoever has a line break in a name writes lines too, so
/// nothing is believed.
std::vector<std::string> candidates(std::string_view list, std::string_view prefix) {
  std::vector<std::string> found;
  const std::string wanted = " @" + std::string(prefix);
  for (std::size_t at = list.find(wanted); at != std::string_view::npos;
       at = list.find(wanted, at)) {
    const std::size_t begin = list.rfind(' ', at - 1) + 1;
    const std::size_t end = std::min(list.find('\n', at), list.size());
    found.emplace_back(list.substr(begin, end - begin));
    at = end;
  }
  return found;
}

std::string_view name_in(std::string_view line) { return line.substr(line.find('@') + 1); }

/// Nothing: it cannot be told now.
std::optional<bool> call(std::string_view name) {
  const auto address = AbstractName::make(name);
  if (!address) return false;
  const Fd fd = make_local_socket();
  if (!fd) return {};
  const int error = connect_now(fd.get(), *address);
  if (error == EAGAIN) return {};
  if (error != 0) return false;
  ucred who{};
  socklen_t size = sizeof who;
  return getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
         is_same_user(who.uid, fd.get());
}

/// What calls to names told, by line: a socket that has the name later has another inode.
class Verdicts {
 public:
  std::vector<std::string> own_among(std::vector<std::string> lines) {
    const ForkHold hold;
    const std::lock_guard guard(lock_);
    // Others must not find out which ones come too late.
    std::shuffle(lines.begin(), lines.end(),
                 std::minstd_rand(base::system_random().draw<unsigned>()));
    std::map<std::string, bool> seen;
    std::vector<std::string> own;
    std::size_t calls = 0;
    for (std::string& line : lines) {
      const auto known = known_.find(line);
      std::optional<bool> verdict;
      if (known != known_.end()) {
        verdict = known->second;
      } else if (calls < kMostCalls) {
        ++calls;
        verdict = call(name_in(line));
      }
      if (!verdict) continue;
      if (*verdict) own.emplace_back(name_in(line));
      if (seen.size() < kMostVerdicts) seen.insert_or_assign(std::move(line), *verdict);
    }
    if (known_.size() + seen.size() > kMostVerdicts) {
      std::erase_if(known_, [](const auto& each) { return !each.second; });
    }
    if (known_.size() + seen.size() > kMostVerdicts) known_.clear();
    known_.merge(seen);
    return own;
  }

 private:
  base::Lock lock_;
  std::map<std::string, bool> known_;
};

}  // namespace

std::vector<std::string> own_names(std::string_view prefix) {
  std::vector<std::string> found;
  const uid_t own = geteuid();
  const bool complete = visit_names([&](std::string_view name, uid_t owner) {
    if (owner == own && name.starts_with(prefix)) found.emplace_back(name);
  });
  told.store(complete, std::memory_order_relaxed);
  if (complete) return found;
  static auto& verdicts = *new Verdicts;
  return verdicts.own_among(candidates(read_list(), prefix));
}

bool owners_are_told() { return told.load(std::memory_order_relaxed); }

std::vector<std::string> own_names_lately(std::string_view prefix) {
  struct Remembered {
    base::Lock lock;
    std::vector<std::string> names;
    Nanoseconds until_ns = 0;
  };
  static auto& remembered = *new Remembered;
  const ForkHold hold;
  const std::lock_guard guard(remembered.lock);
  const Nanoseconds begun = clock_ns();
  if (begun >= remembered.until_ns) {
    remembered.names = own_names(kNamePrefix);
    const Nanoseconds end = clock_ns();
    remembered.until_ns = end + std::max(pause_after_look(end - begun), kShortestPause_ns);
  }
  std::vector<std::string> found;
  for (const std::string& name : remembered.names) {
    if (name.starts_with(prefix)) found.push_back(name);
  }
  return found;
}

}  // namespace weft::host
