// Device building blocks that printed kernels call; each does one thing. sm_80 and newer, compiled by NVRTC or nvcc.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define AC_WAVE 32
typedef __half f16;
typedef __nv_bfloat16 bf16;
#define AC_DEVICE static __device__ __forceinline__
#define AC_APART static __device__ __noinline__ // one copy, called where it is rarely needed
AC_DEVICE float ac_max(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
AC_DEVICE float ac_min(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
// ptxas 13.0 joins two signed maxima (or minima) to one VIMNMX3 and loses the sign of its second operand where that is negated:
// max(max(-a, -b), -c) becomes max(-a, b, -c) on sm_90a. A permutation of bytes that changes nothing keeps what it joins apart.
// the one or the other, both computed: an expression with `?` becomes a jump where an operand is long
AC_DEVICE float ac_select(bool c, float a, float b) {
  float r;
  asm("{ .reg .pred p; setp.ne.s32 p, %3, 0; selp.f32 %0, %1, %2, p; }" : "=f"(r) : "f"(a), "f"(b), "r"(int(c)));
  return r;
}
AC_DEVICE int ac_alone(int x) { int r; asm("prmt.b32 %0, %1, 0, 0x3210;" : "=r"(r) : "r"(x)); return r; }
// a number that is computed here, not behind the next condition where alone it is used: a load with a long address becomes a jump
AC_DEVICE long long ac_here(long long x) { asm("" : "+l"(x)); return x; }
// 2^x by the special function unit: relative error below 2^-22 (PTX ISA, ex2.approx)
AC_DEVICE float ac_ex2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
AC_DEVICE float ac_reciprocal(float x) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
AC_DEVICE float ac_rsqrt_half(float x) { float r; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
AC_DEVICE float ac_widen(f16 x) { return __half2float(x); }
AC_DEVICE float ac_widen(bf16 x) { return __bfloat162float(x); }
AC_DEVICE f16 ac_narrow_f16(float x) { return __float2half_rn(x); }
AC_DEVICE bf16 ac_narrow_bf16(float x) { return __float2bfloat16_rn(x); }
#define AC_BYTE_AS_FLOAT(word, i) __int_as_float(__byte_perm(word, 0x4b000000u, 0x7650u | (i)))
// mma reads the upper 19 bits of a factor's word, as wgmma does where it lies in shared memory: no instruction rounds it before
AC_DEVICE float ac_to_tf32(float x) { return x; }
#define AC_PAIRS
#define AC_ONCE
#define AC_SOON
#include "autocomp_simt.h"
// ---- what is read once: first to leave the caches, which it would else empty of what is read again (PTX ISA, createpolicy)
AC_DEVICE unsigned long long ac_leaves_first() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// words whose lines are the first to leave the core's cache (PTX ISA, cache eviction priority hints)
template <int B> AC_DEVICE ac_pack_of<B / 4, unsigned> ac_words(ac_streamed, const void *p) {
  static_assert(B == 4 || B == 8 || B == 16);
  ac_pack_of<B / 4, unsigned> w;
  if constexpr (B == 16)
    asm volatile("ld.global.L1::evict_first.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(w.v[0]), "=r"(w.v[1]), "=r"(w.v[2]), "=r"(w.v[3]) : "l"(p));
  else if constexpr (B == 8) asm volatile("ld.global.L1::evict_first.v2.u32 {%0,%1}, [%2];" : "=r"(w.v[0]), "=r"(w.v[1]) : "l"(p));
  else asm volatile("ld.global.L1::evict_first.u32 %0, [%1];" : "=r"(w.v[0]) : "l"(p));
  return w;
}
template <int N, class S> AC_DEVICE void ac_load_words_once(unsigned *r, const S *p) {
  static_assert(N * sizeof(S) == 16);
  asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "l"(p), "l"(ac_leaves_first()));
}
template <int N, class R, class S> AC_DEVICE void ac_load_once(R *r, const S *p) {
  unsigned w[4];
  ac_load_words_once<N>(w, p);
  if constexpr (sizeof(S) == 1 && sizeof(R) == 1) memcpy(r, w, N);
  else {
    ac_pack_of<N, S> t;
    memcpy(t.v, w, 16);
#pragma unroll
    for (int i = 0; i < N; ++i) r[i] = ac_held(t.v[i]);
  }
}
// what is used behind a barrier: ptxas moves loads of constants behind it to spare registers, and the latency with them; others stay
template <int N, class S> AC_DEVICE void ac_ask(unsigned *r, const S *p) {
  static_assert(N * sizeof(S) == 16);
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "l"(p));
}
template <int N, class R, class S> AC_DEVICE void ac_load_soon(R *r, const S *p) {
  if constexpr (N * sizeof(S) == 16) {
    unsigned w[4];
    ac_ask<N>(w, p);
    ac_unpack<S, N>(r, w);
  } else {
    ac_load<N>(r, p);
  }
}
// a constant that stays in a register: the third coordinate of a thread is 0, which the compiler does not know
AC_DEVICE unsigned ac_kept(unsigned x) { return x + threadIdx.z; }
AC_DEVICE __half2 ac_as_pair(unsigned x) { return *reinterpret_cast<__half2 *>(&x); }
AC_DEVICE unsigned ac_as_word(__half2 x) { return *reinterpret_cast<unsigned *>(&x); }
AC_DEVICE unsigned ac_pair_add(unsigned a, unsigned b) { return ac_as_word(__hadd2(ac_as_pair(a), ac_as_pair(b))); }
AC_DEVICE unsigned ac_pair_sub(unsigned a, unsigned b) { return ac_as_word(__hsub2(ac_as_pair(a), ac_as_pair(b))); }
AC_DEVICE unsigned ac_pair_mul(unsigned a, unsigned b) { return ac_as_word(__hmul2(ac_as_pair(a), ac_as_pair(b))); }
// fields of byte i of `low` and byte j of `high`, as the mantissas of 1024 + field, times `scale` plus `shift`: three instructions
AC_DEVICE unsigned ac_pair_fields(unsigned low, unsigned high, int i, int j, unsigned mask, unsigned scale, unsigned shift) {
  const unsigned x = __byte_perm(low, high, unsigned(i * 0x11 | (j + 4) * 0x1100));
  return ac_as_word(__hfma2(ac_as_pair((x & mask) | 0x64006400u), ac_as_pair(scale), ac_as_pair(shift)));
}
// fields of bytes i and i + 2 of a word, as `ac_pair_fields`: two instructions, and a shift unless i is 0
AC_DEVICE unsigned ac_pair_apart(unsigned word, int i, unsigned mask, unsigned scale, unsigned shift) {
  return ac_as_word(__hfma2(ac_as_pair((word >> 8 * i & mask) | 0x64006400u), ac_as_pair(scale), ac_as_pair(shift)));
}
// number i of each of two pairs
AC_DEVICE unsigned ac_pair_at(unsigned a, unsigned b, int i) { return __byte_perm(a, b, i ? 0x7632u : 0x5410u); }
AC_DEVICE __nv_bfloat162 ac_as_bf16s(unsigned x) { return *reinterpret_cast<__nv_bfloat162 *>(&x); }
AC_DEVICE unsigned ac_as_word(__nv_bfloat162 x) { return *reinterpret_cast<unsigned *>(&x); }
AC_DEVICE unsigned ac_pair_add_bf16(unsigned a, unsigned b) { return ac_as_word(__hadd2_rn(ac_as_bf16s(a), ac_as_bf16s(b))); }
AC_DEVICE unsigned ac_pair_sub_bf16(unsigned a, unsigned b) { return ac_as_word(__hsub2_rn(ac_as_bf16s(a), ac_as_bf16s(b))); }
AC_DEVICE unsigned ac_pair_mul_bf16(unsigned a, unsigned b) { return ac_as_word(__hmul2_rn(ac_as_bf16s(a), ac_as_bf16s(b))); }
// fields at bits si of byte i of `low` and sj of byte j of `high`, moved to the ends of mantissas, 128 + field, plus `zero`: of one byte four
// instructions
AC_DEVICE unsigned ac_pair_fields_bf16(unsigned low, unsigned high, int i, int j, int si, int sj, unsigned mask, unsigned zero) {
  const unsigned a = __byte_perm(low, 0u, unsigned(0x4440 | i)), b = __byte_perm(high, 0u, unsigned(0x4440 | j));
  return ac_pair_add_bf16((((a >> si) + (b << (16 - sj))) & mask) | 0x43004300u, zero);
}
// fields at bits s of bytes i and i + 2 of a word, as the mantissas of 128 + field, plus `zero`: two instructions, and a shift unless both are 0
AC_DEVICE unsigned ac_pair_apart_bf16(unsigned word, int i, int s, unsigned mask, unsigned zero) {
  return ac_pair_add_bf16((word >> (8 * i + s) & mask) | 0x43004300u, zero);
}

// ---- clusters: blocks that read each other's shared memory (sm_90)
AC_DEVICE int ac_cluster_rank() { int r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
AC_DEVICE void ac_cluster_sync() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
AC_DEVICE unsigned char *ac_own_memory(unsigned char *smem) { return smem; }
// what the block of that rank holds where this one has p
template <class T> AC_DEVICE T ac_peer(const T *p, int rank) {
  unsigned a = unsigned(__cvta_generic_to_shared(p)), b;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(b) : "r"(a), "r"(rank));
  T x;
  if constexpr (sizeof(T) == 8) {
    unsigned long long v;
    asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(v) : "r"(b) : "memory");
    memcpy(&x, &v, 8);
  } else {
    unsigned v;
    if constexpr (sizeof(T) == 4) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(b) : "memory");
    else if constexpr (sizeof(T) == 2) asm volatile("ld.shared::cluster.u16 %0, [%1];" : "=r"(v) : "r"(b) : "memory");
    else asm volatile("ld.shared::cluster.u8 %0, [%1];" : "=r"(v) : "r"(b) : "memory");
    memcpy(&x, &v, sizeof(T));
  }
  return x;
}

// the same in two halves, so that others may still begin while this block works: every thread calls each half once
AC_DEVICE void ac_cluster_arrive() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
AC_DEVICE void ac_cluster_wait() {
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// ---- sums that other blocks of a launch add: 16 bytes a time through memory, then a flag
AC_DEVICE void ac_leave(unsigned char *to, const float *x) { __stcg(reinterpret_cast<float4 *>(to), make_float4(x[0], x[1], x[2], x[3])); }
AC_DEVICE void ac_add_left(const unsigned char *from, float *x) {
  const float4 v = __ldcg(reinterpret_cast<const float4 *>(from));
  x[0] += v.x, x[1] += v.y, x[2] += v.z, x[3] += v.w;
}
AC_DEVICE void ac_flag_set(unsigned *f) { asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(f) : "memory"); }
// waits until the flag is set, and clears it for the next launch
AC_DEVICE void ac_flag_take(unsigned *f) {
  for (unsigned x = 0, n = 0; !x; ++n) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(f) : "memory");
#ifdef AC_WATCHDOG
    if (n > 20000000u) asm volatile("trap;");
#endif
  }
  asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(f) : "memory");
}

// ---- launches that overlap (PTX ISA, griddepcontrol): waits until the launches before this one have ended and what they wrote is
// visible; and lets the next one start its blocks, which wait in turn, as soon as each block of this one has come here
AC_DEVICE void ac_launch_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
AC_DEVICE void ac_launch_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- threads of a block
AC_DEVICE void ac_sync() { __syncthreads(); }
AC_DEVICE void ac_wave_sync() { __syncwarp(); }
// lanes of the wave in which something holds; the first of them
typedef unsigned ac_lanes;
AC_DEVICE ac_lanes ac_holds(bool x) { return __ballot_sync(0xffffffffu, x); }
AC_DEVICE int ac_lowest(ac_lanes x) { return __ffs(x) - 1; }
AC_DEVICE int ac_how_many(ac_lanes x) { return __popc(x); }
AC_DEVICE bool ac_any(bool x) { return __any_sync(0xffffffffu, x); }  // whether it holds in any lane of the wave
// what all lanes hold alike, for the compiler to know it
AC_DEVICE int ac_uniform(int x) { return __shfl_sync(0xffffffffu, x, 0); }
// N neighbours added to memory by atomics, four floats at once where the chip has that
AC_DEVICE long long ac_add_at(long long *p, long long x) { return (long long)atomicAdd((unsigned long long *)p, (unsigned long long)x); }
template <class T> AC_DEVICE T ac_add_at(T *p, T x) { return atomicAdd(p, x); }
template <int N, class T> AC_DEVICE void ac_add_to(T *p, const T *x) {
#if __CUDA_ARCH__ >= 900
  if constexpr (N % 4 == 0 && sizeof(T) == 4 && T(0.5f) != T(0)) {
#pragma unroll
    for (int i = 0; i < N; i += 4) atomicAdd(reinterpret_cast<float4 *>(p + i), float4{x[i], x[i + 1], x[i + 2], x[i + 3]});
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < N; ++i) ac_add_at(p + i, x[i]);
}
AC_DEVICE int ac_wave_sum(int x) { return __reduce_add_sync(0xffffffffu, x); }
template <class T> AC_DEVICE T ac_shuffle_xor(T x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }

AC_DEVICE unsigned ac_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// one chunk of BYTES from global to shared memory, zeros where `inside` is false; 16-byte chunks go asynchronously
template <int BYTES, class S> AC_DEVICE void ac_copy(unsigned char *to, const S *from, bool inside) {
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(ac_address(to)), "l"(from), "r"(inside ? 16 : 0));
  } else if constexpr (BYTES == 8 || BYTES == 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(ac_address(to)), "l"(from), "n"(BYTES), "r"(inside ? BYTES : 0));
  } else {
    typedef ac_pack_of<BYTES / int(sizeof(S)), S> pack;
    pack x;
#pragma unroll
    for (int i = 0; i < BYTES / int(sizeof(S)); ++i) x.v[i] = ac_stored<S>(0.0f);
    if (inside) x = *reinterpret_cast<const pack *>(from);
    *reinterpret_cast<pack *>(to) = x;
  }
}
// the same of what the core reads again: it stays in its cache (PTX ISA, cp.async.ca)
template <int BYTES, class S> AC_DEVICE void ac_copy_kept(unsigned char *to, const S *from, bool inside) {
  static_assert(BYTES == 16);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(ac_address(to)), "l"(from), "r"(inside ? 16 : 0));
}
AC_DEVICE void ac_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> AC_DEVICE void ac_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// ---- matrix units
AC_DEVICE void ac_ldmatrix4(unsigned (&r)[4], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(ac_address(p)));
}
AC_DEVICE void ac_ldmatrix4_t(unsigned (&r)[4], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(ac_address(p)));
}
AC_DEVICE void ac_ldmatrix4(unsigned (&a)[2], unsigned (&b)[2], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(b[0]), "=r"(b[1]) : "r"(ac_address(p)));
}
AC_DEVICE void ac_ldmatrix4_t(unsigned (&a)[2], unsigned (&b)[2], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(b[0]), "=r"(b[1]) : "r"(ac_address(p)));
}
AC_DEVICE void ac_ldmatrix2(unsigned (&r)[2], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(ac_address(p)));
}
AC_DEVICE void ac_ldmatrix2_t(unsigned (&r)[2], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(ac_address(p)));
}
AC_DEVICE void ac_mma_f16(float *c, const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
AC_DEVICE void ac_mma_bf16(float *c, const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#define AC_MMA_INT(name, a_type, b_type) \
  AC_DEVICE void name(int *c, const unsigned (&a)[4], const unsigned (&b)[2]) { \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." a_type "." b_type ".s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
  }
AC_MMA_INT(ac_mma_s8, "s8", "s8") AC_MMA_INT(ac_mma_u8, "u8", "u8") AC_MMA_INT(ac_mma_s8_u8, "s8", "u8") AC_MMA_INT(ac_mma_u8_s8, "u8", "s8")
AC_DEVICE int ac_dp4a_s8(int c, unsigned a, unsigned b) { return __dp4a(int(a), int(b), c); }
AC_DEVICE int ac_dp4a_u8(int c, unsigned a, unsigned b) { return int(__dp4a(a, b, unsigned(c))); }
AC_DEVICE void ac_mma_tf32(float *c, const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
AC_DEVICE void ac_mma_f64_m8(double *c, const double (&a)[1], const double (&b)[1]) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(c[0]), "+d"(c[1]) : "d"(a[0]), "d"(b[0]));
}
// factors lie neighbours in depth first, the instruction wants a row's eighth neighbour first
AC_DEVICE void ac_mma_f64(double *c, const double (&a)[4], const double (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3]) : "d"(a[0]), "d"(a[2]), "d"(a[1]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}
// ---- roles of warpgroups, bulk copies and warpgroup products (sm_90a)
struct alignas(64) ac_tensor_map { unsigned long long words[16]; };
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
template <int N> AC_DEVICE void ac_registers_claim() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> AC_DEVICE void ac_registers_release() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
AC_DEVICE void ac_barrier_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
// a thread that others wait for there, and that does not wait itself
AC_DEVICE void ac_barrier_pass(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
// the same barrier, and whether `x` holds for any of its threads
AC_DEVICE bool ac_barrier_any(int id, int threads, bool x) {
  int any;
  asm volatile("{.reg .pred p, q; setp.ne.b32 p, %3, 0; bar.red.or.pred q, %1, %2, p; selp.b32 %0, 1, 0, q;}"
               : "=r"(any) : "r"(id), "r"(threads), "r"(int(x)) : "memory");
  return any;
}
AC_DEVICE void ac_barrier_init(unsigned char *b, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(ac_address(b)), "r"(count) : "memory"); }
AC_DEVICE void ac_barrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
AC_DEVICE void ac_barrier_expect(unsigned char *b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ac_address(b)), "r"(bytes) : "memory");
}
AC_DEVICE void ac_barrier_arrive(unsigned char *b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(ac_address(b)) : "memory"); }
AC_DEVICE bool ac_barrier_try(unsigned char *b, unsigned parity) {
  unsigned ok;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}" : "=r"(ok) : "r"(ac_address(b)), "r"(parity) : "memory");
  return ok;
}
// with AC_WATCHDOG a wait that never ends becomes an error of the launch
AC_DEVICE void ac_barrier_wait(unsigned char *b, unsigned parity) {
#ifdef AC_WATCHDOG
  for (unsigned n = 0; !ac_barrier_try(b, parity); ++n) if (n > 20000000u) asm volatile("trap;");
#else
  while (!ac_barrier_try(b, parity)) {}
#endif
}
// a descriptor is on its way before the first copy needs it
AC_DEVICE void ac_map_ask(const ac_tensor_map *m) { asm volatile("prefetch.tensormap [%0];" ::"l"(m) : "memory"); }
#define AC_BULK(rank, list) "cp.async.bulk.tensor." rank ".shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {" list "}], [%2];"
AC_DEVICE void ac_bulk_load(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x) {
  asm volatile(AC_BULK("1d", "%3") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "r"(x) : "memory");
}
AC_DEVICE void ac_bulk_load(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x, int y) {
  asm volatile(AC_BULK("2d", "%3,%4") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "r"(x), "r"(y) : "memory");
}
AC_DEVICE void ac_bulk_load(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x, int y, int z) {
  asm volatile(AC_BULK("3d", "%3,%4,%5") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "r"(x), "r"(y), "r"(z) : "memory");
}
AC_DEVICE void ac_bulk_load(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x, int y, int z, int u) {
  asm volatile(AC_BULK("4d", "%3,%4,%5,%6") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "r"(x), "r"(y), "r"(z), "r"(u) : "memory");
}
AC_DEVICE void ac_bulk_load(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x, int y, int z, int u, int v) {
  asm volatile(AC_BULK("5d", "%3,%4,%5,%6,%7") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v) : "memory");
}
// a run of memory, whole 16 bytes at whole 16 bytes
template <class T> AC_DEVICE void ac_bulk_run(unsigned char *to, const T *from, int bytes, unsigned char *b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(ac_address(to)), "l"(from), "r"(bytes), "r"(ac_address(b)) : "memory");
}
// the same for what is read once
#define AC_BULK_ONCE(rank, list, policy) \
  "cp.async.bulk.tensor." rank ".shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {" list "}], [%2], " policy ";"
AC_DEVICE void ac_bulk_load_once(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x) {
  asm volatile(AC_BULK_ONCE("1d", "%3", "%4") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "r"(x), "l"(ac_leaves_first()) : "memory");
}
AC_DEVICE void ac_bulk_load_once(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x, int y) {
  asm volatile(AC_BULK_ONCE("2d", "%3,%4", "%5") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "r"(x), "r"(y), "l"(ac_leaves_first()) : "memory");
}
AC_DEVICE void ac_bulk_load_once(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x, int y, int z) {
  asm volatile(AC_BULK_ONCE("3d", "%3,%4,%5", "%6") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "r"(x), "r"(y), "r"(z), "l"(ac_leaves_first()) : "memory");
}
AC_DEVICE void ac_bulk_load_once(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x, int y, int z, int u) {
  asm volatile(AC_BULK_ONCE("4d", "%3,%4,%5,%6", "%7") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "r"(x), "r"(y), "r"(z), "r"(u), "l"(ac_leaves_first()) : "memory");
}
AC_DEVICE void ac_bulk_load_once(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x, int y, int z, int u, int v) {
  asm volatile(AC_BULK_ONCE("5d", "%3,%4,%5,%6,%7", "%8") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v), "l"(ac_leaves_first()) : "memory");
}
// the same bytes for every block of a cluster of N, each at its own `to`, announced at its own barrier
#define AC_BULK_ALL(rank, list) \
  "cp.async.bulk.tensor." rank ".shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {" list "}], [%2], %3;"
template <int N> AC_DEVICE void ac_bulk_load_all(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x) {
  asm volatile(AC_BULK_ALL("1d", "%4") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "h"((unsigned short)((1 << N) - 1)), "r"(x) : "memory");
}
template <int N> AC_DEVICE void ac_bulk_load_all(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x, int y) {
  asm volatile(AC_BULK_ALL("2d", "%4,%5") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "h"((unsigned short)((1 << N) - 1)), "r"(x), "r"(y) : "memory");
}
template <int N> AC_DEVICE void ac_bulk_load_all(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x, int y, int z) {
  asm volatile(AC_BULK_ALL("3d", "%4,%5,%6") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "h"((unsigned short)((1 << N) - 1)), "r"(x), "r"(y), "r"(z) : "memory");
}
template <int N> AC_DEVICE void ac_bulk_load_all(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x, int y, int z, int u) {
  asm volatile(AC_BULK_ALL("4d", "%4,%5,%6,%7") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "h"((unsigned short)((1 << N) - 1)), "r"(x), "r"(y), "r"(z), "r"(u) : "memory");
}
template <int N> AC_DEVICE void ac_bulk_load_all(unsigned char *to, const ac_tensor_map *m, unsigned char *b, int x, int y, int z, int u, int v) {
  asm volatile(AC_BULK_ALL("5d", "%4,%5,%6,%7,%8") ::"r"(ac_address(to)), "l"(m), "r"(ac_address(b)), "h"((unsigned short)((1 << N) - 1)), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v) : "memory");
}
// one arrival at the barrier that the block of that rank has where this one has b
AC_DEVICE void ac_barrier_arrive_at(unsigned char *b, int rank) {
  unsigned far;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(ac_address(b)), "r"(rank));
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(far) : "memory");
}
// four values to where the block of that rank has what this one has at `to`, counted by its barrier where this one has b
AC_DEVICE void ac_send(unsigned char *to, int rank, const float *x, unsigned char *b) {
  unsigned far, counts;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(ac_address(to)), "r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counts) : "r"(ac_address(b)), "r"(rank));
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];"
               ::"r"(far), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "r"(counts) : "memory");
}
// waits for what other blocks of the cluster send
AC_DEVICE void ac_barrier_wait_far(unsigned char *b, unsigned parity) {
  ac_barrier_wait(b, parity);
  asm volatile("fence.acq_rel.cluster;" ::: "memory");
}
#define AC_BULK_OUT(rank, list) "cp.async.bulk.tensor." rank ".global.shared::cta.bulk_group [%0, {" list "}], [%1]; cp.async.bulk.commit_group;"
AC_DEVICE void ac_bulk_store(const ac_tensor_map *m, unsigned char *from, int x, int y) {
  asm volatile(AC_BULK_OUT("2d", "%2,%3") ::"l"(m), "r"(ac_address(from)), "r"(x), "r"(y) : "memory");
}
AC_DEVICE void ac_bulk_store(const ac_tensor_map *m, unsigned char *from, int x, int y, int z) {
  asm volatile(AC_BULK_OUT("3d", "%2,%3,%4") ::"l"(m), "r"(ac_address(from)), "r"(x), "r"(y), "r"(z) : "memory");
}
AC_DEVICE void ac_bulk_store(const ac_tensor_map *m, unsigned char *from, int x, int y, int z, int u) {
  asm volatile(AC_BULK_OUT("4d", "%2,%3,%4,%5") ::"l"(m), "r"(ac_address(from)), "r"(x), "r"(y), "r"(z), "r"(u) : "memory");
}
AC_DEVICE void ac_bulk_store(const ac_tensor_map *m, unsigned char *from, int x, int y, int z, int u, int v) {
  asm volatile(AC_BULK_OUT("5d", "%2,%3,%4,%5,%6") ::"l"(m), "r"(ac_address(from)), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v) : "memory");
}
// at most N stores still read shared memory; none is under way
template <int N> AC_DEVICE void ac_bulk_wait() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
AC_DEVICE void ac_bulk_drain() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
AC_DEVICE void ac_async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
AC_DEVICE void ac_stmatrix4(unsigned char *p, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(ac_address(p)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
AC_DEVICE void ac_stmatrix4_t(unsigned char *p, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(ac_address(p)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
// where a factor lies: rows of 128 bytes, 128-byte swizzle; lead: bytes to the next box along m or n, stride: bytes to the next 8 rows
AC_DEVICE unsigned long long ac_descriptor(const unsigned char *p, int lead, int stride) {
  return (unsigned long long)((ac_address(p) & 0x3ffff) >> 4) | ((unsigned long long)(lead >> 4) << 16) | ((unsigned long long)(stride >> 4) << 32) | (1ull << 62);
}
// the same in rows of another swizzle's bytes; of 16 bytes without one, where lead is the bytes to the next 16 in depth
template <int SWIZZLE> AC_DEVICE unsigned long long ac_descriptor_of(const unsigned char *p, int lead, int stride) {
  constexpr unsigned long long kind = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;
  return (ac_descriptor(p, lead, stride) & ~(3ull << 62)) | (kind << 62);
}
// the same factor further on, in 16 bytes
AC_DEVICE unsigned long long ac_descriptor_at(unsigned long long first, unsigned way) { return (first & ~0xffffffffull) | ((unsigned)first + way); }
// the same, while a second group of columns stays where it is
AC_DEVICE unsigned long long ac_descriptor_beside(unsigned long long first, unsigned way) { return ac_descriptor_at(first, way - (way << 16)); }
// whether one of the halves, two a word and none negative, is above a limit that its bits say; numbers that are none are
template <unsigned BITS, int N> AC_DEVICE bool ac_halves_above(const unsigned (&x)[N]) {
  unsigned most = x[0];
#pragma unroll
  for (int i = 1; i < N; i += 2) most = __vimax3_u16x2(most, x[i], x[i + 1 < N ? i + 1 : i]);
  return ((most + (0x7fff - BITS) * 0x10001u) & 0x80008000u) != 0;
}
// whether some half reaches BITS in each row of a wave: a thread's words belong to two rows by turns, four lanes have a row
template <unsigned BITS, int N> AC_DEVICE bool ac_rows_reach(const unsigned (&x)[N]) {
  bool all = true;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    unsigned most = x[row];
#pragma unroll
    for (int i = row + 2; i < N; i += 4) most = __vimax3_u16x2(most, x[i], x[i + 2 < N ? i + 2 : i]);
    unsigned lanes = __ballot_sync(0xffffffffu, ((most + (0x8000 - BITS) * 0x10001u) & 0x80008000u) != 0);
    lanes |= lanes >> 1;
    all = all && ((lanes | lanes >> 2) & 0x11111111u) == 0x11111111u;
  }
  return all;
}
AC_DEVICE __half2 ac_twice(f16 x) { return __half2half2(x); }
AC_DEVICE __nv_bfloat162 ac_twice(bf16 x) { return __bfloat162bfloat162(x); }
// numbers of a warpgroup in shared memory times one that two of their type make up, rounded once
template <class T, int BYTES> AC_DEVICE void ac_scale(unsigned char *p, float by) {
  const auto high = ac_twice(ac_stored<T>(by)), low = ac_twice(ac_stored<T>(by - ac_widen(ac_stored<T>(by))));
#pragma unroll
  for (int i = 0; i < BYTES / 2048; ++i) {
    unsigned char *const at = p + (i * 128 + threadIdx.x % 128) * 16;
    ac_pack_of<4, unsigned> w = *reinterpret_cast<ac_pack_of<4, unsigned> *>(at);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      auto x = low;
      memcpy(&x, &w.v[j], 4);
      x = __hfma2(x, high, __hmul2(x, low));
      memcpy(&w.v[j], &x, 4);
    }
    *reinterpret_cast<ac_pack_of<4, unsigned> *>(at) = w;
  }
}
AC_DEVICE void ac_team_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
AC_DEVICE void ac_team_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> AC_DEVICE void ac_team_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// keeps reads and writes of an accumulator on their side of a product
template <int N> AC_DEVICE void ac_keep(unsigned (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(x[i])::"memory");
}
template <int N> AC_DEVICE void ac_keep(int (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(x[i])::"memory");
}
template <int N> AC_DEVICE void ac_keep(float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
// ---- tensor memory, and products that one thread issues into it (sm_100a; PTX: tcgen05). No device has run these
// a warp takes a power of two of columns, whose address it leaves in shared memory; no other warp of the block takes more
template <int COLUMNS> AC_DEVICE void ac_tensor_alloc(unsigned char *place) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(ac_address(place)), "r"(COLUMNS) : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
template <int COLUMNS> AC_DEVICE void ac_tensor_free(unsigned at) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(at), "r"(COLUMNS) : "memory");
}
// what this thread has done there comes before what it tells others; what they told it comes before what it does there
AC_DEVICE void ac_tensor_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
AC_DEVICE void ac_tensor_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
// one arrival at b when all products that this thread has issued are done
AC_DEVICE void ac_tensor_commit(unsigned char *b) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(ac_address(b)) : "memory");
}
// where a factor lies, as ac_descriptor says it: bits 46 to 48 are this instruction's version, 61 to 63 the swizzle
template <int SWIZZLE> AC_DEVICE unsigned long long ac_tensor_descriptor_of(const unsigned char *p, int lead, int stride) {
  constexpr unsigned long long kind = SWIZZLE == 128 ? 2 : SWIZZLE == 64 ? 4 : 6;
  return (unsigned long long)((ac_address(p) & 0x3ffff) >> 4) | (unsigned long long)(lead >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 | 1ull << 46 | kind << 61;
}
AC_DEVICE unsigned long long ac_tensor_descriptor(const unsigned char *p, int lead, int stride) { return ac_tensor_descriptor_of<128>(p, lead, stride); }
AC_DEVICE unsigned long long ac_tensor_descriptor_at(unsigned long long first, unsigned way) { return ac_descriptor_at(first, way); }
// columns from d on += a b, or = a b where `keep` is false; `how`: the instruction's descriptor
#define AC_TENSOR_MMA(kind) \
  AC_DEVICE void ac_tensor_mma_##kind(unsigned d, unsigned long long a, unsigned long long b, unsigned how, bool keep) { \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::" #kind " [%0], %1, %2, %3, p;}" \
                 ::"r"(d), "l"(a), "l"(b), "r"(how), "r"(int(keep)) : "memory"); \
  }
AC_TENSOR_MMA(f16) AC_TENSOR_MMA(tf32) AC_TENSOR_MMA(f8f6f4) AC_TENSOR_MMA(i8)
// a thread's row of N columns, of the 32 rows that its warp may read; they are there behind it
AC_DEVICE void ac_tensor_read(unsigned (&r)[16], unsigned at) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16]; tcgen05.wait::ld.sync.aligned;"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15]) : "r"(at) : "memory");
}
AC_DEVICE void ac_tensor_read(unsigned (&r)[32], unsigned at) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32]; tcgen05.wait::ld.sync.aligned;"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15]), "=r"(r[16]), "=r"(r[17]), "=r"(r[18]), "=r"(r[19]), "=r"(r[20]), "=r"(r[21]), "=r"(r[22]), "=r"(r[23]), "=r"(r[24]), "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]), "=r"(r[30]), "=r"(r[31]) : "r"(at) : "memory");
}
template <int N, class T> AC_DEVICE void ac_tensor_load(T *x, unsigned at) {
  constexpr int part = N < 32 ? N : 32;
  __syncwarp();
#pragma unroll
  for (int first = 0; first < N; first += part) {
    unsigned r[part];
    ac_tensor_read(r, at + first);
#pragma unroll
    for (int i = 0; i < part; ++i) memcpy(&x[first + i], &r[i], 4);
  }
}
#endif
