#include "mesh/note.h"

#include <cstring>

#include "channel/layout.h"

namespace weft::mesh {
namespace {

constexpr std::uint32_t kNoteMagic = 0x314d'5357;  // "WSM1"
constexpr std::size_t kHelloAt = 56;
static_assert(kHelloAt + channel::Hello::kBytes == Note::kBytes);

using channel::load;
using channel::store;

}  // namespace

std::array<std::byte, Note::kBytes> Note::emit() const {
  std::array<std::byte, kBytes> out{};
  store(&out[0], kNoteMagic);
  store(&out[4], static_cast<std::uint32_t>(kind));
  store(&out[8], from);
  store(&out[16], to);
  store(&out[24], address.gid.raw);
  store(&out[40], address.qpn.value);
  store(&out[44], lane.value);
  store(&out[48], channel);
  store(&out[52], consumed);
  if (has_hello()) {
    hello.emit(
        std::span<std::byte, channel::Hello::kBytes>(&out[kHelloAt], channel::Hello::kBytes));
  }
  return out;
}

std::optional<Note> Note::parse(std::span<const std::byte> bytes) {
  if (bytes.size() != kBytes || load<std::uint32_t>(&bytes[0]) != kNoteMagic) return std::nullopt;
  const auto kind = load<std::uint32_t>(&bytes[4]);
  if (kind < static_cast<std::uint32_t>(NoteKind::kAsk) ||
      kind > static_cast<std::uint32_t>(NoteKind::kGone)) {
    return std::nullopt;
  }
  Note note;
  note.kind = static_cast<NoteKind>(kind);
  note.from = load<std::uint64_t>(&bytes[8]);
  note.to = load<std::uint64_t>(&bytes[16]);
  note.address.gid.raw = load<std::array<std::uint8_t, 16>>(&bytes[24]);
  note.address.qpn = Qpn(load<std::uint32_t>(&bytes[40]));
  note.lane = Qpn(load<std::uint32_t>(&bytes[44]));
  note.channel = load<std::uint32_t>(&bytes[48]);
  note.consumed = load<std::uint32_t>(&bytes[52]);
  if (note.address.qpn.value > kMask24 || note.lane.value > kMask24) return std::nullopt;
  if (note.has_hello()) {
    const auto hello = channel::Hello::parse(bytes.subspan(kHelloAt));
    if (!hello) return std::nullopt;
    note.hello = *hello;
  }
  return note;
}

}  // namespace weft::mesh
