#include "support/path_network.h"
#include "support/verbs_kit.h"

namespace weft::test {
namespace {

/// Two queue pairs that know each other, of which the second expects another first number.
TEST(NeighbourConnection, takes_nothing_of_an_earlier_one_between_the_same_two) {
  Network network(Wire::kNeighbour);
  const Node a(network.open({})), b(network.open({}));
  QueuePair qa = a.create(), qb = b.create();
  const Endpoint at_a = qa.endpoint(), at_b = qb.endpoint();
  QueuePairAttributes attributes;
  attributes.timeout = 1;  // 8 us
  attributes.retry_count = 1;
  must(qa.connect(at_b, attributes));
  must(qb.connect({at_a.gid, at_a.qpn, Psn(at_a.psn.value() + 1000)}, attributes));
  Memory from(a, 8), to(b, 8);
  from.fill(1);
  post_receive(qb, 1, {to.sge()});
  post(qa, {.wr_id = 2}, {from.sge()});
  const Completion sent = must(a.sends.wait(kPatience));
  EXPECT_TRUE(has_failed(sent, 2, CompletionStatus::kRetryExceeded));
  EXPECT_FALSE(b.receives.poll().has_value());
  EXPECT_TRUE(to.is_zero());
}

}  // namespace
}  // namespace weft::test
