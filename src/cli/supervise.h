// Starts a program and stands in for it: signals that come here go to the program, stops and
// continues of job control too, and the end is its end. One at a time; the process has one thread.
#pragma once

#include <string>
#include <vector>

#include "weft/result.h"

namespace weft::cli {

/// How it ended, as waitpid tells it; or that it could not be started: kNotFound when there is no
/// such file, else kSystem.
Result<int> supervise(const std::vector<std::string>& program);

/// Ends this process the same way: the exit status, or death by the same signal. Returns an exit
/// status only when a signal that would kill everybody else does not kill us.
int end_like(int wait_status);

}  // namespace weft::cli
