// The shadow of a shelf: memory that one peer may write and read through keys. It knows what the
// peer's posted writes will leave there once all are done, what its confirmed writes have left, and
// which bytes are in doubt because a write's fate is unknown. Owned by the shelf's end; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft::worlds {

class Shelf {
 public:
  /// All writes are forgotten; `content` is what memory holds now.
  void reset(std::vector<std::byte> content);

  void posted(std::uint32_t offset, std::span<const std::byte> content, std::uint64_t sequence);
  void confirmed(std::uint32_t offset, std::span<const std::byte> content);
  /// Unknown outcome: from now on these bytes may hold what they held, or the content.
  void doubtful(std::uint32_t offset, std::uint32_t length);
  /// Unreliable writes: they happen whole, in part or not at all, in any order.
  void possible(std::uint32_t offset, std::span<const std::byte> content);

  /// What a read that is posted now must bring.
  std::vector<std::byte> promised(std::uint32_t offset, std::uint32_t length) const;
  /// No later write was posted to any of these bytes.
  bool is_latest(std::uint32_t offset, std::uint32_t length, std::uint64_t sequence) const;
  /// Empty, or what is wrong with the memory's content after all is over.
  std::string judge(std::span<const std::byte> memory) const;
  std::size_t size() const { return confirmed_.size(); }

 private:
  struct Possible {
    std::uint32_t offset;
    std::vector<std::byte> content;
  };

  std::vector<std::byte> posted_, confirmed_;
  std::vector<std::uint32_t> posted_by_;  ///< the number of the write, cut to 32 bits
  std::vector<bool> doubt_;
  std::vector<Possible> possible_;
};

}  // namespace weft::worlds
