// An address that cannot be had: the error says why, and what to do (B1.3). What has gone and comes
// back is in udp_hosts_test.cc.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/verbs.h>

#include <cerrno>
#include <functional>
#include <string>

#include "support/kernel_filters.h"
#include "support/sandbox.h"
#include "support/udp_kit.h"

namespace {

using weft::test::loopback;

namespace v = weft::verbs;

auto open_device(const std::string& address) {
  return v::Device::open(
      {.path = v::PathPolicy::kFramed, .ports = {{.address = address, .on_network = true}}});
}

/// The status of a process that does this.
int elsewhere(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/// 0: refused like this, with all of these words in the message.
int refusal(const std::string& address, weft::Errc code, std::initializer_list<const char*> words) {
  const auto refused = open_device(address);
  if (refused) return 1;
  if (refused.error().code != code) return 2;
  int missing = 10;
  for (const char* word : words) {
    if (refused.error().message.find(word) == std::string::npos) {
      std::printf("no \"%s\" in: %s\n", word, refused.error().message.c_str());
      std::fflush(stdout);
      return missing;
    }
    ++missing;
  }
  return 0;
}

TEST(UdpRefusals, of_a_port_that_another_program_has_tell_what_to_do) {
  const std::string address = loopback(1);
  const int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(4791);
  inet_pton(AF_INET, address.c_str(), &name.sin_addr);
  const void* const any = &name;
  ASSERT_EQ(bind(other, static_cast<const sockaddr*>(any), sizeof name), 0);
  EXPECT_EQ(refusal(address, weft::Errc::kBusy,
                    {address.c_str(), "in use", "use another address", "end that process"}),
            0);
  close(other);
  EXPECT_TRUE(open_device(address).has_value()) << "it is free again";
}

TEST(UdpRefusals, of_a_port_that_another_user_has_do_so_too) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string address = loopback(2);
  const auto mine = open_device(address);
  ASSERT_TRUE(mine.has_value());
  EXPECT_EQ(elsewhere([&] {
              if (!weft::test::become(weft::test::kNobody)) return 0;
              return refusal(address, weft::Errc::kBusy, {address.c_str(), "another user"});
            }),
            0);
}

TEST(UdpRefusals, by_a_policy_name_the_port_that_must_be_allowed) {
  WEFT_NEEDS_KERNEL_FILTERS();
  const std::string address = loopback(3);
  EXPECT_EQ(elsewhere([&] {
              weft::test::refuse_sockets(AF_INET, EACCES);
              return refusal(address, weft::Errc::kNotPermitted, {address.c_str(), "4791"});
            }),
            0);
}

}  // namespace
