// dlsym and dlvsym. A program that opens libibverbs by hand and asks the handle for its functions
// goes round a preloaded library: here it gets weft's. Everything else goes to the C library by a
// jump, not a call: RTLD_NEXT means "after whoever asks", which is told by the return address.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "files/interpose_next.h"

extern "C" {
/// Where the jumps go; set before the first one. Plain, since assembly reads them; aligned words,
/// written with the same value by whoever comes first.
[[gnu::visibility("hidden")]] void* weft_real_dlsym = nullptr;
[[gnu::visibility("hidden")]] void* weft_real_dlvsym = nullptr;
/// Weft's function for this question, or null: then the C library answers.
[[gnu::visibility("hidden"), gnu::used]] void* weft_answer_dlsym(void* handle, const char* name,
                                                                 void* caller);
}

namespace weft::files {
namespace {

// ---- the C library's own, found without dlsym -----------------------------------------------

struct Symbols {
  const char* strings = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  std::string_view soname;

  explicit Symbols(const dl_phdr_info& object) {
    const ElfW(Dyn)* dynamic = nullptr;
    for (int i = 0; i < object.dlpi_phnum; ++i) {
      if (object.dlpi_phdr[i].p_type == PT_DYNAMIC) {
        dynamic =
            reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
      }
    }
    ElfW(Xword) name = 0;
    for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
      // Some systems relocate these in place, others leave them as in the file.
      const ElfW(Addr) at = dynamic->d_un.d_ptr < object.dlpi_addr
                                ? dynamic->d_un.d_ptr + object.dlpi_addr
                                : dynamic->d_un.d_ptr;
      if (dynamic->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(at);
      if (dynamic->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(at);
      if (dynamic->d_tag == DT_GNU_HASH) gnu_hash = reinterpret_cast<const std::uint32_t*>(at);
      if (dynamic->d_tag == DT_SONAME) name = dynamic->d_un.d_val;
    }
    if (strings != nullptr && name != 0) soname = strings + name;
  }

  const ElfW(Sym) * find(std::string_view name) const {
    if (strings == nullptr || symbols == nullptr || gnu_hash == nullptr) return nullptr;
    std::uint32_t hash = 5381;
    for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
    const std::uint32_t buckets = gnu_hash[0], first = gnu_hash[1];
    const std::uint32_t bloom_words = gnu_hash[2] * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
    const std::uint32_t* bucket = gnu_hash + 4 + bloom_words;
    const std::uint32_t* chain = bucket + buckets;
    std::uint32_t index = buckets == 0 ? 0 : bucket[hash % buckets];
    if (index < first) return nullptr;
    for (;; ++index) {
      const std::uint32_t entry = chain[index - first];
      const ElfW(Sym)& symbol = symbols[index];
      if ((entry | 1) == (hash | 1) && symbol.st_shndx != SHN_UNDEF &&
          name == strings + symbol.st_name) {
        return &symbol;
      }
      if ((entry & 1) != 0) return nullptr;
    }
  }
};

int look_at(dl_phdr_info* object, std::size_t, void*) {
  // libdl.so.2 had them before version 2.34 of the C library; now it is empty.
  const Symbols symbols(*object);
  if (symbols.soname != "libc.so.6" && symbols.soname != "libdl.so.2") return 0;
  for (const auto& [name, found] :
       {std::pair{"dlsym", &weft_real_dlsym}, std::pair{"dlvsym", &weft_real_dlvsym}}) {
    if (const ElfW(Sym)* symbol = symbols.find(name)) {
      *found = reinterpret_cast<void*>(object->dlpi_addr + symbol->st_value);
    }
  }
  return 0;
}

void find_real() {
  if (weft_real_dlsym != nullptr && weft_real_dlvsym != nullptr) return;
  dl_iterate_phdr(look_at, nullptr);
  if (weft_real_dlsym == nullptr || weft_real_dlvsym == nullptr) std::abort();
}

void* real_dlsym(void* handle, const char* name) {
  find_real();
  return reinterpret_cast<void* (*)(void*, const char*)>(weft_real_dlsym)(handle, name);
}

// ---- who asks ---------------------------------------------------------------------------------

bool is_of_verbs(const char* name) {
  return std::strncmp(name, "ibv_", 4) == 0 || std::strncmp(name, "_ibv_", 5) == 0;
}

const void* base_of(const void* address, const char** file = nullptr) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return nullptr;
  if (file != nullptr) *file = info.dli_fname;
  return info.dli_fbase;
}

/// Ourselves, libibverbs and its providers, which lie in a folder of that name.
bool wants_the_real(const void* caller) {
  const char* file = nullptr;
  const void* const base = base_of(caller, &file);
  if (base == base_of(reinterpret_cast<const void*>(&is_of_verbs))) return true;
  return file != nullptr && std::strstr(file, "/libibverbs") != nullptr;
}

void* ours(const char* name) {
  static void* const handle = [] {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&is_of_verbs), &info) == 0)
      return static_cast<void*>(nullptr);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle == nullptr ? nullptr : real_dlsym(handle, name);
}

}  // namespace

void* next_symbol(const char* name) { return real_dlsym(RTLD_NEXT, name); }

}  // namespace weft::files

void* weft_answer_dlsym(void* handle, const char* name, void* caller) {
  weft::files::find_real();
  if (name == nullptr || handle == RTLD_NEXT || !weft::files::is_of_verbs(name)) [[likely]]
    return nullptr;
  if (weft::files::wants_the_real(caller)) return nullptr;
  return weft::files::ours(name);
}

// ---- what programs call: the arguments are kept, the question asked with the caller's address,
// and without an answer of ours they are handed on as if we had not been there
// -------------------------

#if defined(__x86_64__)
asm(R"(
.macro weft_ask name, real
    .text
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    movq 24(%rsp), %rdx
    call weft_answer_dlsym
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    testq %rax, %rax
    jz 1f
    ret
1:  jmp *\real(%rip)
    .cfi_endproc
    .size \name, . - \name
.endm
weft_ask dlsym, weft_real_dlsym
weft_ask dlvsym, weft_real_dlvsym
)");
#elif defined(__aarch64__)
asm(R"(
.macro weft_ask name, real
    .text
    .globl \name
    .type \name, %function
\name:
    .cfi_startproc
    stp x29, x30, [sp, -48]!
    .cfi_def_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    mov x29, sp
    stp x0, x1, [sp, 16]
    str x2, [sp, 32]
    mov x2, x30
    bl weft_answer_dlsym
    mov x9, x0
    ldp x0, x1, [sp, 16]
    ldr x2, [sp, 32]
    ldp x29, x30, [sp], 48
    .cfi_restore 30
    .cfi_restore 29
    .cfi_def_cfa_offset 0
    cbz x9, 1f
    mov x0, x9
    ret
1:  adrp x9, \real
    ldr x9, [x9, :lo12:\real]
    br x9
    .cfi_endproc
    .size \name, . - \name
.endm
weft_ask dlsym, weft_real_dlsym
weft_ask dlvsym, weft_real_dlvsym
)");
#else
#error "dlsym and dlvsym need a few lines of assembly for this processor"
#endif
