// The part of the MACA runtime that launchers use, on the CPU model: device memory is host memory, filled with NaN patterns.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "maca/mc_runtime.h"

enum mcError_t { mcSuccess, mcFailure };
enum mcMemcpyKind { mcMemcpyHostToDevice = 1, mcMemcpyDeviceToHost = 2 };
struct dim3 { unsigned x, y, z; dim3(unsigned x, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {} };
inline mcError_t mcMalloc(void **p, size_t bytes) { return (*p = aligned_alloc(256, (bytes + 255) / 256 * 256)) ? (memset(*p, 0xff, bytes), mcSuccess) : mcFailure; }
inline mcError_t mcMemcpy(void *to, const void *from, size_t bytes, mcMemcpyKind) { memcpy(to, from, bytes); return mcSuccess; }
inline mcError_t mcMemset(void *p, int value, size_t bytes) { memset(p, value, bytes); return mcSuccess; }
inline mcError_t mcDeviceSynchronize() { return mcSuccess; }
inline mcError_t mcGetLastError() { return mcSuccess; }
inline const char *mcGetErrorString(mcError_t) { return "refused"; }

// What kernel<<<grid, block, shared>>>(arguments...) does
template <class... A, size_t... I> void standin_run(void (*kernel)(A...), dim3 g, int block, int shared, std::tuple<A...> values, std::index_sequence<I...>) {
  static void (*started)(A...);
  started = kernel;
  void *table[] = {[](auto &x) -> void * {
    if constexpr (std::is_pointer_v<std::decay_t<decltype(x)>>) return (void *)x;
    else return &x;
  }(std::get<I>(values))...};
  const simt_launch how{{g.x, g.y, g.z}, block, 64, shared, 1, 1};
  if (const char *said = simt_run(&how, table, [](void **p) { simt_call(started, p); })) { fprintf(stderr, "%s\n", said); exit(1); }
}
template <class... A, class... B> void standin_launch(void (*kernel)(A...), dim3 grid, dim3 block, int shared, B... values) {
  standin_run(kernel, grid, block.x, shared, std::tuple<A...>(values...), std::index_sequence_for<A...>{});
}
