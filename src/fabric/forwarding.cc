#include "fabric/forwarding.h"

#include <algorithm>

#include "base/assert.h"
#include "base/big_endian.h"
#include "fabric/encapsulation.h"
#include "wire/ipv6.h"
#include "wire/lrh.h"

namespace weft::fabric {
namespace {

constexpr std::uint8_t kNowhere = 255;

/// What a router writes: another LRH, and one hop less in the GRH. All else stays.
void rewrite_headers(const Frame& frame) {
  auto lrh = wire::Lrh::parse(frame.bytes);
  if (!lrh || lrh->next_header != wire::LinkNextHeader::kGrh) return;
  lrh->source = frame.source;
  lrh->destination = frame.destination;
  lrh->emit(frame.bytes);
  const auto after = frame.bytes.subspan(wire::Lrh::kSize);
  auto grh = wire::Grh::parse(after);
  if (!grh || grh->hop_limit == 0) return;
  --grh->hop_limit;
  grh->emit(after);
  seal_hop(frame.bytes);
}

}  // namespace

const char* to_string(Drop drop) {
  switch (drop) {
    case Drop::kNoRoute:
      return "no route";
    case Drop::kTurnsBack:
      return "turns back";
    case Drop::kHopLimit:
      return "hop limit";
    case Drop::kNotMine:
      return "not mine";
    case Drop::kNoGlobal:
      return "no global header";
    case Drop::kCount:
      break;
  }
  return "unknown";
}

std::uint64_t prefix_of(const Gid& address) {
  return base::load_be<std::uint64_t>(std::as_bytes(std::span(address.raw)).data());
}

Forwarding::Forwarding(const Shape& shape)
    : shape_(shape), lids_(shape.ports.size()), tables_(shape.nodes.size()) {}

void Forwarding::set_lids(PortIndex port, Lid base, std::uint8_t lmc) {
  WEFT_ASSERT(lmc < 8);
  lids_[port] = {base, lmc};
}

bool Forwarding::answers_to(PortIndex port, Lid lid) const {
  const Lids& own = lids_[port];
  return own.base.value != 0 && lid.value >> own.lmc == own.base.value >> own.lmc;
}

void Forwarding::grow(Table& table, const NodeShape& node, std::uint32_t lid) {
  if (table.stride == 0) {
    if (lid >= table.ports.size()) table.ports.resize(lid + 1, kNowhere);
    return;
  }
  if (lid < table.stride) return;
  std::vector<std::uint8_t> wider(std::size_t{node.ports} * (lid + 1), kNowhere);
  for (std::uint32_t port = 0; port < node.ports; ++port) {
    std::copy_n(&table.ports[std::size_t{port} * table.stride], table.stride,
                &wider[std::size_t{port} * (lid + 1)]);
  }
  table.ports = std::move(wider);
  table.stride = lid + 1;
}

void Forwarding::set_route(NodeIndex node, Lid destination, PortIndex out) {
  const NodeShape& shape = shape_.nodes[node];
  Table& table = tables_[node];
  grow(table, shape, destination.value);
  const auto entry = static_cast<std::uint8_t>(out == kNone ? kNowhere : out - shape.first);
  const std::uint32_t copies = table.stride == 0 ? 1 : shape.ports;
  for (std::uint32_t i = 0; i < copies; ++i) {
    table.ports[std::size_t{i} * table.stride + destination.value] = entry;
  }
}

void Forwarding::set_route_from(PortIndex in, Lid destination, PortIndex out) {
  const NodeIndex node = shape_.ports[in].node;
  const NodeShape& shape = shape_.nodes[node];
  Table& table = tables_[node];
  if (table.stride == 0) {
    if (table.ports.empty()) table.ports.resize(1, kNowhere);
    const std::vector<std::uint8_t> one = table.ports;
    table.stride = static_cast<std::uint32_t>(one.size());
    table.ports.clear();
    for (std::uint32_t i = 0; i < shape.ports; ++i) {
      table.ports.insert(table.ports.end(), one.begin(), one.end());
    }
  }
  grow(table, shape, destination.value);
  table.ports[std::size_t{in - shape.first} * table.stride + destination.value] =
      static_cast<std::uint8_t>(out == kNone ? kNowhere : out - shape.first);
}

PortIndex Forwarding::route_of(PortIndex in, Lid destination) const {
  const NodeIndex node = shape_.ports[in].node;
  const NodeShape& shape = shape_.nodes[node];
  const Table& table = tables_[node];
  const std::size_t lids = table.stride == 0 ? table.ports.size() : table.stride;
  if (destination.value >= lids) return kNone;
  const std::uint8_t entry =
      table.ports[std::size_t{in - shape.first} * table.stride + destination.value];
  return entry < shape.ports ? shape.first + entry : kNone;
}

void Forwarding::set_lane(PortIndex in, PortIndex out, std::uint8_t service_level,
                          std::uint8_t lane) {
  WEFT_ASSERT(service_level < 16 && lane < kMaxLanes);
  const auto [map, fresh] = lanes_.try_emplace(way(in, out));
  if (fresh) map->second.fill(kNowhere);
  map->second[service_level] = lane;
}

void Forwarding::set_prefix_route(NodeIndex router, std::uint64_t prefix, PortIndex out, Lid next) {
  prefixes_[router].push_back({prefix, out, next});
}

Lid Forwarding::lid_of(const Gid& address) const {
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? Lid(0) : found->second;
}

Hop Forwarding::cross_switch(PortIndex in, const Frame& frame) const {
  const PortIndex out = route_of(in, frame.destination);
  if (out == kNone || shape_.ports[out].peer == kNone) return {kNone, 0, Drop::kNoRoute};
  if (out == in) return {kNone, 0, Drop::kTurnsBack};
  return {out, frame.lane, Drop::kNoRoute};
}

Hop Forwarding::cross_router(PortIndex in, Frame& frame) const {
  if (!answers_to(in, frame.destination)) return {kNone, 0, Drop::kNotMine};
  if (!frame.global) return {kNone, 0, Drop::kNoGlobal};
  const auto table = prefixes_.find(shape_.ports[in].node);
  if (table == prefixes_.end()) return {kNone, 0, Drop::kNoRoute};
  const auto route =
      std::ranges::find(table->second, prefix_of(frame.address), &PrefixRoute::prefix);
  if (route == table->second.end()) return {kNone, 0, Drop::kNoRoute};
  const Lid next = route->next.value != 0 ? route->next : lid_of(frame.address);
  if (next.value == 0 || shape_.ports[route->out].peer == kNone) {
    return {kNone, 0, Drop::kNoRoute};
  }
  frame.source = lids_[route->out].base;
  frame.destination = next;
  if (!frame.bytes.empty()) rewrite_headers(frame);
  return {route->out, frame.lane, Drop::kNoRoute};
}

Hop Forwarding::next_hop(PortIndex in, Frame& frame) {
  if (frame.hop_limit == 0) return {kNone, 0, Drop::kHopLimit};
  --frame.hop_limit;
  ++frame.hops;
  Hop hop =
      shape_.kind_of(in) == NodeKind::kRouter ? cross_router(in, frame) : cross_switch(in, frame);
  if (hop.out != kNone && !lanes_.empty()) {
    const auto map = lanes_.find(way(in, hop.out));
    if (map != lanes_.end() && map->second[frame.service_level] != kNowhere) {
      frame.lane = hop.lane = map->second[frame.service_level];
    }
  }
  return hop;
}

std::size_t Forwarding::bytes() const {
  std::size_t total = lids_.size() * sizeof(Lids);
  for (const Table& table : tables_) total += table.ports.capacity();
  return total;
}

}  // namespace weft::fabric
