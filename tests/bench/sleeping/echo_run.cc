#include "echo_run.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>

namespace weft::bench {
namespace {

/// Warming up takes no more than this part of the time.
constexpr double kWarmUpShare = 0.25;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

double microseconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
}

/// The smallest value that is not exceeded by `share` of all.
double quantile(const std::vector<double>& sorted, double share) {
  const auto rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[std::max<std::size_t>(static_cast<std::size_t>(rank), 1) - 1];
}

}  // namespace

void give_up(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::fflush(nullptr);
  _exit(1);
}

void give_up_errno(const std::string& what) { give_up(what + ": " + std::strerror(errno)); }

Usage usage_now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {microseconds(usage.ru_utime), microseconds(usage.ru_stime),
          static_cast<double>(usage.ru_nvcsw)};
}

Usage operator-(const Usage& later, const Usage& earlier) {
  return {later.user_us - earlier.user_us, later.system_us - earlier.system_us,
          later.sleeps - earlier.sleeps};
}

EchoClient::EchoClient(const EchoPlan& plan) : plan_(plan), flights_(plan.connections) {
  round_trips_us_.reserve(plan.rounds + plan.connections);
}

Kind EchoClient::next_kind(Clock::time_point now) {
  const double seconds = seconds_between(created_, now);
  if (!begun_ && started_ < plan_.warm_up && seconds < kWarmUpShare * plan_.seconds) {
    return Kind::kWarmUp;
  }
  if (!begun_) {
    begun_ = true;
    started_at_begin_ = started_;
    usage_at_begin_ = usage_now();
    begun_at_ = Clock::now();
    return Kind::kBegin;
  }
  if (started_ - started_at_begin_ < plan_.rounds && seconds < plan_.seconds) return Kind::kCounted;
  if (!ended_) {
    ended_ = true;
    ended_at_ = now;
    usage_at_end_ = usage_now();
    echoes_ = round_trips_us_.size();
  }
  return Kind::kLast;
}

Kind EchoClient::before_send(std::uint32_t connection) {
  if (plan_.pause_us != 0) std::this_thread::sleep_for(std::chrono::microseconds(plan_.pause_us));
  Flight& flight = flights_[connection];
  flight.kind = ended_ ? Kind::kLast : next_kind(Clock::now());
  ++started_;
  flight.sent_at = Clock::now();
  return flight.kind;
}

bool EchoClient::after_echo(std::uint32_t connection) {
  const Flight& flight = flights_[connection];
  if (flight.kind == Kind::kBegin || flight.kind == Kind::kCounted) {
    round_trips_us_.push_back(seconds_between(flight.sent_at, Clock::now()) * 1e6);
  }
  if (flight.kind == Kind::kLast) ++finished_;
  return flight.kind != Kind::kLast;
}

nlohmann::ordered_json EchoClient::report(const Usage& server) const {
  if (echoes_ == 0) give_up("no echo came back in time");
  std::vector<double> sorted = round_trips_us_;
  std::sort(sorted.begin(), sorted.end());
  const Usage client = usage_at_end_ - usage_at_begin_;
  const double seconds = seconds_between(begun_at_, ended_at_);
  const auto echoes = static_cast<double>(echoes_);
  const double messages = 2 * echoes;
  return {
      {"connections", plan_.connections},
      {"size", plan_.size},
      {"echoes", echoes_},
      {"seconds", seconds},
      {"one_way_us", quantile(sorted, 0.5) / 2},
      {"round_trip_us",
       {{"median", quantile(sorted, 0.5)},
        {"p99", quantile(sorted, 0.99)},
        {"max", sorted.back()}}},
      {"echoes_per_second", echoes / seconds},
      {"cpu_us_per_message",
       {{"both",
         (client.user_us + client.system_us + server.user_us + server.system_us) / messages},
        {"client_user", client.user_us / messages},
        {"client_system", client.system_us / messages},
        {"server_user", server.user_us / messages},
        {"server_system", server.system_us / messages}}},
      {"sleeps_per_echo", {{"client", client.sleeps / echoes}, {"server", server.sleeps / echoes}}},
  };
}

void EchoServer::on_message(Kind kind) {
  if (kind == Kind::kBegin) at_begin_ = usage_now();
  if (kind != Kind::kLast) return;
  if (finished_++ == 0) at_end_ = usage_now();
}

}  // namespace weft::bench
