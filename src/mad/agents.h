// Which agent handles which management datagrams: a table by management class and, where somebody
// wants the datagrams of one port alone, by port. The connection manager has an entry for its
// class; a subnet agent has one for each of its ports. One table for all controllers of a process
// or of a simulated node; it outlives them, and agents outlive it. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <span>

#include "base/lock.h"
#include "mad/header.h"
#include "weft/types.h"

namespace weft::mad {

class Gsi;

/// The bytes live until the call returns. Nothing in them was checked but the base version.
struct Datagram {
  Gid source, destination;  ///< as the frame's headers tell them; the destination is our port's
  Nanoseconds arrived_at = 0;
  std::span<const std::byte, kBytes> bytes;
};

class Agent {
 public:
  virtual ~Agent() = default;
  /// By a thread that polls or by the helper: must neither wait nor close a device. Answers leave
  /// by `gsi`.
  virtual void on_datagram(Gsi& gsi, const Datagram& datagram) = 0;
};

class Agents {
 public:
  static constexpr std::size_t kMost = 64;

  /// Replaces the agent that had this class at this port; without a port, at all ports that have no
  /// agent of their own for it.
  void set(Class of, Agent& agent, const std::optional<Gid>& port = {});
  /// Null: none.
  Agent* find(Class of, const Gid& port) const;
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }

 private:
  struct Entry {
    Class of{};
    std::optional<Gid> port;
    std::atomic<Agent*> agent{nullptr};
  };
  Entry* find_entry(Class of, const std::optional<Gid>& port);

  base::Lock lock_;  // of set(). Readers take no lock: a child may be born while one is at work.
  std::array<Entry, kMost> entries_;
  std::atomic<std::size_t> count_{0};  // release in set() pairs with acquire: entries come first
};

}  // namespace weft::mad
