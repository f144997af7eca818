// Two ends of a reliable connection that try what ready-made programs do not: a receiver that is
// late or never ready, a key that is wrong, one byte too many. For libibverbs, so that it runs on any
// device. The end that is given a host is the client, which does the work and says what became of it.
//
//   trial late-receiver|no-receiver|wrong-key|beyond|long-write|long-read -d DEVICE -g INDEX [HOST]
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kPort = 18599, kBytes = 100003, kPatienceS = 30 };
static const char kText[] = "a message that was sent too early";

struct Side {
  uint32_t qpn, psn, rkey, mtu;
  uint64_t address;
  union ibv_gid gid;
};

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static struct ibv_qp* qp;
static struct ibv_mr* mr;
static unsigned char* memory;
static struct Side mine, theirs;
static int wire;

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void want(int condition, const char* what) {
  if (condition) return;
  printf("WRONG: %s\n", what);
  exit(1);
}

static void pause_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

// ---- the other channel ---------------------------------------------------------------------------

static void tell(const void* data, size_t size) {
  if (write(wire, data, size) != (ssize_t)size) fail("write");
}

static void hear(void* data, size_t size) {
  for (size_t got = 0; got < size;) {
    const ssize_t n = read(wire, (char*)data + got, size - got);
    if (n <= 0) fail("read");
    got += (size_t)n;
  }
}

static void step(void) {
  char c = 'x';
  tell(&c, 1);
  hear(&c, 1);
}

static void call(const char* host) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
  char port[8];
  snprintf(port, sizeof port, "%d", kPort);
  if (getaddrinfo(host, port, &hints, &list) != 0) fail("getaddrinfo");
  for (int tries = 0; tries < 100; ++tries) {
    wire = socket(list->ai_family, SOCK_STREAM, 0);
    if (connect(wire, list->ai_addr, list->ai_addrlen) == 0) return;
    close(wire);
    pause_ms(100);
  }
  fail("connect");
}

static void answer(void) {
  const int yes = 1;
  struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htobe16(kPort)};
  const int door = socket(AF_INET6, SOCK_STREAM, 0);
  setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(door, (struct sockaddr*)&any, sizeof any) != 0 || listen(door, 1) != 0) fail("listen");
  wire = accept(door, NULL, NULL);
  if (wire < 0) fail("accept");
}

// ---- the queue pair ------------------------------------------------------------------------------

static void open_device(const char* name, int gid_index) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_port_attr port;
  for (; list != NULL && *list != NULL; ++list) {
    if (strcmp(ibv_get_device_name(*list), name) == 0) break;
  }
  if (list == NULL || *list == NULL) fail("no such device");
  context = ibv_open_device(*list);
  if (context == NULL || ibv_query_port(context, 1, &port) != 0) fail("device");
  if (ibv_query_gid(context, 1, gid_index, &mine.gid) != 0) fail("gid");
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  memory = calloc(2, kBytes);
  mr = ibv_reg_mr(pd, memory, kBytes,
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                  .cap = {16, 16, 1, 1, 0}, .sq_sig_all = 1};
  qp = ibv_create_qp(pd, &init);
  if (mr == NULL || qp == NULL) fail("queue pair");
  mine.qpn = qp->qp_num;
  mine.psn = (uint32_t)getpid() * 7919 & 0xFFFFFF;
  mine.rkey = mr->rkey;
  mine.address = (uintptr_t)memory;
  mine.mtu = port.active_mtu;
}

static void join(int gid_index, int rnr_retry) {
  tell(&mine, sizeof mine);
  hear(&theirs, sizeof theirs);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
      .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                   IBV_QP_ACCESS_FLAGS) != 0) fail("init");
  memset(&attr, 0, sizeof attr);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = mine.mtu < theirs.mtu ? mine.mtu : theirs.mtu;
  attr.dest_qp_num = theirs.qpn;
  attr.rq_psn = theirs.psn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.grh.dgid = theirs.gid;
  attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                   IBV_QP_MIN_RNR_TIMER) != 0) fail("ready to receive");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 16;
  attr.retry_cnt = 7;
  attr.rnr_retry = (uint8_t)rnr_retry;
  attr.sq_psn = mine.psn;
  attr.max_rd_atomic = 1;
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                   IBV_QP_MAX_QP_RD_ATOMIC) != 0) fail("ready to send");
  step();
}

static void receive(void) {
  struct ibv_sge sge = {(uintptr_t)memory, sizeof kText, mr->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
  if (ibv_post_recv(qp, &wr, &bad) != 0) fail("post_recv");
}

static void post(enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t offset, uint32_t rkey) {
  struct ibv_sge sge = {(uintptr_t)memory, bytes, mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;
  wr.wr.rdma.remote_addr = theirs.address + offset;
  wr.wr.rdma.rkey = rkey;
  if (ibv_post_send(qp, &wr, &bad) != 0) fail("post_send");
}

static enum ibv_wc_status completion(void) {
  const time_t begun = time(NULL);
  struct ibv_wc wc;
  for (;;) {
    const int n = ibv_poll_cq(cq, 1, &wc);
    if (n < 0) fail("poll_cq");
    if (n == 1) break;
    want(time(NULL) - begun < kPatienceS, "no completion comes");
  }
  printf("completion: %s\n", ibv_wc_status_str(wc.status));
  return wc.status;
}

static void want_state(enum ibv_qp_state state) {
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) != 0) fail("query_qp");
  want(attr.qp_state == state, "the queue pair is in another state");
}

static int all_are(unsigned char byte) {
  for (int i = 0; i < kBytes; ++i) {
    if (memory[i] != byte) return 0;
  }
  return 1;
}

// ---- the trials ----------------------------------------------------------------------------------

static void send_early(int client, int ever) {
  if (!client && ever) {
    pause_ms(300);
    receive();
    want(completion() == IBV_WC_SUCCESS, "the message does not arrive");
    want(memcmp(memory, kText, sizeof kText) == 0, "the message is another one");
  } else if (client) {
    memcpy(memory, kText, sizeof kText);
    post(IBV_WR_SEND, sizeof kText, 0, 0);
    const enum ibv_wc_status status = completion();
    want(status == (ever ? IBV_WC_SUCCESS : IBV_WC_RNR_RETRY_EXC_ERR), "another status");
  }
  step();
}

static void write_wrongly(int client, uint32_t bytes, uint32_t key_change) {
  memset(memory, client ? 0x77 : 0x11, kBytes);
  step();
  if (client) {
    const uint64_t offset = key_change != 0 ? 0 : kBytes - bytes + 1;
    post(IBV_WR_RDMA_WRITE, bytes, offset, theirs.rkey ^ key_change);
    want(completion() == IBV_WC_REM_ACCESS_ERR, "another status");
  }
  step();
  want_state(IBV_QPS_ERR);
  if (!client) want(all_are(0x11), "memory was changed");
}

static void move_long(int client, enum ibv_wr_opcode opcode) {
  const int target = opcode == IBV_WR_RDMA_WRITE ? !client : client;
  memset(memory, target ? 0 : 0x5A, kBytes);
  step();
  if (client) {
    post(opcode, kBytes, 0, theirs.rkey);
    want(completion() == IBV_WC_SUCCESS, "another status");
  }
  step();
  if (target) want(all_are(0x5A), "the bytes are others");
}

int main(int argc, char** argv) {
  const char *device = NULL, *host = NULL;
  int gid_index = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc < 2) return 2;
  const char* const trial = argv[1];
  for (int option; (option = getopt(argc - 1, argv + 1, "d:g:")) != -1;) {
    if (option == 'd') device = optarg;
    if (option == 'g') gid_index = atoi(optarg);
  }
  if (optind < argc - 1) host = argv[optind + 1];
  if (device == NULL) return 2;
  alarm(2 * kPatienceS);
  open_device(device, gid_index);
  if (host != NULL) {
    call(host);
  } else {
    answer();
  }
  const int client = host != NULL;
  join(gid_index, strcmp(trial, "no-receiver") == 0 ? 2 : 7);
  if (strcmp(trial, "late-receiver") == 0) {
    send_early(client, 1);
  } else if (strcmp(trial, "no-receiver") == 0) {
    send_early(client, 0);
  } else if (strcmp(trial, "wrong-key") == 0) {
    write_wrongly(client, 5000, 0x5A5A00);
  } else if (strcmp(trial, "beyond") == 0) {
    write_wrongly(client, 5000, 0);
  } else if (strcmp(trial, "long-write") == 0) {
    move_long(client, IBV_WR_RDMA_WRITE);
  } else if (strcmp(trial, "long-read") == 0) {
    move_long(client, IBV_WR_RDMA_READ);
  } else {
    return 2;
  }
  printf("%s: right\n", trial);
  return 0;
}
