#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs/environment_options.h"
#include "verbs/helper.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "verbs/port_setup.h"
#include "verbs/process.h"
#include "weft/verbs.h"

namespace weft::verbs {
namespace {

Result<void> check_capacity(std::uint32_t capacity) {
  if (capacity >= 1 && capacity <= kMaxCompletions) return {};
  return fail(Errc::kInvalidArgument,
              fmt::format("capacity: {} is not in 1 to {}", capacity, kMaxCompletions));
}

}  // namespace

std::string_view to_string(AsyncEventKind kind) {
  switch (kind) {
    case AsyncEventKind::kQueuePairRequestError:
      return "queue pair request error";
    case AsyncEventKind::kQueuePairAccessError:
      return "queue pair access error";
    case AsyncEventKind::kCommunicationEstablished:
      return "communication established";
    case AsyncEventKind::kSendQueueDrained:
      return "send queue drained";
    case AsyncEventKind::kLastReceiveReached:
      return "last receive reached";
    case AsyncEventKind::kSharedReceiveLimitReached:
      return "shared receive limit reached";
    case AsyncEventKind::kCompletionQueueOverrun:
      return "completion queue overrun";
    case AsyncEventKind::kUnmappedPage:
      return "unmapped page";
  }
  return "unknown event";
}

Result<Device> Device::open(const DeviceOptions& given) {
  const auto options = with_environment(given);
  if (!options) return tl::unexpected(options.error());
  const Environment environment = process_environment();
  auto ports = set_up_ports(*options, environment);
  if (!ports) return tl::unexpected(ports.error());
  ControllerSetup setup;
  setup.name = options->name;
  setup.kind = options->kind;
  setup.path = wants_frames(*options) ? PathPolicy::kFramed : PathPolicy::kAutomatic;
  setup.max_queue_pairs = options->max_queue_pairs;
  setup.ports = std::move(*ports);
  setup.contexts.windowed = !options->one_message;
  setup.contexts.idle_ns = static_cast<Nanoseconds>(
      std::max<std::int64_t>(1, std::chrono::nanoseconds(options->context_idle).count()));
  auto controller = Controller::create(environment, std::move(setup));
  if (!controller) return tl::unexpected(controller.error());
  path::Engine& engine = (*controller)->engine();
  (*controller)->set_on_close([&engine] { Helper::process().detach(engine); });
  Helper::process().attach(engine);
  return Device(std::move(*controller));
}

Device::Device(std::shared_ptr<Controller> controller) : controller_(std::move(controller)) {}

const DeviceInfo& Device::info() const { return controller_->info(); }
Gid Device::address(std::uint8_t port) const { return controller_->address(port); }

Result<ProtectionDomain> Device::allocate_pd() const {
  auto object = std::make_shared<PdObject>();
  object->controller = controller_;
  object->id = controller_->new_pd();
  object->space = &process_memory();
  return ProtectionDomain(std::move(object));
}

Result<CompletionQueue> Device::create_cq(std::uint32_t capacity) const {
  if (auto ok = check_capacity(capacity); !ok) return tl::unexpected(ok.error());
  return CompletionQueue(std::make_shared<CqObject>(controller_, capacity, nullptr));
}

Result<CompletionQueue> Device::create_cq(std::uint32_t capacity,
                                          const CompletionChannel& channel) const {
  if (auto ok = check_capacity(capacity); !ok) return tl::unexpected(ok.error());
  return CompletionQueue(std::make_shared<CqObject>(controller_, capacity, channel.object_));
}

Result<CompletionChannel> Device::create_channel() const {
  auto object = std::make_shared<CompChannelObject>();
  object->controller = controller_;
  const auto signal = object->signal.open(false);
  if (!signal) return tl::unexpected(signal.error());
  if (auto opened = object->set.open(*signal); !opened) return tl::unexpected(opened.error());
  return CompletionChannel(std::move(object));
}

XrcDomain::XrcDomain(std::shared_ptr<XrcObject> object) : object_(std::move(object)) {}

Result<XrcDomain> Device::open_xrc_domain() const {
  if (auto ok = controller_->check_ours(); !ok) return tl::unexpected(ok.error());
  auto object = std::make_shared<XrcObject>();
  object->controller = controller_;
  return XrcDomain(std::move(object));
}

std::optional<AsyncEvent> Device::next_event() const {
  controller_->poll();
  return controller_->events().next();
}

Result<int> Device::event_fd() const { return controller_->events().fd(); }

}  // namespace weft::verbs
