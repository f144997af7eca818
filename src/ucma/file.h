// One open file of the emulated rdma_cm device, an event channel to librdmacm. The program writes
// commands to it and asks for events by a command too; its descriptor, an eventfd that counts the
// events waiting, can be polled. Owned by files/; write() comes from any thread, the rest is called
// under the device's lock. A child after fork cannot use its parent's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "files/char_device.h"
#include "host/fd.h"
#include "ucma/events.h"

namespace weft::ucma {

class CmDevice;

class File final : public files::CharFile {
 public:
  /// Null: errno tells why.
  static std::unique_ptr<files::CharFile> open(int flags);
  ~File() override;

  int fd() const override { return count_.get(); }
  ssize_t write(std::span<const std::byte> bytes) override;

  void push(const QueuedEvent& event);
  /// Those that add to the owner's count, taken out.
  std::vector<QueuedEvent> take_of(Handle owner);
  /// Those of a membership that ends.
  void drop_of_group(Handle group);

 private:
  File(CmDevice& device, host::Fd count) : device_(device), count_(std::move(count)) {}

  bool usable() const { return count_.get() >= 0; }
  bool nonblocking() const;
  int command(std::span<const std::byte> bytes);
  int get_event(std::span<const std::byte> in, std::size_t out_bytes);
  bool deliver(std::span<const std::byte> in, std::size_t out_bytes, int& error);
  QueuedEvent take_out(std::list<QueuedEvent>::iterator at);
  void count_down() const;

  CmDevice& device_;
  host::Fd count_;  // of the events in the queue
  std::list<QueuedEvent> events_;
  std::unordered_map<std::uint32_t, std::uint32_t> waiting_of_;  // events in the queue, by owner
  // Changes with each event. release in push() pairs with acquire in get_event(), which sleeps on
  // it.
  std::atomic<std::uint32_t> sequence_{0};
  // seq_cst with sequence_: who sleeps is counted before it compares, who counts wakes after that.
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace weft::ucma
