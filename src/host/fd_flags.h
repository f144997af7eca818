// Hears of a program that has made a descriptor block again. Whoever gives descriptors away and
// acts by their flags looks at them then; without `weft run` nobody tells, and they are looked at
// when they are used. Any thread.
#pragma once

namespace weft::host {

class FlagsListener {
 public:
  /// Some descriptor, perhaps not one of ours. Must not call back here.
  virtual void on_descriptor_blocks() = 0;

 protected:
  ~FlagsListener() = default;
};

void add_flags_listener(FlagsListener& listener);
/// When this returns, it is not called any more.
void remove_flags_listener(FlagsListener& listener);
/// After O_NONBLOCK was cleared on one.
void tell_descriptor_blocks();

}  // namespace weft::host
