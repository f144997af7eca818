#include "worlds/shelf.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::worlds {
namespace {

void put(std::vector<std::byte>& to, std::uint32_t offset, std::span<const std::byte> content) {
  std::ranges::copy(content, to.begin() + offset);
}

}  // namespace

void Shelf::reset(std::vector<std::byte> content) {
  posted_ = content;
  posted_by_.assign(content.size(), 0);
  doubt_.assign(content.size(), false);
  confirmed_ = std::move(content);
  possible_.clear();
}

void Shelf::posted(std::uint32_t offset, std::span<const std::byte> content,
                   std::uint64_t sequence) {
  put(posted_, offset, content);
  std::fill_n(posted_by_.begin() + offset, content.size(), static_cast<std::uint32_t>(sequence));
}

bool Shelf::is_latest(std::uint32_t offset, std::uint32_t length, std::uint64_t sequence) const {
  const auto from = posted_by_.begin() + offset;
  return std::all_of(from, from + length, [sequence](std::uint32_t by) {
    return by == static_cast<std::uint32_t>(sequence);
  });
}

void Shelf::confirmed(std::uint32_t offset, std::span<const std::byte> content) {
  put(confirmed_, offset, content);
}

void Shelf::doubtful(std::uint32_t offset, std::uint32_t length) {
  std::fill_n(doubt_.begin() + offset, length, true);
}

void Shelf::possible(std::uint32_t offset, std::span<const std::byte> content) {
  possible_.push_back({offset, {content.begin(), content.end()}});
}

std::vector<std::byte> Shelf::promised(std::uint32_t offset, std::uint32_t length) const {
  const auto from = posted_.begin() + offset;
  return {from, from + length};
}

std::string Shelf::judge(std::span<const std::byte> memory) const {
  for (std::uint32_t i = 0; i < memory.size(); ++i) {
    if (memory[i] == confirmed_[i] || doubt_[i]) continue;
    const auto explains = [&](const Possible& write) {
      return i >= write.offset && i - write.offset < write.content.size() &&
             write.content[i - write.offset] == memory[i];
    };
    if (std::ranges::any_of(possible_, explains)) continue;
    return fmt::format(
        "byte {} of the shelf is {:#04x}, but no write explains it (it should be "
        "{:#04x})",
        i, std::to_integer<unsigned>(memory[i]), std::to_integer<unsigned>(confirmed_[i]));
  }
  return {};
}

}  // namespace weft::worlds
