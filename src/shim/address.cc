#include "shim/address.h"

#include <cstring>
#include <new>

#include "shim/errors.h"
#include "shim/real.h"

namespace weft::shim {

Result<AddressVector> vector_of(Context& context, const ibv_ah_attr& attr) {
  if (attr.port_num != kPort) return fail(Errc::kInvalidArgument, "port_num: there is only port 1");
  AddressVector vector;
  vector.service_level = attr.sl;
  if (attr.is_global != 0) {
    if (attr.grh.sgid_index != 0) {
      return fail(Errc::kInvalidArgument, "sgid_index: there is only index 0");
    }
    vector.gid = gid_of(attr.grh.dgid);
    vector.flow_label = attr.grh.flow_label;
    vector.traffic_class = attr.grh.traffic_class;
    vector.hop_limit = attr.grh.hop_limit;
    if (vector.gid == Gid{}) return fail(Errc::kInvalidArgument, "dgid: no address is given");
    return vector;
  }
  if (context.weft().link_layer == files::LinkLayer::kEthernet) {
    return fail(Errc::kInvalidArgument, "is_global: RoCE needs the peer's GID");
  }
  for (const files::ShownDevice& device : files::shown_devices()) {
    if (device.lid.value == attr.dlid) {
      vector.gid = device.address;
      return vector;
    }
  }
  return fail(Errc::kInvalidArgument, "dlid: no device of this host has it");
}

}  // namespace weft::shim

using weft::shim::Ah;
using weft::shim::Context;
using weft::shim::is_ours;
using weft::shim::Pd;
using weft::shim::Qp;
using weft::shim::refuse;

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (!is_ours(pd)) WEFT_PASS_ON(ibv_create_ah, nullptr, pd, attr);
  const auto vector = weft::shim::vector_of(Context::of(pd->context), *attr);
  if (!vector) return refuse(vector.error());
  auto* ah = new (std::nothrow) Ah;
  if (ah == nullptr) return refuse(ENOMEM);
  ah->vector = *vector;
  ah->shown.context = pd->context;
  ah->shown.pd = pd;
  ++Pd::of(pd).users;
  return &ah->shown;
}

int ibv_destroy_ah(ibv_ah* shown) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_destroy_ah, ENOSYS, shown);
  --Pd::of(shown->pd).users;
  delete &Ah::of(shown);
  return 0;
}

int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                        ibv_ah_attr* attr) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_init_ah_from_wc, -1, context, port, wc, grh, attr);
  *attr = {};
  attr->dlid = wc->slid;
  attr->sl = wc->sl;
  attr->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  // An IPv4 header stands at the end of the 40 bytes; its version tells.
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(grh);
  attr->is_global = 1;
  if (bytes[20] >> 4 == 4 && bytes[0] >> 4 != 6) {
    attr->grh.dgid.raw[10] = attr->grh.dgid.raw[11] = 0xFF;
    std::memcpy(attr->grh.dgid.raw + 12, bytes + 20 + 12, 4);
    attr->grh.hop_limit = bytes[20 + 8];
    attr->grh.traffic_class = bytes[20 + 1];
  } else {
    attr->grh.dgid = grh->sgid;
    const std::uint32_t first = be32toh(grh->version_tclass_flow);
    attr->grh.flow_label = first & 0xF'FFFF;
    attr->grh.traffic_class = static_cast<std::uint8_t>(first >> 20);
    attr->grh.hop_limit = grh->hop_limit;
  }
  return 0;
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) {
  if (!is_ours(pd)) WEFT_PASS_ON(ibv_create_ah_from_wc, nullptr, pd, wc, grh, port);
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}

int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr, std::uint8_t mac[6],
                                std::uint16_t* vlan) {
  if (!is_ours(context)) {
    WEFT_PASS_ON(ibv_resolve_eth_l2_from_gid, EOPNOTSUPP, context, attr, mac, vlan);
  }
  return EOPNOTSUPP;  // below IP everything is the kernel's
}

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  if (!is_ours(qp)) WEFT_PASS_ON(ibv_attach_mcast, ENOSYS, qp, gid, lid);
  const auto done = Qp::of(qp).qp.attach_multicast(weft::shim::gid_of(*gid));
  return done ? 0 : weft::shim::errno_of(done.error());
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  if (!is_ours(qp)) WEFT_PASS_ON(ibv_detach_mcast, ENOSYS, qp, gid, lid);
  const auto done = Qp::of(qp).qp.detach_multicast(weft::shim::gid_of(*gid));
  return done ? 0 : weft::shim::errno_of(done.error());
}

}  // extern "C"
