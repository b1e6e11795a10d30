// A CPU model of one SIMT block at a time: what printed kernels and the stand-ins of device headers call. See simt_model.cpp.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __syncthreads() simt_barrier(0, 0)
// of the model's own arithmetic no access is told (simt_touched): there is none in shared or global memory
#define SIMT_ARITHMETIC __attribute__((no_sanitize("thread")))

struct simt_index { unsigned x, y, z; };
extern const simt_index *simt_thread;
extern simt_index simt_block, simt_grid;
#define threadIdx (*simt_thread)
#define blockIdx simt_block
#define gridDim simt_grid

// Dynamic shared memory, filled with NaN patterns before each block. Its end (up to 1024 bytes of alignment) lies at a page that may not
// be touched. The kernels' own declarations of it are taken out.
constexpr int SIMT_SHARED = 1024 * 1024;
extern unsigned char *smem;

// Lanes of a wave (or of a team of 128 threads) meet: the last one to come runs `perform` over the arguments of all, by lane.
// Lanes that meet under different tags, or that never meet, end the launch with an error.
typedef void (*simt_perform)(void **arguments, int lanes);
void simt_wave(int tag, void *arguments, simt_perform perform);
void simt_team(int tag, void *arguments, simt_perform perform);
// `threads` of the block (all for 0) meet at barrier `id`
void simt_barrier(int id, int threads);
// the same, by a thread that does not wait for the others
void simt_barrier_pass(int id, int threads);
// all threads of a cluster, in two halves; the lanes of a wave. Exchanges of registers order nothing.
void simt_cluster_arrive();
void simt_cluster_wait();
void simt_wave_sync();
[[noreturn]] void simt_fail(const char *what);
// Whether a numbered statement is to be run: benchmarks/fuzz/dropped_barriers.py leaves out one after another (simt_drop); its end
bool simt_keeps(int number);
void simt_passed();

// Copies into shared memory that a lane starts, groups them, and waits for: early they happen at once, late only at the wait.
void simt_copy(unsigned char *to, const void *from, int bytes, bool inside);
void simt_commit();
void simt_wait(int groups);

// Transaction barriers and the bulk engine
struct alignas(64) ac_tensor_map {
  unsigned char *data;
  long dims[5], strides[5];  // elements; bytes
  int box[5], steps[5], rank, size, swizzle;
};
void simt_barrier_init(unsigned char *b, int count);
void simt_barrier_init_fence();
void simt_barrier_expect(unsigned char *b, int bytes);
void simt_barrier_arrive(unsigned char *b);
void simt_barrier_arrive_far(unsigned char *b);  // of another block of the cluster
void simt_barrier_wait(unsigned char *b, unsigned parity);
void simt_send(unsigned char *to, const void *from, unsigned char *b);  // 16 bytes
void simt_bulk_load(unsigned char *to, const ac_tensor_map *m, unsigned char *b, const int *at);
void simt_bulk_run(unsigned char *to, const void *from, int bytes, unsigned char *b);
// what threads write into shared memory is seen by the bulk engine and by warpgroup products behind a fence of the writing warp
void simt_fenced();
// matrix loads whose values nobody has used yet are under way until the warp meets a fence or arrives at a barrier in shared memory
void simt_asked(const unsigned char *piece);
// what a lane of the calling wave does in shared memory by an instruction of the whole wave; accesses of threads are seen by themselves
void simt_lane_touched(int lane, const void *p, int bytes, bool write);
void simt_touched(const void *p, long bytes, bool write);
void simt_bulk_store(const ac_tensor_map *m, unsigned char *from, const int *at);
void simt_bulk_wait(int stores, bool written);  // at most so many are under way: they have read shared memory, or others see what they wrote

// Products of a team: queued, grouped by a commit, done early at once or late at the wait
struct simt_product {
  void *d[128];
  const unsigned *a[128];  // four registers of each thread, read when the product is performed
  unsigned long long at, bt;
  bool registers, fresh;
  void (*run)(const simt_product &);
  int (*places)(const simt_product &, long *at);  // where it reads shared memory, 16 bytes each
  unsigned number;
  std::vector<bool> spoilt;  // bytes of shared memory that may be written while it reads them
};
constexpr int SIMT_PLACES = 1024;
void simt_team_fence();
void simt_team_product(const simt_product &p);
void simt_team_commit();
void simt_team_wait(int groups);

// Tensor memory of a block, words by lane and column, and the products that one thread issues into it: done in their order, early at once or
// late when a barrier is waited for at which a commit behind them arrives. `places`: as of simt_product
constexpr int SIMT_LANES = 128, SIMT_COLUMNS = 512;
struct simt_tensor_product {
  unsigned at, how;  // the first column; the instruction's descriptor
  unsigned long long a, b;
  bool keep;
  int columns;
  void (*run)(const simt_tensor_product &, uint32_t (*memory)[SIMT_COLUMNS]);
  int (*places)(const simt_tensor_product &, long *at);
};
void simt_tensor_alloc(unsigned char *place, int columns);  // by a warp, as the next two
void simt_tensor_free(unsigned at, int columns);
void simt_tensor_load(unsigned at, int columns, uint32_t *row);
void simt_tensor_fence(bool after);
void simt_tensor_product_of(const simt_tensor_product &p);
void simt_tensor_commit(unsigned char *b);

// Flags in global memory: set by a release, taken and cleared by an acquire
void simt_flag_set(unsigned *f);
void simt_flag_take(unsigned *f);

int simt_rank();  // of the block in its cluster, whose blocks run together
int simt_shared_bytes();  // of one block
// ordered: blocks by their numbers; overlaps: global memory that launches write may not be touched before they have been waited for;
// sample: only so many clusters are run, at the begin and at the end of the grid; 0 for all, and those that are ordered always
struct simt_launch { unsigned grid[3]; int block, wave, shared, late, cluster, ordered, overlaps, sample; };
void simt_launch_wait();
const char *simt_run(const simt_launch *l, void **arguments, void (*kernel)(void **));

template <class T> T simt_argument(void *p) {
  if constexpr (std::is_pointer_v<T>) return static_cast<T>(p);
  else return *static_cast<T *>(p);
}
template <class... A, size_t... I> void simt_call(void (*f)(A...), void **p, std::index_sequence<I...>) { f(simt_argument<A>(p[I])...); }
template <class... A> void simt_call(void (*f)(A...), void **p) { simt_call(f, p, std::index_sequence_for<A...>{}); }
#define SIMT_KERNEL(name) \
  extern "C" const char *run_##name(const simt_launch *l, void **a) { return simt_run(l, a, [](void **p) { simt_call(name, p); }); }

// ---- half types, by their bits
struct simt_f16 { uint16_t bits; };
struct simt_bf16 { uint16_t bits; };
inline float simt_float(uint32_t bits) { float x; __builtin_memcpy(&x, &bits, 4); return x; }
inline uint32_t simt_bits(float x) { uint32_t b; __builtin_memcpy(&b, &x, 4); return b; }
inline float simt_widen(simt_bf16 x) { return simt_float(uint32_t(x.bits) << 16); }
inline float simt_widen(simt_f16 x) {
  const uint32_t sign = uint32_t(x.bits & 0x8000) << 16, rest = x.bits & 0x7fff;
  if (rest >= 0x7c00) return simt_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  return simt_float(sign | simt_bits(simt_float(rest << 13) * 0x1p112f));  // the exponents' biases differ by 112
}
inline simt_bf16 simt_narrow_bf16(float x) {
  const uint32_t b = simt_bits(x);
  if (x != x) return {uint16_t(b >> 16 | 0x40)};
  return {uint16_t((b + 0x7fff + (b >> 16 & 1)) >> 16)};
}
inline simt_f16 simt_narrow_f16(float x) {
  const uint32_t sign = simt_bits(x) >> 16 & 0x8000, b = simt_bits(x) & 0x7fffffff;
  if (b > 0x7f800000) return {uint16_t(sign | 0x7e00)};
  if (b >= 0x477ff000) return {uint16_t(sign | 0x7c00)};  // rounds to 2^16 or more
  if (b < 0x38800000) return {uint16_t(sign | simt_bits(simt_float(b) + 0.5f) - 0x3f000000)};  // 0.5's last place is 2^-24
  return {uint16_t(sign | (b + 0xfff + (b >> 13 & 1) - 0x38000000) >> 13)};
}
inline float __int_as_float(int x) { return simt_float(uint32_t(x)); }
inline int __float_as_int(float x) { return int(simt_bits(x)); }
inline double __longlong_as_double(long long x) { double r; __builtin_memcpy(&r, &x, 8); return r; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

template <class T> T simt_shuffle_xor(T x, int mask) {
  struct Mine { T in, out; int mask; } mine{x, x, mask};
  simt_wave(1, &mine, [](void **a, int lanes) {
    for (int i = 0; i < lanes; ++i) {
      Mine &m = *static_cast<Mine *>(a[i]);
      if (m.mask != static_cast<Mine *>(a[0])->mask) simt_fail("lanes exchange with different masks");
      m.out = static_cast<Mine *>(a[(i ^ m.mask) % lanes])->in;
    }
  });
  return mine.out;
}

// The compiler tells of every access of a kernel (-fsanitize=thread, with the model's own functions), but not of what libraries do
inline void *simt_memcpy(void *to, const void *from, size_t bytes) {
  simt_touched(from, long(bytes), false);
  simt_touched(to, long(bytes), true);
  return __builtin_memcpy(to, from, bytes);
}
inline void *simt_memset(void *to, int value, size_t bytes) {
  simt_touched(to, long(bytes), true);
  return __builtin_memset(to, value, bytes);
}
#ifndef SIMT_MODEL
#define memcpy simt_memcpy
#define memset simt_memset
#endif
