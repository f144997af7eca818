// A verbs program of somebody who does not know weft: built without it, also by other compilers and
// with sanitizers (sanitizers_test.cc), or as a part of a program that loads it late
// (loading_test.cc). Its arguments say what it does; the exit status is 0 when that went as it
// should.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr std::size_t kBytes = 4096;
constexpr int kRounds = 20;
/// From this size on, a stack has room for a post and a poll.
constexpr std::size_t kStackForVerbs = 32 * 1024;

[[noreturn]] void stop(const char* what) {
  std::printf("failed: %s (errno %d, %s)\n", what, errno, std::strerror(errno));
  std::fflush(stdout);
  _exit(9);
}
#define NEED(condition) ((condition) ? void() : stop(#condition))

/// A queue pair and what belongs to it; two make a connection.
struct End {
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  char* memory = nullptr;
  ibv_mr* mr = nullptr;
};
struct Client {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  End ends[2];
};

void open_device(Client& client) {
  ibv_device** list = ibv_get_device_list(nullptr);
  NEED(list != nullptr && list[0] != nullptr);
  client.context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  NEED(client.context != nullptr);
  client.pd = ibv_alloc_pd(client.context);
  NEED(client.pd != nullptr);
}

void make_end(const Client& client, End& end) {
  end.channel = ibv_create_comp_channel(client.context);
  NEED(end.channel != nullptr);
  end.cq = ibv_create_cq(client.context, 64, nullptr, end.channel, 0);
  NEED(end.cq != nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = end.cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = init.cap.max_recv_wr = kRounds;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  end.qp = ibv_create_qp(client.pd, &init);
  NEED(end.qp != nullptr);
  end.memory = static_cast<char*>(std::calloc(1, kBytes));
  end.mr = ibv_reg_mr(client.pd, end.memory, kBytes, kRights);
  NEED(end.mr != nullptr);
}

void connect(const Client& client, const End& end, const End& to) {
  ibv_qp_attr attr{};
  NEED(ibv_query_gid(client.context, 1, 0, &attr.ah_attr.grh.dgid) == 0);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = kRights;
  NEED(ibv_modify_qp(end.qp, &attr,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = to.qp->qp_num;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.port_num = 1;
  NEED(ibv_modify_qp(end.qp, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 18;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  NEED(ibv_modify_qp(end.qp, &attr,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

void begin(Client& client) {
  open_device(client);
  for (End& end : client.ends) make_end(client, end);
  connect(client, client.ends[0], client.ends[1]);
  connect(client, client.ends[1], client.ends[0]);
}

void finish(Client& client) {
  for (End& end : client.ends) {
    NEED(ibv_destroy_qp(end.qp) == 0);
    NEED(ibv_dereg_mr(end.mr) == 0);
    NEED(ibv_destroy_cq(end.cq) == 0);
    NEED(ibv_destroy_comp_channel(end.channel) == 0);
    std::free(end.memory);
  }
  NEED(ibv_dealloc_pd(client.pd) == 0);
  NEED(ibv_close_device(client.context) == 0);
}

void post(const End& end, ibv_wr_opcode opcode, const void* to, std::uint32_t rkey,
          std::uint64_t id = 0) {
  ibv_sge sge{reinterpret_cast<std::uint64_t>(end.memory), kBytes, end.mr->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(to);
  wr.wr.rdma.rkey = rkey;
  NEED(ibv_post_send(end.qp, &wr, &bad) == 0);
}

void post_receive(const End& end) {
  ibv_sge sge{reinterpret_cast<std::uint64_t>(end.memory), kBytes, end.mr->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  NEED(ibv_post_recv(end.qp, &wr, &bad) == 0);
}

ibv_wc_status poll(const End& end) {
  ibv_wc wc;
  int count = 0;
  while ((count = ibv_poll_cq(end.cq, 1, &wc)) == 0) sched_yield();
  NEED(count == 1);
  return wc.status;
}

/// The same, asleep meanwhile.
ibv_wc_status await(const End& end) {
  for (;;) {
    ibv_wc wc;
    NEED(ibv_req_notify_cq(end.cq, 0) == 0);
    const int count = ibv_poll_cq(end.cq, 1, &wc);
    NEED(count >= 0);
    if (count == 1) return wc.status;
    ibv_cq* cq = nullptr;
    void* its = nullptr;
    NEED(ibv_get_cq_event(end.channel, &cq, &its) == 0);
    ibv_ack_cq_events(cq, 1);
  }
}

// ---- what it does -------------------------------------------------------------------------------

/// A thread that answers each message by one.
void* answer(void* argument) {
  End& end = *static_cast<End*>(argument);
  for (int round = 0; round < kRounds; ++round) {
    NEED(await(end) == IBV_WC_SUCCESS);  // the message
    for (std::size_t i = 0; i < kBytes; ++i) end.memory[i] = static_cast<char>(end.memory[i] + 1);
    post(end, IBV_WR_SEND, nullptr, 0);
    NEED(await(end) == IBV_WC_SUCCESS);
    post_receive(end);
  }
  return nullptr;
}

/// Writes, reads, and messages between two threads.
void work() {
  Client client;
  begin(client);
  const End &near = client.ends[0], &far = client.ends[1];
  for (int round = 0; round < kRounds; ++round) {
    std::memset(near.memory, round, kBytes);
    post(near, IBV_WR_RDMA_WRITE, far.memory, far.mr->rkey);
    NEED(poll(near) == IBV_WC_SUCCESS);
    NEED(std::memcmp(near.memory, far.memory, kBytes) == 0);
    std::memset(far.memory, -round, kBytes);
    post(near, IBV_WR_RDMA_READ, far.memory, far.mr->rkey);
    NEED(await(near) == IBV_WC_SUCCESS);
    NEED(std::memcmp(near.memory, far.memory, kBytes) == 0);
  }
  post_receive(far);
  pthread_t thread;
  NEED(pthread_create(&thread, nullptr, answer, &client.ends[1]) == 0);
  for (int round = 0; round < kRounds; ++round) {
    std::memset(near.memory, round, kBytes);
    post(near, IBV_WR_SEND, nullptr, 0);
    NEED(poll(near) == IBV_WC_SUCCESS);
    post_receive(near);
    NEED(await(near) == IBV_WC_SUCCESS);  // the answer
    for (std::size_t i = 0; i < kBytes; ++i) NEED(near.memory[i] == round + 1);
  }
  NEED(pthread_join(thread, nullptr) == 0);
  finish(client);
}

/// A thread that polls for what another posts, and looks at the other's records of it.
struct Request {
  int number = 0;
  bool is_done = false;
};
void* poll_for_others(void* argument) {
  End& end = *static_cast<End*>(argument);
  for (int left = kRounds; left > 0; --left) {
    ibv_wc wc;
    while (ibv_poll_cq(end.cq, 1, &wc) == 0) sched_yield();
    Request& request = *reinterpret_cast<Request*>(wc.wr_id);
    NEED(wc.status == IBV_WC_SUCCESS && request.number == left);
    request.is_done = true;
  }
  return nullptr;
}
void hand_over() {
  Client client;
  begin(client);
  pthread_t thread;
  NEED(pthread_create(&thread, nullptr, poll_for_others, &client.ends[0]) == 0);
  static Request requests[kRounds];
  for (int left = kRounds; left > 0; --left) {
    requests[left - 1].number = left;
    post(client.ends[0], IBV_WR_RDMA_WRITE, client.ends[1].memory, client.ends[1].mr->rkey,
         reinterpret_cast<std::uint64_t>(&requests[left - 1]));
  }
  NEED(pthread_join(thread, nullptr) == 0);
  for (const Request& request : requests) NEED(request.is_done);
  finish(client);
}

/// Memory that is not there is refused.
void refused() {
  Client client;
  open_device(client);
  void* const page =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  NEED(page != MAP_FAILED && munmap(page, kBytes) == 0);
  errno = 0;
  NEED(ibv_reg_mr(client.pd, page, kBytes, kRights) == nullptr && errno == EFAULT);
  errno = 0;
  NEED(ibv_reg_mr(client.pd, page, 1, 0) == nullptr && errno == EFAULT);
  NEED(ibv_dealloc_pd(client.pd) == 0);
  NEED(ibv_close_device(client.context) == 0);
}

/// Memory that goes away is an error of the request.
void unmapped() {
  Client client;
  begin(client);
  char* const page = static_cast<char*>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  NEED(page != MAP_FAILED);
  ibv_mr* const mr = ibv_reg_mr(client.pd, page, kBytes, kRights);
  NEED(mr != nullptr);
  post(client.ends[0], IBV_WR_RDMA_WRITE, page, mr->rkey);
  NEED(poll(client.ends[0]) == IBV_WC_SUCCESS);
  NEED(munmap(page, kBytes) == 0);
  post(client.ends[0], IBV_WR_RDMA_WRITE, page, mr->rkey);
  NEED(poll(client.ends[0]) == IBV_WC_REM_ACCESS_ERR);
  NEED(ibv_dereg_mr(mr) == 0);
  finish(client);
}

/// A child has a device of its own.
void child() {
  Client client;
  begin(client);
  const pid_t pid = fork();
  if (pid == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  NEED(waitpid(pid, &status, 0) == pid && status == 0);
  finish(client);
}

/// A thread of the smallest stack that there is does nothing; one with a little more uses verbs.
void* do_nothing(void* argument) { return argument; }
void* write_once(void* argument) {
  const Client& client = *static_cast<const Client*>(argument);
  post(client.ends[0], IBV_WR_RDMA_WRITE, client.ends[1].memory, client.ends[1].mr->rkey);
  NEED(poll(client.ends[0]) == IBV_WC_SUCCESS);
  post_receive(client.ends[1]);
  post(client.ends[0], IBV_WR_SEND, nullptr, 0);
  NEED(poll(client.ends[0]) == IBV_WC_SUCCESS);
  NEED(poll(client.ends[1]) == IBV_WC_SUCCESS);
  return nullptr;
}
void run_on_stack(std::size_t bytes, void* (*function)(void*), void* argument) {
  pthread_attr_t attr;
  NEED(pthread_attr_init(&attr) == 0);
  NEED(pthread_attr_setstacksize(&attr, bytes) == 0);
  pthread_t thread;
  errno = pthread_create(&thread, &attr, function, argument);
  NEED(errno == 0);
  NEED(pthread_join(thread, nullptr) == 0);
  NEED(pthread_attr_destroy(&attr) == 0);
}
void small_stacks() {
  const auto smallest = static_cast<std::size_t>(sysconf(_SC_THREAD_STACK_MIN));
  run_on_stack(smallest, do_nothing, nullptr);
  Client client;
  begin(client);
  for (std::size_t bytes = smallest; bytes <= 256 * 1024; bytes *= 2) {
    run_on_stack(bytes, bytes < kStackForVerbs ? do_nothing : write_once, &client);
  }
  finish(client);
}

void set_blocking(const ibv_comp_channel* channel, bool blocking) {
  int nonblocking = blocking ? 0 : 1;
  NEED(ioctl(channel->fd, FIONBIO, &nonblocking) == 0);
}

/// Nothing comes. `ends_by`: EINTR if the call sleeps until the alarm, else it does not sleep.
void wait_in_vain(ibv_comp_channel* channel, int ends_by) {
  ibv_cq* cq = nullptr;
  void* owner = nullptr;
  if (ends_by == EINTR) alarm(1);
  NEED(ibv_get_cq_event(channel, &cq, &owner) == -1);
  NEED(errno == ends_by);
}

/// Makes a channel block, and not, by the call that is older than fcntl.
void flags_by_ioctl() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  NEED(sigaction(SIGALRM, &action, nullptr) == 0);
  Client client;
  begin(client);
  ibv_comp_channel* const channel = client.ends[0].channel;
  for (int turn = 0; turn < 2; ++turn) {
    set_blocking(channel, false);
    // Often enough for weft to see who waits, and how.
    for (int i = 0; i < 10; ++i) NEED(ibv_req_notify_cq(client.ends[0].cq, 0) == 0);
    wait_in_vain(channel, EAGAIN);
    set_blocking(channel, true);
    wait_in_vain(channel, EINTR);
  }
  finish(client);
}

// ---- a thread that is cancelled while it waits in a call that weft stands before ----------------

void* open_for_good(void* path) {
  return reinterpret_cast<void*>(std::intptr_t{open(static_cast<const char*>(path), O_WRONLY)});
}
void cancelled() {
  char folder[] = "/tmp/weft-cancelled-XXXXXX";
  NEED(mkdtemp(folder) != nullptr);
  char path[64];
  std::snprintf(path, sizeof path, "%s/fifo", folder);
  NEED(mkfifo(path, 0600) == 0);
  pthread_t thread;
  NEED(pthread_create(&thread, nullptr, open_for_good, path) == 0);
  usleep(100'000);  // It waits by now, or will come to a place where it is cancelled.
  NEED(pthread_cancel(thread) == 0);
  void* result = nullptr;
  NEED(pthread_join(thread, &result) == 0);
  NEED(result == PTHREAD_CANCELED);
  NEED(unlink(path) == 0 && rmdir(folder) == 0);
}

// ---- what a sanitizer has to find ---------------------------------------------------------------

void overflow() {
  char* volatile const bytes = static_cast<char*>(std::malloc(16));
  volatile std::size_t size = 17;
  NEED(write(STDOUT_FILENO, bytes, size) != 0);  // through a function that weft stands before, too
}

void leak() {
  char* volatile lost = static_cast<char*>(std::malloc(77));
  lost[0] = 1;
  lost = nullptr;
}

volatile int shared = 0;  // each of its accesses is made, and one of many is caught
void* add(void*) {
  for (int i = 0; i < 100'000; ++i) shared = shared + 1;
  return nullptr;
}
void race() {
  pthread_t threads[2];
  for (pthread_t& thread : threads) NEED(pthread_create(&thread, nullptr, add, nullptr) == 0);
  for (const pthread_t thread : threads) NEED(pthread_join(thread, nullptr) == 0);
}

void undefined() {
  volatile int largest = __INT_MAX__;
  largest = largest + 1;
}

constexpr struct {
  const char* name;
  void (*function)();
} kCases[] = {{"work", work},
              {"hand_over", hand_over},
              {"refused", refused},
              {"unmapped", unmapped},
              {"child", child},
              {"overflow", overflow},
              {"leak", leak},
              {"race", race},
              {"undefined", undefined},
              {"cancelled", cancelled},
              {"small_stacks", small_stacks},
              {"flags_by_ioctl", flags_by_ioctl}};

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    for (const auto& one : kCases) {
      if (std::strcmp(arguments[i], one.name) != 0) continue;
      one.function();
      std::printf("did %s\n", one.name);
    }
  }
}
