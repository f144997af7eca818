// A directory for one test, and its files as text. Removed with the object.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace weft::test {

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / "weft-test-XXXXXX") {
    std::string text = path_;
    EXPECT_NE(mkdtemp(text.data()), nullptr);
    path_ = text;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  const std::string path() const { return path_; }
  std::string read(const std::string& name) const {
    std::ifstream file(path_ / name);
    EXPECT_TRUE(file.is_open()) << name;
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  bool has(const std::string& name) const { return std::filesystem::exists(path_ / name); }

 private:
  std::filesystem::path path_;
};

}  // namespace weft::test
