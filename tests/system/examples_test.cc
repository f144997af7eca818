// The examples as a reader runs them: whole programs, judged by what they print.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

struct Outcome {
  int status;
  std::string output;
};

Outcome run(const std::string& name) {
  FILE* pipe = popen((WEFT_BIN_DIR "/example_" + name + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), n);
  }
  return {pclose(pipe), output};
}

TEST(Examples, the_disk_takes_commands_by_send_and_moves_data_by_rdma) {
  // B1.6
  const Outcome disk = run("disk");
  EXPECT_EQ(disk.status, 0);
  EXPECT_NE(disk.output.find("written to the disk and read back: identical"), std::string::npos)
      << disk.output;
  EXPECT_NE(disk.output.find("beyond the last block: refused"), std::string::npos) << disk.output;
}

TEST(Examples, the_first_write_prints_what_was_written) {
  const Outcome first = run("first_write");
  EXPECT_EQ(first.status, 0);
  EXPECT_EQ(first.output, "success: hello, weft\n");
}

TEST(Examples, all_workers_of_four_nodes_talk_to_all_others_by_reliable_datagrams) {
  // B2.2
  const Outcome all = run("all_to_all");
  EXPECT_EQ(all.status, 0);
  EXPECT_EQ(all.output,
            "16 workers heard once from each of 16, through 16 queue pairs instead of 256\n");
}

}  // namespace
