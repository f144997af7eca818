#include "wire/opcode.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "wire_test_support.h"

namespace weft::wire {
namespace {

TEST(OpcodeTable, knows_exactly_the_opcodes_of_the_specification) {
  const auto listed = test::every_opcode();
  const std::set<Opcode> expected(listed.begin(), listed.end());
  for (unsigned raw = 0; raw < 256; ++raw) {
    const auto opcode = static_cast<Opcode>(raw);
    EXPECT_EQ(info(opcode).known, expected.contains(opcode)) << raw;
  }
}

TEST(OpcodeTable, names_are_distinct) {
  std::set<std::string> names;
  for (Opcode opcode : test::every_opcode()) {
    EXPECT_TRUE(names.insert(info(opcode).name).second) << info(opcode).name;
  }
  EXPECT_STREQ(info(Opcode::kRcSendLastWithInvalidate).name, "RC SEND LAST WITH INVALIDATE");
}

/// Lengths from the specification's table of packet formats, by opcode within the service.
TEST(OpcodeTable, header_lengths_are_those_of_the_specification) {
  struct Row {
    unsigned operation, rc, rd;
  };
  // BTH 12, RETH 16, AETH 4, AtomicETH 28, AtomicAckETH 8, ImmDt 4, IETH 4, RDETH 4, DETH 8.
  const Row rows[] = {
      {0x00, 12, 24}, {0x01, 12, 24}, {0x02, 12, 24}, {0x03, 16, 28}, {0x04, 12, 24},
      {0x05, 16, 28}, {0x06, 28, 40}, {0x07, 12, 24}, {0x08, 12, 24}, {0x09, 16, 28},
      {0x0A, 28, 40}, {0x0B, 32, 44}, {0x0C, 28, 40}, {0x0D, 16, 20}, {0x0E, 12, 16},
      {0x0F, 16, 20}, {0x10, 16, 20}, {0x11, 16, 20}, {0x12, 24, 28}, {0x13, 40, 52},
      {0x14, 40, 52},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(info(static_cast<Opcode>(row.operation)).header_bytes, row.rc) << row.operation;
    EXPECT_EQ(info(static_cast<Opcode>(0x40 + row.operation)).header_bytes, row.rd)
        << row.operation;
    if (row.operation <= 0x0B) {
      EXPECT_EQ(info(static_cast<Opcode>(0x20 + row.operation)).header_bytes, row.rc)
          << row.operation;
    }
  }
  EXPECT_EQ(info(Opcode::kRcSendLastWithInvalidate).header_bytes, 16);
  EXPECT_EQ(info(Opcode::kRcSendOnlyWithInvalidate).header_bytes, 16);
  EXPECT_EQ(info(Opcode::kRcAtomicWrite).header_bytes, 28);
  EXPECT_EQ(info(Opcode::kRdResync).header_bytes, 24);
  EXPECT_EQ(info(Opcode::kUdSendOnly).header_bytes, 20);
  EXPECT_EQ(info(Opcode::kUdSendOnlyWithImmediate).header_bytes, 24);
  EXPECT_EQ(info(Opcode::kCnp).header_bytes, 12);
  EXPECT_EQ(kMaxHeaderBytes, 52u);
}

TEST(OpcodeTable, service_is_in_the_top_three_bits) {
  for (Opcode opcode : test::every_opcode()) {
    EXPECT_EQ(static_cast<unsigned>(info(opcode).service), static_cast<unsigned>(opcode) >> 5);
  }
}

TEST(OpcodeTable, answers_of_read_carry_aeth_except_in_the_middle) {
  EXPECT_TRUE(info(Opcode::kRcReadResponseFirst).has_aeth);
  EXPECT_FALSE(info(Opcode::kRcReadResponseMiddle).has_aeth);
  EXPECT_TRUE(info(Opcode::kRcReadResponseLast).has_aeth);
  EXPECT_TRUE(info(Opcode::kRcReadResponseOnly).has_aeth);
}

TEST(OpcodeTable, only_data_and_cnp_carry_payload) {
  for (Opcode opcode : test::every_opcode()) {
    const OpcodeInfo& i = info(opcode);
    const bool bare = i.operation == Operation::kReadRequest ||
                      i.operation == Operation::kAcknowledge ||
                      i.operation == Operation::kAtomicAcknowledge || i.has_atomic ||
                      i.operation == Operation::kResync;
    EXPECT_EQ(i.has_payload, !bare) << i.name;
  }
}

TEST(MakeOpcode, finds_every_opcode_by_its_properties) {
  for (Opcode opcode : test::every_opcode()) {
    const OpcodeInfo& i = info(opcode);
    EXPECT_EQ(make_opcode(i.service, i.operation, i.position, i.has_immediate, i.has_invalidate),
              opcode);
  }
  static_assert(make_opcode(Service::kRc, Operation::kSend, Position::kLast, false, true) ==
                Opcode::kRcSendLastWithInvalidate);
}

TEST(MakeOpcode, has_exactly_as_many_combinations_as_opcodes) {
  std::size_t found = 0;
  for (unsigned service = 0; service < 5; ++service) {
    for (unsigned operation = 0; operation < 11; ++operation) {
      for (unsigned position = 0; position < 4; ++position) {
        for (unsigned flags = 0; flags < 4; ++flags) {
          found +=
              opcode_exists(static_cast<Service>(service), static_cast<Operation>(operation),
                            static_cast<Position>(position), (flags & 2) != 0, (flags & 1) != 0);
        }
      }
    }
  }
  EXPECT_EQ(found, test::every_opcode().size());
}

TEST(MakeOpcode, stops_at_a_combination_that_does_not_exist) {
  EXPECT_DEATH(make_opcode(Service::kUc, Operation::kReadRequest, Position::kOnly, false, false),
               "kNoOpcode");
  EXPECT_DEATH(make_opcode(Service::kRc, Operation::kSend, Position::kFirst, true, false),
               "kNoOpcode");
}

}  // namespace
}  // namespace weft::wire
