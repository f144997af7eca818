#include "shim/flow.h"

#include <cstring>
#include <new>
#include <optional>

#include "shim/errors.h"
#include "wire/ipv4.h"

namespace weft::shim {
namespace {

/// What stands for a rule; those of the program's objects come first.
struct Flow {
  ibv_flow shown{};
  verbs::RawService::FlowId id;
};

/// Default rules come behind all others.
constexpr std::uint32_t kBehindAll = 1u << 16;

template <class Spec>
std::optional<Spec> spec_at(const std::byte* from, std::size_t size) {
  if (size < sizeof(Spec)) return std::nullopt;
  Spec spec;
  std::memcpy(&spec, from, sizeof spec);
  return spec;
}

template <std::size_t kBytes>
void take(network::MaskedBytes<kBytes>& to, const std::uint8_t* value, const std::uint8_t* mask) {
  std::memcpy(to.value.data(), value, kBytes);
  std::memcpy(to.mask.data(), mask, kBytes);
}

/// IPv4 addresses are the last bytes of their mapped form.
void take_ipv4(network::MaskedBytes<16>& to, std::uint32_t value, std::uint32_t mask) {
  to.value = Gid::ipv4(0, 0, 0, 0).raw;
  std::memcpy(to.value.data() + 12, &value, sizeof value);
  std::memcpy(to.mask.data() + 12, &mask, sizeof mask);
}

network::Masked<std::uint16_t> masked16(std::uint16_t value, std::uint16_t mask) {
  return {be16toh(value), be16toh(mask)};
}

bool take_eth(network::RawMatch& match, const std::byte* at, std::size_t size) {
  const auto spec = spec_at<ibv_flow_spec_eth>(at, size);
  if (!spec) return false;
  take(match.link_destination, spec->val.dst_mac, spec->mask.dst_mac);
  take(match.link_source, spec->val.src_mac, spec->mask.src_mac);
  match.type = masked16(spec->val.ether_type, spec->mask.ether_type);
  match.vlan_tag = masked16(spec->val.vlan_tag, spec->mask.vlan_tag);
  return true;
}

bool take_ipv4_spec(network::RawMatch& match, const std::byte* at, std::size_t size) {
  const auto spec = spec_at<ibv_flow_spec_ipv4>(at, size);
  if (!spec || match.version == 6) return false;
  match.version = 4;
  take_ipv4(match.source, spec->val.src_ip, spec->mask.src_ip);
  take_ipv4(match.destination, spec->val.dst_ip, spec->mask.dst_ip);
  return true;
}

bool take_ipv4_ext(network::RawMatch& match, const std::byte* at, std::size_t size) {
  const auto spec = spec_at<ibv_flow_spec_ipv4_ext>(at, size);
  if (!spec || match.version == 6 || spec->mask.flags != 0) return false;
  match.version = 4;
  take_ipv4(match.source, spec->val.src_ip, spec->mask.src_ip);
  take_ipv4(match.destination, spec->val.dst_ip, spec->mask.dst_ip);
  match.protocol = {spec->val.proto, spec->mask.proto};
  match.traffic_class = {spec->val.tos, spec->mask.tos};
  match.hop_limit = {spec->val.ttl, spec->mask.ttl};
  return true;
}

bool take_ipv6(network::RawMatch& match, const std::byte* at, std::size_t size) {
  const auto spec = spec_at<ibv_flow_spec_ipv6>(at, size);
  if (!spec || match.version == 4) return false;
  match.version = 6;
  take(match.source, spec->val.src_ip, spec->mask.src_ip);
  take(match.destination, spec->val.dst_ip, spec->mask.dst_ip);
  match.flow_label = {be32toh(spec->val.flow_label), be32toh(spec->mask.flow_label)};
  match.protocol = {spec->val.next_hdr, spec->mask.next_hdr};
  match.traffic_class = {spec->val.traffic_class, spec->mask.traffic_class};
  match.hop_limit = {spec->val.hop_limit, spec->mask.hop_limit};
  return true;
}

bool take_ports(network::RawMatch& match, const std::byte* at, std::size_t size,
                std::uint8_t protocol) {
  const auto spec = spec_at<ibv_flow_spec_tcp_udp>(at, size);
  if (!spec || match.version == 0) return false;
  match.protocol = {protocol, 0xFF};
  match.source_port = masked16(spec->val.src_port, spec->mask.src_port);
  match.destination_port = masked16(spec->val.dst_port, spec->mask.dst_port);
  return true;
}

/// 0, or why the specification is not taken.
int take_spec(network::RawMatch& match, const std::byte* at, std::size_t size,
              ibv_flow_spec_type type) {
  switch (type) {
    case IBV_FLOW_SPEC_ETH:
      return take_eth(match, at, size) ? 0 : EINVAL;
    case IBV_FLOW_SPEC_IPV4:
      return take_ipv4_spec(match, at, size) ? 0 : EINVAL;
    case IBV_FLOW_SPEC_IPV4_EXT:
      return take_ipv4_ext(match, at, size) ? 0 : EINVAL;
    case IBV_FLOW_SPEC_IPV6:
      return take_ipv6(match, at, size) ? 0 : EINVAL;
    case IBV_FLOW_SPEC_TCP:
      return take_ports(match, at, size, wire::kIpProtocolTcp) ? 0 : EINVAL;
    case IBV_FLOW_SPEC_UDP:
      return take_ports(match, at, size, wire::kIpProtocolUdp) ? 0 : EINVAL;
    default:
      return EOPNOTSUPP;
  }
}

/// The specifications lie one behind the other, each with its own size.
int take_specs(network::RawMatch& match, const ibv_flow_attr& attr) {
  const auto* at = reinterpret_cast<const std::byte*>(&attr + 1);
  for (unsigned i = 0; i < attr.num_of_specs; ++i) {
    ibv_flow_spec_type type{};
    std::uint16_t size = 0;
    std::memcpy(&type, at, sizeof type);
    std::memcpy(&size, at + sizeof type, sizeof size);
    if (size < sizeof type + sizeof size) return EINVAL;
    if (const int error = take_spec(match, at, size, type)) return error;
    at += size;
  }
  return 0;
}

/// 0, or why the rule is not taken.
int claim_of(const ibv_flow_attr& attr, network::RawClaim& claim) {
  if (attr.comp_mask != 0) return EINVAL;
  if (attr.flags != 0) return EOPNOTSUPP;
  if (attr.type != IBV_FLOW_ATTR_NORMAL && attr.num_of_specs != 0) return EINVAL;
  claim.priority = attr.priority;
  switch (attr.type) {
    case IBV_FLOW_ATTR_NORMAL:
      return take_specs(claim.match, attr);
    case IBV_FLOW_ATTR_ALL_DEFAULT:
      claim.priority = kBehindAll;
      return 0;
    case IBV_FLOW_ATTR_MC_DEFAULT:
      claim.priority = kBehindAll;
      claim.match.link_group_only = true;
      return 0;
    case IBV_FLOW_ATTR_SNIFFER:
      claim.observes = true;
      return 0;
  }
  return EINVAL;
}

}  // namespace

ibv_flow* create_flow(ibv_qp* shown, ibv_flow_attr* attr) {
  if (shown->qp_type != IBV_QPT_RAW_PACKET) return refuse(EOPNOTSUPP);
  Context& context = Context::of(shown->context);
  network::RawClaim claim;
  claim.qpn = Qpn(shown->qp_num);
  if (const int error = claim_of(*attr, claim)) return refuse(error);
  auto* flow = new (std::nothrow) Flow;
  if (flow == nullptr) return refuse(ENOMEM);
  const auto id = context.controller().raw().add_flow(attr->port, claim);
  if (!id) {
    if (explaining()) explain_call("ibv_create_flow", Qp::of(shown), id.error());
    delete flow;
    return refuse(id.error());
  }
  flow->id = *id;
  flow->shown.context = shown->context;
  flow->shown.handle = static_cast<std::uint32_t>(id->id);
  return &flow->shown;
}

int destroy_flow(ibv_flow* shown) {
  auto* const flow = reinterpret_cast<Flow*>(shown);
  Context::of(shown->context).controller().raw().remove_flow(flow->id);
  delete flow;
  return 0;
}

}  // namespace weft::shim
