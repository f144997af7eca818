// A library for tests, to be preloaded before any device, weft's or another: tells the program of
// the verbs and of the system calls for memory that it makes (verbs_tracer.h), in their order.
#include "system/verbs_tracer.h"

#include <sys/mman.h>

#include <atomic>
#include <map>
#include <mutex>

#include "support/next_function.h"
#include "support/program_code.h"

#undef ibv_reg_mr

namespace {

using weft::test::is_of_program;
using weft::test::next;
using weft::test::TracedCall;

std::atomic<void (*)(const TracedCall&)> callback{nullptr};

void tell(const TracedCall& call) {
  if (const auto to = callback.load()) to(call);
}

std::uint64_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

ibv_mr* told(ibv_mr* region, int access) {
  if (region == nullptr) return nullptr;
  tell({TracedCall::kRegister, region->pd, number(region->addr), region->length, region->lkey,
        region->rkey, access});
  return region;
}

// What the device itself posts by; each context has its own.
using Post = int (*)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
std::mutex lock;
std::map<const ibv_context*, Post>& posts() {
  static auto* const all = new std::map<const ibv_context*, Post>;
  return *all;
}

int post_send(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) {
  for (const ibv_send_wr* wr = list; wr != nullptr; wr = wr->next) {
    const bool write = wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (!write || wr->num_sge != 1) continue;
    tell({TracedCall::kPost, qp->pd, wr->wr.rdma.remote_addr, wr->sg_list[0].length,
          wr->sg_list[0].lkey, wr->wr.rdma.rkey, 0});
  }
  Post post = nullptr;
  {
    const std::lock_guard guard(lock);
    post = posts().at(qp->context);
  }
  return post(qp, list, bad);
}

}  // namespace

void weft_test_on_call(void (*to)(const TracedCall&)) { callback = to; }

extern "C" {

[[gnu::visibility("default")]] ibv_context* ibv_open_device(ibv_device* device) {
  ibv_context* const context = next<ibv_context*(ibv_device*)>("ibv_open_device")(device);
  if (context == nullptr) return nullptr;
  const std::lock_guard guard(lock);
  posts()[context] = context->ops.post_send;
  context->ops.post_send = post_send;
  return context;
}

[[gnu::visibility("default")]] ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length,
                                                  int access) {
  return told(
      next<ibv_mr*(ibv_pd*, void*, std::size_t, int)>("ibv_reg_mr")(pd, address, length, access),
      access);
}

[[gnu::visibility("default")]] ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address,
                                                        std::size_t length, std::uint64_t iova,
                                                        unsigned access) {
  return told(next<ibv_mr*(ibv_pd*, void*, std::size_t, std::uint64_t, unsigned)>(
                  "ibv_reg_mr_iova2")(pd, address, length, iova, access),
              static_cast<int>(access));
}

[[gnu::visibility("default")]] int ibv_dereg_mr(ibv_mr* region) {
  tell({TracedCall::kDeregister, region->pd, number(region->addr), region->length, region->lkey,
        region->rkey, 0});
  return next<int(ibv_mr*)>("ibv_dereg_mr")(region);
}

[[gnu::visibility("default")]] void* mmap(void* at, std::size_t bytes, int protection, int flags,
                                          int file, off_t offset) noexcept {
  const bool told_of = is_of_program(__builtin_return_address(0)) && (flags & MAP_ANONYMOUS) != 0;
  void* const memory = next<void*(void*, std::size_t, int, int, int, off_t)>("mmap")(
      at, bytes, protection, flags, file, offset);
  if (told_of && memory != MAP_FAILED) {
    tell({TracedCall::kMap, nullptr, number(memory), bytes, 0, 0, 0});
  }
  return memory;
}

[[gnu::visibility("default")]] int munmap(void* begin, std::size_t bytes) noexcept {
  const bool told_of = is_of_program(__builtin_return_address(0));
  const int result = next<int(void*, std::size_t)>("munmap")(begin, bytes);
  if (told_of && result == 0) {
    tell({TracedCall::kGiveBack, nullptr, number(begin), bytes, 0, 0, 0});
  }
  return result;
}

[[gnu::visibility("default")]] int madvise(void* begin, std::size_t bytes, int advice) noexcept {
  const bool told_of = is_of_program(__builtin_return_address(0)) &&
                       (advice == MADV_DONTNEED || advice == MADV_REMOVE);
  const int result = next<int(void*, std::size_t, int)>("madvise")(begin, bytes, advice);
  if (told_of && result == 0) {
    tell({TracedCall::kGiveBack, nullptr, number(begin), bytes, 0, 0, 0});
  }
  return result;
}
}
