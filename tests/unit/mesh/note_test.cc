// What two meshes tell each other: the golden layout, all that is cut off, and what makes no sense.
#include "mesh/note.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace weft::mesh {
namespace {

Note an_ask() {
  Note note;
  note.from = 0x1122'3344'5566'7788;
  note.address = {Gid::ipv4(10, 0, 0, 7), Qpn(0x12'3456)};
  note.lane = Qpn(0x12'3457);
  note.hello = {0x1000, RemoteKey(9), {0x2000, RemoteKey(10), 3, 544}, 3, false, 77};
  return note;
}

TEST(MeshNote, what_is_emitted_is_parsed) {
  for (std::uint32_t kind = 1; kind <= 8; ++kind) {
    Note note = an_ask();
    note.kind = static_cast<NoteKind>(kind);
    note.to = 5, note.channel = 6, note.consumed = 7;
    const auto got = Note::parse(note.emit());
    ASSERT_TRUE(got) << kind;
    EXPECT_EQ(got->kind, note.kind);
    EXPECT_EQ(got->from, note.from);
    EXPECT_EQ(got->to, 5u);
    EXPECT_EQ(got->address, note.address);
    EXPECT_EQ(got->lane, note.lane);
    EXPECT_EQ(got->channel, 6u);
    EXPECT_EQ(got->consumed, 7u);
    if (note.has_hello()) {
      EXPECT_EQ(got->hello.ring.address, 0x2000u);
      EXPECT_EQ(got->hello.channel, 77u);
    }
  }
}

TEST(MeshNote, lies_where_the_layout_says) {
  const auto bytes = an_ask().emit();
  const auto at = [&](std::size_t i) { return static_cast<int>(bytes[i]); };
  EXPECT_EQ(std::memcmp(bytes.data(), "WSM1", 4), 0);
  EXPECT_EQ(at(4), 1);
  EXPECT_EQ(at(8), 0x88);
  EXPECT_EQ(at(39), 7);
  EXPECT_EQ(at(40), 0x56);
  EXPECT_EQ(at(44), 0x57);
}

TEST(MeshNote, of_another_length_is_none) {
  const auto bytes = an_ask().emit();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(Note::parse(std::span(bytes).first(n))) << n;
  }
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back({});
  EXPECT_FALSE(Note::parse(longer));
}

TEST(MeshNote, that_no_honest_peer_sends_is_none) {
  const auto spoilt = [](std::size_t at, int value) {
    auto bytes = an_ask().emit();
    bytes[at] = static_cast<std::byte>(value);
    return Note::parse(bytes);
  };
  EXPECT_TRUE(spoilt(52, 1));
  EXPECT_FALSE(spoilt(0, 0)) << "magic";
  EXPECT_FALSE(spoilt(4, 0)) << "kind";
  EXPECT_FALSE(spoilt(4, 9)) << "kind";
  EXPECT_FALSE(spoilt(43, 1)) << "queue-pair number";
  EXPECT_FALSE(spoilt(47, 1)) << "lane";
  EXPECT_FALSE(spoilt(56, 0)) << "hello";
  EXPECT_FALSE(spoilt(56 + 28, 0)) << "slots";
}

}  // namespace
}  // namespace weft::mesh
