#include "mesh/link.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace weft::mesh {
namespace {

constexpr std::size_t kLine = 64;
/// Work of one pair that may be outstanding.
constexpr std::uint32_t kPairDepth = 32;

constexpr std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

}  // namespace

/// Memory of the link's, or of a caller who lends it, and the key for the peer, if it has one.
struct Link::Memory {
  std::byte* begin = nullptr;
  std::uint64_t bytes = 0;  ///< that are charged; 0: it is the caller's
  std::optional<verbs::MemoryRegion> region;

  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    region.reset();
    if (bytes != 0) ::operator delete(begin, std::align_val_t(kLine));
  }
};

Link::Link(const Ground& ground, Lane& lane, Peer its_peer, const Address& address,
           const Mark& its_mark, std::uint64_t name)
    : peer(its_peer), mark(its_mark), ground_(ground), lane_(lane), address_(address), name_(name) {
  ground_.budget.add_channel();
}

Link::~Link() {
  if (endpoint_ != nullptr) endpoint_->stop();
  if (control_ != nullptr) free(control_);
  ground_.budget.remove_channel();
}

bool Link::start() {
  control_ = allocate(channel::kControlBytes, true);
  if (control_ == nullptr) return false;
  auto region = ground_.pd.register_memory(control_->begin, channel::kControlBytes,
                                           Access::kLocalWrite | Access::kRemoteWrite);
  if (!region) return false;
  control_->region = std::move(*region);
  endpoint_ = std::make_unique<channel::Endpoint>(ground_.settings, *this,
                                                  channel::Control{control_->begin, nullptr, {}},
                                                  kPairDepth, mark.link);
  return endpoint_->start();
}

channel::Hello Link::hello() const {
  return {reinterpret_cast<std::uint64_t>(control_->begin),
          control_->region->rkey(),
          endpoint_->grant(),
          endpoint_->send_slots(),
          false,
          mark.link};
}

void Link::meet(const Note& note) {
  peer_name_ = note.from;
  peer_lane = note.lane;
  peer_channel_ = note.hello.channel;
  endpoint_->connect(note.hello);
}

bool Link::send_note(Lane& by, NoteKind kind, const Address& own) {
  Note note{kind, name_, peer_name_, own, lane_.number(), peer_channel_, 0, {}};
  if (phase != Phase::kAsking) note.consumed = endpoint_->receive().consumed();
  if (note.has_hello()) note.hello = hello();
  const auto bytes = note.emit();
  // The last word goes even though the link does not wait for it.
  const bool last = kind == NoteKind::kParted || kind == NoteKind::kGone;
  return by.submit({.op = SendOp::kSend,
                    .sge = {},
                    .inlined = bytes,
                    .remote = {},
                    .signaled = true,
                    .to = address_,
                    .mark = last ? Mark{} : mark});
}

void Link::end() {
  phase = Phase::kEnded;
  lane_.drop(mark);
  if (endpoint_ != nullptr) endpoint_->end_loans();
  for (const auto& memory : memory_) memory->region.reset();
}

bool Link::is_quiet() const {
  const channel::SendHalf& send = endpoint_->send();
  const channel::ReceiveHalf& receive = endpoint_->receive();
  return !active && views == 0 && !endpoint_->busy() && !endpoint_->unnotified() &&
         endpoint_->mode() == channel::Mode::kAsleep && !send.has_open_frame() &&
         send.rest_bytes() == 0 && send.lent_by_take() == 0 && !receive.has_arrivals() &&
         !receive.reading() && receive.consumed() == receive.scanned() &&
         send.phase() <= ground_.settings.start_phase &&
         receive.phase() <= ground_.settings.start_phase && !lane_.has_waiting(mark);
}

void Link::take_back(std::span<const std::byte> message, std::uint32_t frame, void* region) {
  --views;
  if (region == nullptr) {
    endpoint_->release_view(frame);
  } else {
    channel::Incoming back{message.data(), message.size(), frame, {}};
    back.region = {const_cast<std::byte*>(message.data()), message.size(), {}, {}, region};
    endpoint_->release_one(back);
  }
  if (phase != Phase::kEnded) endpoint_->released();
}

Link::Memory* Link::allocate(std::uint64_t bytes, bool cleared) {
  bytes = round_up(bytes);
  if (!ground_.budget.take(charged_, bytes)) return nullptr;
  void* begin = ::operator new(bytes, std::align_val_t(kLine), std::nothrow);
  if (begin == nullptr) {
    ground_.budget.give_back(bytes);
    return nullptr;
  }
  if (cleared) std::memset(begin, 0, bytes);
  charged_ += bytes;
  auto memory = std::make_unique<Memory>();
  memory->begin = static_cast<std::byte*>(begin);
  memory->bytes = bytes;
  memory_.push_back(std::move(memory));
  return memory_.back().get();
}

void Link::free(Memory* memory) {
  charged_ -= memory->bytes;
  ground_.budget.give_back(memory->bytes);
  std::erase_if(memory_, [memory](const auto& one) { return one.get() == memory; });
}

// A receive ring has a key of its own, for exactly its bytes, and no other link's.
std::optional<channel::Ring> Link::provision(channel::RingUse use, std::uint32_t ring_phase,
                                             std::uint32_t slots, std::uint32_t slot_bytes) {
  const std::uint64_t bytes = std::uint64_t{slots} * slot_bytes;
  const bool receives = use == channel::RingUse::kReceive;
  Memory* memory = allocate(bytes, receives);
  if (memory == nullptr) return std::nullopt;
  channel::Ring ring{memory->begin,      slots, slot_bytes, ring_phase,
                     ground_.everything, {},    true,       memory};
  if (!receives) return ring;
  auto region =
      ground_.pd.register_memory(memory->begin, bytes, Access::kLocalWrite | Access::kRemoteWrite);
  if (!region) {
    free(memory);
    return std::nullopt;
  }
  memory->region = std::move(*region);
  ring.remote_key = memory->region->rkey();
  return ring;
}

void Link::unregister(channel::Ring& ring) {
  static_cast<Memory*>(ring.handle)->region.reset();
  ring.registered = false;
}

void Link::release(channel::Ring& ring) {
  free(static_cast<Memory*>(ring.handle));
  ring = {};
}

std::optional<channel::Region> Link::lend(std::span<const std::byte> bytes) {
  auto* begin = const_cast<std::byte*>(bytes.data());
  auto region = ground_.pd.register_memory(begin, bytes.size(), Access::kRemoteRead);
  if (!region) return std::nullopt;
  auto memory = std::make_unique<Memory>();
  memory->begin = begin;
  memory->region = std::move(*region);
  channel::Region lent{begin, bytes.size(), {}, memory->region->rkey(), memory.get()};
  memory_.push_back(std::move(memory));
  return lent;
}

std::optional<channel::Region> Link::borrow(std::uint64_t bytes) {
  Memory* memory = allocate(bytes, false);
  if (memory == nullptr) return std::nullopt;
  return channel::Region{memory->begin, bytes, ground_.everything, {}, memory};
}

void Link::give_back(channel::Region& region) {
  free(static_cast<Memory*>(region.handle));
  region = {};
}

// A bell is a message of its own: should the peer have no room for it, it is sent again, and then
// must not bring bytes again that have changed since.
bool Link::post(const channel::Work& work) {
  if (phase == Phase::kEnded) return false;
  const bool read = work.op == channel::Work::Op::kRead;
  if (!read && work.op != channel::Work::Op::kWrite) return false;  // this service has no windows
  LaneWork item;
  item.to = address_;
  item.mark = mark;
  item.op = read ? SendOp::kRead : SendOp::kWrite;
  item.remote = {work.remote, work.remote_key};
  item.mark.number = work.bell ? 0 : work.number;
  item.signaled = work.signaled && !work.bell;
  if (work.inlined) {
    item.inlined = {work.local, work.length};
  } else if (work.length > 0) {
    item.sge = {reinterpret_cast<std::uint64_t>(work.local), work.length, work.local_key};
  }
  if (work.length > 0 || !work.bell) {
    if (!lane_.submit(item)) return false;
  }
  if (!work.bell) return true;
  LaneWork bell;
  bell.op = SendOp::kWriteImmediate;
  bell.immediate = peer_channel_;
  bell.signaled = work.signaled;
  bell.to = address_;
  bell.mark = mark;
  bell.mark.number = work.number;
  return lane_.submit(bell);
}

}  // namespace weft::mesh
