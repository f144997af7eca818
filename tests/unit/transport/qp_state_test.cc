// The table of queue-pair states against the one of InfiniBand (as Linux' qp_state_table has it),
// over every pair of states and every attribute.
#include "transport/qp_state.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

namespace weft::transport {
namespace {

using A = QpAttribute;
using S = QpState;

constexpr Service kServices[] = {Service::kReliableConnection, Service::kUnreliableConnection,
                                 Service::kUnreliableDatagram, Service::kReliableDatagram,
                                 Service::kRawDatagram};
constexpr S kStates[] = {
    S::kReset,          S::kInit, S::kReadyToReceive, S::kReadyToSend, S::kSendQueueDrained,
    S::kSendQueueError, S::kError};
static_assert(std::size(kStates) == kQpStates);

constexpr A kAttributes[] = {A::kAccess,   A::kPKeyIndex,       A::kPort,        A::kQKey,
                             A::kAddress,  A::kPathMtu,         A::kTimeout,     A::kRetryCount,
                             A::kRnrRetry, A::kReceivePsn,      A::kMaxRdAtomic, A::kMinRnrTimer,
                             A::kSendPsn,  A::kMaxDestRdAtomic, A::kRemoteQpn,   A::kAckPolicy};

struct Rule {
  A required = A::kNone, optional = A::kNone;
};

/// What the specification says, service by service; moves to RESET and ERR are always allowed.
/// weft leaves out what it does not have (alternate paths, migration, a new address while drained)
/// and adds its own: the acknowledgement policy, and a path MTU for datagrams.
std::map<std::pair<S, S>, Rule> rules_of(Service service) {
  switch (service) {
    case Service::kReliableConnection: {
      const A live = A::kAccess | A::kMinRnrTimer;
      return {
          {{S::kReset, S::kInit}, {A::kPKeyIndex | A::kPort | A::kAccess}},
          {{S::kInit, S::kInit}, {A::kNone, A::kPKeyIndex | A::kPort | A::kAccess}},
          {{S::kInit, S::kReadyToReceive},
           {A::kAddress | A::kPathMtu | A::kRemoteQpn | A::kReceivePsn | A::kMaxDestRdAtomic |
                A::kMinRnrTimer,
            A::kAccess | A::kPKeyIndex | A::kAckPolicy}},
          {{S::kReadyToReceive, S::kReadyToSend},
           {A::kTimeout | A::kRetryCount | A::kRnrRetry | A::kSendPsn | A::kMaxRdAtomic, live}},
          {{S::kReadyToSend, S::kReadyToSend}, {A::kNone, live}},
          {{S::kReadyToSend, S::kSendQueueDrained}, {}},
          {{S::kSendQueueDrained, S::kReadyToSend}, {A::kNone, live}},
          {{S::kSendQueueDrained, S::kSendQueueDrained},
           {A::kNone, A::kTimeout | A::kRetryCount | A::kRnrRetry | A::kMaxRdAtomic | A::kAccess |
                          A::kPKeyIndex | A::kMinRnrTimer}},
      };
    }
    case Service::kUnreliableConnection:
      return {
          {{S::kReset, S::kInit}, {A::kPKeyIndex | A::kPort | A::kAccess}},
          {{S::kInit, S::kInit}, {A::kNone, A::kPKeyIndex | A::kPort | A::kAccess}},
          {{S::kInit, S::kReadyToReceive},
           {A::kAddress | A::kPathMtu | A::kRemoteQpn | A::kReceivePsn,
            A::kAccess | A::kPKeyIndex}},
          {{S::kReadyToReceive, S::kReadyToSend}, {A::kSendPsn, A::kAccess}},
          {{S::kReadyToSend, S::kReadyToSend}, {A::kNone, A::kAccess}},
          {{S::kReadyToSend, S::kSendQueueDrained}, {}},
          {{S::kSendQueueDrained, S::kReadyToSend}, {A::kNone, A::kAccess}},
          {{S::kSendQueueDrained, S::kSendQueueDrained}, {A::kNone, A::kAccess | A::kPKeyIndex}},
          {{S::kSendQueueError, S::kReadyToSend}, {A::kNone, A::kAccess}},
      };
    case Service::kUnreliableDatagram:
      return {
          {{S::kReset, S::kInit}, {A::kPKeyIndex | A::kPort | A::kQKey}},
          {{S::kInit, S::kInit}, {A::kNone, A::kPKeyIndex | A::kPort | A::kQKey}},
          {{S::kInit, S::kReadyToReceive}, {A::kNone, A::kPKeyIndex | A::kQKey | A::kPathMtu}},
          {{S::kReadyToReceive, S::kReadyToSend}, {A::kSendPsn, A::kQKey}},
          {{S::kReadyToSend, S::kReadyToSend}, {A::kNone, A::kQKey}},
          {{S::kReadyToSend, S::kSendQueueDrained}, {}},
          {{S::kSendQueueDrained, S::kReadyToSend}, {A::kNone, A::kQKey}},
          {{S::kSendQueueDrained, S::kSendQueueDrained}, {A::kNone, A::kPKeyIndex | A::kQKey}},
          {{S::kSendQueueError, S::kReadyToSend}, {A::kNone, A::kQKey}},
      };
    case Service::kReliableDatagram: {
      // What the specification sets at contexts is weft's own here, and all of it may be left out.
      const A live = A::kAccess | A::kMinRnrTimer | A::kQKey;
      return {
          {{S::kReset, S::kInit}, {A::kPKeyIndex | A::kPort | A::kQKey | A::kAccess}},
          {{S::kInit, S::kInit}, {A::kNone, A::kPKeyIndex | A::kPort | A::kQKey | A::kAccess}},
          {{S::kInit, S::kReadyToReceive},
           {A::kNone, A::kAccess | A::kPKeyIndex | A::kQKey | A::kPathMtu | A::kMaxDestRdAtomic |
                          A::kMinRnrTimer | A::kAckPolicy}},
          {{S::kReadyToReceive, S::kReadyToSend},
           {A::kNone, A::kTimeout | A::kRetryCount | A::kRnrRetry | A::kSendPsn | A::kMaxRdAtomic |
                          A::kAccess | A::kQKey}},
          {{S::kReadyToSend, S::kReadyToSend}, {A::kNone, live}},
          {{S::kReadyToSend, S::kSendQueueDrained}, {}},
          {{S::kSendQueueDrained, S::kReadyToSend}, {A::kNone, live}},
          {{S::kSendQueueDrained, S::kSendQueueDrained},
           {A::kNone, live | A::kRnrRetry | A::kPKeyIndex}},
      };
    }
    case Service::kRawDatagram:
      return {
          {{S::kReset, S::kInit}, {A::kPort, A::kPKeyIndex}},
          {{S::kInit, S::kInit}, {A::kNone, A::kPort | A::kPKeyIndex}},
          {{S::kInit, S::kReadyToReceive}, {}},
          {{S::kReadyToReceive, S::kReadyToSend}, {}},
          {{S::kReadyToSend, S::kReadyToSend}, {}},
          {{S::kReadyToSend, S::kSendQueueDrained}, {}},
          {{S::kSendQueueDrained, S::kReadyToSend}, {}},
          {{S::kSendQueueDrained, S::kSendQueueDrained}, {}},
          {{S::kSendQueueError, S::kReadyToSend}, {}},
      };
  }
  return {};
}

template <class Visit>
void for_every_pair(Visit visit) {
  for (const Service service : kServices) {
    for (const S from : kStates) {
      for (const S to : kStates) {
        SCOPED_TRACE(std::string(to_string(service)) + " " + std::string(to_string(from)) + " to " +
                     std::string(to_string(to)));
        visit(service, from, to);
      }
    }
  }
}

TEST(QpState, follows_the_specification_from_every_state_to_every_state) {
  for_every_pair([](Service service, S from, S to) {
    const Transition got = transition(service, from, to);
    if (to == S::kReset || to == S::kError) {
      EXPECT_TRUE(got.allowed);
      EXPECT_EQ(got.required, A::kNone);
      return;
    }
    const auto rules = rules_of(service);
    const auto rule = rules.find({from, to});
    ASSERT_EQ(got.allowed, rule != rules.end());
    if (!got.allowed) return;
    EXPECT_EQ(to_string(got.required), to_string(rule->second.required));
    EXPECT_EQ(to_string(got.optional), to_string(rule->second.optional));
  });
}

TEST(QpState, names_the_states_of_a_move_that_is_not_allowed) {
  for_every_pair([](Service service, S from, S to) {
    if (transition(service, from, to).allowed) return;
    const auto refused = check_transition(service, from, to, A::kNone);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kInvalidState);
    for (const auto word : {to_string(service), to_string(from), to_string(to)}) {
      EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
    }
  });
}

TEST(QpState, names_each_attribute_that_is_missing) {
  for_every_pair([](Service service, S from, S to) {
    const Transition rule = transition(service, from, to);
    if (!rule.allowed) return;
    EXPECT_TRUE(check_transition(service, from, to, rule.required));
    EXPECT_TRUE(check_transition(service, from, to, rule.required | rule.optional));
    for (const A attribute : kAttributes) {
      if (!has(rule.required, attribute)) continue;
      const auto refused = check_transition(service, from, to, rule.required & ~attribute);
      ASSERT_FALSE(refused) << to_string(attribute);
      EXPECT_EQ(refused.error().code, Errc::kInvalidArgument);
      EXPECT_NE(refused.error().message.find("needs " + to_string(attribute)), std::string::npos)
          << refused.error().message;
    }
  });
}

TEST(QpState, names_each_attribute_that_does_not_belong) {
  for_every_pair([](Service service, S from, S to) {
    const Transition rule = transition(service, from, to);
    if (!rule.allowed || to == S::kReset || to == S::kError) return;
    for (const A attribute : kAttributes) {
      if (has(rule.required | rule.optional, attribute)) continue;
      const auto refused = check_transition(service, from, to, rule.required | attribute);
      ASSERT_FALSE(refused) << to_string(attribute);
      EXPECT_EQ(refused.error().code, Errc::kInvalidArgument);
      EXPECT_NE(refused.error().message.find(to_string(attribute) + " cannot be set"),
                std::string::npos)
          << refused.error().message;
    }
  });
}

TEST(QpState, knows_every_attribute_by_a_name_of_its_own) {
  std::map<std::string, A> names;
  for (const A attribute : kAttributes) {
    EXPECT_FALSE(to_string(attribute).empty());
    EXPECT_TRUE(names.emplace(to_string(attribute), attribute).second) << to_string(attribute);
  }
}

}  // namespace
}  // namespace weft::transport
