// What a program can ask of failing_calls.cc, if that is loaded before the device: let one of the
// calls that a connection needs fail. Weak: null without it. One process; any thread.
#pragma once

extern "C" {
/// The call with this number, counted from 0 and from now, fails for lack of memory. Less than 0:
/// none does.
[[gnu::weak]] void weft_test_fail_call(int number);
/// The name of the call that failed since; null: there were not so many.
[[gnu::weak]] const char* weft_test_failed_call();
}
