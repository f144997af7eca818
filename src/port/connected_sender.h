// A send-only socket of a UDP port that is connected to one peer, for the flow that sends most. The
// kernel need not look up the route of each datagram, which is a tenth of what a ping takes. Over
// IPv4 the kernel counts in the identification of what a connected socket sends, and the ICRC
// covers it: the count is looked up when the socket is connected, and kept here. After any error
// the flow goes back to the port's other sockets.
//
// The flow that has the socket sends everything through it, so that its frames stay in order. Owned
// by the port; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/lock.h"
#include "network/flow.h"
#include "port/udp_socket.h"

namespace weft::port {

class ConnectedSender {
 public:
  ConnectedSender(const Gid& address, std::uint32_t interface)
      : address_(address), interface_(interface) {}

  /// The right to send one message; nobody else sends until it is gone.
  class Turn {
   public:
    int fd() const { return sender_->socket_->socket.get(); }
    std::uint16_t source_port() const { return sender_->socket_->port; }
    /// Of the message's first frame; the others count on.
    std::uint16_t identification() const { return sender_->identification_; }
    void on_sent() { ++sender_->identification_; }
    /// Nobody knows what the kernel has counted: from now on no flow has the socket.
    void on_failed() {
      sender_->flow_.store(0, std::memory_order_release);
      ++sender_->failures_;
    }

   private:
    friend class ConnectedSender;
    explicit Turn(ConnectedSender& sender) : sender_(&sender), guard_(sender.lock_) {}

    ConnectedSender* sender_;
    std::unique_lock<base::Lock> guard_;
  };

  /// Before frames of the flow leave. Nothing: it does not have the socket.
  std::optional<Turn> turn(const network::Flow& flow) {
    const std::uint64_t key = key_of(flow);
    if (flow_.load(std::memory_order_acquire) == key) return wait_for_turn(key);
    count_call(flow, key);
    return std::nullopt;
  }
  /// The flow's source port, if it has the socket.
  std::optional<std::uint16_t> source_port(const network::Flow& flow);

 private:
  /// So many calls in a row, all for one flow, are worth connecting; after each failure, twice as
  /// many.
  static constexpr std::uint32_t kCallsToConnect = 256;
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
  void count_call(const network::Flow& flow, std::uint64_t key);
  // With the lock held:
  bool connect_for(const network::Flow& flow);
  bool learn_identification();
  std::optional<std::uint16_t> next_identification();

  const Gid address_;
  const std::uint32_t interface_;
  std::atomic<std::uint64_t> flow_{0};  ///< key of the one that has the socket; 0: none has
  base::Lock lock_;
  std::optional<SendSocket> socket_;
  std::uint16_t identification_ = 0;  ///< of what is sent next
  std::size_t opened_ = 0;            ///< so many sockets there were
  std::uint64_t candidate_ = 0;
  std::uint32_t calls_ = 0;  ///< of the candidate
  std::uint32_t failures_ = 0;
};

}  // namespace weft::port
