// What weft's libraries take from the threads of a program, and programs that load them late.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "support/run_weft.h"

namespace weft {
namespace {

using test::Ended;
using test::Started;

constexpr const char* kRdma = WEFT_BIN_DIR "/../lib/libweft-rdma.so";
constexpr const char* kWeft = WEFT_BIN_DIR "/../lib/libweft.so";

/// Bytes that each thread has for the library, as its program header tells.
std::size_t thread_bytes_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(4096, '\0');  // the headers
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  Elf64_Ehdr header{};
  if (bytes.size() < sizeof header) return ~std::size_t{0};
  std::memcpy(&header, bytes.data(), sizeof header);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    const std::size_t at = header.e_phoff + i * sizeof segment;
    if (at + sizeof segment > bytes.size()) return ~std::size_t{0};
    std::memcpy(&segment, bytes.data() + at, sizeof segment);
    if (segment.p_type == PT_TLS) sum += segment.p_memsz;
  }
  return sum;
}

// The C library keeps 1664 bytes for all libraries that are loaded late; programs have others.
TEST(Loading, takes_less_than_half_a_kilobyte_of_each_thread) {
  for (const char* library : {kRdma, kWeft}) {
    EXPECT_GT(thread_bytes_of(library), 0U) << library;
    EXPECT_LE(thread_bytes_of(library), 512U) << library;
  }
}

std::string bytes_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Symbols of both namespaces, as compilers write them into the symbol table.
TEST(Loading, brings_no_simulation_along) {
  constexpr const char* kSimulation[] = {"N4weft3sim", "N4weft6worlds"};
  const std::string command = bytes_of(WEFT_BIN_DIR "/weft");
  for (const char* symbols : kSimulation) {
    EXPECT_NE(command.find(symbols), std::string::npos) << "the command has it: a wrong name?";
    for (const char* library : {kRdma, kWeft}) {
      const std::string bytes = bytes_of(library);
      EXPECT_NE(bytes.find("N4weft6memory"), std::string::npos) << library << " has no symbols";
      EXPECT_EQ(bytes.find(symbols), std::string::npos) << library << " has " << symbols;
    }
  }
}

TEST(Loading, threads_keep_their_small_stacks_and_use_verbs_on_them) {
  const Ended by_memory = test::weft({"run", "--", WEFT_BIN_DIR "/verbs_client", "small_stacks"});
  EXPECT_EQ(by_memory.exit_status(), 0) << by_memory.output;
  EXPECT_TRUE(by_memory.says("did small_stacks")) << by_memory.output;
  const Ended by_frames = test::weft(
      {"run", "--faults", "delay=1us", "--", WEFT_BIN_DIR "/verbs_client", "small_stacks"});
  EXPECT_EQ(by_frames.exit_status(), 0) << by_frames.output;
  EXPECT_TRUE(by_frames.says("did small_stacks")) << by_frames.output;
}

// The C library's unwinder goes through frames of weft's, which has an unwinder of its own.
TEST(Loading, a_thread_is_cancelled_in_a_call_that_weft_stands_before) {
  const Ended ended = test::weft({"run", "--", WEFT_BIN_DIR "/verbs_client", "cancelled"});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("did cancelled")) << ended.output;
}

TEST(Loading, a_program_that_loads_the_verbs_late_uses_them) {
  const Ended ended = Started({WEFT_BIN_DIR "/late_loader", kRdma,
                               WEFT_BIN_DIR "/../lib/libverbs_module.so", "work", "small_stacks"})
                          .wait();
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("did work\ndid small_stacks\ndid work\ndid small_stacks\n"))
      << ended.output;
}

TEST(Loading, a_program_that_loads_wefts_own_interface_late_uses_it) {
  const Ended ended =
      Started({WEFT_BIN_DIR "/late_loader", kWeft, WEFT_BIN_DIR "/../lib/libweft_module.so"})
          .wait();
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("did write\ndid write\n")) << ended.output;
}

}  // namespace
}  // namespace weft
