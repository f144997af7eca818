// Memory windows of type 2 for messages that are lent: each opens exactly the bytes of one message
// to one queue pair, until the peer's last message closes it. They are made when they are needed
// and kept for the next loan. Belongs to a context's device, under the context's lock.
#pragma once

#include <infiniband/verbs.h>

#include <vector>

namespace weft::channel {

class WindowPool {
 public:
  /// `supported`: the device has windows that messages can close.
  WindowPool(ibv_pd* pd, bool supported) : pd_(pd), supported_(supported) {}
  ~WindowPool() {
    for (ibv_mw* window : free_) ibv_dealloc_mw(window);
  }
  WindowPool(const WindowPool&) = delete;
  WindowPool& operator=(const WindowPool&) = delete;

  static bool supported_by(const ibv_device_attr& device) {
    constexpr unsigned kTypes = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    return (device.device_cap_flags & kTypes) != 0 &&
           (device.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0 && device.max_mw > 0;
  }

  /// One that protects nothing; null: there is none to be had.
  ibv_mw* take() {
    if (free_.empty()) return supported_ ? ibv_alloc_mw(pd_, IBV_MW_TYPE_2) : nullptr;
    ibv_mw* window = free_.back();
    free_.pop_back();
    return window;
  }
  /// One that the peer has closed, or that was never bound.
  void put(ibv_mw* window) {
    if (free_.size() < kKeepMost) {
      free_.push_back(window);
    } else {
      ibv_dealloc_mw(window);
    }
  }
  /// One that may still be open: it is closed when this returns.
  static void close(ibv_mw* window) { ibv_dealloc_mw(window); }

 private:
  static constexpr std::size_t kKeepMost = 64;

  ibv_pd* const pd_;
  const bool supported_;
  std::vector<ibv_mw*> free_;
};

}  // namespace weft::channel
