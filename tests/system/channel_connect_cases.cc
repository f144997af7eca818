// Cases of connections that do not come about, in every way there is: see channel_cases.cc. Each is
// tried by the calls that wait, by those that do not, and by coroutines; each must end with a
// message, and leave the context as good as before.
#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <sys/wait.h>
#include <weft/channel_loop.h>

#include <array>
#include <csignal>
#include <functional>
#include <memory>

#include "channel/endpoint.h"
#include "system/channel_case_kit.h"
#include "system/failing_calls.h"

namespace weft::test {
namespace {

using channel::Hello;
using channel::Loop;
using channel::Task;

Task connect_and_tell(Loop& loop, std::string host, std::uint16_t port,
                      std::optional<Result<Channel>>& result) {
  result.emplace(co_await loop.connect(host, port));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Nothing is left of a connection that failed, and another one stands.
void is_as_good_as_before(Context& context) {
  HOLDS(context.figures().channels == 0);
  HOLDS(context.figures().used_bytes == 0);
  Context there = must(Context::create());
  auto listener = must(there.listen(own_address(), 0));
  std::optional<Channel> channel = must(context.start_connect(own_address(), listener.port()));
  std::optional<Channel> other;
  const auto deadline = channel::in(20s);
  while (!channel->connected() || !other) {
    context.progress();
    if (!other) other = listener.try_accept();
    HOLDS(channel->statistics().error.empty());
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  must(channel->send("as before", channel::in(10s)));
  HOLDS(must(other->receive(channel::in(10s))).text() == "as before");
  for (channel.reset(); context.figures().channels > 0;) {
    context.progress();
    static_cast<void>(other->try_receive());
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
}

/// By all three ways, with a message that contains `why`.
void fails(const std::string& host, std::uint16_t port, const std::string& why,
           const std::function<void()>& meanwhile = {}) {
  Context context = must(Context::create());
  const auto round = [&] {
    context.progress();
    if (meanwhile) meanwhile();
  };
  const auto says_why = [&](const Error& error) {
    if (!contains(error.message, why)) std::printf("said: %s\n", error.message.c_str());
    HOLDS(contains(error.message, why));
  };
  if (!meanwhile) {  // nobody else moves while this call waits
    const auto waited = context.connect(host, port, channel::in(20s));
    HOLDS(!waited);
    says_why(waited.error());
  }
  const auto deadline = channel::in(30s);
  auto started = context.start_connect(host, port);
  while (started && started->statistics().error.empty()) {
    HOLDS(!started->connected());
    round();
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  if (started) {
    says_why({Errc::kNotFound, started->statistics().error});
    // What has failed answers every call, and never with a crash.
    const std::string text = "x";
    const iovec element{const_cast<char*>(text.data()), 1};
    channel::Batch batch;
    HOLDS(!started->connected() && started->returned(1));
    HOLDS(!started->try_send({&element, 1}) && !started->try_send_batch({&element, 1}));
    HOLDS(!started->try_lend(std::as_bytes(std::span(text))));
    static_cast<void>(started->cancel(1));
    HOLDS(!started->try_receive() && !started->try_receive_batch(batch));
    HOLDS(!started->try_receive_into({&element, 1}));
    HOLDS(!started->send("x", channel::in(1s)) && !started->receive(channel::in(1s)));
    static_cast<void>(started->close(channel::in(1s)));
    HOLDS(!started->statistics().error.empty());
    static_cast<void>(started->close(channel::in(1s)));
  } else {
    says_why(started.error());
  }
  started = fail(Errc::kNotFound, "gone");
  {
    Loop loop(context);
    std::optional<Result<Channel>> result;
    loop.spawn(connect_and_tell(loop, host, port, result));
    while (!loop.run(channel::in(1ms))) {
      round();
      HOLDS(std::chrono::steady_clock::now() < deadline);
    }
    HOLDS(result && !*result);
    says_why(result->error());
  }
  is_as_good_as_before(context);
}

void a_host_that_cannot_be_reached() { fails("192.0.2.1", 7, "reach"); }
void a_name_that_nobody_has() { fails("no.such.host.invalid", 7, "no.such.host.invalid"); }
void a_port_where_nobody_listens() { fails(own_address(), 1, "refused"); }

/// Who listens by the connection manager alone, and answers as it likes.
class RawListener {
 public:
  enum class Answer { kNone, kReject, kForeignHello, kShortHello };

  explicit RawListener(Answer answer) : answer_(answer) {
    events_ = rdma_create_event_channel();
    HOLDS(events_ != nullptr);
    HOLDS(fcntl(events_->fd, F_SETFL, O_NONBLOCK) == 0);
    HOLDS(rdma_create_id(events_, &id_, nullptr, RDMA_PS_TCP) == 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    HOLDS(inet_pton(AF_INET, own_address().c_str(), &at.sin_addr) == 1);
    HOLDS(rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&at)) == 0);
    HOLDS(rdma_listen(id_, 16) == 0);
  }
  ~RawListener() {
    for (rdma_cm_id* id : came_) {
      if (id->qp != nullptr) rdma_destroy_qp(id);
      rdma_destroy_id(id);
    }
    rdma_destroy_id(id_);
    rdma_destroy_event_channel(events_);
  }
  std::uint16_t port() const { return ntohs(rdma_get_src_port(id_)); }
  std::size_t requests() const { return came_.size(); }
  void look() {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(events_, &event) != 0) return;
    rdma_cm_id* id = event->id;
    const bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
    HOLDS(rdma_ack_cm_event(event) == 0);
    if (!request) return;
    came_.push_back(id);
    if (answer_ == Answer::kReject) HOLDS(rdma_reject(id, "no", 2) == 0);
    if (answer_ == Answer::kForeignHello || answer_ == Answer::kShortHello) accept(id);
  }

 private:
  void accept(rdma_cm_id* id) {
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 4;
    attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
    HOLDS(rdma_create_qp(id, nullptr, &attributes) == 0);
    std::array<std::byte, Hello::kBytes> bytes{};
    rdma_conn_param with{};
    with.private_data = bytes.data();
    const std::uint8_t shorter = 8;
    with.private_data_len = answer_ == Answer::kShortHello ? shorter : std::uint8_t{Hello::kBytes};
    with.responder_resources = with.initiator_depth = 1;
    with.rnr_retry_count = 7;
    HOLDS(rdma_accept(id, &with) == 0);
  }

  const Answer answer_;
  rdma_event_channel* events_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  std::vector<rdma_cm_id*> came_;
};

void a_listener_that_rejects() {
  RawListener listener(RawListener::Answer::kReject);
  fails(own_address(), listener.port(), "refused", [&] { listener.look(); });
}

void a_listener_of_another_protocol() {
  for (const auto answer : {RawListener::Answer::kForeignHello, RawListener::Answer::kShortHello}) {
    RawListener listener(answer);
    fails(own_address(), listener.port(), "does not speak this protocol", [&] { listener.look(); });
  }
}

void a_listener_that_never_answers() {
  RawListener listener(RawListener::Answer::kNone);
  Context context = must(Context::create());
  const auto late = context.connect(own_address(), listener.port(), channel::in(100ms));
  HOLDS(!late && late.error().code == Errc::kTimedOut);
  const auto past = context.connect(own_address(), listener.port(), channel::in(-1s));
  HOLDS(!past && past.error().code == Errc::kTimedOut);
  {
    Loop loop(context);
    std::optional<Result<Channel>> result;
    loop.spawn(connect_and_tell(loop, own_address(), listener.port(), result));
    HOLDS(!loop.run(channel::in(100ms)));
    HOLDS(!result);
  }  // the loop dies with the task, and with it the connection that was to be
  is_as_good_as_before(context);
}

/// Destroyed at every point on the way; the other side is left with nothing, too.
void a_connection_that_is_not_wanted_any_more() {
  Context here = must(Context::create()), there = must(Context::create());
  auto listener = must(there.listen(own_address(), 0));
  for (int rounds = 0; rounds < 60; ++rounds) {
    {
      Channel channel = must(here.start_connect(own_address(), listener.port()));
      for (int i = 0; i < rounds && !channel.connected(); ++i) {
        here.progress();
        if (i % 2 == 0) there.progress();
      }
    }
    HOLDS(here.figures().channels <= 1);  // one that stood may have something to deliver
  }
  const auto deadline = channel::in(20s);
  while (here.figures().channels + there.figures().channels > 0) {
    here.progress();
    static_cast<void>(listener.try_accept());
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  HOLDS(there.figures().used_bytes == 0);
  is_as_good_as_before(here);
}

/// The process that listens is killed when it has seen the request.
void a_listener_that_dies_in_the_middle() {
  int ports[2];
  HOLDS(pipe(ports) == 0);
  const pid_t pid = fork();
  HOLDS(pid >= 0);
  if (pid == 0) {
    alarm(50);
    RawListener listener(RawListener::Answer::kNone);
    const std::uint16_t port = listener.port();
    HOLDS(write(ports[1], &port, sizeof port) == sizeof port);
    while (listener.requests() == 0) listener.look();
    kill(getpid(), SIGKILL);
  }
  std::uint16_t port = 0;
  HOLDS(read(ports[0], &port, sizeof port) == sizeof port);
  Context context = must(Context::create());
  const auto result = context.connect(own_address(), port, channel::in(5s));
  HOLDS(!result && !result.error().message.empty());
  std::printf("said: %s\n", result.error().message.c_str());
  HOLDS(waitpid(pid, nullptr, 0) == pid);
  is_as_good_as_before(context);
}

/// A client that speaks something else is sent away, and takes nothing with it.
void a_client_of_another_protocol() {
  Context there = must(Context::create());
  auto listener = must(there.listen(own_address(), 0));
  rdma_event_channel* events = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  HOLDS(events != nullptr && rdma_create_id(events, &id, nullptr, RDMA_PS_TCP) == 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(listener.port());
  HOLDS(inet_pton(AF_INET, own_address().c_str(), &to.sin_addr) == 1);
  const auto next = [&](rdma_cm_event_type expected) {
    rdma_cm_event* event = nullptr;
    HOLDS(rdma_get_cm_event(events, &event) == 0);
    HOLDS(event->event == expected);
    HOLDS(rdma_ack_cm_event(event) == 0);
  };
  HOLDS(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 5000) == 0);
  next(RDMA_CM_EVENT_ADDR_RESOLVED);
  HOLDS(rdma_resolve_route(id, 5000) == 0);
  next(RDMA_CM_EVENT_ROUTE_RESOLVED);
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 4;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  HOLDS(rdma_create_qp(id, nullptr, &attributes) == 0);
  const std::array<std::byte, Hello::kBytes> bytes{};
  rdma_conn_param with{};
  with.private_data = bytes.data();
  with.private_data_len = bytes.size();
  with.responder_resources = with.initiator_depth = 1;
  HOLDS(rdma_connect(id, &with) == 0);
  fcntl(events->fd, F_SETFL, O_NONBLOCK);
  rdma_cm_event* event = nullptr;
  const auto deadline = channel::in(20s);
  while (rdma_get_cm_event(events, &event) != 0) {
    HOLDS(!listener.try_accept());
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  HOLDS(event->event == RDMA_CM_EVENT_REJECTED);
  rdma_ack_cm_event(event);
  rdma_destroy_qp(id);
  rdma_destroy_id(id);
  rdma_destroy_event_channel(events);
  there.progress();
  is_as_good_as_before(there);
}

void a_budget_that_has_no_room() {
  ContextOptions scarce;
  scarce.budget_bytes = 64 << 10;
  const Settings large = Settings::fixed(16384, 64);
  Context here = must(Context::create(scarce)), there = must(Context::create(scarce));
  auto listener = must(there.listen(own_address(), 0));
  const auto own = here.connect(own_address(), listener.port(), channel::in(10s), large);
  HOLDS(!own && contains(own.error().message, "budget"));
  is_as_good_as_before(here);
  // The same at the other end, which says no more than that it refuses.
  auto strict = must(there.listen(own_address(), 0, large));
  Channel channel = must(here.start_connect(own_address(), strict.port()));
  const auto deadline = channel::in(20s);
  while (channel.statistics().error.empty()) {
    here.progress();
    HOLDS(!strict.try_accept());
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  HOLDS(contains(channel.statistics().error, "refused"));
  there.progress();
  HOLDS(there.figures().channels == 0 && there.figures().used_bytes == 0);
}

/// Under failing_calls.cc: the first call that connecting makes fails, at either end, then the
/// second, and so on, until a connection comes about without one that fails.
void calls_that_fail(const std::function<bool(Context&, channel::Listener&)>& connect) {
  HOLDS(weft_test_fail_call != nullptr);
  for (int number = 0;; ++number) {
    Context here = must(Context::create()), there = must(Context::create());
    auto listener = must(there.listen(own_address(), 0));
    weft_test_fail_call(number);
    const bool connected = connect(here, listener);
    const char* const failed = weft_test_failed_call();
    weft_test_fail_call(-1);
    std::printf("%d: %s, %s\n", number, failed != nullptr ? failed : "none",
                connected ? "connected" : "failed");
    if (failed == nullptr) {
      HOLDS(connected && number > 10);
      return;
    }
    const auto deadline = channel::in(20s);
    while (here.figures().channels + there.figures().channels > 0) {
      here.progress();
      static_cast<void>(listener.try_accept());
      HOLDS(std::chrono::steady_clock::now() < deadline);
    }
    is_as_good_as_before(here);
    is_as_good_as_before(there);
  }
}

void every_call_may_fail() {
  calls_that_fail([](Context& here, channel::Listener& listener) {
    const auto deadline = channel::in(20s);
    auto channel = here.start_connect(own_address(), listener.port());
    while (channel && !channel->connected() && channel->statistics().error.empty()) {
      here.progress();
      static_cast<void>(listener.try_accept());
      HOLDS(std::chrono::steady_clock::now() < deadline);
    }
    return channel && channel->connected();
  });
}

void every_call_may_fail_in_a_coroutine() {
  calls_that_fail([](Context& here, channel::Listener& listener) {
    const auto deadline = channel::in(20s);
    Loop loop(here);
    std::optional<Result<Channel>> result;
    loop.spawn(connect_and_tell(loop, own_address(), listener.port(), result));
    while (!loop.run(channel::in(1ms))) {
      static_cast<void>(listener.try_accept());
      HOLDS(std::chrono::steady_clock::now() < deadline);
    }
    HOLDS(result && (*result || !result->error().message.empty()));
    return result->has_value();
  });
}

/// To be run without a device.
void without_a_device() {
  const auto context = Context::create();
  HOLDS(!context);
  std::printf("said: %s\n", context.error().message.c_str());
}

}  // namespace

const Cases kConnectCases{
    {"a_host_that_cannot_be_reached", a_host_that_cannot_be_reached},
    {"a_name_that_nobody_has", a_name_that_nobody_has},
    {"a_port_where_nobody_listens", a_port_where_nobody_listens},
    {"a_listener_that_rejects", a_listener_that_rejects},
    {"a_listener_of_another_protocol", a_listener_of_another_protocol},
    {"a_listener_that_never_answers", a_listener_that_never_answers},
    {"a_listener_that_dies_in_the_middle", a_listener_that_dies_in_the_middle},
    {"a_client_of_another_protocol", a_client_of_another_protocol},
    {"a_connection_that_is_not_wanted_any_more", a_connection_that_is_not_wanted_any_more},
    {"a_budget_that_has_no_room", a_budget_that_has_no_room},
    {"every_call_may_fail", every_call_may_fail},
    {"every_call_may_fail_in_a_coroutine", every_call_may_fail_in_a_coroutine},
    {"without_a_device", without_a_device},
};

}  // namespace weft::test
