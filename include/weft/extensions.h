// What a weft device can do that libibverbs has no words for, reached through one weak symbol: a
// program that runs on another provider finds it absent and does without. Any thread; the table
// lives as long as the process.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct ibv_context;

struct weft_extensions {
  std::uint32_t size;  ///< of this table, for programs that know a longer or a shorter one
  /// Memory that peers on the same host reach with plain loads and stores. Null: none to be had.
  void* (*arena_create)(std::size_t bytes, void** memory);
  /// Its regions are deregistered before.
  void (*arena_destroy)(void* arena);
  /// Whether this is a weft device, and not one of another provider beside it, which pins what is
  /// registered: it would not see it if pages of an arena are given back and used again.
  bool (*is_weft_device)(const ibv_context* context);
};

[[gnu::weak]] const weft_extensions* weft_get_extensions();
}
