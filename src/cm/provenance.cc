#include "cm/provenance.h"

#include <variant>

#include "cm/service_id.h"
#include "port/local_interface.h"

namespace weft::cm {
namespace {

bool is_one_host(const Gid& address) {
  constexpr Gid kAnyIpv4 = Gid::ipv4(0, 0, 0, 0), kEverybody = Gid::ipv4(255, 255, 255, 255);
  return address != Gid{} && address != kAnyIpv4 && address != kEverybody &&
         !address.is_multicast();
}

template <class Question>
bool tells_truth(const Packet& packet, const Question& question) {
  const auto header = parse_ip_header(question.private_data);
  // Without a header it is for nobody here, and is answered so.
  return !header || (header->source == packet.source && header->destination == packet.destination);
}

}  // namespace

bool is_credible(const Packet& packet) {
  if (!is_one_host(packet.source) || !is_one_host(packet.destination) ||
      port::is_loopback(packet.source) != port::is_loopback(packet.destination)) {
    return false;
  }
  if (const auto* request = std::get_if<Request>(&packet.message.body)) {
    return tells_truth(packet, *request);
  }
  if (const auto* request = std::get_if<ServiceRequest>(&packet.message.body)) {
    return tells_truth(packet, *request);
  }
  return true;
}

}  // namespace weft::cm
