// The whole command line of weft, apart from main(): reading it takes a large header, which is so
// compiled once for all commands. Called once, by the only thread.
#pragma once

namespace weft::cli {

/// Does what the arguments of main() say, and gives the exit status.
int run_command_line(int argc, char** argv);

}  // namespace weft::cli
