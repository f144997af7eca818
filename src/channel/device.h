// What the channels of a context share of an RDMA device: protection domain, one completion queue
// with its event descriptor, one shared receive queue that takes the bells, and the slab. So a
// channel costs its queue pair and its rings, and nothing that polls. Belongs to a context, under
// its lock.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "channel/ring_store.h"
#include "channel/slab.h"
#include "channel/window_pool.h"
#include "weft/result.h"

namespace weft::channel {

/// Work that one channel may have in its queue pair.
inline constexpr std::uint32_t kSendDepth = 32;

/// Why memory could not be registered, and what to do about it.
std::string explain_registration(int error, std::uint64_t bytes);

class Device {
 public:
  static Result<std::unique_ptr<Device>> open(ibv_context* verbs, Budget& budget);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  ibv_context* verbs() const { return verbs_; }
  ibv_pd* pd() const { return pd_; }
  ibv_cq* cq() const { return cq_; }
  ibv_srq* srq() const { return srq_; }
  Slab& slab() { return *slab_; }
  RingStore& rings() { return *rings_; }
  WindowPool& windows() { return *windows_; }
  int event_fd() const { return events_->fd; }
  std::uint8_t reads_at_once() const { return reads_at_once_; }

  /// Room for the completions of this many channels, if the device has it also for what peers can
  /// cause beyond the usual; false: the queue could not be enlarged.
  bool make_room(std::uint64_t channels);
  /// Completions, and the bells' receive buffers put back.
  std::span<const ibv_wc> poll();
  /// Of a message that came: it has closed the window wc.invalidated_rkey.
  bool has_closed_window(const ibv_wc& wc) const {
    return (wc.wc_flags & closes_window_) != 0 && (wc.wc_flags & IBV_WC_WITH_IMM) == 0;
  }
  void arm() { ibv_req_notify_cq(cq_, 0); }
  void take_events();

 private:
  Device() = default;
  void post_bells(std::uint32_t count);

  ibv_context* verbs_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* events_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_srq* srq_ = nullptr;
  std::unique_ptr<Slab> slab_;
  std::unique_ptr<RingStore> rings_;
  std::unique_ptr<WindowPool> windows_;
  std::uint8_t reads_at_once_ = 1;
  int most_completions_ = 0;  // of one queue
  unsigned closes_window_ = IBV_WC_WITH_INV;
  ibv_wc completions_[32];
};

}  // namespace weft::channel
