// Peers that lie: what they send is refused and counted, and the others go on.
#include <array>
#include <cstring>

#include "channel/layout.h"
#include "mesh/note.h"
#include "mesh_suite.h"

namespace weft::test {
namespace {

using mesh::Note;
using mesh::NoteKind;

/// One mesh, an honest one that talks to it, and a queue pair that plays a mesh.
class HostileMesh : public MeshSuite {
 protected:
  static mesh::Options options() {
    mesh::Options out;
    out.greeting_timeout_ns = 200'000'000;
    return out;
  }

  HostileMesh()
      : victim(open_mesh(a.device, options())),
        honest(open_mesh(b.device, options())),
        liar(open_rd(b, {}, inlining(), options().qkey)),
        inbox(b, 4096),
        ring(b, 4096, kEverything) {
    for (std::uint64_t i = 0; i < 8; ++i) post_receive(liar, i, {inbox.sge(i * 256, 256)});
  }
  static QueuePairOptions inlining() {
    QueuePairOptions out;
    out.limits.max_inline_bytes = 512;
    return out;
  }

  void post_note(std::span<const std::byte> bytes) {
    Memory from(b, 512);
    std::memcpy(from.bytes.data(), bytes.data(), bytes.size());
    SendRequest request = towards_victim();
    request.flags = SendFlags::kSignaled | SendFlags::kInline;
    post(liar, request, {from.sge(0, static_cast<std::uint32_t>(bytes.size()))});
  }
  SendRequest towards_victim() const {
    SendRequest request;
    request.destination.gid = victim.mesh.address().gid;
    request.destination_qpn = victim.mesh.address().qpn;
    request.destination_qkey = options().qkey;
    return request;
  }
  CompletionStatus done() {
    std::optional<Completion> completion;
    EXPECT_TRUE(comes([&] { return (completion = b.sends.poll()).has_value(); }));
    return completion ? completion->status : CompletionStatus::kFlushed;
  }

  Note an_ask() const {
    Note note;
    note.from = 4711;
    note.address = {b.device.address(), liar.number()};
    note.lane = liar.number();
    note.hello = {ring.region.address(),
                  ring.region.rkey(),
                  {ring.region.address() + 512, ring.region.rkey(), 3, 544},
                  3,
                  false,
                  9};
    return note;
  }
  /// What the victim has answered.
  Note answer() {
    std::optional<Completion> got;
    EXPECT_TRUE(comes([&] { return (got = b.receives.poll()).has_value(); }));
    const auto* at = reinterpret_cast<const std::byte*>(inbox.region.address()) + got->wr_id * 256;
    const auto note = Note::parse({at, got->byte_count});
    EXPECT_TRUE(note);
    return note.value_or(Note{});
  }
  void expect_refused(std::uint64_t count) {
    EXPECT_TRUE(comes([&] { return victim.mesh.figures().greetings_refused == count; }))
        << victim.mesh.figures().greetings_refused;
    EXPECT_EQ(victim.mesh.figures().open, 0u);
    EXPECT_EQ(victim.mesh.figures().registered_bytes, 0u);
  }
  /// An honest pair is not hindered.
  void expect_service() {
    const std::size_t before = victim.got.size();
    EXPECT_TRUE(send(honest, peer(honest, victim), "honest"));
    EXPECT_TRUE(comes([&] { return victim.got.size() == before + 1; }));
  }

  Side &victim, &honest;
  QueuePair liar;
  Memory inbox, ring;
};
INSTANTIATE_TEST_SUITE_P(Over, HostileMesh,
                         testing::Values(Way{Wire::kDirect, false}, Way{Wire::kUdp, false}),
                         way_name);

TEST_P(HostileMesh, notes_without_sense_are_refused_and_counted) {
  std::array<std::byte, Note::kBytes> noise;
  noise.fill(std::byte{0xA5});
  post_note(noise);
  EXPECT_EQ(done(), kDone);
  expect_refused(1);
  post_note(std::span(noise).first(10));
  EXPECT_EQ(done(), kDone);
  expect_refused(2);
  std::array<std::byte, 300> large{};
  post_note(large);
  EXPECT_EQ(done(), CompletionStatus::kRemoteInvalidRequest);
  expect_refused(3);
  expect_service();
}

TEST_P(HostileMesh, who_greets_in_the_name_of_another_is_refused) {
  Note note = an_ask();
  note.address.qpn = honest.mesh.address().qpn;
  post_note(note.emit());
  EXPECT_EQ(done(), kDone);
  expect_refused(1);
  note = an_ask();
  note.address = victim.mesh.address();
  post_note(note.emit());
  EXPECT_EQ(done(), kDone);
  expect_refused(2);
  for (const NoteKind kind :
       {NoteKind::kWelcome, NoteKind::kReady, NoteKind::kRefuse, NoteKind::kPart, NoteKind::kParted,
        NoteKind::kStay, NoteKind::kGone}) {
    note = an_ask();
    note.kind = kind;
    post_note(note.emit());
    EXPECT_EQ(done(), kDone);
  }
  expect_refused(9);
  expect_service();
}

TEST_P(HostileMesh, who_does_not_go_on_is_forgotten) {
  post_note(an_ask().emit());
  EXPECT_EQ(done(), kDone);
  EXPECT_EQ(answer().kind, NoteKind::kWelcome);
  EXPECT_EQ(victim.mesh.figures().open, 1u);
  ASSERT_TRUE(comes([&] { return victim.mesh.figures().open == 0; }));
  EXPECT_EQ(victim.mesh.figures().registered_bytes, 0u);
  EXPECT_TRUE(victim.closed.empty());
  expect_service();
}

TEST_P(HostileMesh, an_ask_again_replaces_the_last_one) {
  for (int i = 0; i < 5; ++i) {
    post_note(an_ask().emit());
    EXPECT_EQ(done(), kDone);
    EXPECT_EQ(answer().kind, NoteKind::kWelcome);
    EXPECT_EQ(victim.mesh.figures().open, 1u);
  }
}

TEST_P(HostileMesh, a_ready_of_another_name_opens_nothing) {
  post_note(an_ask().emit());
  EXPECT_EQ(done(), kDone);
  const Note welcome = answer();
  Note ready = an_ask();
  ready.kind = NoteKind::kReady;
  ready.to = welcome.from + 1;
  ready.channel = welcome.hello.channel;
  post_note(ready.emit());
  EXPECT_EQ(done(), kDone);
  EXPECT_TRUE(comes([&] { return victim.mesh.figures().greetings_refused == 1; }));
  EXPECT_EQ(victim.mesh.figures().greeted, 0u);
}

TEST_P(HostileMesh, bells_for_nobody_are_counted) {
  for (const std::uint32_t number : {0u, 1u, 77u, ~0u}) {
    SendRequest bell = towards_victim();
    bell.op = SendOp::kWriteImmediate;
    bell.immediate = number;
    post(liar, bell, {});
    EXPECT_EQ(done(), kDone);
  }
  EXPECT_TRUE(comes([&] { return victim.mesh.figures().strange_bells == 4; }));
  expect_service();
}

TEST_P(HostileMesh, who_writes_what_no_rule_allows_is_closed_and_nobody_else) {
  expect_service();
  post_note(an_ask().emit());
  EXPECT_EQ(done(), kDone);
  const Note welcome = answer();
  Note ready = an_ask();
  ready.kind = NoteKind::kReady;
  ready.to = welcome.from;
  ready.channel = welcome.hello.channel;
  post_note(ready.emit());
  EXPECT_EQ(done(), kDone);
  EXPECT_TRUE(comes([&] { return victim.mesh.figures().greeted == 2; }));
  // The first frame, with a length that no slot has.
  Memory tail(b, 8);
  const std::uint64_t word = channel::word_of(100'000, channel::tag_of(0));
  std::memcpy(tail.bytes.data(), &word, sizeof word);
  SendRequest write = towards_victim();
  write.op = SendOp::kWriteImmediate;
  write.immediate = welcome.hello.channel;
  write.remote = {welcome.hello.ring.address + welcome.hello.ring.slot_bytes - 8,
                  welcome.hello.ring.key};
  post(liar, write, {tail.sge()});
  EXPECT_EQ(done(), kDone);
  ASSERT_TRUE(comes([&] { return victim.closed.size() == 1; }));
  EXPECT_NE(victim.closed[0].why.find("a frame is longer than its slot"), std::string::npos)
      << victim.closed[0].why;
  EXPECT_EQ(victim.mesh.address_of(victim.closed[0].peer).qpn, liar.number());
  // Its keys are dead.
  post(liar, write, {tail.sge()});
  EXPECT_EQ(done(), CompletionStatus::kRemoteAccessError);
  expect_service();
}

TEST_P(HostileMesh, strangers_are_kept_out_where_none_are_wanted) {
  mesh::Options closed_circle;
  closed_circle.accepts_strangers = false;
  Side& shy = open_mesh(a.device, closed_circle);
  const mesh::Peer there = peer(honest, shy);
  ASSERT_TRUE(comes([&] {
    static_cast<void>(honest.mesh.try_send(there, std::as_bytes(std::span("?"))));
    return honest.closed.size() == 1;
  }));
  EXPECT_NE(honest.closed[0].why.find("refused"), std::string::npos);
  EXPECT_EQ(shy.mesh.figures().greetings_refused, 1u);
  EXPECT_EQ(shy.mesh.figures().peers, 0u);
  peer(shy, honest);
  ASSERT_TRUE(send(honest, there, "and now"));
  ASSERT_TRUE(comes([&] { return shy.got.size() == 1; }));
}

}  // namespace
}  // namespace weft::test
