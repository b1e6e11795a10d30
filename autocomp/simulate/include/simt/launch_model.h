// What the runtimes of GPU vendors have in common, on the CPU model: device memory is host memory, filled with NaN patterns;
// kernels run at once. A vendor's header defines STANDIN_WAVE, its lanes, and STANDIN_ORDERED, whether blocks may wait for those started
// before them, includes this one, and gives these its names.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

struct dim3 { unsigned x, y, z; dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {} };

// Whether there was memory
inline bool standin_alloc(void **p, size_t bytes) {
  return (*p = aligned_alloc(256, (bytes + 255) / 256 * 256)) && memset(*p, 0xff, bytes);
}

// What kernel<<<grid, block, shared>>>(arguments...) does; `cluster` blocks share their memory
template <class... A, size_t... I> void standin_run(void (*kernel)(A...), dim3 g, int block, int shared, int cluster, std::tuple<A...> values, std::index_sequence<I...>) {
  static void (*started)(A...);
  started = kernel;
  void *table[] = {[](auto &x) -> void * {
    if constexpr (std::is_pointer_v<std::decay_t<decltype(x)>>) return (void *)x;
    else return &x;
  }(std::get<I>(values))...};
  const simt_launch how{{g.x, g.y, g.z}, block, STANDIN_WAVE, shared, 1, cluster, STANDIN_ORDERED};
  if (const char *said = simt_run(&how, table, [](void **p) { simt_call(started, p); })) { fprintf(stderr, "%s\n", said); exit(1); }
}
template <class... A, class... B> void standin_launch(void (*kernel)(A...), dim3 grid, dim3 block, int shared, B... values) {
  standin_run(kernel, grid, block.x, shared, 1, std::tuple<A...>(values...), std::index_sequence_for<A...>{});
}
