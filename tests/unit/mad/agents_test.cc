#include "mad/agents.h"

#include <gtest/gtest.h>

namespace weft::mad {
namespace {

class IdleAgent final : public Agent {
 public:
  void on_datagram(Gsi&, const Datagram&) override {}
};

const Gid kPort = Gid::ipv4(10, 1, 2, 3), kOtherPort = Gid::ipv4(10, 1, 2, 4);

TEST(MadAgents, are_found_by_class) {
  Agents agents;
  IdleAgent cm, performance;
  EXPECT_TRUE(agents.empty());
  agents.set(Class::kCommunication, cm);
  agents.set(Class::kPerformance, performance);
  EXPECT_FALSE(agents.empty());
  EXPECT_EQ(agents.find(Class::kCommunication, kPort), &cm);
  EXPECT_EQ(agents.find(Class::kPerformance, kPort), &performance);
  EXPECT_EQ(agents.find(Class::kSubnetManagement, kPort), nullptr);
}

TEST(MadAgents, one_of_a_port_goes_before_one_of_all_ports) {
  Agents agents;
  IdleAgent anywhere, here;
  agents.set(Class::kSubnetManagement, here, kPort);
  EXPECT_EQ(agents.find(Class::kSubnetManagement, kPort), &here);
  EXPECT_EQ(agents.find(Class::kSubnetManagement, kOtherPort), nullptr);
  agents.set(Class::kSubnetManagement, anywhere);
  EXPECT_EQ(agents.find(Class::kSubnetManagement, kPort), &here);
  EXPECT_EQ(agents.find(Class::kSubnetManagement, kOtherPort), &anywhere);
}

TEST(MadAgents, another_one_takes_the_place_of_the_first) {
  Agents agents;
  IdleAgent first, second;
  agents.set(Class::kCommunication, first);
  agents.set(Class::kCommunication, second);
  EXPECT_EQ(agents.find(Class::kCommunication, kPort), &second);
}

}  // namespace
}  // namespace weft::mad
