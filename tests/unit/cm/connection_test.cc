#include "cm/connection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cm/service_query.h"

namespace weft::cm {
namespace {

using Phase = Connection::Phase;
using Kind = Event::Kind;

constexpr Nanoseconds kMs = 1'000'000;

/// Two ends and what is under way between them; messages arrive only when the test says so.
struct Ends {
  Timing timing{.first_retry_ns = 10 * kMs,
                .last_retry_ns = 40 * kMs,
                .retries = 3,
                .timewait_ns = 100 * kMs};
  Connection active{CommId(1), Psn(0x111), TransactionId(0x0123456789ABCDEF), timing},
      passive{CommId(2), Psn(0x222), TransactionId(0xFEDCBA9876543210), timing};
  Outcome from_active, from_passive;
  Nanoseconds now = 1000 * kMs;

  std::vector<Event> deliver_to(Connection& to, Outcome& from, Outcome& answers) {
    const auto messages = std::exchange(from.messages, {});
    for (const Message& message : messages) {
      // Over the wire and back, as it would be.
      to.on_message(*parse(emit(message)), now, answers);
    }
    return std::exchange(answers.events, {});
  }
  std::vector<Event> to_passive() { return deliver_to(passive, from_active, from_passive); }
  std::vector<Event> to_active() { return deliver_to(active, from_passive, from_active); }

  void request() {
    Request terms;
    terms.qpn = Qpn(0x11);
    terms.responder_resources = 3;
    terms.initiator_depth = 4;
    terms.retry_count = 5;
    terms.rnr_retry_count = 6;
    ASSERT_TRUE(active.request(terms, now, from_active));
  }
  void accept() {
    Reply terms;
    terms.qpn = Qpn(0x22);
    terms.responder_resources = 2;
    terms.initiator_depth = 1;
    terms.rnr_retry_count = 7;
    ASSERT_TRUE(passive.accept(terms, now, from_passive));
  }
  void establish() {
    request();
    to_passive();
    accept();
    to_active();
    ASSERT_TRUE(active.confirm(from_active));
    to_passive();
    from_active = from_passive = {};
    ASSERT_EQ(active.phase(), Phase::kEstablished);
    ASSERT_EQ(passive.phase(), Phase::kEstablished);
  }
};

template <class Body>
std::size_t count(const Outcome& out) {
  return static_cast<std::size_t>(
      std::count_if(out.messages.begin(), out.messages.end(),
                    [](const Message& m) { return std::holds_alternative<Body>(m.body); }));
}

std::vector<Kind> kinds(const std::vector<Event>& events) {
  std::vector<Kind> all;
  for (const Event& event : events) all.push_back(event.kind);
  return all;
}

TEST(Connection, comes_up_with_terms_that_match) {
  Ends ends;
  ends.request();
  EXPECT_TRUE(ends.to_passive().empty());
  EXPECT_EQ(ends.passive.phase(), Phase::kRequestReceived);
  EXPECT_EQ(ends.passive.terms().remote_qpn, Qpn(0x11));
  EXPECT_EQ(ends.passive.terms().responder_resources, 4);
  EXPECT_EQ(ends.passive.terms().initiator_depth, 3);
  EXPECT_EQ(ends.passive.terms().retry_count, 5);
  ends.accept();
  EXPECT_EQ(kinds(ends.to_active()), std::vector{Kind::kReplied});
  EXPECT_EQ(ends.active.terms().remote_qpn, Qpn(0x22));
  // Each end begins with the number that the other one asked for.
  EXPECT_EQ(ends.active.terms().receive_psn, Psn(0x111));
  EXPECT_EQ(ends.passive.terms().send_psn, Psn(0x111));
  EXPECT_EQ(ends.passive.terms().receive_psn, Psn(0x222));
  EXPECT_EQ(ends.active.terms().send_psn, Psn(0x222));
  EXPECT_EQ(ends.active.terms().responder_resources, 1);
  EXPECT_EQ(ends.active.terms().initiator_depth, 2);
  EXPECT_EQ(ends.active.terms().rnr_retry_count, 7);
  ASSERT_TRUE(ends.active.confirm(ends.from_active));
  EXPECT_EQ(kinds(ends.to_passive()), std::vector{Kind::kEstablished});
  EXPECT_EQ(ends.active.deadline(), kNever);
  EXPECT_EQ(ends.passive.deadline(), kNever);
}

TEST(Connection, repeats_the_request_until_it_gives_up) {
  Ends ends;
  ends.request();
  std::vector<Nanoseconds> pauses;
  while (ends.active.phase() == Phase::kRequestSent) {
    pauses.push_back((ends.active.deadline() - ends.now) / kMs);
    ends.now = ends.active.deadline();
    ends.active.on_timer(ends.now - 1, ends.from_active);  // too early: nothing
    ASSERT_EQ(count<Request>(ends.from_active), pauses.size());
    ends.active.on_timer(ends.now, ends.from_active);
  }
  EXPECT_EQ(pauses, (std::vector<Nanoseconds>{10, 20, 40, 40}));
  EXPECT_EQ(count<Request>(ends.from_active), 4U);
  EXPECT_EQ(count<Reject>(ends.from_active), 1U);
  EXPECT_EQ(kinds(ends.from_active.events), std::vector{Kind::kUnreachable});
  EXPECT_EQ(ends.active.phase(), Phase::kEnded);
}

TEST(Connection, patience_of_the_peer_stops_the_repeats) {
  Ends ends;
  ends.request();
  ends.to_passive();
  ASSERT_EQ(count<Acknowledgement>(ends.from_passive), 1U);
  ends.to_active();
  EXPECT_GT(ends.active.deadline(), ends.now + 60'000 * kMs);
  // A repeated request is answered by patience again, and makes nothing new.
  ends.active.on_timer(ends.active.deadline(), ends.from_active);
  EXPECT_TRUE(ends.to_passive().empty());
  EXPECT_EQ(count<Acknowledgement>(ends.from_passive), 1U);
}

TEST(Connection, a_lost_reply_and_a_lost_confirmation_are_repeated) {
  Ends ends;
  ends.request();
  ends.to_passive();
  ends.accept();
  ends.from_passive.messages.clear();  // lost
  ends.now = ends.passive.deadline();
  ends.passive.on_timer(ends.now, ends.from_passive);
  EXPECT_EQ(kinds(ends.to_active()), std::vector{Kind::kReplied});
  ASSERT_TRUE(ends.active.confirm(ends.from_active));
  ends.from_active.messages.clear();  // lost
  ends.passive.on_timer(ends.passive.deadline(), ends.from_passive);
  EXPECT_TRUE(ends.to_active().empty());
  EXPECT_EQ(count<ReadyToUse>(ends.from_active), 1U);
  EXPECT_EQ(kinds(ends.to_passive()), std::vector{Kind::kEstablished});
}

TEST(Connection, a_repeated_request_after_the_reply_gets_the_reply_again) {
  Ends ends;
  ends.request();
  const auto request = ends.from_active;
  ends.to_passive();
  ends.accept();
  ends.from_passive.messages.clear();
  ends.from_active = request;
  ends.to_passive();
  EXPECT_EQ(count<Reply>(ends.from_passive), 1U);
}

TEST(Connection, reject_tells_reason_and_data) {
  Ends ends;
  ends.request();
  ends.to_passive();
  const std::array data{std::byte{1}, std::byte{2}};
  ASSERT_TRUE(ends.passive.reject(RejectReason::kVendorOption, data, ends.from_passive));
  const auto events = ends.to_active();
  ASSERT_EQ(kinds(events), std::vector{Kind::kRejected});
  EXPECT_EQ(events[0].reason, RejectReason::kVendorOption);
  ASSERT_EQ(events[0].private_data.size(), 148U);
  EXPECT_EQ(events[0].private_data[1], std::byte{2});
  EXPECT_EQ(ends.active.phase(), Phase::kEnded);
  EXPECT_EQ(ends.passive.phase(), Phase::kEnded);
}

TEST(Connection, the_active_end_may_refuse_the_reply) {
  Ends ends;
  ends.request();
  ends.to_passive();
  ends.accept();
  ends.to_active();
  ASSERT_TRUE(ends.active.reject(RejectReason::kConsumer, {}, ends.from_active));
  EXPECT_EQ(kinds(ends.to_passive()), std::vector{Kind::kRejected});
}

TEST(Connection, ends_in_order) {
  Ends ends;
  ends.establish();
  ASSERT_TRUE(ends.active.disconnect(ends.now, ends.from_active));
  EXPECT_EQ(kinds(ends.to_passive()), std::vector{Kind::kDisconnected});
  EXPECT_EQ(ends.passive.phase(), Phase::kDisconnectReceived);
  ASSERT_TRUE(ends.passive.disconnect(ends.now, ends.from_passive));
  EXPECT_EQ(kinds(ends.to_active()), std::vector{Kind::kDisconnected});
  for (Connection* end : {&ends.active, &ends.passive}) {
    EXPECT_EQ(end->phase(), Phase::kTimewait);
    EXPECT_EQ(end->deadline(), ends.now + 100 * kMs);
    Outcome out;
    end->on_timer(end->deadline(), out);
    EXPECT_EQ(kinds(out.events), std::vector{Kind::kTimewaitOver});
    EXPECT_EQ(end->phase(), Phase::kEnded);
  }
}

TEST(Connection, a_lost_disconnect_reply_is_given_again) {
  Ends ends;
  ends.establish();
  ends.active.disconnect(ends.now, ends.from_active);
  ends.to_passive();
  ends.passive.disconnect(ends.now, ends.from_passive);
  ends.from_passive.messages.clear();  // lost
  ends.active.on_timer(ends.active.deadline(), ends.from_active);
  EXPECT_TRUE(ends.to_passive().empty());
  EXPECT_EQ(kinds(ends.to_active()), std::vector{Kind::kDisconnected});
}

TEST(Connection, disconnects_that_cross_end_both) {
  Ends ends;
  ends.establish();
  ends.active.disconnect(ends.now, ends.from_active);
  ends.passive.disconnect(ends.now, ends.from_passive);
  EXPECT_EQ(kinds(ends.to_passive()), std::vector{Kind::kDisconnected});
  EXPECT_EQ(kinds(ends.to_active()), std::vector{Kind::kDisconnected});
  ends.active.close(ends.from_active);
  EXPECT_TRUE(ends.to_passive().empty());  // told already
  EXPECT_EQ(ends.passive.phase(), Phase::kTimewait);
}

TEST(Connection, a_disconnect_without_answer_ends_too) {
  Ends ends;
  ends.establish();
  ends.active.disconnect(ends.now, ends.from_active);
  for (int i = 0; i < 4; ++i) ends.active.on_timer(ends.active.deadline(), ends.from_active);
  EXPECT_EQ(count<DisconnectRequest>(ends.from_active), 4U);
  ASSERT_EQ(kinds(ends.from_active.events), std::vector{Kind::kDisconnected});
  EXPECT_TRUE(ends.from_active.events[0].timed_out);
}

TEST(Connection, the_death_of_the_peer_is_told_once_in_every_phase) {
  const auto after = [](auto prepare, auto pick, std::vector<Kind> wanted) {
    Ends ends;
    prepare(ends);
    Connection& end = pick(ends);
    Outcome out;
    end.on_peer_gone(ends.now, out);
    EXPECT_EQ(kinds(out.events), wanted);
    end.on_peer_gone(ends.now, out);
    EXPECT_EQ(out.events.size(), wanted.size());
  };
  const auto active = [](Ends& ends) -> Connection& { return ends.active; };
  const auto passive = [](Ends& ends) -> Connection& { return ends.passive; };
  const auto requested = [](Ends& ends) { ends.request(), ends.to_passive(); };
  const auto replied = [&](Ends& ends) { requested(ends), ends.accept(), ends.to_active(); };
  const auto established = [](Ends& ends) { ends.establish(); };
  const auto ending = [](Ends& ends) {
    ends.establish();
    ends.active.disconnect(ends.now, ends.from_active);
    ends.to_passive();
  };
  after([](Ends&) {}, active, {});
  after(requested, active, {Kind::kRejected});
  after(requested, passive, {Kind::kRejected});
  after(replied, active, {Kind::kRejected});
  after(replied, passive, {Kind::kRejected});
  after(established, active, {Kind::kDisconnected});
  after(established, passive, {Kind::kDisconnected});
  after(ending, active, {Kind::kDisconnected});
  after(ending, passive, {});
}

TEST(Connection, close_frees_the_peer_in_every_phase) {
  const auto peer_hears = [](auto prepare, bool close_active, std::vector<Kind> wanted) {
    Ends ends;
    prepare(ends);
    ends.from_active = ends.from_passive = {};
    (close_active ? ends.active : ends.passive)
        .close(close_active ? ends.from_active : ends.from_passive);
    EXPECT_EQ(kinds(close_active ? ends.to_passive() : ends.to_active()), wanted);
  };
  const auto requested = [](Ends& ends) { ends.request(), ends.to_passive(), ends.to_active(); };
  const auto replied = [&](Ends& ends) { requested(ends), ends.accept(), ends.to_active(); };
  const auto ending = [](Ends& ends) {
    ends.establish();
    ends.active.disconnect(ends.now, ends.from_active);
    ends.to_passive();
  };
  peer_hears(requested, true, {Kind::kRejected});
  peer_hears(requested, false, {Kind::kRejected});
  peer_hears(replied, true, {Kind::kRejected});
  peer_hears(replied, false, {Kind::kRejected});
  peer_hears([](Ends& ends) { ends.establish(); }, true, {Kind::kDisconnected});
  peer_hears([](Ends& ends) { ends.establish(); }, false, {Kind::kDisconnected});
  peer_hears(ending, false, {Kind::kDisconnected});
}

TEST(Connection, what_does_not_fit_the_phase_is_refused) {
  Ends ends;
  Outcome out;
  EXPECT_FALSE(ends.passive.accept({}, ends.now, out));
  EXPECT_FALSE(ends.active.confirm(out));
  EXPECT_FALSE(ends.active.disconnect(ends.now, out));
  EXPECT_FALSE(ends.active.reject(RejectReason::kConsumer, {}, out));
  EXPECT_FALSE(ends.active.on_data(out));
  ends.request();
  EXPECT_FALSE(ends.active.request({}, ends.now, out));
  EXPECT_TRUE(out.messages.empty());
  EXPECT_TRUE(out.events.empty());
}

/// As the peer would send it, but for what `spoil` changes.
template <class Body>
Message from_peer(const Connection& end, TransactionId transaction, CommId peer, auto spoil) {
  Body body;
  body.local = peer;
  body.remote = end.local();
  if constexpr (requires { body.remote_qpn; }) body.remote_qpn = Qpn(0x11);
  Message message{transaction, body};
  spoil(message, std::get<Body>(message.body));
  return message;
}

template <class Body>
void expect_only_from_peer(auto prepare, Phase phase) {
  const auto result = [&](auto spoil) {
    Ends ends;
    prepare(ends);
    EXPECT_EQ(ends.active.phase(), phase);
    Outcome out;
    const bool fits = ends.active.on_message(
        from_peer<Body>(ends.active, TransactionId(0), CommId(2), spoil), ends.now, out);
    if (!fits) {
      EXPECT_EQ(ends.active.phase(), phase);
      EXPECT_TRUE(out.messages.empty() && out.events.empty());
    }
    return fits;
  };
  EXPECT_TRUE(result([](Message&, Body&) {}));
  EXPECT_FALSE(result([](Message&, Body& body) { body.local = CommId(3); }));
  EXPECT_FALSE(result([](Message&, Body& body) { body.local = CommId(0); }));
  EXPECT_FALSE(result([](Message&, Body& body) { body.remote = CommId(3); }));
  EXPECT_FALSE(result([](Message&, Body& body) { body.remote = CommId(0); }));
  if constexpr (requires(Body body) { body.remote_qpn; }) {
    EXPECT_FALSE(result([](Message&, Body& body) { body.remote_qpn = Qpn(0x12); }));
  }
}

TEST(Connection, a_message_with_a_wrong_number_is_dropped) {
  const auto replied = [](Ends& ends) {
    ends.request(), ends.to_passive(), ends.accept(), ends.to_active();
  };
  const auto established = [](Ends& ends) { ends.establish(); };
  const auto ending = [](Ends& ends) {
    ends.establish();
    ends.active.disconnect(ends.now, ends.from_active);
  };
  expect_only_from_peer<Reject>(replied, Phase::kReplyReceived);
  expect_only_from_peer<Reply>(replied, Phase::kReplyReceived);
  expect_only_from_peer<Reject>(established, Phase::kEstablished);
  expect_only_from_peer<Reply>(established, Phase::kEstablished);
  expect_only_from_peer<DisconnectRequest>(established, Phase::kEstablished);
  expect_only_from_peer<Reject>(ending, Phase::kDisconnectSent);
  expect_only_from_peer<DisconnectRequest>(ending, Phase::kDisconnectSent);
  expect_only_from_peer<DisconnectReply>(ending, Phase::kDisconnectSent);
}

template <class Body>
void expect_only_with_transaction() {
  for (const bool guessed : {false, true}) {
    Ends ends;
    ends.request();
    const TransactionId asked = ends.from_active.messages.front().transaction;
    Outcome out;
    const auto message =
        from_peer<Body>(ends.active, guessed ? asked : TransactionId(asked.value + 1), CommId(0),
                        [](Message&, Body&) {});
    const Nanoseconds deadline = ends.active.deadline();
    EXPECT_EQ(ends.active.on_message(message, ends.now, out), guessed);
    if (guessed) continue;
    EXPECT_EQ(ends.active.phase(), Phase::kRequestSent);
    EXPECT_EQ(ends.active.deadline(), deadline);
    EXPECT_TRUE(out.events.empty());
  }
}

TEST(Connection, an_answer_to_the_request_must_have_its_transaction) {
  expect_only_with_transaction<Reply>();
  expect_only_with_transaction<Reject>();
  expect_only_with_transaction<Acknowledgement>();
}

TEST(Connection, a_peer_that_gives_up_before_it_knows_our_number_is_known_by_its_transaction) {
  for (const bool guessed : {false, true}) {
    Ends ends;
    ends.request();
    const TransactionId asked = ends.from_active.messages.front().transaction;
    ends.to_passive();
    ends.accept();
    Reject reject;
    reject.local = CommId(1);
    Outcome out;
    const TransactionId said(asked.value + (guessed ? 0 : 1));
    EXPECT_EQ(ends.passive.on_message({said, reject}, ends.now, out), guessed);
    EXPECT_EQ(ends.passive.phase(), guessed ? Phase::kEnded : Phase::kReplySent);
  }
}

TEST(Connection, patience_asked_for_without_end_is_given_for_a_while) {
  Ends ends;
  ends.request();
  ends.to_passive();
  Message patience = ends.from_passive.messages.front();
  std::get<Acknowledgement>(patience.body).service_timeout = 31;
  const Nanoseconds begun = ends.now;
  constexpr Nanoseconds kStep = 1000 * kMs;
  for (int i = 0; i < 3600 && ends.active.phase() == Phase::kRequestSent; ++i) {
    ends.active.on_message(patience, ends.now, ends.from_active);
    ends.now += kStep;
    ends.active.on_timer(ends.now, ends.from_active);
  }
  EXPECT_EQ(ends.active.phase(), Phase::kEnded);
  EXPECT_LT(ends.now - begun, 4 * 75 * kStep) << "once for each of the four times it was sent";
}

TEST(Connection, extended_queue_pairs_are_told_as_contexts) {
  Ends ends;
  Request terms;
  terms.transport = Transport::kExtended;
  ASSERT_TRUE(ends.active.request(terms, ends.now, ends.from_active));
  ends.to_passive();
  ends.accept();
  ends.to_active();
  EXPECT_EQ(ends.active.terms().remote_qpn, Qpn(0x22));
  EXPECT_TRUE(ends.active.terms().srq);
}

TEST(ServiceQuery, asks_until_it_is_answered) {
  ServiceQuery query(CommId(5), TransactionId(6),
                     {.first_retry_ns = 10, .last_retry_ns = 10, .retries = 2});
  Outcome asked;
  ASSERT_TRUE(query.ask({}, 0, asked));
  EXPECT_FALSE(query.ask({}, 0, asked));
  query.on_timer(query.deadline(), asked);
  ASSERT_EQ(count<ServiceRequest>(asked), 2U);
  ServiceAnswer answer(CommId(5), asked.messages[0].transaction, ServiceId(1));
  Outcome answered;
  answer.on_question(answered);
  EXPECT_TRUE(answered.messages.empty());  // the program has not decided yet
  ServiceReply reply;
  reply.qpn = Qpn(0x33);
  reply.qkey = QKey(0x44);
  ASSERT_TRUE(answer.answer(reply, answered));
  EXPECT_FALSE(answer.answer(reply, answered));
  answer.on_question(answered);
  ASSERT_EQ(count<ServiceReply>(answered), 2U);
  Outcome told;
  for (const Message& message : answered.messages) query.on_message(message, told);
  EXPECT_EQ(kinds(told.events), std::vector{Kind::kResolved});
  EXPECT_EQ(query.qpn(), Qpn(0x33));
  EXPECT_EQ(query.qkey(), QKey(0x44));
  EXPECT_EQ(query.deadline(), kNever);
}

TEST(ServiceQuery, an_answer_must_have_the_transaction_of_the_question) {
  ServiceQuery query(CommId(5), TransactionId(6), {});
  Outcome out;
  query.ask({}, 0, out);
  ServiceReply reply;
  reply.request = CommId(5);
  EXPECT_FALSE(query.on_message({TransactionId(7), reply}, out));
  EXPECT_TRUE(out.events.empty());
  EXPECT_TRUE(query.on_message({TransactionId(6), reply}, out));
  EXPECT_EQ(kinds(out.events), std::vector{Kind::kResolved});
}

TEST(ServiceQuery, ends_without_an_answer) {
  ServiceQuery query(CommId(5), TransactionId(6),
                     {.first_retry_ns = 10, .last_retry_ns = 10, .retries = 2});
  Outcome out;
  query.ask({}, 0, out);
  for (int i = 0; i < 3; ++i) query.on_timer(query.deadline(), out);
  EXPECT_EQ(kinds(out.events), std::vector{Kind::kUnreachable});
  EXPECT_EQ(query.deadline(), kNever);
}

}  // namespace
}  // namespace weft::cm
