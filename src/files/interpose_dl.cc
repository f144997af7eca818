// dlsym and dlvsym. A program that opens libibverbs by hand and asks the handle for its functions
// goes round a preloaded library: here it gets weft's. Everything else goes to the C library by a
// jump, not a call: RTLD_NEXT means "after whoever asks", which is told by the return address.
//
// The first to ask may be a sanitizer's runtime, before it is ready for a call of any function that
// it stands before itself: strncmp, memcmp and dl_iterate_phdr among others. So the way to the C
// library's own answer calls the loader alone, and this file is compiled without a sanitizer.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

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

bool same(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

struct Symbols {
  const char* strings = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const char* soname = "";

  explicit Symbols(const link_map& object) {
    ElfW(Xword) name = 0;
    for (const ElfW(Dyn)* entry = object.l_ld; entry != nullptr && entry->d_tag != DT_NULL;
         ++entry) {
      // Some systems relocate these in place, others leave them as in the file.
      const ElfW(Addr) at =
          entry->d_un.d_ptr < object.l_addr ? entry->d_un.d_ptr + object.l_addr : entry->d_un.d_ptr;
      if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(at);
      if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(at);
      if (entry->d_tag == DT_GNU_HASH) gnu_hash = reinterpret_cast<const std::uint32_t*>(at);
      if (entry->d_tag == DT_SONAME) name = entry->d_un.d_val;
    }
    if (strings != nullptr && name != 0) soname = strings + name;
  }

  const ElfW(Sym) * find(const char* name) const {
    if (strings == nullptr || symbols == nullptr || gnu_hash == nullptr) return nullptr;
    std::uint32_t hash = 5381;
    for (const char* c = name; *c != '\0'; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
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
          same(name, strings + symbol.st_name)) {
        return &symbol;
      }
      if ((entry & 1) != 0) return nullptr;
    }
  }
};

void take_from(const Symbols& symbols, const link_map& object, const char* name, void** found) {
  const ElfW(Sym)* symbol = symbols.find(name);
  if (symbol != nullptr) *found = reinterpret_cast<void*>(object.l_addr + symbol->st_value);
}

bool is_of_verbs(const char* name) {
  if (name[0] == '_') ++name;
  return name[0] == 'i' && name[1] == 'b' && name[2] == 'v' && name[3] == '_';
}

/// The objects of our own namespace of the loader's: what we call is in one of them.
void find_real() {
  if (weft_real_dlsym != nullptr && weft_real_dlvsym != nullptr) [[likely]]
    return;
  Dl_info info{};
  link_map* object = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&is_of_verbs), &info, reinterpret_cast<void**>(&object),
              RTLD_DL_LINKMAP) == 0) {
    std::abort();
  }
  while (object->l_prev != nullptr) object = object->l_prev;
  for (; object != nullptr; object = object->l_next) {
    // libdl.so.2 had them before version 2.34 of the C library; now it is empty.
    const Symbols symbols(*object);
    if (!same(symbols.soname, "libc.so.6") && !same(symbols.soname, "libdl.so.2")) continue;
    take_from(symbols, *object, "dlvsym", &weft_real_dlvsym);
    take_from(symbols, *object, "dlsym", &weft_real_dlsym);
  }
  if (weft_real_dlsym == nullptr || weft_real_dlvsym == nullptr) std::abort();
}

void* real_dlsym(void* handle, const char* name) {
  find_real();
  return reinterpret_cast<void* (*)(void*, const char*)>(weft_real_dlsym)(handle, name);
}

// ---- who asks ---------------------------------------------------------------------------------

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
