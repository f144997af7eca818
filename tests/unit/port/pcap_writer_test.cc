// The capture file: its format, what is in it when, and several writers of one file.
#include "port/pcap_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "support/capture_reader.h"

namespace weft::port {
namespace {

class PcapWriterTest : public testing::Test {
 protected:
  ~PcapWriterTest() override { std::remove(path.c_str()); }

  std::unique_ptr<PcapWriter> open(PcapWriter::Old old = PcapWriter::Old::kReplace) {
    auto opened = PcapWriter::open(path, old);
    EXPECT_TRUE(opened.has_value());
    return opened ? std::move(*opened) : nullptr;
  }
  std::size_t size() const { return weft::test::read_capture(path).size(); }

  const std::string path = testing::TempDir() + "weft_pcap_" + std::to_string(getpid()) + ".pcap";
  const std::array<std::byte, 3> packet{std::byte{0x45}, std::byte{1}, std::byte{2}};
};

TEST_F(PcapWriterTest, refuses_a_path_that_cannot_be_written) {
  const auto opened = PcapWriter::open("/nonexistent/folder/x.pcap");
  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error().message.find("/nonexistent/folder/x.pcap"), std::string::npos);
}

TEST_F(PcapWriterTest, writes_the_classic_format) {
  open()->write(3'000'000'007, {std::span(packet).first(1), std::span(packet).subspan(1)});
  std::ifstream file(path, std::ios::binary);
  std::array<std::uint32_t, 10> words{};
  file.read(reinterpret_cast<char*>(words.data()), sizeof words);
  EXPECT_EQ(words[0], 0xA1B23C4Du);
  EXPECT_EQ(words[5], 101u);  // raw IP
  EXPECT_EQ(words[6], 3u);
  EXPECT_EQ(words[7], 7u);
  EXPECT_EQ(words[8], 3u);
  EXPECT_EQ(words[9], 3u);
  std::array<char, 4> bytes{};
  file.read(bytes.data(), bytes.size());
  EXPECT_EQ(file.gcount(), 3);
  EXPECT_EQ(bytes[0], 0x45);
  EXPECT_EQ(bytes[2], 2);
}

TEST_F(PcapWriterTest, has_it_in_the_file_after_a_flush_while_it_is_open) {
  const auto writer = open();
  writer->write(1, {packet});
  EXPECT_EQ(size(), 0u);
  EXPECT_TRUE(writer->flush());
  EXPECT_EQ(size(), 1u);
}

TEST_F(PcapWriterTest, flushes_by_itself_when_much_has_gathered) {
  const auto writer = open();
  const std::vector<std::byte> large(4096);
  for (Nanoseconds i = 0; i < 200; ++i) writer->write(i, {large});
  EXPECT_GT(size(), 100u);
}

TEST_F(PcapWriterTest, lets_two_writers_have_one_file) {
  const auto first = open();
  first->write(1, {packet});
  first->flush();
  const auto second = open();  // the file is in use: it must not be emptied
  for (Nanoseconds i = 2; i < 10; ++i) {
    (i % 2 == 0 ? first : second)->write(i, {packet});
    first->flush();
    second->flush();
  }
  EXPECT_EQ(size(), 9u);
}

TEST_F(PcapWriterTest, begins_anew_or_goes_on_where_nobody_else_is_writing) {
  open()->write(1, {packet});
  open(PcapWriter::Old::kContinue)->write(2, {packet});
  EXPECT_EQ(size(), 2u);
  open()->write(3, {packet});
  EXPECT_EQ(size(), 1u);
  std::remove(path.c_str());
  open(PcapWriter::Old::kContinue)->write(4, {packet});  // with a file header all the same
  EXPECT_EQ(size(), 1u);
}

TEST_F(PcapWriterTest, refuses_a_full_disk) {
  EXPECT_FALSE(PcapWriter::open("/dev/full").has_value());
}

}  // namespace
}  // namespace weft::port
