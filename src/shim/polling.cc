// Extended completion queues: one completion after another, field by field.
#include <ctime>

#include "shim/completion.h"
#include "shim/thread_sanitizer.h"

namespace weft::shim {
namespace {

std::uint64_t now_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

int take(ibv_cq_ex* shown) {
  Cq& cq = Cq::of(shown);
  if (cq.cq.poll(std::span(&cq.current, 1)) == 0) return ENOENT;
  if (cq.stamps) [[unlikely]]
    cq.polled_at_ns = now_ns(CLOCK_MONOTONIC);
  if (!cq.current.ok() && explaining()) [[unlikely]]
    explain_completion(Context::of(shown->context), completion_of(cq, cq.current));
  shown->wr_id = cq.current.wr_id;
  shown->status = static_cast<ibv_wc_status>(cq.current.status);
  return 0;
}

int start_poll(ibv_cq_ex* shown, ibv_poll_cq_attr* attr) {
  return attr != nullptr && attr->comp_mask != 0 ? EINVAL : take(shown);
}

}  // namespace

void set_polling(Cq& cq) {
  ibv_cq_ex& shown = cq.shown;
  shown.start_poll = start_poll;
  shown.next_poll = take;
  tell_thread_sanitizer(shown);
  shown.end_poll = [](ibv_cq_ex*) {};
  shown.read_opcode = [](ibv_cq_ex* at) { return opcode_of(Cq::of(at).current.op); };
  shown.read_vendor_err = [](ibv_cq_ex*) { return std::uint32_t{0}; };
  shown.read_byte_len = [](ibv_cq_ex* at) { return Cq::of(at).current.byte_count; };
  shown.read_imm_data = [](ibv_cq_ex* at) -> __be32 {
    const Completion& current = Cq::of(at).current;
    return current.has_invalidate ? current.invalidated_key.value : htobe32(current.immediate);
  };
  shown.read_qp_num = [](ibv_cq_ex* at) { return Cq::of(at).current.qpn.value; };
  shown.read_src_qp = [](ibv_cq_ex* at) { return Cq::of(at).current.source_qp.value; };
  shown.read_wc_flags = [](ibv_cq_ex* at) { return flags_of(Cq::of(at).current); };
  shown.read_slid = [](ibv_cq_ex*) { return std::uint32_t{0}; };
  shown.read_sl = [](ibv_cq_ex* at) { return sl_of(Cq::of(at), Cq::of(at).current); };
  shown.read_dlid_path_bits = [](ibv_cq_ex*) { return std::uint8_t{0}; };
  shown.read_completion_ts = [](ibv_cq_ex* at) { return Cq::of(at).polled_at_ns; };
  shown.read_completion_wallclock_ns = [](ibv_cq_ex* at) {
    return now_ns(CLOCK_REALTIME) - (now_ns(CLOCK_MONOTONIC) - Cq::of(at).polled_at_ns);
  };
  // Never asked for by a program that respects what create_cq_ex refuses; but never null.
  shown.read_cvlan = [](ibv_cq_ex*) { return std::uint16_t{0}; };
  shown.read_flow_tag = [](ibv_cq_ex*) { return std::uint32_t{0}; };
  shown.read_tm_info = [](ibv_cq_ex*, ibv_wc_tm_info* info) { *info = {}; };
}

}  // namespace weft::shim
