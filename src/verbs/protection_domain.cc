#include <fmt/format.h>

#include <memory>
#include <new>
#include <utility>

#include "network/frame.h"
#include "verbs/fanout.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "weft/verbs.h"

namespace weft::verbs {
namespace {

Result<void> in_range(std::string_view name, std::uint32_t value, std::uint32_t most) {
  if (value <= most) return {};
  return fail(Errc::kInvalidArgument, fmt::format("{}: {} is more than {}", name, value, most));
}

Result<void> check_limits(const QueuePairLimits& limits) {
  if (auto ok = in_range("limits.max_send_wr", limits.max_send_wr, kMaxQueueDepth); !ok) return ok;
  if (auto ok = in_range("limits.max_recv_wr", limits.max_recv_wr, kMaxQueueDepth); !ok) return ok;
  if (auto ok = in_range("limits.max_send_sge", limits.max_send_sge, network::kMaxSge); !ok) {
    return ok;
  }
  if (auto ok = in_range("limits.max_recv_sge", limits.max_recv_sge, network::kMaxSge); !ok) {
    return ok;
  }
  return in_range("limits.max_inline_bytes", limits.max_inline_bytes, network::kMaxInlineBytes);
}

}  // namespace

ProtectionDomain::ProtectionDomain(std::shared_ptr<PdObject> object) : object_(std::move(object)) {}

Result<MemoryRegion> ProtectionDomain::register_memory(void* address, std::size_t length,
                                                       Access access) const {
  return register_range(reinterpret_cast<std::uint64_t>(address), length, access);
}

Result<MemoryRegion> ProtectionDomain::register_range(std::uint64_t address, std::uint64_t length,
                                                      Access access,
                                                      std::optional<std::uint64_t> iova) const {
  if (auto ok = object_->controller->check_ours(); !ok) return tl::unexpected(ok.error());
  auto keys = object_->controller->keys().register_region({.vmm = object_->space,
                                                           .pd = object_->id,
                                                           .address = address,
                                                           .length = length,
                                                           .access = access,
                                                           .iova = iova});
  if (!keys) return tl::unexpected(keys.error());
  return MemoryRegion(object_, keys->lkey, keys->rkey, keys->iova, length);
}

Result<MemoryRegion> ProtectionDomain::register_address_space(Access access) const {
  if (auto ok = object_->controller->check_ours(); !ok) return tl::unexpected(ok.error());
  auto keys = object_->controller->keys().register_region(
      memory::RegionSpec::whole_space(object_->space, object_->id, access));
  if (!keys) return tl::unexpected(keys.error());
  return MemoryRegion(object_, keys->lkey, keys->rkey, keys->iova, memory::kWholeSpace);
}

Result<void> ProtectionDomain::reregister(MemoryRegion& region, std::uint64_t address,
                                          std::uint64_t length, Access access,
                                          std::optional<std::uint64_t> iova) const {
  if (auto ok = object_->controller->check_ours(); !ok) return ok;
  if (region.pd_ == nullptr || region.pd_->controller != object_->controller) {
    return fail(Errc::kInvalidArgument, "region: it is of another device, or deregistered");
  }
  const bool stays_implicit = region.length_ == memory::kWholeSpace &&
                              length == memory::kWholeSpace && region.address_ == 0 && address == 0;
  const auto keys =
      object_->controller->keys().reregister_region(region.lkey_, {.vmm = object_->space,
                                                                   .pd = object_->id,
                                                                   .address = address,
                                                                   .length = length,
                                                                   .access = access,
                                                                   .iova = iova,
                                                                   .implicit = stays_implicit});
  if (!keys) return tl::unexpected(keys.error());
  region.pd_ = object_;
  region.address_ = keys->iova;
  region.length_ = length;
  return {};
}

Result<void> ProtectionDomain::prefetch(const Sge& part, bool for_writing) const {
  using memory::Flight, memory::Hold;
  if (auto ok = object_->controller->check_ours(); !ok) return ok;
  if (part.length == 0) return {};
  const auto intent = for_writing ? memory::Intent::kWrite : memory::Intent::kRead;
  const auto place = object_->controller->keys().check_local(part.lkey, object_->id, part.address,
                                                             part.length, intent, Hold::kLocal);
  // The pages are the process's own, whatever becomes of the key: nobody need wait for this.
  Flight::clear(Hold::kLocal);
  if (!place) {
    return fail(Errc::kBadAddress, fmt::format("part: {}", memory::to_string(place.error())));
  }
  const memory::Fault fault = place->vmm->prefetch(place->address, part.length, intent);
  if (fault == memory::Fault::kNone) return {};
  return fail(Errc::kBadAddress, fmt::format("part: {} bytes at {:#x}: {}", part.length,
                                             part.address, memory::to_string(fault)));
}

Result<MemoryWindow> ProtectionDomain::allocate_window(WindowType type) const {
  if (auto ok = object_->controller->check_ours(); !ok) return tl::unexpected(ok.error());
  const auto kind =
      type == WindowType::kType1 ? memory::WindowType::kType1 : memory::WindowType::kType2;
  auto rkey = object_->controller->keys().allocate_window(object_->id, kind);
  if (!rkey) return tl::unexpected(rkey.error());
  return MemoryWindow(object_, *rkey, type);
}

Result<QueuePair> ProtectionDomain::create_queue_pair(const CompletionQueue& send_cq,
                                                      const CompletionQueue& receive_cq,
                                                      const QueuePairOptions& options) const {
  if (auto ok = check_limits(options.limits); !ok) return tl::unexpected(ok.error());
  const auto& controller = object_->controller;
  if (send_cq.object_->controller != controller) {
    return fail(Errc::kInvalidArgument, "send_cq: it belongs to another device");
  }
  if (receive_cq.object_->controller != controller) {
    return fail(Errc::kInvalidArgument, "receive_cq: it belongs to another device");
  }
  std::shared_ptr<SrqObject> shared;
  if (options.shared_receive != nullptr) {
    shared = options.shared_receive->object_;
    if (shared->pd->controller != controller) {
      return fail(Errc::kInvalidArgument, "shared_receive: it belongs to another device");
    }
  }
  const bool extended = options.extended_initiator || options.xrc_domain != nullptr;
  if (extended && (options.service != Service::kReliableConnection || shared != nullptr)) {
    return fail(Errc::kInvalidArgument,
                "service: extended connections are reliable, and have no shared_receive");
  }
  std::shared_ptr<XrcObject> xrc;
  if (options.xrc_domain != nullptr) {
    xrc = options.xrc_domain->object_;
    if (xrc->controller != controller) {
      return fail(Errc::kInvalidArgument, "xrc_domain: it belongs to another device");
    }
  }
  std::unique_ptr<QpObject> object(new (std::nothrow) QpObject);
  std::shared_ptr<const FanoutObject> fanout;
  if (options.fanout != nullptr) fanout = options.fanout->shared_from_this();
  auto parents =
      object_->share({object_, send_cq.object_, receive_cq.object_, shared, xrc, fanout});
  if (object == nullptr || parents == nullptr) {
    return fail(Errc::kOutOfMemory, "no memory for a queue pair");
  }
  auto core =
      controller->create_queue_pair({.service = options.service,
                                     .pd = object_->id,
                                     .space = object_->space,
                                     .send_cq = &send_cq.object_->queue,
                                     .recv_cq = &receive_cq.object_->queue,
                                     .shared_receive = shared.get(),
                                     .limits = options.limits,
                                     .signal_all = options.signal_all,
                                     .extended_initiator = options.extended_initiator,
                                     .xrc_domain = xrc.get(),
                                     .raw_framing = options.raw_framing,
                                     .fanout = fanout != nullptr ? &fanout->fanout : nullptr});
  if (!core) return tl::unexpected(core.error());
  if (xrc != nullptr) xrc->add_target();  // QpObject takes it back
  object->core = *core;
  object->parents = std::move(parents);
  return QueuePair(std::move(object));
}

Result<std::shared_ptr<SrqObject>> ProtectionDomain::make_srq(std::uint32_t max_wr,
                                                              std::uint32_t max_sge) const {
  if (max_wr == 0) return fail(Errc::kInvalidArgument, "max_wr: 0 buffers serve nobody");
  if (auto ok = in_range("max_wr", max_wr, kMaxQueueDepth); !ok) return tl::unexpected(ok.error());
  if (auto ok = in_range("max_sge", max_sge, network::kMaxSge); !ok) {
    return tl::unexpected(ok.error());
  }
  auto object = std::make_shared<SrqObject>();
  object->configure(max_wr, max_sge);
  object->pd = object_;
  object->number = object_->controller->new_number();
  return object;
}

Result<SharedReceiveQueue> ProtectionDomain::create_srq(std::uint32_t max_wr,
                                                        std::uint32_t max_sge) const {
  auto object = make_srq(max_wr, max_sge);
  if (!object) return tl::unexpected(object.error());
  return SharedReceiveQueue(std::move(*object));
}

Result<SharedReceiveQueue> ProtectionDomain::create_xrc_srq(const XrcDomain& domain,
                                                            const CompletionQueue& cq,
                                                            std::uint32_t max_wr,
                                                            std::uint32_t max_sge) const {
  const auto& controller = object_->controller;
  if (domain.object_->controller != controller || cq.object_->controller != controller) {
    return fail(Errc::kInvalidArgument, "domain, cq: they belong to another device");
  }
  auto object = make_srq(max_wr, max_sge);
  if (!object) return tl::unexpected(object.error());
  SrqObject* const srq = object->get();
  srq->cq = cq.object_;
  const SrqNumber number(srq->number);
  // The domain keeps it; what the handles share tells the domain when they are gone.
  domain.object_->add(number, {srq, &cq.object_->queue, object_->id, std::move(*object)});
  return SharedReceiveQueue(std::shared_ptr<SrqObject>(
      srq, [xrc = domain.object_, number](SrqObject*) { xrc->remove(number); }));
}

Result<AddressHandle> ProtectionDomain::create_address_handle(const AddressVector& vector) const {
  if (vector.gid == Gid{}) return fail(Errc::kInvalidArgument, "gid: no address is given");
  return AddressHandle(vector);
}

Result<std::pair<QueuePair, QueuePair>> ProtectionDomain::create_connected_pair(
    const CompletionQueue& cq, const QueuePairOptions& options) const {
  auto a = create_queue_pair(cq, cq, options);
  if (!a) return tl::unexpected(a.error());
  auto b = create_queue_pair(cq, cq, options);
  if (!b) return tl::unexpected(b.error());
  const Endpoint a_end = a->endpoint();
  const Endpoint b_end = b->endpoint();
  if (auto ok = a->connect(b_end); !ok) return tl::unexpected(ok.error());
  if (auto ok = b->connect(a_end); !ok) return tl::unexpected(ok.error());
  return std::pair(std::move(*a), std::move(*b));
}

}  // namespace weft::verbs
