#include "channel/vector_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
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
  // A5: what each one goes by, and how large the buffers are that it wants.
  const auto mixed = vector_of({10, 5000, 600, 20});
  const auto even = vector_of({300, 300});
  const auto wanted = [](std::span<const iovec> vector, Policy policy, std::uint64_t hint = 0) {
    const Scan scan = scan_vector(vector, 500, policy, hint);
    EXPECT_EQ(scan.use_large, scan.count == 0);
    EXPECT_EQ(scan.bytes, scan.use_large ? 0 : bytes_in(vector));
    return scan.wanted_bytes;
  };
  EXPECT_EQ(wanted(mixed, Policy::kAny), 5630u);      // all of it goes through large buffers
  EXPECT_EQ(wanted(mixed, Policy::kLargest), 5000u);  // the largest element
  EXPECT_EQ(wanted(mixed, Policy::kSum), 5630u);      // the sum of all lengths, small ones too
  EXPECT_EQ(wanted(mixed, Policy::kFromLast), 600u);  // the first oversized one from the end
  EXPECT_EQ(wanted(mixed, Policy::kCallerSays, 501), 501u);
  EXPECT_EQ(wanted(mixed, Policy::kCallerSays, 500), 0u);
  EXPECT_EQ(wanted(even, Policy::kAny), 0u);
  EXPECT_EQ(wanted(even, Policy::kLargest), 0u);
  EXPECT_EQ(wanted(even, Policy::kSum), 600u);  // though none is oversized
  EXPECT_EQ(wanted(even, Policy::kFromLast), 0u);
}

TEST(VectorScan, no_two_policies_are_the_same) {
  // A5: for each two of them there is a vector that they judge differently.
  const std::vector<std::vector<iovec>> vectors{vector_of({10, 5000, 600, 20}),
                                                vector_of({300, 300})};
  const auto judge = [](const std::vector<iovec>& vector, Policy policy) {
    const Scan scan = scan_vector(vector, 500, policy, 700);
    return std::tuple(scan.count, scan.bytes, scan.wanted_bytes, scan.use_large);
  };
  constexpr auto kLastPolicy = static_cast<int>(Policy::kCallerSays);
  for (int a = 0; a <= kLastPolicy; ++a) {
    for (int b = 0; b < a; ++b) {
      EXPECT_TRUE(std::any_of(
          vectors.begin(), vectors.end(),
          [&](const auto& vector) { return judge(vector, Policy(a)) != judge(vector, Policy(b)); }))
          << a << " and " << b;
    }
  }
}

TEST(VectorSend, policies_choose_the_phase_that_holds_what_they_go_by) {
  // A5: with three phases they end in different ones.
  const auto phase_after = [](Policy policy, std::vector<std::size_t> lengths, std::size_t hint) {
    Settings settings;
    settings.phases = {{500, 4}, {5000, 4}, {50000, 2}};
    settings.policy = policy;
    SimulatedPair pair{settings};
    std::string text(20000, 'x');
    std::vector<iovec> vector;
    for (const std::size_t length : lengths) vector.push_back({text.data(), length});
    EXPECT_EQ(pair.here.endpoint.take(vector, hint, pair.now), 0u);
    pair.settle();
    const std::uint32_t phase = pair.here.endpoint.send().phase();
    EXPECT_EQ(pair.here.endpoint.take(vector, hint, pair.now), bytes_in(vector));
    pair.settle(2);
    EXPECT_EQ(pair.receive().value_or("").size(), bytes_in(vector));
    return phase;
  };
  EXPECT_EQ(phase_after(Policy::kAny, {4000, 4000}, 0), 2u);      // all of it is 8,000
  EXPECT_EQ(phase_after(Policy::kLargest, {4000, 4000}, 0), 1u);  // 4,000 fit
  EXPECT_EQ(phase_after(Policy::kSum, {300, 400}, 0), 1u);
  EXPECT_EQ(phase_after(Policy::kSum, {4000, 4000}, 0), 2u);
  EXPECT_EQ(phase_after(Policy::kFromLast, {4000, 4000, 100}, 0), 1u);
  EXPECT_EQ(phase_after(Policy::kCallerSays, {100, 100}, 4000), 1u);
  EXPECT_EQ(phase_after(Policy::kCallerSays, {100, 100}, 40000), 2u);
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
