// What all echo programs here have in common: what the client sends when, when measuring begins and
// ends, and what is printed. A message's first byte is its Kind, so that the server needs no second
// connection to know when to look at its processor time and when to leave. An EchoClient or an
// EchoServer belongs to the one event loop of its process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::bench {

using Clock = std::chrono::steady_clock;

/// Says why on stderr and ends the process.
[[noreturn]] void give_up(const std::string& what);
/// The same, with what errno says.
[[noreturn]] void give_up_errno(const std::string& what);

enum class Kind : std::uint8_t { kWarmUp, kBegin, kCounted, kLast };

/// What the client asks for; it tells the server.
struct EchoPlan {
  std::uint32_t connections = 1;
  std::uint32_t size = 64;                     ///< bytes of a message
  std::uint64_t rounds = 2000, warm_up = 200;  ///< echoes, of all connections together
  double seconds = 3;                          ///< ends the run even if rounds are left
  std::uint32_t pause_us = 0;                  ///< the client sleeps so long before each message
};

/// Processor time and voluntary context switches of all threads of this process.
struct Usage {
  double user_us = 0, system_us = 0, sleeps = 0;
};
Usage usage_now();
Usage operator-(const Usage& later, const Usage& earlier);

class EchoClient {
 public:
  explicit EchoClient(const EchoPlan& plan);

  /// What the connection's next message is. Send it right after the call.
  Kind before_send(std::uint32_t connection);
  /// The echo came. False: it was the connection's last, send no more.
  bool after_echo(std::uint32_t connection);
  bool finished() const { return finished_ == plan_.connections; }

  /// To be printed; `server` is what the server used between kBegin and kLast.
  nlohmann::ordered_json report(const Usage& server) const;

 private:
  struct Flight {
    Clock::time_point sent_at;
    Kind kind = Kind::kWarmUp;
  };
  Kind next_kind(Clock::time_point now);

  const EchoPlan plan_;
  const Clock::time_point created_ = Clock::now();
  std::vector<Flight> flights_;  ///< by connection
  std::vector<double> round_trips_us_;
  std::uint64_t started_ = 0, started_at_begin_ = 0;
  std::uint64_t echoes_ = 0;  ///< that came between begin and end
  std::uint32_t finished_ = 0;
  bool begun_ = false, ended_ = false;
  Clock::time_point begun_at_, ended_at_;
  Usage usage_at_begin_, usage_at_end_;
};

class EchoServer {
 public:
  explicit EchoServer(std::uint32_t connections) : connections_(connections) {}

  void on_message(Kind kind);
  /// Each connection had its last message.
  bool finished() const { return finished_ == connections_; }
  Usage used() const { return at_end_ - at_begin_; }

 private:
  const std::uint32_t connections_;
  std::uint32_t finished_ = 0;
  Usage at_begin_, at_end_;
};

}  // namespace weft::bench
