#include "mad/header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"
#include "support/capture_reader.h"

namespace weft::mad {
namespace {

/// A connection request between two Linux hosts, as tests/data/README.md tells.
std::vector<std::byte> recorded() {
  constexpr std::size_t kBefore = 14 + 20 + 8 + 12 + 8, kFrame = 138;
  const auto frames = test::read_capture(WEFT_TEST_DATA "/rxe_ref_small.pcapng");
  const auto& frame = frames.at(kFrame - 1);
  return {frame.begin() + kBefore, frame.begin() + kBefore + kBytes};
}

TEST(MadHeader, reads_and_writes_one_of_linux) {
  const auto bytes = recorded();
  const auto header = Header::parse(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->management_class, Class::kCommunication);
  EXPECT_EQ(header->class_version, 2);
  EXPECT_EQ(header->method, Method::kSend);
  EXPECT_EQ(header->status, 0);
  EXPECT_EQ(header->transaction, TransactionId(0x000000023FCA345E));
  EXPECT_EQ(header->attribute, 0x10);
  std::array<std::byte, Header::kSize> again;
  header->emit(again);
  EXPECT_TRUE(std::ranges::equal(again, std::span(bytes).first(Header::kSize)));
}

TEST(MadHeader, whatever_is_written_is_read_again) {
  for (int i = 0; i < 1000; ++i) {
    const auto draw = [] { return base::system_random().draw<std::uint32_t>(); };
    Header header;
    header.management_class = static_cast<Class>(draw() & 0xFF);
    header.class_version = static_cast<std::uint8_t>(draw());
    header.method = static_cast<Method>(draw() & 0xFF);
    header.status = static_cast<std::uint16_t>(draw());
    header.class_specific = static_cast<std::uint16_t>(draw());
    header.transaction = TransactionId(std::uint64_t{draw()} << 32 | draw());
    header.attribute = static_cast<std::uint16_t>(draw());
    header.modifier = draw();
    std::array<std::byte, Header::kSize> bytes;
    header.emit(bytes);
    ASSERT_EQ(Header::parse(bytes), header);
  }
}

TEST(MadHeader, too_few_bytes_and_other_versions_are_none) {
  auto bytes = recorded();
  for (std::size_t size = 0; size < Header::kSize; ++size) {
    EXPECT_FALSE(Header::parse(std::span(bytes).first(size)));
  }
  bytes[0] = std::byte{2};
  EXPECT_FALSE(Header::parse(bytes));
}

}  // namespace
}  // namespace weft::mad
