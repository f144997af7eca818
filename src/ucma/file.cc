#include "ucma/file.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "host/event_signal.h"
#include "obs/log.h"
#include "ucma/call.h"
#include "ucma/cm_device.h"
#include "ucma/commands.h"

namespace weft::ucma {
namespace {

// What librdmacm had before the structure grew: everything up to `reserved`.
constexpr std::size_t kLeastEventBytes = offsetof(rdma_ucm_event_resp, reserved);

}  // namespace

std::unique_ptr<files::CharFile> File::open(int flags) {
  CmDevice* const device = CmDevice::mine();
  if (device == nullptr) return nullptr;
  host::Fd count = [&] {
    const host::ForkHold hold;
    const int nonblocking = (flags & O_NONBLOCK) != 0 ? EFD_NONBLOCK : 0;
    return host::Fd(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | nonblocking));
  }();
  if (!count) return nullptr;
  std::unique_ptr<File> file(new File(*device, std::move(count)));
  device->join_network();
  const CmDevice::Guard guard(*device);
  if (const int error = device->add(*file); error != 0) {
    errno = error;
    return nullptr;
  }
  return file;
}

File::~File() {
  if (!usable()) return;  // a child's copy: its device is another one
  const CmDevice::Guard guard(device_);
  device_.remove(*this);
}

bool File::nonblocking() const { return (fcntl(count_.get(), F_GETFL) & O_NONBLOCK) != 0; }

ssize_t File::write(std::span<const std::byte> bytes) {
  const int error = usable() ? command(bytes) : ENODEV;
  if (error == 0) return static_cast<ssize_t>(bytes.size());
  errno = error;
  return -1;
}

int File::command(std::span<const std::byte> bytes) {
  rdma_ucm_cmd_hdr header;
  if (bytes.size() < sizeof header) return EINVAL;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::span<const std::byte> in = bytes.subspan(sizeof header);
  if (header.in > in.size()) return EINVAL;
  if (header.cmd == RDMA_USER_CM_CMD_GET_EVENT) return get_event(in.first(header.in), header.out);
  int error = 0;
  const Command handler = find_command(header.cmd, error);
  if (handler == nullptr) return error;
  std::shared_ptr<files::CharFile> other;  // let go after the lock, which its end takes
  const CmDevice::Guard guard(device_);
  error = handler(Call{device_, *this, in.first(header.in), header.out, other});
  obs::log().trace("rdma_cm: command {} gives {}", header.cmd, error);
  return error;
}

int File::get_event(std::span<const std::byte> in, std::size_t out_bytes) {
  if (out_bytes < kLeastEventBytes) return ENOSPC;
  for (;;) {
    const std::uint32_t seen = sequence_.load(std::memory_order_acquire);
    int error = 0;
    if (deliver(in, out_bytes, error)) return error;
    if (nonblocking()) {
      const CmDevice::Guard guard(device_);
      device_.poll();
      if (events_.empty()) return EAGAIN;
      continue;
    }
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const int woken = host::sleep_on(sequence_, seen);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    if (woken == EINTR) return EINTR;
  }
}

/// False: there is none.
bool File::deliver(std::span<const std::byte> in, std::size_t out_bytes, int& error) {
  std::shared_ptr<files::CharFile> none;
  const CmDevice::Guard guard(device_);
  if (events_.empty()) return false;
  const Call call{device_, *this, in, out_bytes, none};
  error = call.respond(call.read<rdma_ucm_get_event>().response, events_.front().response,
                       kLeastEventBytes);
  if (error != 0) return true;
  device_.reported(events_.front());
  take_out(events_.begin());
  return true;
}

// The program might have read the descriptor itself, and may have set it to block.
void File::count_down() const { host::take_count(count_.get()); }

void File::push(const QueuedEvent& event) {
  events_.push_back(event);
  ++waiting_of_[event.owner.value];
  obs::log().trace("rdma_cm: event {} status {} of identifier {}", event.response.event,
                   static_cast<int>(event.response.status), event.response.id);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(count_.get(), &one, sizeof one);
  sequence_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) host::wake_all(sequence_);
}

QueuedEvent File::take_out(std::list<QueuedEvent>::iterator at) {
  QueuedEvent event = *at;
  events_.erase(at);
  const auto counted = waiting_of_.find(event.owner.value);
  if (--counted->second == 0) waiting_of_.erase(counted);
  count_down();
  return event;
}

std::vector<QueuedEvent> File::take_of(Handle owner) {
  std::vector<QueuedEvent> taken;
  const auto counted = waiting_of_.find(owner.value);
  // Those of one that ends are usually among the oldest: the search stops at the last of them.
  std::uint32_t left = counted == waiting_of_.end() ? 0 : counted->second;
  for (auto at = events_.begin(); left > 0;) {
    const auto next = std::next(at);
    if (at->owner == owner) {
      taken.push_back(take_out(at));
      --left;
    }
    at = next;
  }
  return taken;
}

void File::drop_of_group(Handle group) {
  for (auto at = events_.begin(); at != events_.end();) {
    const auto next = std::next(at);
    if (at->has_group && at->group == group) take_out(at);
    at = next;
  }
}

}  // namespace weft::ucma
