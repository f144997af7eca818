// Completions as libibverbs tells them: conversion, and the operations of a context that concern
// completion queues. Any thread.
#pragma once

#include "shim/objects.h"

namespace weft::shim {

constexpr ibv_wc_opcode opcode_of(CompletionOp op) {
  switch (op) {
    case CompletionOp::kSend:
      return IBV_WC_SEND;
    case CompletionOp::kWrite:
      return IBV_WC_RDMA_WRITE;
    case CompletionOp::kRead:
      return IBV_WC_RDMA_READ;
    case CompletionOp::kCompareSwap:
      return IBV_WC_COMP_SWAP;
    case CompletionOp::kFetchAdd:
      return IBV_WC_FETCH_ADD;
    case CompletionOp::kAtomicWrite:
      return IBV_WC_ATOMIC_WRITE;
    case CompletionOp::kBind:
      return IBV_WC_BIND_MW;
    case CompletionOp::kLocalInvalidate:
      return IBV_WC_LOCAL_INV;
    case CompletionOp::kReceive:
      return IBV_WC_RECV;
    case CompletionOp::kReceiveWriteImmediate:
      return IBV_WC_RECV_RDMA_WITH_IMM;
    case CompletionOp::kDelay:
      break;  // nobody can post one through libibverbs
  }
  return IBV_WC_SEND;
}

constexpr unsigned flags_of(const Completion& completion) {
  return (completion.has_grh ? unsigned{IBV_WC_GRH} : 0u) |
         (completion.has_immediate ? unsigned{IBV_WC_WITH_IMM} : 0u) |
         (completion.has_invalidate ? unsigned{IBV_WC_WITH_INV} : 0u);
}

inline std::uint8_t sl_of(const Cq& cq, const Completion& completion) {
  return completion.has_grh ? cq.datagram_sl : std::uint8_t{0};
}

/// The whole of it in libibverbs' form.
ibv_wc completion_of(const Cq& cq, const Completion& completion);

int poll_cq(ibv_cq* cq, int most, ibv_wc* out);
int req_notify_cq(ibv_cq* cq, int solicited_only);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);

/// The functions of an extended completion queue, as far as `wc_flags` asks for them.
void set_polling(Cq& cq);

}  // namespace weft::shim
