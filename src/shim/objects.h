// What the program holds pointers to: libibverbs' structures, each followed by what weft needs
// beside it. The structure always comes first, so that a cast leads from one to the other; of()
// is that cast. An object is ours when its context's device is one of ours, which is a comparison
// of addresses. Made by a create call of the program, freed by its destroy call.
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "files/device_list.h"
#include "shim/command_file.h"
#include "shim/explain.h"
#include "shim/numbered.h"
#include "verbs/internals.h"
#include "weft/verbs.h"

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace weft::shim {

inline constexpr std::uint8_t kPort = 1;
/// Newer headers have larger structures and no way to tell: what lies behind ours is zero.
inline constexpr std::size_t kRoomToGrow = 256;

// ---- devices and contexts -------------------------------------------------------------------

struct Device {
  ibv_device shown;
  std::array<std::byte, kRoomToGrow> room{};
  const files::ShownDevice* weft = nullptr;

  static Device& of(ibv_device* device) { return *reinterpret_cast<Device*>(device); }
};

/// All of them, at addresses that never change.
std::vector<Device>& devices();
bool is_ours(const ibv_device* device);

struct Cq;
struct Qp;
struct Srq;
struct Xrcd;

struct Context {
  Context(verbs::Device opened, std::shared_ptr<CommandFile> behind)
      : device(std::move(opened)),
        events(device.controller()->events().claim()),
        file(std::move(behind)) {}

  verbs_context abi{};  ///< ends with the ibv_context that the program knows
  verbs::Device device;
  const std::shared_ptr<verbs::EventQueue> events;
  const std::shared_ptr<CommandFile> file;  ///< what cmd_fd is; with those imported from it
  Numbered<Cq> cqs;
  Numbered<Qp> qps;
  Numbered<Srq> srqs;
  std::mutex xrcd_mutex;
  std::vector<Xrcd*> xrcds;  ///< those with a file, which is what a second open knows them by

  static Context& of(ibv_context* context) {
    return *reinterpret_cast<Context*>(reinterpret_cast<std::byte*>(context) -
                                       offsetof(verbs_context, context));
  }
  verbs::Controller& controller() { return *device.controller(); }
  /// What happens to an object of this context is told to this context.
  void hear_of(Qpn qpn, std::uint32_t number) { controller().events().route(qpn, number, events); }
  const files::ShownDevice& weft() { return *Device::of(abi.context.device).weft; }
};

inline bool is_ours(const ibv_context* context) { return is_ours(context->device); }
template <class Object>
bool is_ours(const Object* object) {
  return is_ours(object->context);
}

// ---- memory -----------------------------------------------------------------------------------

// What a handle names (shim/command_file.h) is apart from what the program holds: there may be
// several of the latter, in contexts that were imported.

struct Pd {
  ibv_pd shown{};
  const std::shared_ptr<PdState> state;
  const std::shared_ptr<PdState> original;  ///< of a parent domain: of the one that it stands for
  verbs::ProtectionDomain& pd = state->pd;
  std::atomic<int>& users = state->users;

  explicit Pd(std::shared_ptr<PdState> of, std::shared_ptr<PdState> parent_of = nullptr)
      : state(std::move(of)), original(std::move(parent_of)) {}
  static Pd& of(ibv_pd* pd) { return *reinterpret_cast<Pd*>(pd); }
};

inline constexpr std::size_t kDeviceMemoryBytes = 1 << 20;

/// "Memory of the device", which here is memory like any other.
struct Dm {
  ibv_dm shown{};
  const std::shared_ptr<DmState> state;
  std::byte* const bytes = state->bytes;
  const std::size_t length = state->length;
  std::atomic<int>& users = state->users;

  explicit Dm(std::shared_ptr<DmState> of) : state(std::move(of)) {}
  bool covers(std::uint64_t offset, std::size_t n) const {
    return offset <= length && n <= length - offset;
  }
  /// Real devices copy words, and programs are tested against that.
  static bool is_aligned(std::uint64_t offset, std::size_t n) { return (offset | n) % 4 == 0; }
  static Dm& of(ibv_dm* dm) { return *reinterpret_cast<Dm*>(dm); }
};

struct Mr {
  ibv_mr shown{};
  Mr& owner;                    ///< whose region it is: this one, or the one it was imported from
  std::atomic<int> holders{1};  ///< of an owner: structures that stand for its region, with it
  PdState* domain = nullptr;    ///< of an owner: counts the region among its users
  std::shared_ptr<DmState> dm;  ///< the same, if it lies there
  Access access = Access::kNone;
  std::optional<verbs::MemoryRegion> own;
  verbs::MemoryRegion& region;

  explicit Mr(verbs::MemoryRegion made) : owner(*this), own(std::move(made)), region(*own) {}
  struct Imported {
    Mr& from;  ///< counts the new one already
  };
  explicit Mr(Imported imported) : owner(imported.from), region(*owner.own) {}
  static Mr& of(ibv_mr* mr) { return *reinterpret_cast<Mr*>(mr); }
  bool imported() const { return &owner != this; }
  /// The structure goes, and the owner with the last of them.
  static void release(Mr& mr) {
    Mr& owner = mr.owner;
    if (mr.imported()) delete &mr;
    if (owner.holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &owner;
  }
};

struct Mw {
  ibv_mw shown{};
  std::optional<verbs::MemoryWindow> window;

  static Mw& of(ibv_mw* mw) { return *reinterpret_cast<Mw*>(mw); }
};

// ---- completions ------------------------------------------------------------------------------

struct Channel {
  ibv_comp_channel shown{};
  verbs::CompletionChannel channel;
  std::atomic<int> users{0};

  explicit Channel(verbs::CompletionChannel made) : channel(std::move(made)) {}
  static Channel& of(ibv_comp_channel* channel) { return *reinterpret_cast<Channel*>(channel); }
};

struct Cq {
  ibv_cq_ex shown{};
  std::array<std::byte, kRoomToGrow> room{};
  verbs::CompletionQueue cq;
  std::atomic<int> users{0};
  std::uint32_t events_given = 0;  ///< completion events; under shown.mutex
  std::uint32_t errors_given = 0;  ///< asynchronous ones
  Completion current{};            ///< of start_poll and next_poll
  /// What the service level of a datagram says on RoCE: which header stands before the payload.
  std::uint8_t datagram_sl = 0;
  bool stamps = false;  ///< somebody wants to know when
  std::uint64_t polled_at_ns = 0;
  std::shared_ptr<PdState> parent = nullptr;  ///< a parent domain, which it was made for

  explicit Cq(verbs::CompletionQueue made) : cq(std::move(made)) {}
  static Cq& of(ibv_cq* cq) { return *reinterpret_cast<Cq*>(cq); }
  static Cq& of(ibv_cq_ex* cq) { return *reinterpret_cast<Cq*>(cq); }
  ibv_cq* plain() { return reinterpret_cast<ibv_cq*>(&shown); }
};

// ---- queue pairs ------------------------------------------------------------------------------

/// A domain of extended connections. Its target queue pairs have neither protection domain nor
/// completion queues that the program knows; weft's are here.
struct Xrcd {
  ibv_xrcd shown{};
  verbs::XrcDomain domain;
  verbs::ProtectionDomain pd;
  verbs::CompletionQueue cq;
  std::optional<std::pair<dev_t, ino_t>> file;
  int opens = 1;  ///< under Context::xrcd_mutex
  std::atomic<int> users{0};

  Xrcd(verbs::XrcDomain opened, verbs::ProtectionDomain of, verbs::CompletionQueue with)
      : domain(std::move(opened)), pd(std::move(of)), cq(std::move(with)) {}
  static Xrcd& of(ibv_xrcd* xrcd) { return *reinterpret_cast<Xrcd*>(xrcd); }
};

struct Srq {
  ibv_srq shown{};
  verbs::SharedReceiveQueue srq;
  ibv_srq_attr limits{};
  Xrcd* xrcd = nullptr;  ///< of extended connections, with the completion queue
  Cq* cq = nullptr;
  std::atomic<int> users{0};
  std::uint32_t errors_given = 0;

  explicit Srq(verbs::SharedReceiveQueue made) : srq(std::move(made)) {}
  static Srq& of(ibv_srq* srq) { return *reinterpret_cast<Srq*>(srq); }
};

/// The batch that wr_start opens and wr_complete posts.
struct Batch {
  std::vector<SendRequest> requests;
  std::vector<Sge> sges;                ///< of all requests; their spans are set at the end
  std::vector<std::size_t> sge_counts;  ///< of each request
  std::vector<std::byte> inline_bytes;  ///< copies, until the post has copied them again
  int error = 0;
  std::mutex mutex;  ///< from wr_start to wr_complete
};

/// What the program sees of it lies directly behind: an ibv_qp, and only for those who asked for
/// it an ibv_qp_ex with room to grow, which is larger than all the rest.
struct Qp {
  verbs::QueuePair qp;
  ibv_qp_cap cap{};
  bool signal_all = false;
  bool extended = false;                     ///< made with send_ops_flags: ibv_qp_to_qp_ex gives it
  Xrcd* xrcd = nullptr;                      ///< of a target of extended connections
  int opens = 1;                             ///< of such a one; under Context::xrcd_mutex
  ibv_rwq_ind_table* spread_over = nullptr;  ///< whose queues a raw one receives by
  std::uint32_t errors_given = 0;
  ibv_ah_attr address{};
  std::unique_ptr<Notebook> notebook;  ///< null unless explaining()
  std::unique_ptr<Batch> batch;        ///< null unless extended

  explicit Qp(verbs::QueuePair made) : qp(std::move(made)) {}
  static Qp& of(ibv_qp* qp) { return *(reinterpret_cast<Qp*>(qp) - 1); }
  static Qp& of(ibv_qp_ex* qp) { return of(&qp->qp_base); }
  ibv_qp& shown() { return *reinterpret_cast<ibv_qp*>(this + 1); }
  const ibv_qp& shown() const { return *reinterpret_cast<const ibv_qp*>(this + 1); }
  ibv_qp_ex& shown_ex() { return *reinterpret_cast<ibv_qp_ex*>(this + 1); }
  ibv_qp* plain() { return &shown(); }

  struct Extended {
    bool yes;
  };
  static void* operator new(std::size_t bytes, Extended extended) noexcept {
    const std::size_t tail = extended.yes ? sizeof(ibv_qp_ex) + kRoomToGrow : sizeof(ibv_qp);
    return std::calloc(1, bytes + tail);
  }
  static void operator delete(void* memory, Extended) noexcept { std::free(memory); }
  static void operator delete(void* memory) noexcept { std::free(memory); }
};
static_assert(sizeof(Qp) % alignof(ibv_qp_ex) == 0 && alignof(Qp) >= alignof(ibv_qp_ex));

struct Ah {
  ibv_ah shown{};
  AddressVector vector;

  static Ah& of(ibv_ah* ah) { return *reinterpret_cast<Ah*>(ah); }
};

// libibverbs' elements of gather lists are weft's: lists are passed through as they are.
static_assert(sizeof(Sge) == sizeof(ibv_sge) &&
              offsetof(Sge, length) == offsetof(ibv_sge, length) &&
              offsetof(Sge, lkey) == offsetof(ibv_sge, lkey));
inline std::span<const Sge> sges_of(const ibv_sge* list, int count) {
  return {reinterpret_cast<const Sge*>(list), static_cast<std::size_t>(count > 0 ? count : 0)};
}

inline Gid gid_of(const ibv_gid& gid) {
  Gid result;
  std::copy(std::begin(gid.raw), std::end(gid.raw), result.raw.begin());
  return result;
}
inline ibv_gid gid_of(const Gid& gid) {
  ibv_gid result;
  std::copy(gid.raw.begin(), gid.raw.end(), std::begin(result.raw));
  return result;
}

/// Fills the operations of a new context.
void set_operations(Context& context);

}  // namespace weft::shim
