// Runs a fuzz target without libFuzzer, the same way every time: each file of the folders and files
// given, each truncation of it, and a bounded number of mutations drawn from a seed that depends
// only on the file's bytes. An input that kills the program is kept as a file, and the line that
// repeats it is printed. One thread.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr int kMutationsPerSeed = 500;
constexpr std::size_t kMutationsInAll = 200'000;
constexpr std::size_t kTruncationsPerSeed = 512;
constexpr unsigned kSecondsPerInput = 20;

// What runs now, for the handler of a crash: nothing may be allocated there.
const std::uint8_t* current_data = nullptr;
std::size_t current_size = 0;
char crash_file[1024];
char crash_message[4096];

void keep_input() {
  const int fd = open(crash_file, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  const ssize_t kept = write(fd, current_data, current_size);
  close(fd);
  if (kept >= 0) {
    [[maybe_unused]] const ssize_t said =
        write(STDERR_FILENO, crash_message, std::strlen(crash_message));
  }
}

void on_fatal_signal(int number) {
  keep_input();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void watch_for_crashes(const char* program) {
  const auto name = std::filesystem::path(program).filename().string() + ".crash";
  const auto kept_as = std::filesystem::current_path() / name;
  std::snprintf(crash_file, sizeof crash_file, "%s", kept_as.c_str());
  std::snprintf(crash_message, sizeof crash_message,
                "\nthe input that did it is kept; repeat with: %s %s\n", program, crash_file);
  // A sanitizer reports its own way of dying, and keeps its handlers for memory faults.
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(keep_input);
  } else {
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(number, on_fatal_signal);
  }
  for (const int number : {SIGABRT, SIGALRM}) std::signal(number, on_fatal_signal);
}

void run(const Bytes& input) {
  // An exact-size copy, so that a sanitizer sees a read one byte past the end.
  const Bytes exact(input.begin(), input.end());
  current_data = exact.data();
  current_size = exact.size();
  alarm(kSecondsPerInput);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  alarm(0);
}

std::uint64_t seed_of(const Bytes& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const auto byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

void mutate(Bytes& bytes, weft::base::SeededRandom& random) {
  const auto any_byte = [&] { return static_cast<std::uint8_t>(random.below(256)); };
  if (bytes.empty()) return bytes.push_back(any_byte());
  const std::size_t at = random.below(bytes.size());
  const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random.below(6)) {
    case 0:
      bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ (1u << random.below(8)));
      break;
    case 1:
      bytes[at] = any_byte();
      break;
    case 2:  // The edges, where lengths and counts go wrong.
      bytes[at] = random.below(2) == 0 ? 0x00 : 0xFF;
      break;
    case 3:
      bytes.resize(at);
      break;
    case 4:
      bytes.insert(place, any_byte());
      break;
    default:
      bytes.erase(place);
      break;
  }
}

void run_seed(const Bytes& seed, std::size_t mutations) {
  run(seed);
  for (std::size_t n = 0; n < std::min(seed.size(), kTruncationsPerSeed); ++n) {
    run(Bytes(seed.begin(), seed.begin() + static_cast<std::ptrdiff_t>(n)));
  }
  weft::base::SeededRandom random(seed_of(seed));
  for (std::size_t i = 0; i < mutations; ++i) {
    Bytes bytes = seed;
    for (std::uint64_t steps = 1 + random.below(4); steps > 0; --steps) mutate(bytes, random);
    run(bytes);
  }
}

std::vector<std::filesystem::path> files_below(int count, char** names) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::is_directory(names[i])) {
      files.emplace_back(names[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(names[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  const auto files = files_below(argc, argv);
  if (files.empty()) {
    std::fprintf(stderr, "%s: no input: give the files or folders of a corpus\n", argv[0]);
    return 1;
  }
  watch_for_crashes(argv[0]);
  const std::size_t mutations =
      std::min<std::size_t>(kMutationsPerSeed, kMutationsInAll / files.size());
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "%s: cannot read %s\n", argv[0], file.c_str());
      return 1;
    }
    run_seed(Bytes(std::istreambuf_iterator<char>(stream), {}), mutations);
  }
  std::printf("%zu seeds, up to %zu truncations and %zu mutations of each\n", files.size(),
              kTruncationsPerSeed, mutations);
  return 0;
}
