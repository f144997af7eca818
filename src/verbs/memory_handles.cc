#include <utility>

#include "verbs/objects.h"
#include "weft/verbs.h"

namespace weft::verbs {

// ---- regions --------------------------------------------------------------------------------

MemoryRegion::MemoryRegion(std::shared_ptr<PdObject> pd, LocalKey lkey, RemoteKey rkey,
                           std::uint64_t address, std::uint64_t length)
    : pd_(std::move(pd)), lkey_(lkey), rkey_(rkey), address_(address), length_(length) {}

MemoryRegion::MemoryRegion(MemoryRegion&&) noexcept = default;

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  MemoryRegion old(std::move(*this));
  pd_ = std::move(other.pd_);
  lkey_ = other.lkey_;
  rkey_ = other.rkey_;
  address_ = other.address_;
  length_ = other.length_;
  return *this;
}

MemoryRegion::~MemoryRegion() {
  if (pd_ != nullptr && !pd_->controller->inherited()) pd_->controller->keys().revoke_region(lkey_);
}

Result<void> MemoryRegion::deregister() {
  if (pd_ == nullptr) return fail(Errc::kInvalidState, "region: it is deregistered already");
  if (pd_->controller->inherited()) {
    pd_.reset();
    return {};
  }
  auto result = pd_->controller->keys().deregister_region(lkey_);
  if (result) pd_.reset();
  return result;
}

// ---- windows --------------------------------------------------------------------------------

MemoryWindow::MemoryWindow(std::shared_ptr<PdObject> pd, RemoteKey rkey, WindowType type)
    : pd_(std::move(pd)), rkey_(rkey), type_(type) {}

MemoryWindow::MemoryWindow(MemoryWindow&&) noexcept = default;

MemoryWindow& MemoryWindow::operator=(MemoryWindow&& other) noexcept {
  MemoryWindow old(std::move(*this));
  pd_ = std::move(other.pd_);
  rkey_ = other.rkey_;
  type_ = other.type_;
  return *this;
}

MemoryWindow::~MemoryWindow() {
  if (pd_ != nullptr && !pd_->controller->inherited()) pd_->controller->keys().revoke_window(rkey_);
}

SendRequest MemoryWindow::bind_request(const MemoryRegion& region, std::uint64_t offset,
                                       std::uint64_t length, Access access) {
  const RemoteKey next = memory::KeyTable::next_key(rkey_);
  SendRequest request;
  request.op = SendOp::kBind;
  request.bind.window = rkey_;
  request.bind.new_tag = static_cast<std::uint8_t>(next.value);
  request.bind.region = region.lkey();
  request.bind.address = region.address() + offset;
  request.bind.length = length;
  request.bind.access = access;
  rkey_ = next;
  return request;
}

}  // namespace weft::verbs
