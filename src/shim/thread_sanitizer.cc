#include "shim/thread_sanitizer.h"

#include <dlfcn.h>

#include "shim/completion.h"
#include "shim/post.h"
#include "shim/srq.h"

namespace weft::shim {
namespace {

/// The runtime's own interface, for those who make primitives of their own.
struct Runtime {
  void (*acquire)(void*) = nullptr;
  void (*release)(void*) = nullptr;

  static const Runtime& found() {
    static const Runtime runtime = [] {
      const auto find = [](const char* name) {
        return reinterpret_cast<void (*)(void*)>(dlsym(RTLD_DEFAULT, name));
      };
      return Runtime{find("__tsan_acquire"), find("__tsan_release")};
    }();
    return runtime;
  }
  bool is_there() const { return acquire != nullptr && release != nullptr; }
};

// One for the process: whoever polls knows of each post before, on any device. That is more order
// than there is, never less.
char order = 0;
void posting() { Runtime::found().release(&order); }
void polled() { Runtime::found().acquire(&order); }

// What the objects had before; all have the same.
int (*complete_posts)(ibv_qp_ex*) = nullptr;
int (*start_polling)(ibv_cq_ex*, ibv_poll_cq_attr*) = nullptr;
int (*poll_next)(ibv_cq_ex*) = nullptr;

}  // namespace

void tell_thread_sanitizer(ibv_context_ops& operations) {
  if (!Runtime::found().is_there()) return;
  operations.post_send = [](ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad) {
    posting();
    return post_send(qp, first, bad);
  };
  operations.post_recv = [](ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** bad) {
    posting();
    return post_recv(qp, first, bad);
  };
  operations.post_srq_recv = [](ibv_srq* srq, ibv_recv_wr* first, ibv_recv_wr** bad) {
    posting();
    return post_srq_recv(srq, first, bad);
  };
  operations.poll_cq = [](ibv_cq* cq, int most, ibv_wc* out) {
    const int count = poll_cq(cq, most, out);
    polled();
    return count;
  };
}

void tell_thread_sanitizer(ibv_qp_ex& qp) {
  if (!Runtime::found().is_there()) return;
  complete_posts = qp.wr_complete;
  qp.wr_complete = [](ibv_qp_ex* at) {
    posting();
    return complete_posts(at);
  };
}

void tell_thread_sanitizer(ibv_cq_ex& cq) {
  if (!Runtime::found().is_there()) return;
  start_polling = cq.start_poll;
  poll_next = cq.next_poll;
  cq.start_poll = [](ibv_cq_ex* at, ibv_poll_cq_attr* attributes) {
    const int error = start_polling(at, attributes);
    polled();
    return error;
  };
  cq.next_poll = [](ibv_cq_ex* at) {
    const int error = poll_next(at);
    polled();
    return error;
  };
}

}  // namespace weft::shim
