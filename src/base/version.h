// The version of weft, as `project()` in CMakeLists.txt states it: the only place that has it. What
// shows a version to a person or to a program takes it from here. A constant, any thread.
#pragma once

namespace weft::base {

/// "1.2.3"
const char* version();

}  // namespace weft::base
