#include "ucma/cm_device.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>

#include "base/assert.h"
#include "base/lock.h"
#include "network/address.h"
#include "obs/log.h"
#include "ucma/file.h"

namespace weft::ucma {
namespace {

// Written by whoever opens first and, null, by a child after fork, which has one thread then.
// release and acquire: whoever finds it sees it made.
constinit std::atomic<CmDevice*> current{nullptr};
constinit base::Lock making;

}  // namespace

CmDevice* CmDevice::mine() {
  const host::ForkHold hold;
  const std::lock_guard lock(making);
  CmDevice* device = current.load(std::memory_order_acquire);
  if (device != nullptr) return device;
  static const bool registered = [] {
    // The parent's is left alone: its descriptors are closed here, and it is nobody's any more.
    host::call_in_child([] { current.store(nullptr, std::memory_order_release); });
    std::atexit([] {
      CmDevice* const left = current.load(std::memory_order_acquire);
      if (left != nullptr) left->driver_->at_exit();
    });
    return true;
  }();
  static_cast<void>(registered);
  auto made = std::make_unique<CmDevice>();
  auto driver = cm::Driver::create(made->devices_, *made);
  if (!driver) {
    obs::log().error("{}", driver.error().message);
    errno = EMFILE;
    return nullptr;
  }
  made->driver_ = std::move(*driver);
  device = made.release();
  current.store(device, std::memory_order_release);
  return device;
}

int CmDevice::add(File& file) {
  if (!driver_->start()) return EAGAIN;
  files_.insert(&file);
  return 0;
}

void CmDevice::remove(File& file) {
  for (;;) {
    const auto found = std::find_if(contexts_.begin(), contexts_.end(),
                                    [&](const auto& each) { return each.second.file == &file; });
    if (found == contexts_.end()) break;
    destroy(found->second);
  }
  files_.erase(&file);
}

Context* CmDevice::create(File& file, cm::PortSpace space, cm::QpType type, UserTag tag) {
  const auto id = driver_->manager().create(space, type);
  if (!id) return nullptr;
  return &contexts_.emplace((*id)->handle, Context{**id, &file, tag}).first->second;
}

Context* CmDevice::find(Handle handle) {
  const auto found = contexts_.find(handle);
  return found == contexts_.end() ? nullptr : &found->second;
}

void CmDevice::destroy(Context& context) {
  const Handle handle = context.id.handle;
  const auto events = context.file->take_of(handle);
  driver_->run([&](cm::Manager& manager, Nanoseconds, cm::Actions& out) {
    manager.destroy(context.id, out);
    return true;
  });
  contexts_.erase(handle);
  for (const QueuedEvent& event : events) {
    // A request that the program never saw.
    Context* const child = event.has_child ? find(event.child) : nullptr;
    if (child != nullptr) destroy(*child);
  }
}

void CmDevice::migrate(Context& context, File& to) {
  for (const QueuedEvent& event : context.file->take_of(context.id.handle)) {
    Context* const child = event.has_child ? find(event.child) : nullptr;
    if (child != nullptr) child->file = &to;
    to.push(event);
  }
  context.file = &to;
}

Multicast& CmDevice::join(Context& context, const Gid& group, UserTag tag) {
  Multicast& joined = context.groups.emplace_back();
  joined.handle = Handle(++last_group_);
  joined.tag = tag;
  joined.group = group;
  return joined;
}

std::pair<Context*, Multicast*> CmDevice::find_group(Handle handle) {
  for (auto& [number, context] : contexts_) {
    for (Multicast& group : context.groups) {
      if (group.handle == handle) return {&context, &group};
    }
  }
  return {nullptr, nullptr};
}

std::uint32_t CmDevice::leave(Context& context, Handle handle) {
  context.file->drop_of_group(handle);
  const auto found = std::find_if(context.groups.begin(), context.groups.end(),
                                  [&](const Multicast& each) { return each.handle == handle; });
  WEFT_ASSERT(found != context.groups.end());
  const std::uint32_t reported = found->events_reported;
  context.groups.erase(found);
  return reported;
}

void CmDevice::post(Context& context, const QueuedEvent& event) {
  // Until a program accepts, it has no object that an event of the new identifier could name.
  if (context.tag.value != 0) context.file->push(event);
}

void CmDevice::on_event(Handle identifier, const cm::Event& event) {
  Context* const context = find(identifier);
  if (context == nullptr) return;
  if (event.kind != cm::Event::Kind::kConnectRequest)
    return post(*context, make_event(*context, event));
  cm::Identifier& child = *driver_->manager().find(event.child);
  contexts_.emplace(child.handle, Context{child, context->file, UserTag()});
  post(*context, make_request_event(*context, child, event.private_data));
}

void CmDevice::count_refused(const cm::CountRefused& refused) {
  devices_.count_refused(refused.at);
  obs::log().debug("connection manager: a message that claims to be of {} was refused",
                   network::to_string(refused.claimed_source));
}

void CmDevice::reported(const QueuedEvent& event) {
  Context* const context = find(event.owner);
  if (context == nullptr) return;
  ++context->events_reported;
  if (event.has_child) cm::Manager::request_taken(context->id);
  if (!event.has_group) return;
  for (Multicast& group : context->groups) {
    if (group.handle == event.group) ++group.events_reported;
  }
}

}  // namespace weft::ucma
