#include "host/multicast_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include "host/own_names.h"
#include "host/public_tables.h"

namespace weft::host {
namespace {

/// A new member is heard of after this time, later if the list is long.
constexpr Nanoseconds kRemember_ns = 20'000'000;
constexpr std::size_t kGroupsRemembered = 64;
constexpr std::size_t kMostMembers = 1024;
constexpr std::size_t kGidDigits = 32, kBlockDigits = 3;

Nanoseconds time_of_look_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<Nanoseconds>(std::chrono::nanoseconds(now).count());
}

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

/// "<address>/<block>", and nothing behind it but what a name has beside another user's.
std::optional<GroupMember> parse_member(std::string_view text) {
  text = text.substr(0, text.find('~'));
  if (text.size() != kGidDigits + 1 + kBlockDigits || text[kGidDigits] != '/') return {};
  GroupMember member;
  for (std::size_t i = 0; i < member.address.raw.size(); ++i) {
    if (!parse_hex(text.substr(2 * i, 2), member.address.raw[i])) return {};
  }
  if (!parse_hex(text.substr(kGidDigits + 1), member.block)) return {};
  return member;
}

}  // namespace

Qpn GroupMember::some_qpn() const { return Qpn(block << kBlockBits); }

std::vector<GroupMember> parse_members(std::span<const std::string> names, const Gid& group) {
  std::vector<GroupMember> members;
  const std::string prefix = prefix_of(group);
  for (const std::string& name : names) {
    if (members.size() == kMostMembers) break;
    if (!name.starts_with(prefix)) continue;
    const auto member = parse_member(std::string_view(name).substr(prefix.size()));
    if (member && std::find(members.begin(), members.end(), *member) == members.end()) {
      members.push_back(*member);
    }
  }
  return members;
}

Result<void> MulticastNames::join(const Gid& group, const Gid& address, Qpn qpn) {
  const std::lock_guard guard(lock_);
  turn_callers_away();
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

/// Nobody has business there, but where the kernel does not tell owners, senders call to learn
/// them.
void MulticastNames::turn_callers_away() {
  constexpr int kMost = 64;
  for (const auto& [group, joined] : joined_) {
    for (int i = 0; i < kMost && joined.name.accept(); ++i) continue;
  }
}

std::vector<GroupMember> MulticastNames::members(const Gid& group, Nanoseconds now) {
  const std::lock_guard guard(lock_);
  const auto at = seen_.find(group);
  if (at != seen_.end() && now < at->second.until) return at->second.members;
  if (seen_.size() >= kGroupsRemembered) seen_.clear();
  turn_callers_away();
  Seen& seen = seen_[group];
  const Nanoseconds begun = time_of_look_ns();
  seen.members = parse_members(own_names(prefix_of(group)), group);
  seen.until = now + std::max(kRemember_ns, pause_after_look(time_of_look_ns() - begun));
  return seen.members;
}

}  // namespace weft::host
