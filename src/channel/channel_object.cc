#include "channel/channel_object.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "channel/context_object.h"

namespace weft::channel {
namespace {

/// Messages from this size on are read to where they hardly ever lie just above the place within
/// its page that they come from: copies are several times slower then (base/bulk_copy.h), also
/// those of the kernel, which knows no way around it. Programs' memory begins near the begin of a
/// page.
constexpr std::size_t kPage = 4096;

constexpr int kRemoteWrite = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

ChannelObject::ChannelObject(std::shared_ptr<ContextObject> context,
                             std::shared_ptr<const Settings> settings)
    : context_(std::move(context)),
      settings_(std::move(settings)),
      index_(context_->add(*this)),
      lets_go_(settings_->lean) {}

ChannelObject::~ChannelObject() {
  const std::lock_guard guard(context_->lock());
  disconnect();
  if (endpoint_) endpoint_->stop();
  if (control_region_ != nullptr) ibv_dereg_mr(control_region_);
  if (control_.memory != nullptr) {
    context_->device()->slab().free(control_);
    refund(control_bytes());
  }
  context_->remove(*this);
}

bool ChannelObject::prepare(rdma_cm_id* id) {
  id_ = id;
  Device& device = *context_->device();
  const auto refuse = [this](std::string why) {
    error_ = std::make_unique<std::string>(std::move(why));
    return false;
  };
  if (!create_queue_pair(id)) {
    return refuse(fmt::format("creating a queue pair: {}", std::strerror(errno)));
  }
  const std::uint64_t bytes = control_bytes();
  if (!charge(bytes)) return refuse("no memory left in the budget for another channel");
  control_ = device.slab().allocate(bytes);
  if (control_.memory == nullptr) {
    refund(bytes);
    return refuse(explain_registration(errno, bytes));
  }
  std::memset(control_.memory, 0, bytes);
  control_region_ =
      ibv_reg_mr(device.pd(), control_.memory, kControlBytes + first_ring_bytes(), kRemoteWrite);
  if (control_region_ == nullptr) return refuse(explain_registration(errno, bytes));
  endpoint_ = std::make_unique<Endpoint>(*settings_, *this, control(), kSendDepth, index_);
  if (!endpoint_->start()) {
    return refuse(error_ == nullptr ? "no memory left in the budget for the rings" : *error_);
  }
  if (!device.make_room(context_->budget().channels())) {
    return refuse(fmt::format("enlarging the completion queue: {}", std::strerror(errno)));
  }
  return true;
}

// Small things go straight from the caller's hand where the device takes them so, which saves a
// lean channel the memory to keep them in.
bool ChannelObject::create_queue_pair(rdma_cm_id* id) {
  Device& device = *context_->device();
  for (const std::uint32_t inlined : {settings_->lean ? kInlineMost : 0, 0u}) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = device.cq();
    attributes.srq = device.srq();
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr = kSendDepth;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_inline_data = inlined;
    if (rdma_create_qp(id, device.pd(), &attributes) != 0) continue;
    inlines_ = settings_->lean && attributes.cap.max_inline_data >= kInlineMost;
    qp_ = id->qp;
    context_->know(*this);
    return true;
  }
  return false;
}

// Behind the control block: the first ring of a lean channel, then the stage, which is not the
// peer's to write.
Control ChannelObject::control() const {
  std::byte* stage = inlines_ ? nullptr : control_.memory + kControlBytes + first_ring_bytes();
  return {control_.memory, stage, Slab::local_key(control_)};
}

Hello ChannelObject::hello() const {
  return {reinterpret_cast<std::uint64_t>(control_.memory),
          RemoteKey(control_region_->rkey),
          endpoint_->grant(),
          endpoint_->send_slots(),
          lets_go_,
          index_};
}

void ChannelObject::meet(const Hello& peer) { endpoint_->connect(peer); }

void ChannelObject::lose(std::string why) {
  if (life_ == Life::kClosed || life_ == Life::kLost) return;
  if (error_ == nullptr) error_ = std::make_unique<std::string>(std::move(why));
  life_ = Life::kLost;
  if (endpoint_) endpoint_->end_loans();
  context_->note_event();  // somebody may wait for the channel
}

void ChannelObject::lose_if_failed() {
  if (life_ != Life::kOpen || endpoint_ == nullptr || !endpoint_->failed()) return;
  lose(std::string(endpoint_->error()));
  if (qp_ == nullptr) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(qp_, &attributes, IBV_QP_STATE);
}

// The queue pair goes first: behind it no work is under way.
void ChannelObject::disconnect() {
  context_->end_connecting(*this);
  if (qp_ != nullptr) {
    context_->forget(*this);
    if (id_ == nullptr) {
      ibv_destroy_qp(qp_);
    } else {
      if (life_ == Life::kOpen) rdma_disconnect(id_);
      rdma_destroy_qp(id_);
    }
    qp_ = nullptr;
  }
  if (id_ != nullptr) rdma_destroy_id(id_);
  id_ = nullptr;
  life_ = Life::kClosed;
}

// The queue pair is ours, and goes on without it.
void ChannelObject::let_identifier_go() {
  if (!lets_go_ || id_ == nullptr) return;
  id_->qp = nullptr;
  rdma_destroy_id(id_);
  id_ = nullptr;
  context_->attend(*this);
}

void ChannelObject::confirm_end() {
  if (is_being_left() && endpoint_->confirm_end()) lose("the connection was ended by the peer");
}

std::uint64_t ChannelObject::first_ring_bytes() const {
  if (!settings_->lean) return 0;
  const PhaseSize& size = settings_->phases[settings_->start_phase];
  return std::uint64_t{size.slots} * slot_bytes_of(size.payload_bytes);
}

bool ChannelObject::is_first_ring(std::uint32_t slots, std::uint32_t slot_bytes) const {
  const PhaseSize& size = settings_->phases[settings_->start_phase];
  return settings_->lean && !first_ring_taken_ && slots == size.slots &&
         slot_bytes == slot_bytes_of(size.payload_bytes);
}

Ring ChannelObject::first_ring(std::uint32_t phase) const {
  const PhaseSize& size = settings_->phases[settings_->start_phase];
  Ring ring;
  ring.memory = control_.memory + kControlBytes;
  ring.slots = size.slots, ring.slot_bytes = slot_bytes_of(size.payload_bytes), ring.phase = phase;
  ring.local_key = Slab::local_key(control_);
  ring.remote_key = RemoteKey(control_region_->rkey);
  ring.registered = true;
  return ring;
}

bool ChannelObject::become_dormant() {
  if (active || views > 0 || life_ != Life::kOpen) return false;
  if (!endpoint_->can_be_dormant() || endpoint_->receive().ring().handle != nullptr) {
    endpoint_->settle_down();
    return false;
  }
  dormant_ = std::make_unique<Dormant>(endpoint_->sleep());
  endpoint_.reset();
  return true;
}

void ChannelObject::wake() {
  endpoint_ = std::make_unique<Endpoint>(*settings_, *this, control(), kSendDepth, index_);
  endpoint_->wake(*dormant_, first_ring(settings_->start_phase));
  dormant_.reset();
  context_->note_doze_candidate(*this);
}

bool ChannelObject::charge(std::uint64_t bytes) {
  bytes = block_bytes(bytes);
  if (!context_->budget().take(charged_, bytes)) {
    if (context_->device() == nullptr) return false;
    context_->device()->rings().finish();  // what waits to be freed may be enough
    if (!context_->budget().take(charged_, bytes)) return false;
  }
  charged_ += bytes;
  return true;
}
void ChannelObject::refund(std::uint64_t bytes) {
  bytes = block_bytes(bytes);
  charged_ -= bytes;
  context_->budget().give_back(bytes);
}

std::optional<Ring> ChannelObject::provision(RingUse use, std::uint32_t phase, std::uint32_t slots,
                                             std::uint32_t slot_bytes) {
  const std::uint64_t bytes = std::uint64_t{slots} * slot_bytes;
  if (use == RingUse::kReceive && is_first_ring(slots, slot_bytes)) {
    first_ring_taken_ = true;
    RingStore::clear(control_.memory + kControlBytes, {slots, slot_bytes});
    return first_ring(phase);
  }
  if (!charge(bytes)) return std::nullopt;
  RingStore& store_of_rings = context_->device()->rings();
  // A receive ring has its own key, for exactly these bytes: no other channel's.
  const Freed freed = settings_->strict ? Freed::kAtOnce : Freed::kSometime;
  const bool again = phase > settings_->start_phase && !settings_->strict;
  auto made = use == RingUse::kReceive
                  ? store_of_rings.make_writable({slots, slot_bytes}, again, freed)
                  : store_of_rings.make(bytes, freed);
  if (made == nullptr) {
    error_ = std::make_unique<std::string>(explain_registration(errno, bytes));
    refund(bytes);
    return std::nullopt;
  }
  // A ring that goes back to the system by itself has whole pages.
  const std::uint64_t rest = made->block.bytes - block_bytes(bytes);
  if (rest != 0 && !charge(rest)) {
    store_of_rings.free(std::move(made));
    refund(bytes);
    return std::nullopt;
  }
  Ring ring{made->block.memory,          slots, slot_bytes, phase,
            RingStore::local_key(*made), {},    true,       nullptr};
  if (use == RingUse::kReceive) ring.remote_key = RemoteKey(made->region->rkey);
  ring.handle = made.release();
  return ring;
}

// The first ring of a lean channel has no handle. It stays as it is: its key is the control
// block's, and nothing else comes to lie there.
void ChannelObject::unregister(Ring& ring) {
  if (ring.handle != nullptr) RingStore::revoke(*static_cast<Registration*>(ring.handle));
  ring.registered = false;
}

void ChannelObject::release(Ring& ring) {
  std::unique_ptr<Registration> made(static_cast<Registration*>(ring.handle));
  if (made == nullptr) {
    first_ring_taken_ = false;
    ring = {};
    return;
  }
  const std::uint64_t bytes = made->block.bytes;
  context_->device()->rings().free(std::move(made));
  refund(bytes);
  ring = {};
}

void ChannelObject::discard(Ring& ring) {
  if (ring.handle == nullptr) return release(ring);
  std::unique_ptr<Registration> made(static_cast<Registration*>(ring.handle));
  const std::uint64_t bytes = made->block.bytes;
  charged_ -= bytes;
  context_->device()->rings().free_later(std::move(made), bytes);
  ring = {};
}

// With a window the registration itself opens nothing to anybody; its key is known before it works.
std::optional<Region> ChannelObject::lend(std::span<const std::byte> bytes) {
  auto* memory = const_cast<std::byte*>(bytes.data());
  WindowPool& windows = context_->device()->windows();
  auto made = std::make_unique<Registration>();
  made->window = windows.take();
  made->region = ibv_reg_mr(context_->device()->pd(), memory, bytes.size(),
                            made->window != nullptr ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_READ);
  if (made->region == nullptr) {
    if (made->window != nullptr) windows.put(made->window);
    return std::nullopt;
  }
  const std::uint32_t key =
      made->window != nullptr ? ibv_inc_rkey(made->window->rkey) : made->region->rkey;
  Region lent{memory, bytes.size(), LocalKey(made->region->lkey), RemoteKey(key), nullptr};
  lent.window = made->window != nullptr;
  lent.handle = made.release();
  return lent;
}

std::optional<Region> ChannelObject::borrow(std::uint64_t bytes) {
  if (!charge(bytes)) return std::nullopt;
  auto made = std::make_unique<Registration>();
  made->block =
      context_->device()->slab().allocate(bytes, bytes < kPage ? Place::kLine : Place::kMidPage);
  if (made->block.memory == nullptr) {
    refund(bytes);
    return std::nullopt;
  }
  const Block& block = made->block;
  return Region{block.memory, bytes, Slab::local_key(block), {}, made.release()};
}

void ChannelObject::give_back(Region& region) {
  const std::unique_ptr<Registration> made(static_cast<Registration*>(region.handle));
  if (made->window != nullptr) {
    if (region.closed) {
      context_->device()->windows().put(made->window);
    } else {
      WindowPool::close(made->window);
    }
  }
  if (made->region != nullptr) ibv_dereg_mr(made->region);
  if (made->block.memory != nullptr) {
    context_->device()->slab().free(made->block);
    refund(region.length);
  }
  region = {};
}

bool ChannelObject::post_window_work(const Work& work) {
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = std::uint64_t{index_} << 32 | work.number;
  wr.send_flags = work.signaled ? IBV_SEND_SIGNALED : 0;
  if (work.op != Work::Op::kBind) {
    const bool returns = work.op == Work::Op::kReturn;
    wr.opcode = returns ? IBV_WR_SEND_WITH_INV : IBV_WR_LOCAL_INV;
    wr.invalidate_rkey = work.remote_key.value;
    if (returns) wr.send_flags |= IBV_SEND_FENCE;
    return ibv_post_send(qp_, &wr, &bad) == 0;
  }
  const auto& made = *static_cast<Registration*>(work.handle);
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = made.window;
  wr.bind_mw.rkey = work.remote_key.value;
  wr.bind_mw.bind_info = {made.region, reinterpret_cast<std::uint64_t>(work.local), work.length,
                          IBV_ACCESS_REMOTE_READ};
  if (ibv_post_send(qp_, &wr, &bad) != 0) return false;
  made.window->rkey = work.remote_key.value;  // the next bind counts from here
  return true;
}

bool ChannelObject::post(const Work& work) {
  if (qp_ == nullptr) return false;
  if (work.op >= Work::Op::kBind) return post_window_work(work);
  ibv_sge element{reinterpret_cast<std::uint64_t>(work.local), work.length, work.local_key.value};
  ibv_send_wr wr, *bad = nullptr;  // what is not set here is not looked at
  wr.next = nullptr;
  wr.imm_data = 0;
  wr.wr_id = std::uint64_t{index_} << 32 | work.number;
  wr.sg_list = &element;
  wr.num_sge = work.length > 0 ? 1 : 0;
  wr.opcode = work.op == Work::Op::kRead ? IBV_WR_RDMA_READ
              : work.bell                ? IBV_WR_RDMA_WRITE_WITH_IMM
                                         : IBV_WR_RDMA_WRITE;
  wr.send_flags = (work.signaled ? IBV_SEND_SIGNALED : 0) | (work.inlined ? IBV_SEND_INLINE : 0);
  wr.wr.rdma.remote_addr = work.remote;
  wr.wr.rdma.rkey = work.remote_key.value;
  return ibv_post_send(qp_, &wr, &bad) == 0;
}

bool ChannelObject::write(const std::byte* from, std::uint32_t length, std::uint64_t remote,
                          FrameKeys keys, FrameMark mark) {
  if (qp_ == nullptr) return false;
  ibv_sge element{reinterpret_cast<std::uint64_t>(from), length, keys.local.value};
  ibv_send_wr wr, *bad = nullptr;
  wr.next = nullptr;
  wr.wr_id = std::uint64_t{index_} << 32 | mark.number;
  wr.sg_list = &element;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = mark.signaled ? IBV_SEND_SIGNALED : 0;
  wr.wr.rdma.remote_addr = remote;
  wr.wr.rdma.rkey = keys.remote.value;
  return ibv_post_send(qp_, &wr, &bad) == 0;
}

void ChannelObject::take_back_region(std::span<const std::byte> message, void* region) {
  Incoming back{message.data(), message.size(), 0, {}};
  back.region = {const_cast<std::byte*>(message.data()), message.size(), {}, {}, region};
  endpoint().release_one(back);
}

void ChannelObject::watch() { context_->activate(*this); }

Statistics ChannelObject::statistics() const {
  Statistics out;
  out.error = error();
  out.registered_bytes = charged_;
  if (!has_endpoint()) return out;
  const bool asleep = endpoint_ == nullptr;
  const DormantRest rest = asleep ? dormant_->rest() : DormantRest{};
  const SendFigures& send = asleep ? rest.sent : endpoint_->send().figures();
  const ReceiveFigures& receive = asleep ? rest.received : endpoint_->receive().figures();
  out.send_phase = asleep ? settings_->start_phase : endpoint_->send().phase();
  out.receive_phase = asleep ? settings_->start_phase : endpoint_->receive().phase();
  out.messages_sent = send.messages, out.bytes_sent = send.bytes, out.frames_sent = send.frames;
  out.messages_received = receive.messages, out.bytes_received = receive.bytes;
  out.frames_received = receive.frames;
  out.grows = send.grows, out.shrinks = send.shrinks, out.refusals = send.refusals;
  out.postponements = send.postponements, out.repeats = send.repeats, out.rendezvous = send.loans;
  out.bells = asleep ? rest.bells : endpoint_->bells();
  if (out.error.empty() && !asleep) out.error = endpoint_->error();
  return out;
}

}  // namespace weft::channel
