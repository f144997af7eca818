#include "host/multicast_names.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "host/fork.h"
#include "host/public_tables.h"

namespace weft::host {
namespace {

/// A new member is heard of after this time at the latest.
constexpr Nanoseconds kRemember_ns = 20'000'000;
constexpr std::size_t kGroupsRemembered = 64;
constexpr std::size_t kMostMembers = 1024;
constexpr std::size_t kMostListBytes = 16 << 20;
constexpr std::size_t kGidDigits = 32, kBlockDigits = 3;

std::string prefix_of(const Gid& group) {
  std::string name = "weft-mc/";
  for (const std::uint8_t byte : group.raw) name += fmt::format("{:02x}", byte);
  return name + '/';
}

std::string name_of(const Gid& group, const GroupMember& member) {
  std::string name = prefix_of(group);
  for (const std::uint8_t byte : member.address.raw) name += fmt::format("{:02x}", byte);
  return name + fmt::format("/{:03x}", member.block);
}

template <class Number>
bool parse_hex(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, 16);
  return error == std::errc() && end == text.data() + text.size();
}

/// "<address>/<block>", and nothing behind it.
std::optional<GroupMember> parse_member(std::string_view text) {
  if (text.size() != kGidDigits + 1 + kBlockDigits || text[kGidDigits] != '/') return {};
  GroupMember member;
  for (std::size_t i = 0; i < member.address.raw.size(); ++i) {
    if (!parse_hex(text.substr(2 * i, 2), member.address.raw[i])) return {};
  }
  if (!parse_hex(text.substr(kGidDigits + 1), member.block)) return {};
  return member;
}

std::string read_names() {
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

}  // namespace

Qpn GroupMember::some_qpn() const { return Qpn(block << kBlockBits); }

std::vector<GroupMember> parse_members(std::string_view lines, const Gid& group) {
  std::vector<GroupMember> members;
  const std::string wanted = " @" + prefix_of(group);
  for (std::size_t at = 0; members.size() < kMostMembers;) {
    at = lines.find(wanted, at);
    if (at == std::string_view::npos) break;
    at += wanted.size();
    const std::string_view rest = lines.substr(at, lines.find('\n', at) - at);
    const auto member = parse_member(rest);
    if (member && std::find(members.begin(), members.end(), *member) == members.end()) {
      members.push_back(*member);
    }
  }
  return members;
}

Result<void> MulticastNames::join(const Gid& group, const Gid& address, Qpn qpn) {
  const std::lock_guard guard(lock_);
  Joined& joined = joined_[group];
  if (joined.count == 0) {
    auto name = LocalSocket::listen(name_of(group, {address, qpn.value >> kBlockBits}));
    if (!name) {
      joined_.erase(group);
      return tl::unexpected(name.error());
    }
    joined.name = std::move(*name);
  }
  ++joined.count;
  seen_.erase(group);
  return {};
}

void MulticastNames::leave(const Gid& group) {
  const std::lock_guard guard(lock_);
  const auto at = joined_.find(group);
  if (at == joined_.end() || --at->second.count > 0) return;
  joined_.erase(at);
  seen_.erase(group);
}

std::vector<GroupMember> MulticastNames::members(const Gid& group, Nanoseconds now) {
  const std::lock_guard guard(lock_);
  const auto at = seen_.find(group);
  if (at != seen_.end() && now - at->second.since < kRemember_ns) return at->second.members;
  if (seen_.size() >= kGroupsRemembered) seen_.clear();
  Seen& seen = seen_[group];
  seen.since = now;
  seen.members = parse_members(read_names(), group);
  return seen.members;
}

}  // namespace weft::host
