// The options that the echo programs share, so that they are called alike. Used once, by main().
#pragma once

#include <CLI/CLI.hpp>

#include "control.h"
#include "echo_run.h"

namespace weft::bench {

inline void add_plan_options(CLI::App& app, EchoPlan& plan) {
  app.add_option("--connections", plan.connections, "how many, all in one event loop")
      ->check(CLI::Range(1, 1024));
  app.add_option("--rounds", plan.rounds, "echoes to measure, of all connections together");
  app.add_option("--warm-up", plan.warm_up, "echoes before that");
  app.add_option("--seconds", plan.seconds, "end after this time even if rounds are left");
  app.add_option("--pause-us", plan.pause_us,
                 "sleep before each message: the other process is then surely asleep");
  app.get_formatter()->column_width(34);
}

/// `limit`: a process whose partner hangs must not stay for ever.
inline void add_limit_option(CLI::App& app, unsigned& limit_s) {
  app.add_option("--limit", limit_s, "end by SIGALRM after so many seconds, whatever happens");
}

/// For programs with a server and a client of their own.
inline void add_pair_options(CLI::App& app, bool& server, Endpoint& at, EchoPlan& plan) {
  app.add_flag("--server", server, "echo for one client, then end; else be the client");
  app.add_option("--address", at.address, "where the server listens");
  app.add_option("--port", at.port, "where the server listens");
  app.add_option("--size", plan.size, "bytes of a message; the client's counts")
      ->check(CLI::Range(1, 1 << 20));
  add_plan_options(app, plan);
}

}  // namespace weft::bench
