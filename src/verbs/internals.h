// What is behind a handle of include/weft/verbs.h, for the folders above that need more than the
// handle offers (shim/). Stateless.
#pragma once

#include "verbs/objects.h"
#include "weft/verbs.h"

namespace weft::verbs {

struct Internals {
  static CompChannelObject& of(const CompletionChannel& handle) { return *handle.object_; }
  static CqObject& of(const CompletionQueue& handle) { return *handle.object_; }
  static SrqObject& of(const SharedReceiveQueue& handle) { return *handle.object_; }
  static std::shared_ptr<SrqObject> shared(const SharedReceiveQueue& handle) {
    return handle.object_;
  }
  static std::shared_ptr<CqObject> shared(const CompletionQueue& handle) { return handle.object_; }
  /// For those who bind without bind_request(): the key that the window has, or will have.
  static void set_key(MemoryWindow& window, RemoteKey rkey) { window.rkey_ = rkey; }
  static QpObject& of(const QueuePair& handle) { return *handle.object_; }
  /// The fast path of post_send(); false: nothing was done.
  static bool fast_post(const QueuePair& handle, const SendRequest& request) {
    return Controller::fast_post(*handle.object_->core, request);
  }
};

}  // namespace weft::verbs
