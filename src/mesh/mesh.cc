// The public handles of mesh and message.
#include "weft/mesh.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <utility>

#include "mesh/link.h"
#include "mesh/mesh_object.h"

namespace weft::mesh {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

std::string to_string(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const bool v4 = address.gid.is_ipv4();
  inet_ntop(v4 ? AF_INET : AF_INET6, address.gid.raw.data() + (v4 ? 12 : 0), text, sizeof text);
  return fmt::format("{}/{:#08x}", text, address.qpn.value);
}

Message::Message(std::shared_ptr<Link> link, Peer from, std::span<const std::byte> bytes,
                 std::uint32_t frame, void* region)
    : link_(std::move(link)), from_(from), bytes_(bytes), frame_(frame), region_(region) {}

Message::Message(Message&& other) noexcept = default;

Message& Message::operator=(Message&& other) noexcept {
  if (this == &other) return *this;
  release();
  link_ = std::move(other.link_);
  from_ = other.from_, bytes_ = other.bytes_, frame_ = other.frame_, region_ = other.region_;
  return *this;
}

Message::~Message() { release(); }

void Message::release() {
  if (link_ == nullptr) return;
  link_->take_back(bytes_, frame_, region_);
  link_.reset();
}

Result<Mesh> Mesh::open(const verbs::Device& device, const Options& options) {
  auto object = MeshObject::open(device, options);
  if (!object) return tl::unexpected(std::move(object.error()));
  return Mesh(std::move(*object));
}

Mesh::Mesh(Mesh&&) noexcept = default;
Mesh::~Mesh() = default;

Address Mesh::address() const { return object_->address(); }
Result<Peer> Mesh::peer(const Address& address) { return object_->peer(address); }
Address Mesh::address_of(Peer peer) const {
  return object_->peers().has(peer) ? object_->peers()[peer].address() : Address{};
}

Result<std::size_t> Mesh::try_send(Peer to, std::span<const std::byte> message) {
  return object_->try_send(to, message);
}
Result<void> Mesh::send(Peer to, std::span<const std::byte> message, Deadline deadline) {
  return object_->send(to, message, deadline);
}
Result<void> Mesh::send(Peer to, std::string_view message, Deadline deadline) {
  return object_->send(to, bytes_of(message), deadline);
}

std::optional<Message> Mesh::try_receive() { return object_->try_receive(); }
Result<Message> Mesh::receive(Deadline deadline) {
  for (;;) {
    if (auto message = object_->try_receive()) return std::move(*message);
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(Errc::kTimedOut, "no message came in time");
    }
    object_->wait(deadline);
  }
}
std::vector<Closed> Mesh::take_closed() { return object_->take_closed(); }

bool Mesh::poll() { return object_->poll(); }
bool Mesh::wait(Deadline deadline) { return object_->wait(deadline); }
int Mesh::fd() const { return object_->fd(); }
bool Mesh::arm() { return object_->arm(); }

Result<void> Mesh::close(Peer peer, Deadline deadline) { return object_->close({peer}, deadline); }
Result<void> Mesh::close(Deadline deadline) {
  return object_->close(object_->open_peers(), deadline);
}

PeerStatistics Mesh::statistics(Peer peer) const { return object_->statistics(peer); }
Figures Mesh::figures() const { return object_->figures(); }

}  // namespace weft::mesh
