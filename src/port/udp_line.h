// A line: one more send-only socket of a UDP port, connected to one peer, for the flow that sends
// most. The kernel need not look for the way each time, which is a tenth of what
// a ping takes. Over IPv4 the kernel counts in the identification of what a connected socket sends,
// and the ICRC covers it: so where the count stands is looked up when the line is made, and kept
// here. Once anything goes wrong, the line is given up, and the port's other sockets carry on.
//
// A flow that has the line sends everything there, so that its frames stay in order. Owned by the
// port; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "base/lock.h"
#include "network/flow.h"
#include "port/udp_socket.h"

namespace weft::port {

class UdpLine {
 public:
  UdpLine(const Gid& address, std::uint32_t interface) : address_(address), interface_(interface) {}

  /// The right to send one message over the line; nobody else does until it is gone.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : line_(std::exchange(other.line_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (line_ != nullptr) line_->lock_.unlock();
    }

    int fd() const { return line_->socket_->socket.fd(); }
    std::uint16_t source_port() const { return line_->socket_->port; }
    /// Of the message's first frame; the others count on.
    std::uint16_t identification() const { return line_->identification_; }
    void on_sent() { ++line_->identification_; }
    /// Nobody knows what the kernel has counted: from now on the flow has no line.
    void give_up() {
      line_->served_.store(0, std::memory_order_release);
      ++line_->failures_;
    }

   private:
    friend class UdpLine;
    explicit Turn(UdpLine& line) : line_(&line) {}

    UdpLine* line_;
  };

  /// Before frames of the flow leave. Nothing: it has no line.
  std::optional<Turn> turn(const network::Flow& flow) {
    const std::uint64_t key = key_of(flow);
    if (served_.load(std::memory_order_acquire) == key) return wait_for_turn(key);
    note(flow, key);
    return std::nullopt;
  }
  /// The flow's source port, if it has the line.
  std::optional<std::uint16_t> source_port(const network::Flow& flow);

 private:
  /// So many calls in a row, all for one flow, are worth a line; after each failure, twice as many.
  static constexpr std::uint32_t kCalls = 256;
  static constexpr std::uint32_t kMostDoublings = 12;

  /// Two flows that share one would lose the order of their frames, and 0 is nobody's: neither is
  /// worth caring for.
  static std::uint64_t key_of(const network::Flow& flow) {
    std::uint64_t upper = 0, lower = 0;
    std::memcpy(&upper, flow.destination.raw.data(), sizeof upper);
    std::memcpy(&lower, flow.destination.raw.data() + sizeof upper, sizeof lower);
    return (upper * 0x9E37'79B9'7F4A'7C15 + lower) * 0xD6E8'FEB8'6659'FD93 + flow.source_port;
  }
  std::optional<Turn> wait_for_turn(std::uint64_t key);
  void note(const network::Flow& flow, std::uint64_t key);
  // With the lock held:
  bool open(const network::Flow& flow);
  bool learn_identification();
  std::optional<std::uint16_t> next_looked_up();

  const Gid address_;
  const std::uint32_t interface_;
  std::atomic<std::uint64_t> served_{0};  ///< key of the flow that has the line; 0: none has
  base::Lock lock_;
  std::optional<SendSocket> socket_;
  std::uint16_t identification_ = 0;  ///< of what is sent next
  std::size_t opened_ = 0;            ///< so many sockets there were
  std::uint64_t candidate_ = 0;
  std::uint32_t calls_ = 0;  ///< of the candidate
  std::uint32_t failures_ = 0;
};

}  // namespace weft::port
