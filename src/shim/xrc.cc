#include "shim/xrc.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <new>

#include "shim/errors.h"

namespace weft::shim {
namespace {

Xrcd* make_xrcd(ibv_context* shown) {
  const verbs::Device& device = Context::of(shown).device;
  auto domain = device.open_xrc_domain();
  if (!domain) return refuse(domain.error());
  auto pd = device.allocate_pd();
  if (!pd) return refuse(pd.error());
  auto cq = device.create_cq(1);
  if (!cq) return refuse(cq.error());
  auto* xrcd = new (std::nothrow) Xrcd(std::move(*domain), std::move(*pd), std::move(*cq));
  if (xrcd == nullptr) return refuse(ENOMEM);
  xrcd->shown.context = shown;
  return xrcd;
}

}  // namespace

// The kernel knows a domain by its file, in all processes. Here it belongs to one context: a second
// open there finds it again.
ibv_xrcd* open_xrcd(ibv_context* shown, ibv_xrcd_init_attr* attr) {
  constexpr std::uint32_t kBoth = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED) return refuse(ENOSYS);
  if ((attr->comp_mask & kBoth) != kBoth) return refuse(EINVAL);
  if ((attr->oflags & ~(O_CREAT | O_EXCL)) != 0) return refuse(EINVAL);
  Context& context = Context::of(shown);
  const std::lock_guard guard(context.xrcd_mutex);
  std::optional<std::pair<dev_t, ino_t>> file;
  if (attr->fd != -1) {
    struct stat about {};
    if (fstat(attr->fd, &about) != 0) return refuse(EBADF);
    file.emplace(about.st_dev, about.st_ino);
    const auto at = std::find_if(context.xrcds.begin(), context.xrcds.end(),
                                 [&](const Xrcd* each) { return each->file == file; });
    if (at != context.xrcds.end()) {
      if ((attr->oflags & O_EXCL) != 0) return refuse(EINVAL);
      ++(*at)->opens;
      return &(*at)->shown;
    }
  }
  if ((attr->oflags & O_CREAT) == 0) return refuse(file ? EAGAIN : EINVAL);
  Xrcd* xrcd = make_xrcd(shown);
  if (xrcd == nullptr) return nullptr;
  xrcd->file = file;
  if (file) context.xrcds.push_back(xrcd);
  return &xrcd->shown;
}

int close_xrcd(ibv_xrcd* shown) {
  Xrcd& xrcd = Xrcd::of(shown);
  Context& context = Context::of(shown->context);
  {
    const std::lock_guard guard(context.xrcd_mutex);
    if (xrcd.opens > 1) {
      --xrcd.opens;
      return 0;
    }
    if (xrcd.users.load() != 0) return fail(EBUSY);
    std::erase(context.xrcds, &xrcd);
  }
  delete &xrcd;
  return 0;
}

ibv_qp* open_qp(ibv_context* shown, ibv_qp_open_attr* attr) {
  constexpr std::uint32_t kNeeded =
      IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED) return refuse(ENOSYS);
  if ((attr->comp_mask & kNeeded) != kNeeded || attr->qp_type != IBV_QPT_XRC_RECV) {
    return refuse(EINVAL);
  }
  Context& context = Context::of(shown);
  const std::lock_guard guard(context.xrcd_mutex);
  ibv_qp* found = nullptr;
  context.qps.with(attr->qp_num, [&](Qp& qp) {
    if (qp.xrcd == nullptr || &qp.xrcd->shown != attr->xrcd) return;
    ++qp.opens;
    found = qp.plain();
  });
  return found != nullptr ? found : refuse(EINVAL);
}

bool was_last(Qp& qp) {
  if (qp.xrcd == nullptr) return true;
  const std::lock_guard guard(Context::of(qp.plain()->context).xrcd_mutex);
  return --qp.opens == 0;
}

int settings_implied(ibv_qp_type type, int given, QpState to) {
  if (type == IBV_QPT_XRC_SEND && to == QpState::kReadyToReceive) {
    return (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) & ~given;
  }
  if (type == IBV_QPT_XRC_RECV && to == QpState::kReadyToSend) {
    return (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) &
           ~given;
  }
  return 0;
}

}  // namespace weft::shim
