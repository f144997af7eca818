#include "channel/vector_scan.h"

#include <gtest/gtest.h>

#include <vector>

#include "unit/channel/simulated_pair.h"

namespace weft::channel::test {
namespace {

std::vector<iovec> vector_of(std::initializer_list<std::size_t> lengths) {
  std::vector<iovec> vector;
  for (const std::size_t length : lengths) vector.push_back({nullptr, length});
  return vector;
}

TEST(VectorScan, oversized_is_strictly_greater) {
  // A3: what equals the threshold fits.
  EXPECT_FALSE(scan_vector(vector_of({500}), 500, Policy::kInOrder).use_large);
  EXPECT_TRUE(scan_vector(vector_of({501}), 500, Policy::kInOrder).use_large);
}

TEST(VectorScan, takes_what_stands_before_the_first_oversized_element) {
  // A4: figure 5.
  const Scan scan = scan_vector(vector_of({10, 20, 600, 30}), 500, Policy::kInOrder);
  EXPECT_FALSE(scan.use_large);
  EXPECT_EQ(scan.count, 2u);
  EXPECT_EQ(scan.bytes, 30u);
}

TEST(VectorScan, uses_large_buffers_when_the_first_element_is_oversized) {
  // A4: block 572 to 574.
  const Scan scan = scan_vector(vector_of({600, 10}), 500, Policy::kInOrder);
  EXPECT_TRUE(scan.use_large);
  EXPECT_EQ(scan.count, 0u);
  EXPECT_EQ(scan.wanted_bytes, 600u);
}

TEST(VectorScan, other_policies_judge_the_vector_as_a_whole) {
  // A5: any, largest, sum, from the last down, and what the caller says.
  const auto mixed = vector_of({10, 600, 20});
  const auto even = vector_of({300, 300});
  EXPECT_TRUE(scan_vector(mixed, 500, Policy::kAny).use_large);
  EXPECT_EQ(scan_vector(mixed, 500, Policy::kLargest).wanted_bytes, 600u);
  EXPECT_TRUE(scan_vector(mixed, 500, Policy::kFromLast).use_large);
  EXPECT_FALSE(scan_vector(even, 500, Policy::kAny).use_large);
  EXPECT_FALSE(scan_vector(even, 500, Policy::kLargest).use_large);
  EXPECT_FALSE(scan_vector(even, 500, Policy::kFromLast).use_large);
  EXPECT_TRUE(scan_vector(even, 500, Policy::kSum).use_large);
  EXPECT_EQ(scan_vector(even, 500, Policy::kSum).wanted_bytes, 600u);
  EXPECT_TRUE(scan_vector(even, 500, Policy::kCallerSays, 501).use_large);
  EXPECT_EQ(scan_vector(even, 500, Policy::kCallerSays, 500).bytes, 600u);
}

TEST(VectorSend, a_vector_goes_as_far_as_it_can_and_the_rest_later) {
  // A4: the call says how far it came; the message still arrives whole.
  SimulatedPair pair{Settings{}};
  std::string a(100, 'a'), b(200, 'b'), c(4000, 'c');
  const std::vector<iovec> all{{a.data(), 100}, {b.data(), 200}, {c.data(), 4000}};
  EXPECT_EQ(pair.here.endpoint.take(all, 0, pair.now), 300u);
  EXPECT_EQ(pair.here.endpoint.send().rest_bytes(), 4000u);
  const std::vector<iovec> rest{{c.data(), 4000}};
  EXPECT_EQ(pair.here.endpoint.take(rest, 0, pair.now), 0u);  // 344
  pair.settle();
  EXPECT_FALSE(pair.receive());
  EXPECT_EQ(pair.here.endpoint.take(rest, 0, pair.now), 4000u);
  pair.settle(2);
  EXPECT_EQ(pair.receive(), a + b + c);
}

TEST(VectorSend, the_threshold_may_be_a_share_of_the_size_or_bytes) {
  // A3: settable both ways.
  for (const bool percent : {true, false}) {
    Settings settings;
    settings.phases[0].payload_bytes = 500;
    if (percent) settings.threshold_percent = 80;
    if (!percent) settings.threshold_bytes = 400;
    SimulatedPair pair{settings};
    EXPECT_EQ(pair.send(std::string(400, 'x')), 400u);
    EXPECT_EQ(pair.send(std::string(401, 'x')), 0u);
    EXPECT_EQ(pair.here.endpoint.send().figures().controls, 1u);
  }
}

}  // namespace
}  // namespace weft::channel::test
