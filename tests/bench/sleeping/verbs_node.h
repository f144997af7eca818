// One process's end of an echo run over verbs: a device, completion queues with their channels, and
// connected queue pairs with their buffers. libibverbs alone, so it runs on any device. Owned by
// main(), used by one thread, lives until the process ends (the kernel, or weft, takes it back).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "control.h"

namespace weft::bench {

struct VerbsSettings {
  std::string device;  ///< empty: the first
  int port = 1;
  int gid_index = 0;
  bool channel_per_connection = false;
  std::uint32_t signal_interval = 16;  ///< every so many sends, one asks for a completion
};

/// A completion queue and the channel that its events come through.
struct Completions {
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
};

class VerbsNode {
 public:
  VerbsNode(const VerbsSettings& settings, std::uint32_t connections, std::uint32_t size);

  /// Connects each queue pair with the one of the same index at the other end; receives are posted
  /// and events are asked for before the other side may send.
  void connect(const Control& control);

  /// The message of a connection that leaves with the next send().
  std::span<std::byte> outgoing(std::uint32_t connection);
  void send(std::uint32_t connection);

  std::deque<Completions>& completions() { return completions_; }

  /// Asks for the next event, then takes what is there until nothing is. This order leaves no
  /// completion behind without an event. `on_message(connection, bytes)` may send.
  template <class OnMessage>
  void drain(const Completions& completions, OnMessage on_message) {
    request_event(completions);
    ibv_wc batch[16];
    while (const int n = poll(completions, batch)) {
      for (const ibv_wc& wc : std::span(batch, static_cast<std::size_t>(n))) {
        const auto connection = static_cast<std::uint32_t>(wc.wr_id >> 32);
        if (is_send(wc)) continue;  // the echo has told already
        const std::uint32_t slot = static_cast<std::uint32_t>(wc.wr_id) - 1;
        on_message(connection, incoming(connection, slot));
        post_receive(connection, slot);
      }
    }
  }

 private:
  struct Connection {
    ibv_qp* qp = nullptr;
    std::uint32_t sends = 0;
  };

  void add_completions(std::uint32_t connections);
  void add_connection(const Completions& completions);
  static void request_event(const Completions& completions);
  static int poll(const Completions& completions, std::span<ibv_wc> into);
  static bool is_send(const ibv_wc& wc) { return static_cast<std::uint32_t>(wc.wr_id) == 0; }
  std::span<std::byte> buffer(std::uint32_t connection, std::uint32_t index);
  std::span<std::byte> incoming(std::uint32_t connection, std::uint32_t slot);
  void post_receive(std::uint32_t connection, std::uint32_t slot);

  const VerbsSettings settings_;
  const std::uint32_t size_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_port_attr port_{};
  ibv_gid gid_{};
  ibv_mr* mr_ = nullptr;
  std::vector<std::byte> memory_;
  std::deque<Completions> completions_;
  std::vector<Connection> connections_;
};

}  // namespace weft::bench
