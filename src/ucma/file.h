// One open file of the emulated rdma_cm device, an event channel to librdmacm. The program writes
// commands to it and asks for events by a command too; its descriptor, an eventfd that counts the
// events waiting, can be polled. Owned by files/; write() comes from any thread, the rest is called
// under the agent's lock. A child after fork cannot use its parent's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "files/char_device.h"
#include "host/fd.h"
#include "ucma/events.h"

namespace weft::ucma {

class Agent;

class File final : public files::CharFile {
 public:
  /// Null: errno tells why.
  static std::unique_ptr<files::CharFile> open(int flags);
  ~File() override;

  int fd() const override { return count_.get(); }
  ssize_t write(std::span<const std::byte> bytes) override;

  void push(const QueuedEvent& event);
  /// Those that `which` names, taken out.
  std::vector<QueuedEvent> take(const std::function<bool(const QueuedEvent&)>& which);

 private:
  File(Agent& agent, host::Fd count) : agent_(agent), count_(std::move(count)) {}

  bool usable() const { return count_.get() >= 0; }
  bool nonblocking() const;
  int command(std::span<const std::byte> bytes);
  int get_event(std::span<const std::byte> in, std::size_t out_bytes);
  bool deliver(std::span<const std::byte> in, std::size_t out_bytes, int& error);
  void count_down() const;

  Agent& agent_;
  host::Fd count_;  // of the events in the queue
  std::deque<QueuedEvent> events_;
  // Changes with each event. release in push() pairs with acquire in get_event(), which sleeps on
  // it.
  std::atomic<std::uint32_t> sequence_{0};
};

}  // namespace weft::ucma
