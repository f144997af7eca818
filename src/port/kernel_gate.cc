#include "port/kernel_gate.h"

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "host/system_error.h"

namespace weft::port {
namespace {

// Newer than the headers of some systems that weft is built on.
constexpr std::uint32_t kTcxIngress = 46;
constexpr int kTcxNext = -1, kTcxDrop = 2;

constexpr bpf_insn instruction(unsigned code, unsigned to, unsigned from, int offset, int value) {
  bpf_insn out{};
  out.code = static_cast<std::uint8_t>(code);
  out.dst_reg = to & 0xFu;
  out.src_reg = from & 0xFu;
  out.off = static_cast<std::int16_t>(offset);
  out.imm = value;
  return out;
}
constexpr bpf_insn load(unsigned size, int at) {
  return instruction(BPF_LD | BPF_ABS | size, 0, 0, 0, at);
}
constexpr bpf_insn jump(unsigned condition, int value, int forward) {
  return instruction(BPF_JMP | condition | BPF_K, BPF_REG_0, 0, forward, value);
}
constexpr bpf_insn give(int verdict) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, verdict);
}
constexpr bpf_insn kReturn = instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);

/// ARP, and ICMPv6 of the types 133 to 137, pass; all else is dropped.
constexpr std::array kProgram{
    instruction(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_6, BPF_REG_1, 0, 0),
    load(BPF_H, 12),
    jump(BPF_JEQ, 0x0806, 6),
    jump(BPF_JNE, 0x86DD, 7),
    load(BPF_B, 14 + 6),
    jump(BPF_JNE, 58, 5),
    load(BPF_B, 14 + 40),
    jump(BPF_JLT, 133, 3),
    jump(BPF_JGT, 137, 2),
    give(kTcxNext),
    kReturn,
    give(kTcxDrop),
    kReturn,
};

int bpf(int command, bpf_attr& attributes) {
  return static_cast<int>(syscall(__NR_bpf, command, &attributes, sizeof attributes));
}

tl::unexpected<Error> gate_error(const RawInterface& interface, const std::string& step,
                                 int error_number) {
  const std::string what = "raw_unclaimed: drop at " + interface.name + ": " + step;
  if (error_number == EPERM || error_number == EACCES) {
    return fail(Errc::kNotPermitted,
                what +
                    " needs the capabilities CAP_NET_ADMIN and CAP_BPF: run as root, or leave "
                    "unclaimed packets to the kernel");
  }
  if (error_number == EINVAL || error_number == ENOSYS || error_number == EOPNOTSUPP) {
    return fail(Errc::kNotSupported, what +
                                         " needs Linux 6.6 or newer: leave unclaimed packets to "
                                         "the kernel");
  }
  return host::system_error(what, error_number);
}

}  // namespace

Result<host::Fd> close_kernel_gate(const RawInterface& interface) {
  const host::ForkHold hold;
  bpf_attr load_attributes;
  std::memset(&load_attributes, 0, sizeof load_attributes);
  load_attributes.prog_type = BPF_PROG_TYPE_SCHED_CLS;
  load_attributes.insns = reinterpret_cast<std::uint64_t>(kProgram.data());
  load_attributes.insn_cnt = kProgram.size();
  load_attributes.license = reinterpret_cast<std::uint64_t>("");
  const host::Fd program(bpf(BPF_PROG_LOAD, load_attributes));
  if (program.get() < 0) return gate_error(interface, "loading a program", errno);
  bpf_attr link_attributes;
  std::memset(&link_attributes, 0, sizeof link_attributes);
  link_attributes.link_create.prog_fd = static_cast<std::uint32_t>(program.get());
  link_attributes.link_create.target_fd = interface.index;
  link_attributes.link_create.attach_type = kTcxIngress;
  host::Fd link(bpf(BPF_LINK_CREATE, link_attributes));
  if (link.get() < 0) return gate_error(interface, "attaching a program", errno);
  return link;
}

}  // namespace weft::port
