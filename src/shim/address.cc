#include "shim/address.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "files/gid_table.h"
#include "files/machine_addresses.h"
#include "network/address.h"
#include "shim/errors.h"
#include "shim/real.h"
#include "verbs/shared_device.h"

namespace weft::shim {

Result<AddressVector> vector_of(Context& context, const ibv_ah_attr& attr) {
  if (attr.port_num != kPort) return fail(Errc::kInvalidArgument, "port_num: there is only port 1");
  AddressVector vector;
  vector.service_level = attr.sl;
  if (attr.is_global != 0) {
    const std::uint32_t index = attr.grh.sgid_index;
    if (!files::gid_entry(context.weft(), index)) {
      return no_such_gid(context.weft(), "sgid_index", index);
    }
    const Gid destination = gid_of(attr.grh.dgid);
    const auto address = files::address_of_gid(destination, context.weft().address);
    if (!address) {
      return fail(
          Errc::kInvalidArgument,
          fmt::format("dgid: {} is link-local and stands for no address that {} knows; give "
                      "the peer's GID that has its IP address",
                      network::to_string(destination), context.weft().name));
    }
    vector.gid = *address;
    vector.flow_label = attr.grh.flow_label;
    vector.traffic_class = attr.grh.traffic_class;
    vector.hop_limit = attr.grh.hop_limit;
    if (vector.gid == Gid{}) return fail(Errc::kInvalidArgument, "dgid: no address is given");
    files::hint_at_other_host(context.weft(), vector.gid);
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

tl::unexpected<Error> no_such_gid(const files::ShownDevice& device, const char* what,
                                  std::uint32_t index) {
  return fail(Errc::kInvalidArgument,
              fmt::format("{}: {} has no GID at index {}; those that it has are 0 to {}", what,
                          device.name, index, files::gid_count(device) - 1));
}

std::string mixed_gids(Context& context, const ibv_ah_attr& attr) {
  const auto entry = files::gid_entry(context.weft(), attr.grh.sgid_index);
  const Gid destination = gid_of(attr.grh.dgid);
  if (attr.is_global == 0 || !entry || destination.is_multicast() ||
      files::is_link_local(entry->gid) == files::is_link_local(destination)) {
    return {};
  }
  return fmt::format(
      "sgid_index {} is {}, dgid is {}: one is link-local, the other an IP address. weft carries "
      "that, network cards do not",
      attr.grh.sgid_index, network::to_string(entry->gid), network::to_string(destination));
}

std::string foreign_gids(Context& context, const ibv_ah_attr& attr) {
  const files::ShownDevice& device = context.weft();
  const auto entry = files::gid_entry(device, attr.grh.sgid_index);
  if (attr.is_global == 0 || !entry || !verbs::is_network_address(device.address)) return {};
  const std::uint32_t best = files::address_gid_index(device);
  if (files::is_link_local(gid_of(attr.grh.dgid)) || files::is_link_local(entry->gid)) {
    return fmt::format(
        "Link-local GIDs are understood between devices of weft alone: for others use index {} "
        "here, and there the entry that has the IP address as RoCE v2",
        best);
  }
  if (entry->type != files::GidType::kRoceV1) return {};
  return fmt::format(
      "sgid_index {} says RoCE v1, and what is sent is RoCE v2: a peer that is not weft needs an "
      "entry of RoCE v2, which here is {}",
      attr.grh.sgid_index, best);
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
  Context& context = Context::of(pd->context);
  const auto vector = weft::shim::vector_of(context, *attr);
  if (weft::shim::explaining()) {
    const char* const device = pd->context->device->name;
    if (!vector) weft::shim::explain_call("ibv_create_ah", device, vector.error());
    const std::string mixed = vector ? weft::shim::mixed_gids(context, *attr) : "";
    if (!mixed.empty()) weft::shim::remark_on_call("ibv_create_ah", device, mixed);
  }
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
  attr->grh.sgid_index = weft::files::address_gid_index(Context::of(context).weft());
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
  return done ? 0 : weft::shim::fail(done.error());
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  if (!is_ours(qp)) WEFT_PASS_ON(ibv_detach_mcast, ENOSYS, qp, gid, lid);
  const auto done = Qp::of(qp).qp.detach_multicast(weft::shim::gid_of(*gid));
  return done ? 0 : weft::shim::fail(done.error());
}

}  // extern "C"
