#include "verbs/async_events.h"

#include <gtest/gtest.h>

#include "verbs/limits.h"
#include "verbs/srq_object.h"

namespace weft::verbs {
namespace {

struct Reported {
  obs::Counters counters;
  AsyncEvents events{counters};
  queue::QueuePair qp;

  Reported() { qp.qpn = Qpn(5); }
  void report_access_error() { events.on_event(qp, queue::QpEvent::kAccessError); }
};

TEST(AsyncEvents, name_the_object_that_they_are_about) {
  Reported reported;
  SrqObject srq;
  srq.number = 9;
  reported.report_access_error();
  reported.events.on_limit_reached(srq);
  reported.events.on_completion_overrun(7);
  reported.events.on_unmapped_page(0x1000);
  const auto qp = reported.events.next(), limit = reported.events.next(),
             overrun = reported.events.next(), page = reported.events.next();
  ASSERT_TRUE(qp && limit && overrun && page);
  EXPECT_EQ(qp->kind, AsyncEventKind::kQueuePairAccessError);
  EXPECT_EQ(qp->qpn, Qpn(5));
  EXPECT_EQ(limit->kind, AsyncEventKind::kSharedReceiveLimitReached);
  EXPECT_EQ(limit->number, 9u);
  EXPECT_EQ(overrun->kind, AsyncEventKind::kCompletionQueueOverrun);
  EXPECT_EQ(overrun->number, 7u);
  EXPECT_EQ(page->kind, AsyncEventKind::kUnmappedPage);
  EXPECT_EQ(page->address, 0x1000u);
  EXPECT_FALSE(reported.events.next());
  EXPECT_EQ(reported.counters.get(obs::Counter::kCompletionOverruns), 1u);
}

TEST(AsyncEvents, go_to_the_queue_that_their_object_is_routed_to) {
  Reported reported;
  const auto first = reported.events.claim(), second = reported.events.claim();
  ASSERT_NE(first, second);
  reported.report_access_error();
  EXPECT_TRUE(first->next()) << "the first claim gets what is not routed";
  reported.events.route(Qpn(5), 0, second);
  reported.report_access_error();
  EXPECT_FALSE(first->next());
  EXPECT_TRUE(second->next());
  reported.events.on_completion_overrun(5);
  EXPECT_TRUE(first->next()) << "a completion queue with the number of a queue pair is another one";
  EXPECT_FALSE(second->next());
}

TEST(AsyncEvents, are_forgotten_with_their_object_and_its_route) {
  Reported reported;
  const auto first = reported.events.claim(), second = reported.events.claim();
  reported.events.route(Qpn(5), 0, second);
  reported.report_access_error();
  reported.events.forget(Qpn(5), 0);
  EXPECT_FALSE(second->next());
  reported.report_access_error();
  EXPECT_FALSE(second->next());
  EXPECT_TRUE(first->next()) << "the number is another object's now";
}

TEST(AsyncEvents, are_counted_when_there_is_no_room) {
  Reported reported;
  for (std::size_t i = 0; i < kMaxWaitingEvents + 2; ++i) reported.report_access_error();
  EXPECT_EQ(reported.counters.get(obs::Counter::kAsyncEventsDropped), 2u);
}

}  // namespace
}  // namespace weft::verbs
