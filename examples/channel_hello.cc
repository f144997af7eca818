// Two processes and a channel: a small message, then one that makes it grow.
#include <sys/wait.h>
#include <unistd.h>
#include <weft/channel.h>

#include <cstdio>
#include <cstdlib>

using namespace std::chrono_literals;
namespace channel = weft::channel;

void must(const weft::Result<void>& done) {
  if (done) return;
  std::fprintf(stderr, "%s\n", done.error().message.c_str());
  std::exit(1);
}

int serve(int tell) {
  auto context = channel::Context::create().value();
  auto listener = context.listen("127.0.0.1", 0).value();
  const auto port = listener.port();
  if (write(tell, &port, sizeof port) != sizeof port) return 1;
  auto peer = listener.accept(channel::in(5s)).value();
  for (int i = 0; i < 2; ++i) {
    const auto message = peer.receive(channel::in(5s)).value();
    std::printf("got %zu bytes: %.5s\n", message.size(), message.text().data());
  }
  must(peer.send("thank you", channel::in(5s)));
  return 0;
}

int ask(int learn) {
  std::uint16_t port = 0;
  if (read(learn, &port, sizeof port) != sizeof port) return 1;
  auto context = channel::Context::create().value();
  auto peer = context.connect("127.0.0.1", port, channel::in(5s)).value();
  must(peer.send("hello", channel::in(5s)));
  std::printf("registered: %zu bytes\n", peer.statistics().registered_bytes);
  must(peer.send(std::string(10000, 'x'), channel::in(5s)));
  std::printf("grown to phase %u\n", peer.statistics().send_phase);
  std::printf("%s\n", std::string(peer.receive(channel::in(5s)).value().text()).c_str());
  return 0;
}

int main() {
  int ends[2];
  if (pipe(ends) != 0) return 1;
  const pid_t server = fork();
  if (server == 0) return serve(ends[1]);
  close(ends[1]);  // a server that fails ends our reading
  const int result = ask(ends[0]);
  int status = 0;
  waitpid(server, &status, 0);
  return result != 0 ? result : WEXITSTATUS(status);
}
