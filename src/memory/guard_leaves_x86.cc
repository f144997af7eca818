#include "memory/guard_leaves.h"

#if defined(WEFT_X86_LEAVES)
#include <ucontext.h>

#include <array>
#include <cstring>

// Functions without a frame: a fault between begin and end continues at `out`, which returns what
// the handler has put into the result register. On x86-64 a plain store has release order.
asm(R"(
.pushsection .text.weft_leaves, "ax", @progbits
.p2align 6
.cfi_startproc
.macro leaf name
.globl \name
.hidden \name
.type \name, @function
\name:
.endm

leaf weft_leaf_begin
leaf weft_leaf_copy_1
  movzbl (%rsi), %eax
  movb %al, (%rdi)
  xorl %eax, %eax
  ret
leaf weft_leaf_copy_2
  movzwl (%rsi), %eax
  movw %ax, (%rdi)
  xorl %eax, %eax
  ret
leaf weft_leaf_copy_4
  movl (%rsi), %eax
  movl %eax, (%rdi)
  xorl %eax, %eax
  ret
leaf weft_leaf_copy_8
  movq (%rsi), %rax
  movq %rax, (%rdi)
  xorl %eax, %eax
  ret
leaf weft_leaf_copy_words
  movq -8(%rsi,%rdx), %rax
  cmpq $24, %rdx
  jb 1f
  cmpq $32, %rdx
  jbe 3f
  movups (%rsi), %xmm0
  movups -24(%rsi,%rdx), %xmm1
  cmpq $40, %rdx
  ja 2f
  movups %xmm0, (%rdi)
  movups %xmm1, -24(%rdi,%rdx)
  movq %rax, -8(%rdi,%rdx)
  xorl %eax, %eax
  ret
1:
  movq (%rsi), %rcx
  movq %rcx, (%rdi)
  movq %rax, 8(%rdi)
  xorl %eax, %eax
  ret
// By words, as it may have been written a moment ago: a load that spans two stores waits for both.
3:
  movq (%rsi), %rcx
  movq 8(%rsi), %r9
  movq -16(%rsi,%rdx), %r8
  movq %rcx, (%rdi)
  movq %r9, 8(%rdi)
  movq %r8, -16(%rdi,%rdx)
  movq %rax, -8(%rdi,%rdx)
  xorl %eax, %eax
  ret
2:
  movups 16(%rsi), %xmm2
  movups -40(%rsi,%rdx), %xmm3
  movups %xmm0, (%rdi)
  movups %xmm2, 16(%rdi)
  movups %xmm3, -40(%rdi,%rdx)
  movups %xmm1, -24(%rdi,%rdx)
  movq %rax, -8(%rdi,%rdx)
  xorl %eax, %eax
  ret
leaf weft_leaf_copy_string
  cmpq $64, %rdx
  jb 2f
1:
  movups (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups 32(%rsi), %xmm2
  movups 48(%rsi), %xmm3
  movups %xmm0, (%rdi)
  movups %xmm1, 16(%rdi)
  movups %xmm2, 32(%rdi)
  movups %xmm3, 48(%rdi)
  addq $64, %rsi
  addq $64, %rdi
  subq $64, %rdx
  cmpq $64, %rdx
  jae 1b
2:
  movq %rdx, %rcx
  jrcxz 3f
  rep movsb
3:
  xorl %eax, %eax
  ret
leaf weft_leaf_read
  movzbl (%rdi), %eax
  xorl %eax, %eax
  ret
leaf weft_leaf_touch
  lock orb $0, (%rdi)
  xorl %eax, %eax
  ret
leaf weft_leaf_swap
  movq %rsi, %rax
  lock cmpxchgq %rdx, (%rdi)
  movq %rax, (%rcx)
  xorl %eax, %eax
  ret
leaf weft_leaf_add
  lock xaddq %rsi, (%rdi)
  movq %rsi, (%rdx)
  xorl %eax, %eax
  ret
leaf weft_leaf_end
leaf weft_leaf_out
  ret
.purgem leaf
.cfi_endproc
.popsection
)");

extern "C" const char weft_leaf_begin[], weft_leaf_end[], weft_leaf_out[];

namespace weft::memory {

namespace {

bool is_in_leaf(std::uintptr_t at) {
  return at >= reinterpret_cast<std::uintptr_t>(weft_leaf_begin) &&
         at < reinterpret_cast<std::uintptr_t>(weft_leaf_end);
}

/// Valgrind tells the address of the call or jump that led to a leaf if the leaf's first
/// instruction faults. A processor never does: such an instruction reads no memory of a program's.
bool leads_to_leaf(std::uintptr_t at) {
  constexpr std::uint8_t kCall = 0xE8, kJump = 0xE9;
  std::array<std::byte, 5> code;
  // By a leaf, since a program that jumped to nowhere faults with the address of nowhere.
  if (weft_leaf_copy_string(code.data(), reinterpret_cast<const std::byte*>(at), code.size()) !=
      Fault::kNone) {
    return false;
  }
  if (code[0] != std::byte{kCall} && code[0] != std::byte{kJump}) return false;
  std::int32_t distance = 0;
  std::memcpy(&distance, code.data() + 1, sizeof distance);
  return is_in_leaf(at + code.size() + static_cast<std::uintptr_t>(std::intptr_t{distance}));
}

}  // namespace

bool guard::leave_leaf(void* signal_context, Fault fault) {
  auto& registers = static_cast<ucontext_t*>(signal_context)->uc_mcontext.gregs;
  const auto at = static_cast<std::uintptr_t>(registers[REG_RIP]);
  if (!is_in_leaf(at) && !leads_to_leaf(at)) return false;
  registers[REG_RIP] = reinterpret_cast<greg_t>(weft_leaf_out);
  registers[REG_RAX] = static_cast<greg_t>(fault);
  return true;
}

}  // namespace weft::memory
#endif
