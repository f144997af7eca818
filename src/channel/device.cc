#include "channel/device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "weft/extensions.h"

namespace weft::channel {
namespace {

/// Bells that may arrive before this end looks; more make the sender wait.
constexpr std::uint32_t kBells = 1024;
/// Reads of all channels that may complete before this end looks, where the device has no room for
/// all.
constexpr std::uint32_t kReads = 1024;
/// The number of a receive for a bell; no work that is sent has it.
constexpr std::uint64_t kBellId = ~std::uint64_t{0};
constexpr int kFirstCompletions = 4096;
/// Completions that one channel has outstanding, bells and reads apart: one for each half of its
/// send queue. Peers that offer all that they may, or die, can cause one for each work in it.
constexpr std::uint64_t kCompletionsPerChannel = 2;

/// Only a device of weft's looks at an arena's pages as they are now.
bool has_arenas(const ibv_context* verbs) {
  if (weft_get_extensions == nullptr) return false;
  const weft_extensions& weft = *weft_get_extensions();
  return weft.size >= sizeof weft && weft.is_weft_device(verbs);
}

constexpr std::uint32_t kRxeVendor = 0xFFFFFF;

tl::unexpected<Error> system_error(const char* what) {
  return fail(Errc::kSystem, fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace

std::string explain_registration(int error, std::uint64_t bytes) {
  std::string text = fmt::format("registering {} bytes: {}", bytes, std::strerror(error));
  rlimit limit{};
  if ((error == ENOMEM || error == EAGAIN || error == EPERM) &&
      getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    text += fmt::format(
        "; a process may lock {} KiB here: raise it with `ulimit -l unlimited` (as root, or with "
        "`* - memlock unlimited` in /etc/security/limits.conf, or LimitMEMLOCK=infinity for a "
        "service)",
        limit.rlim_cur / 1024);
  }
  return text;
}

Result<std::unique_ptr<Device>> Device::open(ibv_context* verbs, Budget& budget) {
  std::unique_ptr<Device> device(new Device);
  device->verbs_ = verbs;
  ibv_device_attr limits{};
  if (ibv_query_device(verbs, &limits) != 0) return system_error("ibv_query_device");
  device->reads_at_once_ = static_cast<std::uint8_t>(
      std::clamp(std::min(limits.max_qp_rd_atom, limits.max_qp_init_rd_atom), 1, 16));
  device->most_completions_ = limits.max_cqe;
  // rxe gives the kernel's number of the flag, which libibverbs has for something that only
  // datagrams know.
  if (limits.vendor_id == kRxeVendor) device->closes_window_ |= IBV_WC_IP_CSUM_OK;
  device->pd_ = ibv_alloc_pd(verbs);
  if (device->pd_ == nullptr) return system_error("ibv_alloc_pd");
  device->events_ = ibv_create_comp_channel(verbs);
  if (device->events_ == nullptr) return system_error("ibv_create_comp_channel");
  fcntl(device->events_->fd, F_SETFL, fcntl(device->events_->fd, F_GETFL) | O_NONBLOCK);
  device->cq_ = ibv_create_cq(verbs, std::min(kFirstCompletions, limits.max_cqe), nullptr,
                              device->events_, 0);
  if (device->cq_ == nullptr) return system_error("ibv_create_cq");
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = kBells;
  attributes.attr.max_sge = 1;
  device->srq_ = ibv_create_srq(device->pd_, &attributes);
  if (device->srq_ == nullptr) return system_error("ibv_create_srq");
  device->slab_ = std::make_unique<Slab>(device->pd_, has_arenas(verbs));
  device->rings_ = std::make_unique<RingStore>(device->pd_, *device->slab_, budget);
  device->windows_ = std::make_unique<WindowPool>(device->pd_, WindowPool::supported_by(limits));
  device->post_bells(kBells);
  return device;
}

Device::~Device() {
  windows_.reset();
  rings_.reset();
  slab_.reset();
  if (srq_ != nullptr) ibv_destroy_srq(srq_);
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
  if (events_ != nullptr) ibv_destroy_comp_channel(events_);
  if (pd_ != nullptr) ibv_dealloc_pd(pd_);
}

bool Device::make_room(std::uint64_t channels) {
  const std::uint64_t needed = kBells + kReads + channels * kCompletionsPerChannel;
  const std::uint64_t most = kBells + channels * kSendDepth;
  const auto has = [this](std::uint64_t n) { return n <= static_cast<std::uint64_t>(cq_->cqe); };
  const auto resize = [this](std::uint64_t n) {
    return n <= static_cast<std::uint64_t>(most_completions_) &&
           ibv_resize_cq(cq_, static_cast<int>(n)) == 0;
  };
  if (has(most) || resize(most + most / 4) || resize(most)) return true;
  return has(needed) || resize(needed + needed / 4) || resize(needed);
}

void Device::post_bells(std::uint32_t count) {
  ibv_recv_wr bell{}, *bad = nullptr;  // no buffer: a bell is only its completion
  bell.wr_id = kBellId;
  for (std::uint32_t i = 0; i < count; ++i) ibv_post_srq_recv(srq_, &bell, &bad);
}

std::span<const ibv_wc> Device::poll() {
  const int n = ibv_poll_cq(cq_, static_cast<int>(std::size(completions_)), completions_);
  const auto got = std::span<const ibv_wc>(completions_, static_cast<std::size_t>(std::max(n, 0)));
  // Also what a peer has spoilt, by a message with bytes in it: the others need their bells.
  const auto is_bell = [](const ibv_wc& wc) { return wc.wr_id == kBellId; };
  post_bells(static_cast<std::uint32_t>(std::count_if(got.begin(), got.end(), is_bell)));
  return got;
}

void Device::take_events() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  unsigned taken = 0;
  while (taken < kBells && ibv_get_cq_event(events_, &cq, &context) == 0) ++taken;
  if (taken > 0) ibv_ack_cq_events(cq_, taken);
}

}  // namespace weft::channel
