// The CUDA target's device header on the CPU model: same names, same meanings (PTX ISA), no PTX.
#pragma once
#include "simt_model.h"

#define AC_WAVE 32
typedef simt_f16 f16;
typedef simt_bf16 bf16;
#define AC_DEVICE static inline
#define AC_APART static
AC_DEVICE float ac_max(float a, float b) { return a > b || a != a ? a : b; }
AC_DEVICE float ac_min(float a, float b) { return a < b || a != a ? a : b; }
AC_DEVICE float ac_select(bool c, float a, float b) { return c ? a : b; }
AC_DEVICE int ac_alone(int x) { return x; }
AC_DEVICE long long ac_here(long long x) { return x; }
AC_DEVICE float ac_ex2(float x) { return exp2f(x); }
AC_DEVICE float ac_reciprocal(float x) { return 1.0f / x; }
AC_DEVICE float ac_rsqrt_half(float x) { return rsqrtf(x); }
AC_DEVICE float ac_widen(f16 x) { return simt_widen(x); }
AC_DEVICE float ac_widen(bf16 x) { return simt_widen(x); }
AC_DEVICE f16 ac_narrow_f16(float x) { return simt_narrow_f16(x); }
AC_DEVICE bf16 ac_narrow_bf16(float x) { return simt_narrow_bf16(x); }
AC_DEVICE float ac_to_tf32(float x) { return simt_float((simt_bits(x) + 0x1000) & ~0x1fffu); }
#include "autocomp_simt.h"
AC_DEVICE int ac_cluster_rank() { return simt_rank(); }
AC_DEVICE void ac_cluster_sync() {
  simt_cluster_arrive();
  simt_cluster_wait();
}
AC_DEVICE unsigned char *ac_own_memory(unsigned char *p) { return p + long(simt_rank()) * simt_shared_bytes(); }
template <class T> AC_DEVICE T ac_peer(const T *p, int rank) {
  return *reinterpret_cast<const T *>(reinterpret_cast<const unsigned char *>(p) + long(rank - simt_rank()) * simt_shared_bytes());
}

AC_DEVICE void ac_launch_wait() { simt_launch_wait(); }
AC_DEVICE void ac_launch_next() {}
AC_DEVICE void ac_sync() { __syncthreads(); }
AC_DEVICE void ac_wave_sync() { simt_wave_sync(); }
template <class T> AC_DEVICE T ac_shuffle_xor(T x, int mask) { return simt_shuffle_xor(x, mask); }
// threads run one after the other here; atomics are no accesses that another thread must be ordered with
template <int N, class T> SIMT_ARITHMETIC void ac_add_to(T *p, const T *x) {
  for (int i = 0; i < N; ++i) p[i] = T(p[i] + x[i]);
}
AC_DEVICE int ac_wave_sum(int x) {
  for (int m = 1; m < AC_WAVE; m *= 2) x += simt_shuffle_xor(x, m);
  return x;
}
AC_DEVICE int ac_uniform(int x) { return x; }
typedef unsigned ac_lanes;
AC_DEVICE ac_lanes ac_holds(bool x) {
  ac_lanes lanes = x ? 1u << (threadIdx.x % AC_WAVE) : 0;
  for (int mask = 1; mask < AC_WAVE; mask *= 2) lanes |= simt_shuffle_xor(lanes, mask);
  return lanes;
}
AC_DEVICE int ac_lowest(ac_lanes x) { return __builtin_ctz(x); }
AC_DEVICE int ac_how_many(ac_lanes x) { return __builtin_popcount(x); }
AC_DEVICE bool ac_any(bool x) { return ac_holds(x) != 0; }

// ---- copies into shared memory
template <int BYTES, class S> AC_DEVICE void ac_copy(unsigned char *to, const S *from, bool inside) {
  if constexpr (BYTES >= 4) simt_copy(to, from, BYTES, inside);
  else if (inside) memcpy(to, from, BYTES);
  else memset(to, 0, BYTES);
}
template <int BYTES, class S> AC_DEVICE void ac_copy_kept(unsigned char *to, const S *from, bool inside) { ac_copy<BYTES>(to, from, inside); }
AC_DEVICE void ac_commit() { simt_commit(); }
template <int N> AC_DEVICE void ac_wait() { simt_wait(N); }

// ---- ldmatrix, stmatrix: lane 8 i + r names row r of the i-th 8 x 8 matrix
struct ac_rows { const unsigned char *row; unsigned r[4]; };
// the eight rows of a matrix are moved at once: 16 bytes each, so they must lie in eight different groups of four banks (or be one)
AC_DEVICE void ac_check_banks(void **a, int matrix) {
  const unsigned char *of[8] = {};
  for (int r = 0; r < 8; ++r) {
    const unsigned char *row = static_cast<ac_rows *>(a[8 * matrix + r])->row;
    if ((row - smem) % 16) simt_fail("a misaligned row of a matrix in shared memory");
    const unsigned char *&there = of[(row - smem) / 16 % 8];
    if (there && there != row) simt_fail("two rows of a matrix lie in the same banks");
    there = row;
  }
}
template <int COUNT, bool TURNED> AC_DEVICE void ac_ldmatrix(unsigned (&r)[4], const void *p) {
  ac_rows mine{static_cast<const unsigned char *>(p), {}};
  simt_wave(10 + COUNT + 8 * TURNED, &mine, [](void **a, int lanes) {
    for (int i = 0; i < COUNT; ++i) ac_check_banks(a, i);
    for (int i = 0; i < 8 * COUNT; ++i) {
      simt_asked(static_cast<ac_rows *>(a[i])->row);
      simt_lane_touched(i, static_cast<ac_rows *>(a[i])->row, 16, false);
    }
    for (int lane = 0; lane < lanes; ++lane)
      for (int i = 0; i < COUNT; ++i) {
        uint16_t x[2];
        for (int j = 0; j < 2; ++j) {
          const int row = TURNED ? lane % 4 * 2 + j : lane / 4, col = TURNED ? lane / 4 : lane % 4 * 2 + j;
          memcpy(&x[j], static_cast<ac_rows *>(a[8 * i + row])->row + 2 * col, 2);
        }
        static_cast<ac_rows *>(a[lane])->r[i] = x[0] | unsigned(x[1]) << 16;
      }
  });
  for (int i = 0; i < COUNT; ++i) r[i] = mine.r[i];
}
AC_DEVICE void ac_ldmatrix4(unsigned (&r)[4], const void *p) { ac_ldmatrix<4, false>(r, p); }
AC_DEVICE void ac_ldmatrix4_t(unsigned (&r)[4], const void *p) { ac_ldmatrix<4, true>(r, p); }
#define AC_TWO(name, count, turned) \
  AC_DEVICE void name(unsigned (&a)[2], unsigned (&b)[2], const void *p) { \
    unsigned r[4]; \
    ac_ldmatrix<4, turned>(r, p); \
    a[0] = r[0], a[1] = r[1], b[0] = r[2], b[1] = r[3]; \
  }
AC_TWO(ac_ldmatrix4, 4, false) AC_TWO(ac_ldmatrix4_t, 4, true)
#define AC_ONE(name, turned) \
  AC_DEVICE void name(unsigned (&a)[2], const void *p) { \
    unsigned r[4]; \
    ac_ldmatrix<2, turned>(r, p); \
    a[0] = r[0], a[1] = r[1]; \
  }
AC_ONE(ac_ldmatrix2, false) AC_ONE(ac_ldmatrix2_t, true)
AC_DEVICE void ac_stmatrix4(unsigned char *p, const unsigned (&r)[4]) {
  ac_rows mine{p, {r[0], r[1], r[2], r[3]}};
  simt_wave(30, &mine, [](void **a, int lanes) {
    for (int i = 0; i < 4; ++i) ac_check_banks(a, i);
    for (int i = 0; i < 32; ++i) simt_lane_touched(i, static_cast<ac_rows *>(a[i])->row, 16, true);
    for (int lane = 0; lane < lanes; ++lane)
      for (int i = 0; i < 4; ++i) {
        unsigned char *row = const_cast<unsigned char *>(static_cast<ac_rows *>(a[8 * i + lane / 4])->row);
        memcpy(row + lane % 4 * 4, &static_cast<ac_rows *>(a[lane])->r[i], 4);
      }
  });
}
AC_DEVICE void ac_stmatrix4_t(unsigned char *p, const unsigned (&r)[4]) {
  ac_rows mine{p, {r[0], r[1], r[2], r[3]}};
  simt_wave(31, &mine, [](void **a, int lanes) {
    for (int i = 0; i < 4; ++i) ac_check_banks(a, i);
    for (int i = 0; i < 32; ++i) simt_lane_touched(i, static_cast<ac_rows *>(a[i])->row, 16, true);
    for (int lane = 0; lane < lanes; ++lane)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j) {
          unsigned char *row = const_cast<unsigned char *>(static_cast<ac_rows *>(a[8 * i + lane % 4 * 2 + j])->row);
          const uint16_t half = uint16_t(static_cast<ac_rows *>(a[lane])->r[i] >> 16 * j);
          memcpy(row + lane / 4 * 2, &half, 2);
        }
  });
}

// ---- products: c[row][col] += sum over 16 steps; element order of a register pair is low half first
template <class T> AC_DEVICE float ac_half(unsigned r, int i) { return simt_widen(T{uint16_t(r >> 16 * i)}); }
struct ac_factors { float *c; const unsigned *a, *b; };
template <class T> SIMT_ARITHMETIC AC_DEVICE void ac_mma(void **all, int lanes) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < lanes; ++lane) {
    const ac_factors &f = *static_cast<ac_factors *>(all[lane]);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 2; ++j) a[lane / 4 + i % 2 * 8][lane % 4 * 2 + j + i / 2 * 8] = ac_half<T>(f.a[i], j);
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) b[lane % 4 * 2 + j + i * 8][lane / 4] = ac_half<T>(f.b[i], j);
  }
  for (int lane = 0; lane < lanes; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
      float sum = static_cast<ac_factors *>(all[lane])->c[i];
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][col];
      static_cast<ac_factors *>(all[lane])->c[i] = sum;
    }
}
AC_DEVICE void ac_mma_f16(float *c, const unsigned (&a)[4], const unsigned (&b)[2]) {
  ac_factors mine{c, a, b};
  simt_wave(40, &mine, ac_mma<f16>);
}
AC_DEVICE void ac_mma_bf16(float *c, const unsigned (&a)[4], const unsigned (&b)[2]) {
  ac_factors mine{c, a, b};
  simt_wave(41, &mine, ac_mma<bf16>);
}

// elements of T, 4 / sizeof(T) a register, over K steps: a register holds neighbours in depth, half of the depth lies K / 2 behind
struct ac_products { void *c; const unsigned *a, *b; };
template <class A, class B, class C, int K> SIMT_ARITHMETIC AC_DEVICE void ac_mma_words(void **all, int lanes) {
  C a[16][K], b[K][8];
  constexpr int per = 4 / sizeof(A);
  const auto element = [](auto t, const unsigned *r, int i, int j) { memcpy(&t, reinterpret_cast<const char *>(r + i) + j * sizeof t, sizeof t); return C(t); };
  for (int lane = 0; lane < lanes; ++lane) {
    const ac_products &f = *static_cast<ac_products *>(all[lane]);
    for (int j = 0; j < per; ++j) {
      for (int i = 0; i < 4; ++i) a[lane / 4 + i % 2 * 8][lane % 4 * per + j + i / 2 * K / 2] = element(A(), f.a, i, j);
      for (int i = 0; i < 2; ++i) b[lane % 4 * per + j + i * K / 2][lane / 4] = element(B(), f.b, i, j);
    }
  }
  for (int lane = 0; lane < lanes; ++lane)
    for (int i = 0; i < 4; ++i) {
      C &c = static_cast<C *>(static_cast<ac_products *>(all[lane])->c)[i];
      for (int k = 0; k < K; ++k) c += a[lane / 4 + i / 2 * 8][k] * b[k][lane % 4 * 2 + i % 2];
    }
}
#define AC_MMA_WORDS(name, A, B, C, K, tag) \
  AC_DEVICE void name(C *c, const unsigned (&a)[4], const unsigned (&b)[2]) { \
    ac_products mine{c, a, b}; \
    simt_wave(tag, &mine, ac_mma_words<A, B, C, K>); \
  }
AC_MMA_WORDS(ac_mma_s8, signed char, signed char, int, 32, 42) AC_MMA_WORDS(ac_mma_u8, unsigned char, unsigned char, int, 32, 43)
AC_MMA_WORDS(ac_mma_s8_u8, signed char, unsigned char, int, 32, 45) AC_MMA_WORDS(ac_mma_u8_s8, unsigned char, signed char, int, 32, 46)
AC_MMA_WORDS(ac_mma_tf32, float, float, float, 8, 44)
// doubles: a lane has H rows of the first factor, eight apart, and K / 4 neighbours in depth
struct ac_wide_products { double *c; const double *a, *b; };
template <int H, int K> SIMT_ARITHMETIC AC_DEVICE void ac_mma_doubles(void **all, int lanes) {
  double a[8 * H][K], b[K][8];
  constexpr int deep = K / 4;
  for (int lane = 0; lane < lanes; ++lane) {
    const ac_wide_products &f = *static_cast<ac_wide_products *>(all[lane]);
    for (int i = 0; i < H * deep; ++i) a[lane / 4 + i / deep * 8][lane % 4 * deep + i % deep] = f.a[i];
    for (int i = 0; i < deep; ++i) b[lane % 4 * deep + i][lane / 4] = f.b[i];
  }
  for (int lane = 0; lane < lanes; ++lane)
    for (int i = 0; i < 2 * H; ++i) {
      double &c = static_cast<ac_wide_products *>(all[lane])->c[i];
      for (int k = 0; k < K; ++k) c += a[lane / 4 + i / 2 * 8][k] * b[k][lane % 4 * 2 + i % 2];
    }
}
AC_DEVICE void ac_mma_f64(double *c, const double (&a)[4], const double (&b)[2]) {
  ac_wide_products mine{c, a, b};
  simt_wave(47, &mine, ac_mma_doubles<2, 8>);
}
AC_DEVICE void ac_mma_f64_m8(double *c, const double (&a)[1], const double (&b)[1]) {
  ac_wide_products mine{c, a, b};
  simt_wave(48, &mine, ac_mma_doubles<1, 4>);
}

AC_DEVICE int ac_dp4a_s8(int c, unsigned a, unsigned b) { for (int i = 0; i < 4; ++i) c += (signed char)(a >> 8 * i) * (signed char)(b >> 8 * i); return c; }
AC_DEVICE int ac_dp4a_u8(int c, unsigned a, unsigned b) { for (int i = 0; i < 4; ++i) c += (unsigned char)(a >> 8 * i) * (unsigned char)(b >> 8 * i); return c; }

// ---- warpgroups with roles
template <int N> AC_DEVICE void ac_registers_claim() {}
template <int N> AC_DEVICE void ac_registers_release() {}
AC_DEVICE void ac_barrier_sync(int id, int threads) { simt_barrier(id, threads); }
AC_DEVICE void ac_barrier_pass(int id, int threads) { simt_barrier_pass(id, threads); }
AC_DEVICE bool ac_barrier_any(int id, int threads, bool x) {
  static bool votes[16 * 16];  // of a block of the cluster, of a barrier
  bool &vote = votes[16 * simt_rank() + id];
  simt_barrier(id, threads);  // nobody reads the last vote any more
  vote = false;
  simt_barrier(id, threads);
  vote |= x;
  simt_barrier(id, threads);
  return vote;
}
AC_DEVICE void ac_barrier_init(unsigned char *b, int count) { simt_barrier_init(b, count); }
AC_DEVICE void ac_barrier_fence() { simt_barrier_init_fence(); }
AC_DEVICE void ac_barrier_expect(unsigned char *b, int bytes) { simt_barrier_expect(b, bytes); }
AC_DEVICE void ac_barrier_arrive(unsigned char *b) { simt_barrier_arrive(b); }
AC_DEVICE void ac_barrier_wait(unsigned char *b, unsigned parity) { simt_barrier_wait(b, parity); }
template <class... I> AC_DEVICE void ac_bulk_load(unsigned char *to, const ac_tensor_map *m, unsigned char *b, I... at) {
  const int list[] = {at...};
  if (sizeof...(at) != m->rank) simt_fail("a bulk copy's rank is not its descriptor's");
  simt_bulk_load(to, m, b, list);
}
template <class T> AC_DEVICE void ac_bulk_run(unsigned char *to, const T *from, int bytes, unsigned char *b) { simt_bulk_run(to, from, bytes, b); }
template <class... I> AC_DEVICE void ac_bulk_load_once(unsigned char *to, const ac_tensor_map *m, unsigned char *b, I... at) { ac_bulk_load(to, m, b, at...); }
template <int N, class... I> AC_DEVICE void ac_bulk_load_all(unsigned char *to, const ac_tensor_map *m, unsigned char *b, I... at) {
  for (int rank = 0; rank < N; ++rank) {
    const long off = long(rank - simt_rank()) * simt_shared_bytes();
    ac_bulk_load(to + off, m, b + off, at...);
  }
}
AC_DEVICE void ac_barrier_arrive_at(unsigned char *b, int rank) { simt_barrier_arrive_far(b + long(rank - simt_rank()) * simt_shared_bytes()); }
#define __threadfence()
AC_DEVICE void ac_leave(unsigned char *to, const float *x) {
  *reinterpret_cast<ac_four *>(to) = {{x[0], x[1], x[2], x[3]}};
}
AC_DEVICE void ac_add_left(const unsigned char *from, float *x) {
  for (int i = 0; i < 4; ++i) x[i] += reinterpret_cast<const ac_four *>(from)->x[i];
}
AC_DEVICE void ac_flag_set(unsigned *f) { simt_flag_set(f); }
AC_DEVICE void ac_flag_take(unsigned *f) { simt_flag_take(f); }
AC_DEVICE void ac_cluster_arrive() { simt_cluster_arrive(); }
AC_DEVICE void ac_cluster_wait() { simt_cluster_wait(); }
AC_DEVICE void ac_send(unsigned char *to, int rank, const float *x, unsigned char *b) {
  const long off = long(rank - simt_rank()) * simt_shared_bytes();
  simt_send(to + off, x, b + off);
}
AC_DEVICE void ac_barrier_wait_far(unsigned char *b, unsigned parity) { simt_barrier_wait(b, parity); }
template <class... I> AC_DEVICE void ac_bulk_store(const ac_tensor_map *m, unsigned char *from, I... at) {
  const int list[] = {at...};
  if (sizeof...(at) != m->rank) simt_fail("a bulk copy's rank is not its descriptor's");
  simt_bulk_store(m, from, list);
}
template <int N> AC_DEVICE void ac_bulk_wait() { simt_bulk_wait(N, false); }
AC_DEVICE void ac_bulk_drain() { simt_bulk_wait(0, true); }
AC_DEVICE void ac_async_fence() { simt_fenced(); }
AC_DEVICE void ac_map_ask(const ac_tensor_map *) {}
AC_DEVICE void ac_team_fence() { simt_team_fence(); }
AC_DEVICE void ac_team_commit() { simt_team_commit(); }
template <int N> AC_DEVICE void ac_team_wait() { simt_team_wait(N); }
template <int N> AC_DEVICE void ac_keep(float (&)[N]) {}
template <int N> AC_DEVICE void ac_keep(int (&)[N]) {}
template <int N> AC_DEVICE void ac_keep(unsigned (&)[N]) {}
AC_DEVICE unsigned long long ac_descriptor(const unsigned char *p, int lead, int stride) {
  return (unsigned long long)(p - smem) | (unsigned long long)lead << 20 | (unsigned long long)stride << 40;
}
template <int SWIZZLE> AC_DEVICE unsigned long long ac_descriptor_of(const unsigned char *p, int lead, int stride) {
  return ac_descriptor(p, lead, stride) | (SWIZZLE == 128 ? 0ull : SWIZZLE == 64 ? 1ull : SWIZZLE == 32 ? 2ull : 3ull) << 60;
}
AC_DEVICE unsigned long long ac_descriptor_at(unsigned long long first, unsigned way) { return first + way * 16; }
AC_DEVICE unsigned long long ac_descriptor_beside(unsigned long long first, unsigned way) { return first + way * 16 - (way * 16ull << 20); }
AC_DEVICE unsigned long long ac_descriptor_second(unsigned long long first) { return first + (first >> 20 & 0xfffff); }
template <unsigned BITS, int N> AC_DEVICE bool ac_halves_above(const unsigned (&x)[N]) {
  bool any = false;
  for (unsigned w : x) any |= (w & 0xffff) > BITS || w >> 16 > BITS;
  return any;
}
template <unsigned BITS, int N> AC_DEVICE bool ac_rows_reach(const unsigned (&x)[N]) {
  int reach[2] = {};
  for (int i = 0; i < N; ++i) reach[i % 2] |= (x[i] & 0xffff) >= BITS || x[i] >> 16 >= BITS;
  for (int &row : reach) {
    row |= ac_shuffle_xor(row, 1);
    row |= ac_shuffle_xor(row, 2);
  }
  return !ac_any(!reach[0] || !reach[1]);
}
template <class T, int BYTES> AC_DEVICE void ac_scale(unsigned char *p, float by) {
  for (int i = threadIdx.x % 128; i < BYTES / int(sizeof(T)); i += 128) {
    T &x = reinterpret_cast<T *>(p)[i];
    x = ac_stored<T>(ac_widen(x) * by);
  }
}
// element (i along m or n, step) of a factor: rows of 128, 64 or 32 bytes, chunks permuted by the address's bits from 7 on; or rows of 16
// bytes as they are, the next 16 in depth `lead` further on
AC_DEVICE float ac_number(f16 x) { return simt_widen(x); }
AC_DEVICE float ac_number(bf16 x) { return simt_widen(x); }
AC_DEVICE float ac_number(ac_tf32 x) { return simt_float(simt_bits(x.value) & ~0x1fffu); }  // the last 13 bits are not read
template <class T> AC_DEVICE auto ac_number(T x) { return ac_held(x); }
template <class T, bool DEEP> SIMT_ARITHMETIC AC_DEVICE long ac_factor_at(unsigned long long where, int i, int step) {
  const long start = where & 0xfffff, lead = where >> 20 & 0xfffff, stride = where >> 40 & 0xfffff;
  const int swizzle[] = {128, 64, 32, 16}, row = swizzle[where >> 60];
  const long way = step * long(sizeof(T)), along = row == 16 ? way / 16 * lead + way % 16 : way;
  long at = DEEP ? start + i / 8 * stride + i % 8 * row + along : start + step / 8 * stride + step % 8 * 128 + i / 64 * lead + i % 64 * 2;
  return at ^ (at >> 7 & (row / 16 - 1)) << 4;
}
template <class T, bool DEEP> SIMT_ARITHMETIC AC_DEVICE auto ac_factor(const simt_product &p, unsigned long long where, int i, int step) {
  T x;
  const long at = ac_factor_at<T, DEEP>(where, i, step);
  __builtin_memcpy(&x, smem + at, sizeof x);
  for (size_t i = 0; i < sizeof x && !p.spoilt.empty(); ++i)
    if (p.spoilt[at + i]) __builtin_memset(&x, 0xff, sizeof x);
  return ac_number(x);
}
// the 16-byte pieces of a factor: neighbours in depth, or along m or n
template <class T, bool DEEP, int K> SIMT_ARITHMETIC AC_DEVICE long *ac_factor_places(unsigned long long where, int along, long *at) {
  constexpr int piece = 16 / sizeof(T);
  for (int i = 0; i < along; i += DEEP ? 1 : piece)
    for (int step = 0; step < K; step += DEEP ? piece : 1) *at++ = ac_factor_at<T, DEEP>(where, i, step);
  return at;
}
template <int N, class A, class B, bool A_DEEP, bool B_DEEP> SIMT_ARITHMETIC AC_DEVICE int ac_team_places(const simt_product &p, long *at) {
  constexpr int K = 32 / sizeof(A);
  long *end = p.registers ? at : ac_factor_places<A, A_DEEP, K>(p.at, 64, at);
  return int(ac_factor_places<B, B_DEEP, K>(p.bt, N, end) - at);
}
template <int N, class A, class B, class C, bool A_DEEP, bool B_DEEP> SIMT_ARITHMETIC AC_DEVICE void ac_team_run(const simt_product &p) {
  constexpr int K = 32 / sizeof(A), per = 4 / sizeof(A);  // steps of one issue, elements of a register
  static_assert(sizeof(A) == sizeof(B) && (sizeof(A) == 2 || (A_DEEP && B_DEEP)), "bytes lie along the depth");
  static C a[64][K], b[N][K];
  for (int lane = 0; p.registers && lane < 128; ++lane)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < per; ++j) {
        A x;
        memcpy(&x, reinterpret_cast<const char *>(&p.a[lane][i]) + j * sizeof x, sizeof x);
        a[lane / 32 * 16 + lane % 32 / 4 + i % 2 * 8][lane % 4 * per + j + i / 2 * (K / 2)] = ac_number(x);
      }
  for (int k = 0; k < K; ++k) {
    for (int m = 0; !p.registers && m < 64; ++m) a[m][k] = ac_factor<A, A_DEEP>(p, p.at, m, k);
    for (int n = 0; n < N; ++n) b[n][k] = ac_factor<B, B_DEEP>(p, p.bt, n, k);
  }
  for (int lane = 0; lane < 128; ++lane)
    for (int i = 0; i < N / 2; ++i) {
      const int row = lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8, col = i / 4 * 8 + lane % 4 * 2 + i % 2;
      C &d = static_cast<C *>(p.d[lane])[i];
      C sum = p.fresh ? C(0) : d;
      for (int k = 0; k < K; ++k) sum += a[row][k] * b[col][k];
      d = sum;
    }
}
struct ac_team_factors {
  int keep;
  void *d;
  const unsigned *a;
  unsigned long long at, bt;
  void (*run)(const simt_product &);
  int (*places)(const simt_product &, long *);
};
AC_DEVICE void ac_team_start(void **all, int lanes) {
  simt_product p{};
  const ac_team_factors &first = *static_cast<ac_team_factors *>(all[0]);
  p.fresh = !first.keep, p.registers = first.a != nullptr, p.at = first.at, p.bt = first.bt, p.run = first.run;
  p.places = first.places;
  for (int lane = 0; lane < lanes; ++lane) {
    const ac_team_factors &f = *static_cast<ac_team_factors *>(all[lane]);
    if (f.run != p.run || f.bt != p.bt || f.at != p.at || !f.keep != p.fresh) simt_fail("warps of a team name different factors");
    p.d[lane] = f.d;
    p.a[lane] = f.a;
  }
  simt_team_product(p);
}
#define AC_TEAM_SHARED(name, n, A, B, C, ta, tb) \
  AC_DEVICE void name(int keep, C *d, unsigned long long a, unsigned long long b) { \
    ac_team_factors mine{keep, d, nullptr, a, b, ac_team_run<n, A, B, C, !ta, !tb>, ac_team_places<n, A, B, !ta, !tb>}; \
    simt_team(50, &mine, ac_team_start); \
  }
#define AC_TEAM_REGISTERS(name, n, A, B, C, tb) \
  AC_DEVICE void name(int keep, C *d, const unsigned *a, unsigned long long b) { \
    ac_team_factors mine{keep, d, a, 0, b, ac_team_run<n, A, B, C, true, !tb>, ac_team_places<n, A, B, true, !tb>}; \
    simt_team(51, &mine, ac_team_start); \
  }

// ---- tensor memory, and products that one thread issues into it: descriptors by the bits of PTX ISA
template <int COLUMNS> AC_DEVICE void ac_tensor_alloc(unsigned char *place) { simt_tensor_alloc(place, COLUMNS); }
template <int COLUMNS> AC_DEVICE void ac_tensor_free(unsigned at) { simt_tensor_free(at, COLUMNS); }
AC_DEVICE void ac_tensor_before() { simt_tensor_fence(false); }
AC_DEVICE void ac_tensor_after() { simt_tensor_fence(true); }
AC_DEVICE void ac_tensor_commit(unsigned char *b) { simt_tensor_commit(b); }
template <int N, class T> AC_DEVICE void ac_tensor_load(T *x, unsigned at) { simt_tensor_load(at, N, reinterpret_cast<uint32_t *>(x)); }
template <int SWIZZLE> AC_DEVICE unsigned long long ac_tensor_descriptor_of(const unsigned char *p, int lead, int stride) {
  const unsigned long long kind = SWIZZLE == 128 ? 2 : SWIZZLE == 64 ? 4 : 6;
  return (unsigned long long)(p - smem) >> 4 | (unsigned long long)(lead >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 | 1ull << 46 | kind << 61;
}
AC_DEVICE unsigned long long ac_tensor_descriptor(const unsigned char *p, int lead, int stride) { return ac_tensor_descriptor_of<128>(p, lead, stride); }
AC_DEVICE unsigned long long ac_tensor_descriptor_at(unsigned long long first, unsigned way) { return (first & ~0xffffffffull) | ((unsigned)first + way); }
// as ac_factor_at has it: bits 0 to 13, 16 to 29 and 32 to 45 are 16 bytes each, 46 to 48 a constant, 61 to 63 the swizzle
SIMT_ARITHMETIC AC_DEVICE unsigned long long ac_tensor_where(unsigned long long d) {
  const unsigned kind = unsigned(d >> 61);
  if ((d >> 46 & 0x7fff) != 1 || (d & 0xc000c000) || (kind != 2 && kind != 4 && kind != 6)) simt_fail("no descriptor of a factor in shared memory");
  return (d & 0x3fff) << 4 | (d >> 16 & 0x3fff) << 24 | (d >> 32 & 0x3fff) << 44 | (unsigned long long)(kind / 2 - 1) << 60;
}
template <class T, bool DEEP> SIMT_ARITHMETIC AC_DEVICE auto ac_tensor_factor(unsigned long long where, int i, int step) {
  T x;
  __builtin_memcpy(&x, smem + ac_factor_at<T, DEEP>(where, i, step), sizeof x);
  return ac_number(x);
}
template <class A, class B, bool A_DEEP, bool B_DEEP> SIMT_ARITHMETIC AC_DEVICE int ac_tensor_places(const simt_tensor_product &p, long *at) {
  constexpr int K = 32 / sizeof(A);
  long *end = ac_factor_places<A, A_DEEP, K>(ac_tensor_where(p.a), SIMT_LANES, at);
  return int(ac_factor_places<B, B_DEEP, K>(ac_tensor_where(p.b), p.columns, end) - at);
}
template <class A, class B, class C, bool A_DEEP, bool B_DEEP>
SIMT_ARITHMETIC AC_DEVICE void ac_tensor_run(const simt_tensor_product &p, uint32_t (*memory)[SIMT_COLUMNS]) {
  constexpr int K = 32 / sizeof(A);
  static C a[SIMT_LANES][K], b[256][K];
  const unsigned long long at = ac_tensor_where(p.a), bt = ac_tensor_where(p.b);
  for (int k = 0; k < K; ++k) {
    for (int m = 0; m < SIMT_LANES; ++m) a[m][k] = ac_tensor_factor<A, A_DEEP>(at, m, k);
    for (int n = 0; n < p.columns; ++n) b[n][k] = ac_tensor_factor<B, B_DEEP>(bt, n, k);
  }
  for (int m = 0; m < SIMT_LANES; ++m)
    for (int n = 0; n < p.columns; ++n) {
      uint32_t &word = memory[m][(p.at & 0xffff) + n];
      C sum = 0;
      if (p.keep) __builtin_memcpy(&sum, &word, 4);
      for (int k = 0; k < K; ++k) sum += a[m][k] * b[n][k];
      __builtin_memcpy(&word, &sum, 4);
    }
}
// the instruction's descriptor says types and majors: bits 4, 7, 10; 15, 16; 17 to 22 are columns by 8, 24 to 28 rows by 16
template <class A, class B, class C> AC_DEVICE void ac_tensor_start(unsigned d, unsigned long long a, unsigned long long b, unsigned how, bool keep) {
  simt_tensor_product p{d, how, a, b, keep, int(how >> 17 & 63) * 8, nullptr, nullptr};
  if ((how & 0x2080604f) || how >> 24 != 8 || p.columns % 16 || !p.columns || p.columns > 256 || d >> 16) simt_fail("no descriptor of an instruction");
  const int turned = how >> 15 & 3;
  if constexpr (sizeof(A) == 2) {
    if (turned == 1) p.run = ac_tensor_run<A, B, C, false, true>, p.places = ac_tensor_places<A, B, false, true>;
    if (turned == 2) p.run = ac_tensor_run<A, B, C, true, false>, p.places = ac_tensor_places<A, B, true, false>;
    if (turned == 3) p.run = ac_tensor_run<A, B, C, false, false>, p.places = ac_tensor_places<A, B, false, false>;
  }
  if (!turned) p.run = ac_tensor_run<A, B, C, true, true>, p.places = ac_tensor_places<A, B, true, true>;
  if (!p.run) simt_fail("bytes lie along the depth");
  simt_tensor_product_of(p);
}
#define AC_TENSOR_KIND(A, B, C, sums, first, second) \
  if ((how >> 4 & 3) == sums && (how >> 7 & 7) == first && (how >> 10 & 7) == second) return ac_tensor_start<A, B, C>(d, a, b, how, keep);
#define AC_TENSOR_MMA(kind, cases) \
  AC_DEVICE void ac_tensor_mma_##kind(unsigned d, unsigned long long a, unsigned long long b, unsigned how, bool keep) { \
    cases simt_fail("types that the instruction does not multiply"); \
  }
AC_TENSOR_MMA(f16, AC_TENSOR_KIND(f16, f16, float, 1, 0, 0) AC_TENSOR_KIND(bf16, bf16, float, 1, 1, 1))
AC_TENSOR_MMA(tf32, AC_TENSOR_KIND(ac_tf32, ac_tf32, float, 1, 2, 2))
AC_TENSOR_MMA(f8f6f4, AC_TENSOR_KIND(f8e4m3, f8e4m3, float, 1, 0, 0) AC_TENSOR_KIND(f8e5m2, f8e5m2, float, 1, 1, 1)
  AC_TENSOR_KIND(f8e4m3, f8e5m2, float, 1, 0, 1) AC_TENSOR_KIND(f8e5m2, f8e4m3, float, 1, 1, 0))
AC_TENSOR_MMA(i8, AC_TENSOR_KIND(unsigned char, unsigned char, int, 2, 0, 0) AC_TENSOR_KIND(signed char, signed char, int, 2, 1, 1)
  AC_TENSOR_KIND(unsigned char, signed char, int, 2, 0, 1) AC_TENSOR_KIND(signed char, unsigned char, int, 2, 1, 0))
