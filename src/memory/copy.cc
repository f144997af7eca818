#include "memory/copy.h"

#include <algorithm>

namespace weft::memory {
namespace {

// One side of a copy, a view at a time. Identity memory is one view that needs no map().
class Window {
 public:
  Window(Place place, Intent intent) : place_(place), intent_(intent) {}
  ~Window() { close(); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Makes bytes at hand for at most `n`; nothing when some still are.
  Fault open(std::size_t n) {
    if (used_ < view_.size) return Fault::kNone;
    close();
    if (place_.vmm->identity()) {
      view_ = {detail::pointer(place_), n, 0};
    } else {
      auto view = place_.vmm->map(place_.address, n, intent_);
      if (!view) return view.error();
      view_ = *view;
      mapped_ = true;
    }
    place_.address += view_.size;
    return Fault::kNone;
  }
  std::byte* data() const { return view_.data + used_; }
  std::size_t size() const { return view_.size - used_; }
  void advance(std::size_t n) { used_ += n; }

 private:
  void close() {
    if (mapped_) place_.vmm->unmap(view_);
    view_ = {};
    used_ = 0;
    mapped_ = false;
  }

  Place place_;
  const Intent intent_;
  Vmm::View view_{};
  std::size_t used_ = 0;
  bool mapped_ = false;
};

bool is_word(Place at) { return at.address % sizeof(std::uint64_t) == 0; }

// Runs `action` on the 8 bytes at `at`, which never straddle a page.
template <class Action>
tl::expected<std::uint64_t, Fault> on_word(Place at, Action action) {
  if (!is_word(at)) return tl::unexpected(Fault::kProtection);
  std::uint64_t old = 0;
  Window window(at, Intent::kWrite);
  Fault fault = window.open(sizeof old);
  if (fault == Fault::kNone) {
    fault = action(reinterpret_cast<std::uint64_t*>(window.data()), &old);
  }
  if (fault != Fault::kNone) return tl::unexpected(fault);
  return old;
}

}  // namespace

Fault detail::copy_mapped(Place to, Place from, std::size_t n) {
  Window source(from, Intent::kRead), target(to, Intent::kWrite);
  while (n > 0) {
    if (const Fault fault = target.open(n); fault != Fault::kNone) return fault;
    if (const Fault fault = source.open(n); fault != Fault::kNone) return fault;
    const std::size_t part = std::min({n, source.size(), target.size()});
    const Fault fault = guarded_copy(target.data(), source.data(), part);
    if (fault != Fault::kNone) return fault;
    source.advance(part), target.advance(part), n -= part;
  }
  return Fault::kNone;
}

Fault detail::store_mapped(Place to, std::span<const std::byte> from) {
  Window target(to, Intent::kWrite);
  while (!from.empty()) {
    if (const Fault fault = target.open(from.size()); fault != Fault::kNone) return fault;
    const std::size_t part = std::min(from.size(), target.size());
    const Fault fault = guarded_copy(target.data(), from.data(), part);
    if (fault != Fault::kNone) return fault;
    target.advance(part), from = from.subspan(part);
  }
  return Fault::kNone;
}

Fault detail::load_mapped(std::span<std::byte> to, Place from) {
  Window source(from, Intent::kRead);
  while (!to.empty()) {
    if (const Fault fault = source.open(to.size()); fault != Fault::kNone) return fault;
    const std::size_t part = std::min(to.size(), source.size());
    const Fault fault = guarded_copy(to.data(), source.data(), part);
    if (fault != Fault::kNone) return fault;
    source.advance(part), to = to.subspan(part);
  }
  return Fault::kNone;
}

tl::expected<std::uint64_t, Fault> compare_swap(Place at, std::uint64_t compare,
                                                std::uint64_t swap) {
  return on_word(at, [=](std::uint64_t* word, std::uint64_t* old) {
    return guarded_compare_swap(word, compare, swap, old);
  });
}

tl::expected<std::uint64_t, Fault> fetch_add(Place at, std::uint64_t add) {
  return on_word(at, [=](std::uint64_t* word, std::uint64_t* old) {
    return guarded_fetch_add(word, add, old);
  });
}

Fault store_word(Place at, std::uint64_t value) {
  const auto done = on_word(at, [&](std::uint64_t* word, std::uint64_t*) {
    return guarded_copy(reinterpret_cast<std::byte*>(word),
                        reinterpret_cast<const std::byte*>(&value), sizeof value);
  });
  return done ? Fault::kNone : done.error();
}

}  // namespace weft::memory
