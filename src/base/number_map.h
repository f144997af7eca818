// Objects by number, of which there may be many thousands: one flat table, some fifteen bytes for
// each, where a map of the standard library takes three times that. Numbers are any; 0 too. Not
// thread safe; owned by whoever looks things up in it. Adding may move the table, never the
// objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weft::base {

template <class T>
class NumberMap {
 public:
  /// Null: there is none of that number.
  T* find(std::uint32_t number) const {
    if (values_.empty()) return nullptr;
    const std::size_t at = place_of(number);
    return values_[at];
  }
  /// Another object of the same number is replaced. `object` is not null.
  void set(std::uint32_t number, T* object) {
    // At most seven in eight places are taken, so that a search ends soon.
    if ((count_ + 1) * 8 > values_.size() * 7) grow();
    const std::size_t at = place_of(number);
    if (values_[at] == nullptr) ++count_;
    numbers_[at] = number;
    values_[at] = object;
  }
  void erase(std::uint32_t number) {
    if (values_.empty()) return;
    std::size_t hole = place_of(number);
    if (values_[hole] == nullptr) return;
    --count_;
    values_[hole] = nullptr;
    // Whoever stands behind the hole because this one was in its place moves up.
    for (std::size_t at = next(hole); values_[at] != nullptr; at = next(at)) {
      if (distance(home_of(numbers_[at]), at) < distance(hole, at)) continue;
      numbers_[hole] = numbers_[at];
      values_[hole] = values_[at];
      values_[at] = nullptr;
      hole = at;
    }
  }
  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }

 private:
  std::size_t next(std::size_t at) const { return at + 1 == values_.size() ? 0 : at + 1; }
  std::size_t distance(std::size_t from, std::size_t to) const {
    return to >= from ? to - from : to + values_.size() - from;
  }
  /// Any number of places will do: the hash, as a fraction of 2^32, says how far along it is.
  std::size_t home_of(std::uint32_t number) const {
    constexpr std::uint64_t kGolden = 0x9E37'79B9'7F4A'7C15;
    return static_cast<std::size_t>(((number * kGolden) >> 32) * values_.size() >> 32);
  }
  /// Where it is, or where it would be put.
  std::size_t place_of(std::uint32_t number) const {
    std::size_t at = home_of(number);
    while (values_[at] != nullptr && numbers_[at] != number) at = next(at);
    return at;
  }
  void grow() {
    // By a quarter: of a table that doubles a third is empty in the middle.
    constexpr std::size_t kFirst = 8;
    NumberMap larger;
    const std::size_t places = values_.empty() ? kFirst : values_.size() + values_.size() / 4;
    larger.numbers_.resize(places);
    larger.values_.resize(places);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (values_[i] != nullptr) larger.set(numbers_[i], values_[i]);
    }
    *this = std::move(larger);
  }

  std::vector<std::uint32_t> numbers_;
  std::vector<T*> values_;  // null: the place is free
  std::size_t count_ = 0;
};

}  // namespace weft::base
