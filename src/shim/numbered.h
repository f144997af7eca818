// Which object a number belongs to: of an event, or of a handle that the program passes on. Any
// thread; an object is removed before it goes.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/lock.h"
#include "base/number_map.h"

namespace weft::shim {

template <class Object>
class Numbered {
 public:
  void add(std::uint32_t number, Object* object) {
    const std::lock_guard guard(lock_);
    objects_.set(number, object);
  }
  void remove(std::uint32_t number) {
    const std::lock_guard guard(lock_);
    objects_.erase(number);
  }
  /// visit(object) runs while the object cannot go; false: there is none of that number.
  template <class Visit>
  bool with(std::uint32_t number, Visit visit) {
    const std::lock_guard guard(lock_);
    Object* const object = objects_.find(number);
    if (object == nullptr) return false;
    visit(*object);
    return true;
  }
  bool empty() {
    const std::lock_guard guard(lock_);
    return objects_.empty();
  }

 private:
  base::Lock lock_;
  base::NumberMap<Object> objects_;
};

}  // namespace weft::shim
