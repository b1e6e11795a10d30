/* Vectors of elements that memory holds in other types than they are computed in: halves as floats, short integers as 32 bits, booleans as
 * masks. Part of autocomp_cpu.h. Names: v?_load_T, _store_T; v?_strided_T, _scatter_T with a step between elements; the _n forms touch
 * only the first n elements (lanes beyond are 0 after a load), the _where forms only lanes of a mask.
 */
#ifndef AUTOCOMP_CPU_TYPES_H
#define AUTOCOMP_CPU_TYPES_H

#define AC_MEMORY_VECTOR(name, T) typedef T name __attribute__((vector_size(sizeof(T) * AC_LANES), may_alias));
AC_MEMORY_VECTOR(ac_vec_i8, int8_t)
AC_MEMORY_VECTOR(ac_vec_u8, uint8_t)
AC_MEMORY_VECTOR(ac_vec_i16, int16_t)
AC_MEMORY_VECTOR(ac_vec_u16, uint16_t)
AC_MEMORY_VECTOR(ac_vec_u32, uint32_t)

/* The first n elements of 8 or 16 bits, those of a mask, and those that lie `step` apart: zeros elsewhere. */
#if AC_AVX512 /* straight into registers: a masked store that is read again waits for memory */
AC_INLINE __mmask16 ac_first(long n) { return (__mmask16)((1u << n) - 1); }
AC_INLINE __mmask16 ac_lanes_of(vm m) { return _mm512_movepi32_mask((__m512i)m); }
AC_INLINE __m128i ac_get8(const void *p, __mmask16 k) { return _mm_maskz_loadu_epi8(k, p); }
AC_INLINE __m256i ac_get16(const void *p, __mmask16 k) { return _mm256_maskz_loadu_epi16(k, p); }
AC_INLINE void ac_put8(void *p, __m128i x, __mmask16 k) { _mm_mask_storeu_epi8(p, k, x); }
AC_INLINE void ac_put16(void *p, __m256i x, __mmask16 k) { _mm256_mask_storeu_epi16(p, k, x); }
AC_INLINE uint32_t ac_every_other(__mmask16 k) {
#if defined(__BMI2__)
  return _pdep_u32(k, 0x55555555u);
#else
  return (uint32_t)_mm256_movepi8_mask(_mm256_cvtepu8_epi16(_mm_movm_epi8(k)));
#endif
}
AC_INLINE __m128i ac_apart8(const uint8_t *p, long step, __mmask16 k) {
  if (__builtin_constant_p(step) && step == 2)
    return _mm256_cvtepi16_epi8(_mm256_maskz_loadu_epi8(k == 0xffff ? 0x55555555u : ac_every_other(k), p));
  uint8_t b[16] = {0};
  for (long l = 0; l < 16; l++) if (k >> l & 1) b[l] = p[l * step];
  return _mm_loadu_si128((const __m128i *)b);
}
AC_INLINE __m256i ac_apart16(const uint16_t *p, long step, __mmask16 k) {
  if (__builtin_constant_p(step) && step == 2)
    return _mm512_cvtepi32_epi16(_mm512_maskz_loadu_epi16(k == 0xffff ? 0x55555555u : ac_every_other(k), p));
  uint16_t b[16] = {0};
  for (long l = 0; l < 16; l++) if (k >> l & 1) b[l] = p[l * step];
  return _mm256_loadu_si256((const __m256i *)b);
}
#define AC_EVERY 0xffff
#define AC_UP_TO(n) ac_first(n)
#define AC_WORDS8(t) ((__m128i)(t))
#define AC_WORDS16(t) ((__m256i)(t))
#elif AC_AVX2 /* eight elements in a number of 64 bits or in two: what is put into an array byte by byte and read at once waits for memory */
AC_INLINE uint64_t ac_read4(const void *p) { uint32_t x; memcpy(&x, p, 4); return x; }
AC_INLINE uint64_t ac_read8(const void *p) { uint64_t x; memcpy(&x, p, 8); return x; }
AC_INLINE uint64_t ac_get_bytes(const void *from, long n) { /* the first n of 8 bytes, by reads that overlap */
  const uint8_t *p = from;
  if (n >= 8) return ac_read8(p);
  if (n >= 4) return ac_read4(p) | ac_read4(p + n - 4) << 8 * (n - 4);
  return n <= 0 ? 0 : n == 1 ? p[0] : p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[n - 1] << 8 * (n - 1);
}
AC_INLINE void ac_put_bytes(void *to, uint64_t x, long n) {
  uint8_t *p = to;
  uint32_t low = (uint32_t)x, high;
  if (n >= 8) { memcpy(p, &x, 8); return; }
  if (n >= 4) { high = (uint32_t)(x >> 8 * (n - 4)); memcpy(p, &low, 4); memcpy(p + n - 4, &high, 4); return; }
  if (n > 0) p[0] = (uint8_t)x;
  if (n > 1) p[1] = (uint8_t)(x >> 8), p[n - 1] = (uint8_t)(x >> 8 * (n - 1));
}
AC_INLINE uint32_t ac_first(long n) { return n >= 8 ? 255 : n <= 0 ? 0 : (1u << n) - 1; }
AC_INLINE uint32_t ac_lanes_of(vm m) { return (uint32_t)_mm256_movemask_ps((__m256)m); }
/* `of` elements of 8 / of bytes that a mask names: borders of an image leave one run of them */
AC_INLINE uint64_t ac_get_run(const uint8_t *p, uint32_t k, int of) {
  if (k == 0) return 0;
  int bytes = 8 / of, first = __builtin_ctz(k), n = __builtin_popcount(k);
  if (k >> first == (1u << n) - 1) return ac_get_bytes(p + first * bytes, n * bytes) << 8 * bytes * first;
  uint64_t x = 0;
  for (; k; k &= k - 1) first = __builtin_ctz(k), x |= ac_get_bytes(p + first * bytes, bytes) << 8 * bytes * first;
  return x;
}
AC_INLINE uint64_t ac_get8(const void *p, uint32_t k) { return ac_get_run(p, k, 8); }
AC_INLINE __m128i ac_get16(const void *p, uint32_t k) {
  if (k == 255) return _mm_loadu_si128(p);
  return _mm_set_epi64x((int64_t)ac_get_run((const uint8_t *)p + 8, k >> 4, 4), (int64_t)ac_get_run(p, k & 15, 4));
}
AC_INLINE void ac_put8(void *p, uint64_t x, long n) { ac_put_bytes(p, x, n); }
AC_INLINE void ac_put16(void *p, __m128i x, long n) {
  ac_put_bytes(p, (uint64_t)_mm_cvtsi128_si64(x), 2 * n);
  if (n > 4) ac_put_bytes((uint8_t *)p + 8, (uint64_t)_mm_extract_epi64(x, 1), 2 * n - 8);
}
AC_INLINE uint64_t ac_apart8(const uint8_t *p, long step, uint32_t k) {
  uint64_t x = 0;
  if (k == 255 && __builtin_constant_p(step) && step == 2) { /* the second number ends with the last byte that is wanted */
    __m128i last = _mm_srli_epi64(_mm_loadl_epi64((const __m128i *)(p + 7)), 8);
    __m128i two = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)p), last);
    return (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(_mm_and_si128(two, _mm_set1_epi16(255)), two));
  }
  if (k && __builtin_constant_p(step) && step == 2) {
    int first = __builtin_ctz(k), n = __builtin_popcount(k), bytes = 2 * n - 1;
    if (k >> first == (1u << n) - 1) { /* a run, as the borders of an image leave: from its first byte to its last */
      const uint8_t *q = p + 2 * first;
      __m128i two = _mm_cvtsi64_si128((int64_t)ac_get_bytes(q, bytes < 8 ? bytes : 8));
      if (bytes > 8) two = _mm_insert_epi64(two, (int64_t)ac_get_bytes(q + 8, bytes - 8), 1);
      return (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(_mm_and_si128(two, _mm_set1_epi16(255)), two)) << 8 * first;
    }
  }
  for (; k; k &= k - 1) x |= (uint64_t)p[__builtin_ctz(k) * step] << 8 * __builtin_ctz(k);
  return x;
}
AC_INLINE uint64_t ac_apart_four(const uint16_t *p, long step, uint32_t k) {
  uint64_t x = 0;
  for (; k; k &= k - 1) x |= (uint64_t)p[__builtin_ctz(k) * step] << 16 * __builtin_ctz(k);
  return x;
}
AC_INLINE __m128i ac_apart16(const uint16_t *p, long step, uint32_t k) {
  if (k == 255 && __builtin_constant_p(step) && step == 2) {
    __m128i a = _mm_loadu_si128((const __m128i *)p), b = _mm_srli_si128(_mm_loadu_si128((const __m128i *)(p + 7)), 2);
    return _mm_packus_epi32(_mm_and_si128(a, _mm_set1_epi32(0xffff)), _mm_and_si128(b, _mm_set1_epi32(0xffff)));
  }
  return _mm_set_epi64x((int64_t)ac_apart_four(p + 4 * step, step, k >> 4), (int64_t)ac_apart_four(p, step, k & 15));
}
#define AC_EVERY 255
#define AC_UP_TO(n) (n)
#define AC_WORDS8(t) ((uint64_t)(t))
#define AC_WORDS16(t) ((__m128i)(t))
#endif
#if AC_AVX512 || AC_AVX2
#define AC_IN_PART(V, s, T, M, bits, get, put) \
  AC_INLINE V V##_load_##s##_n(const T *p, long n) { return get((M)ac_get##bits(p, ac_first(n))); } \
  AC_INLINE V V##_load_##s##_where(vm m, const T *p) { return get((M)ac_get##bits(p, ac_lanes_of(m))); } \
  AC_INLINE void V##_store_##s##_n(T *p, V x, long n) { M t = put(x); ac_put##bits(p, AC_WORDS##bits(t), AC_UP_TO(n)); } \
  AC_INLINE V V##_strided_##s##_n(const T *p, long step, long n) { \
    return get((M)ac_apart##bits((const uint##bits##_t *)p, step, ac_first(n))); } \
  AC_INLINE V V##_strided_##s(const T *p, long step) { return get((M)ac_apart##bits((const uint##bits##_t *)p, step, AC_EVERY)); } \
  AC_INLINE V V##_strided_##s##_where(vm m, const T *p, long step) { \
    return get((M)ac_apart##bits((const uint##bits##_t *)p, step, ac_lanes_of(m))); }
#else
AC_INLINE void ac_copy_n8(void *to, const void *from, long n) { for (long l = 0; l < n; l++) ((uint8_t *)to)[l] = ((const uint8_t *)from)[l]; }
AC_INLINE void ac_copy_n16(void *to, const void *from, long n) { for (long l = 0; l < n; l++) ((uint16_t *)to)[l] = ((const uint16_t *)from)[l]; }
#define AC_IN_PART(V, s, T, M, bits, get, put) \
  AC_INLINE V V##_load_##s##_n(const T *p, long n) { T b[AC_LANES] = {0}; ac_copy_n##bits(b, p, n); return V##_load_##s(b); } \
  AC_INLINE void V##_store_##s##_n(T *p, V x, long n) { T b[AC_LANES]; V##_store_##s(b, x); ac_copy_n##bits(p, b, n); } \
  AC_INLINE V V##_load_##s##_where(vm m, const T *p) { \
    T b[AC_LANES] = {0}; for (long l = 0; l < AC_LANES; l++) if (m[l]) b[l] = p[l]; return V##_load_##s(b); } \
  AC_INLINE V V##_strided_##s##_n(const T *p, long step, long n) { \
    T b[AC_LANES] = {0}; for (long l = 0; l < n; l++) b[l] = p[l * step]; return V##_load_##s(b); } \
  AC_INLINE V V##_strided_##s(const T *p, long step) { return V##_strided_##s##_n(p, step, AC_LANES); } \
  AC_INLINE V V##_strided_##s##_where(vm m, const T *p, long step) { \
    T b[AC_LANES] = {0}; for (long l = 0; l < AC_LANES; l++) if (m[l]) b[l] = p[l * step]; return V##_load_##s(b); }
#endif

/* All forms of a type from what makes a vector of a memory vector and back */
#define AC_STORED_AS(V, s, T, M, bits, get, put) \
  AC_INLINE V V##_load_##s(const T *p) { M t; memcpy(&t, p, sizeof t); return get(t); } \
  AC_INLINE void V##_store_##s(T *p, V x) { M t = put(x); memcpy(p, &t, sizeof t); } \
  AC_IN_PART(V, s, T, M, bits, get, put) \
  AC_INLINE void V##_scatter_##s##_n(T *p, long step, V x, long n) { \
    T b[AC_LANES]; V##_store_##s(b, x); for (long l = 0; l < n; l++) p[l * step] = b[l]; } \
  AC_INLINE void V##_scatter_##s(T *p, long step, V x) { V##_scatter_##s##_n(p, step, x, AC_LANES); }

#if AC_AVX512 /* GCC 12 takes these conversions apart, lane by lane or in quarters */
#define AC_FROM_I8(t) ((vi)_mm512_cvtepi8_epi32((__m128i)(t)))
#define AC_FROM_U8(t) ((vi)_mm512_cvtepu8_epi32((__m128i)(t)))
#define AC_FROM_I16(t) ((vi)_mm512_cvtepi16_epi32((__m256i)(t)))
#define AC_FROM_U16(t) ((vi)_mm512_cvtepu16_epi32((__m256i)(t)))
#define AC_AS_I8(x) ((ac_vec_i8)_mm512_cvtepi32_epi8((__m512i)(x)))
#define AC_AS_U8(x) ((ac_vec_u8)_mm512_cvtepi32_epi8((__m512i)(x)))
#define AC_AS_I16(x) ((ac_vec_i16)_mm512_cvtepi32_epi16((__m512i)(x)))
#define AC_AS_U16(x) ((ac_vec_u16)_mm512_cvtepi32_epi16((__m512i)(x)))
#elif AC_AVX2
#define AC_FROM_I8(t) ((vi)_mm256_cvtepi8_epi32(_mm_cvtsi64_si128((int64_t)(t))))
#define AC_FROM_U8(t) ((vi)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)(t))))
#define AC_FROM_I16(t) ((vi)_mm256_cvtepi16_epi32((__m128i)(t)))
#define AC_FROM_U16(t) ((vi)_mm256_cvtepu16_epi32((__m128i)(t)))
AC_INLINE __m256i ac_low_bytes(__m256i x, int size) { /* the low bytes of each lane, in the first 8 or 16 bytes */
  __m256i at = size == 1 ? _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1))
                         : _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1));
  x = _mm256_shuffle_epi8(x, at);
  return size == 1 ? _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 4, 1, 1, 1, 1, 1, 1)) : _mm256_permute4x64_epi64(x, 8);
}
#define AC_AS_I8(x) ((ac_vec_i8)_mm_cvtsi128_si64(_mm256_castsi256_si128(ac_low_bytes((__m256i)(x), 1))))
#define AC_AS_U8(x) ((ac_vec_u8)_mm_cvtsi128_si64(_mm256_castsi256_si128(ac_low_bytes((__m256i)(x), 1))))
#define AC_AS_I16(x) ((ac_vec_i16)_mm256_castsi256_si128(ac_low_bytes((__m256i)(x), 2)))
#define AC_AS_U16(x) ((ac_vec_u16)_mm256_castsi256_si128(ac_low_bytes((__m256i)(x), 2)))
#else
#define AC_FROM_I8(t) __builtin_convertvector(t, vi)
#define AC_FROM_U8(t) __builtin_convertvector(t, vi)
#define AC_FROM_I16(t) __builtin_convertvector(t, vi)
#define AC_FROM_U16(t) __builtin_convertvector(t, vi)
#define AC_AS_I8(x) __builtin_convertvector(x, ac_vec_i8)
#define AC_AS_U8(x) __builtin_convertvector((ac_vec_u32)(x), ac_vec_u8)
#define AC_AS_I16(x) __builtin_convertvector(x, ac_vec_i16)
#define AC_AS_U16(x) __builtin_convertvector((ac_vec_u32)(x), ac_vec_u16)
#endif
AC_STORED_AS(vi, i8, int8_t, ac_vec_i8, 8, AC_FROM_I8, AC_AS_I8)
AC_STORED_AS(vi, u8, uint8_t, ac_vec_u8, 8, AC_FROM_U8, AC_AS_U8)
AC_STORED_AS(vi, i16, int16_t, ac_vec_i16, 16, AC_FROM_I16, AC_AS_I16)
AC_STORED_AS(vi, u16, uint16_t, ac_vec_u16, 16, AC_FROM_U16, AC_AS_U16)

#if AC_AVX512
#define AC_TRUE(t) ((vm)_mm512_movm_epi32((__mmask16)_mm512_test_epi8_mask(_mm512_castsi128_si512((__m128i)(t)), _mm512_castsi128_si512((__m128i)(t)))))
#define AC_AS_BOOL(x) ((ac_vec_u8)_mm512_castsi512_si128(_mm512_maskz_set1_epi8(_mm512_movepi32_mask((__m512i)(x)), 1)))
#else
#define AC_TRUE(t) (AC_FROM_U8(t) != 0)
#define AC_AS_BOOL(x) AC_AS_U8((x) & 1)
#endif
AC_STORED_AS(vm, bool, uint8_t, ac_vec_u8, 8, AC_TRUE, AC_AS_BOOL)

AC_INLINE vf ac_from_bf16(ac_vec_u16 t) { return (vf)(AC_FROM_U16(t) << 16); }
AC_INLINE ac_vec_u16 ac_to_bf16(vf x) {
  ac_vec_u32 u = (ac_vec_u32)x, r = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  return AC_AS_U16(vi_select(x != x, (vi)((u >> 16) | 0x40), (vi)r));
}
AC_STORED_AS(vf, bf16, bf16, ac_vec_u16, 16, ac_from_bf16, ac_to_bf16)
AC_INLINE vf vf_round_bf16(vf x) {
  ac_vec_u32 u = (ac_vec_u32)x, r = (u + 0x7fff + ((u >> 16) & 1)) & 0xffff0000u;
  return vf_select(x != x, x, (vf)r);
}
#if AC_AVX512
AC_INLINE vf ac_from_f16(ac_vec_u16 t) { return (vf)_mm512_cvtph_ps((__m256i)t); }
AC_INLINE ac_vec_u16 ac_to_f16(vf x) { return (ac_vec_u16)_mm512_cvtps_ph((__m512)x, 0); }
#elif AC_AVX2 && defined(__F16C__)
AC_INLINE vf ac_from_f16(ac_vec_u16 t) { return (vf)_mm256_cvtph_ps((__m128i)t); }
AC_INLINE ac_vec_u16 ac_to_f16(vf x) { return (ac_vec_u16)_mm256_cvtps_ph((__m256)x, 0); }
#elif defined(__aarch64__) && AC_LANES == 4
typedef __fp16 ac_vec_fp16 __attribute__((vector_size(8)));
AC_INLINE vf ac_from_f16(ac_vec_u16 t) { return __builtin_convertvector((ac_vec_fp16)t, vf); }
AC_INLINE ac_vec_u16 ac_to_f16(vf x) { return (ac_vec_u16)__builtin_convertvector(x, ac_vec_fp16); }
#else
AC_INLINE vf ac_from_f16(ac_vec_u16 t) { vf r; for (int l = 0; l < AC_LANES; l++) r[l] = s_from_f16(t[l]); return r; }
AC_INLINE ac_vec_u16 ac_to_f16(vf x) { ac_vec_u16 r; for (int l = 0; l < AC_LANES; l++) r[l] = s_to_f16(x[l]); return r; }
#endif
AC_STORED_AS(vf, f16, f16, ac_vec_u16, 16, ac_from_f16, ac_to_f16)
AC_INLINE vf vf_round_f16(vf x) { return ac_from_f16(ac_to_f16(x)); }
/* as s_from_ and s_to_ */
#define AC_SHORT_FLOATS(s, m, b, top) \
  AC_INLINE vf ac_from_##s(ac_vec_u8 t) { \
    vi h = AC_FROM_U8(t), mag = h & 0x7f, u = (mag << (23 - m)) + ((127 - b) << 23); \
    u = vi_select(mag >= top, 0x7f800000 | (mag & ((1 << m) - 1)) << 20, u); \
    u = vi_select(mag >> m == 0, (vi)(__builtin_convertvector(mag, vf) * (1.f / (1 << (b + m - 1)))), u); \
    return (vf)(u | (h & 0x80) << 24); } \
  AC_INLINE ac_vec_u8 ac_to_##s(vf x) { \
    vi sign = (vi)((ac_vec_u32)x >> 24) & 0x80, u = (vi)x & 0x7fffffff, n = (vi)((vf)u + (float)(1 << (24 - b - m))) & 0xff; \
    vi r = ((u + ((1 << (22 - m)) - 1) + (u >> (23 - m) & 1)) >> (23 - m)) - ((127 - b) << m); \
    r = vi_select(u < (128 - b) << 23, n, vi_select(r >= top, vi_set(top), r)); \
    return AC_AS_U8(sign | vi_select(x != x, vi_set(top | 2), r)); } \
  AC_STORED_AS(vf, s, s, ac_vec_u8, 8, ac_from_##s, ac_to_##s) \
  AC_INLINE vf vf_round_##s(vf x) { return ac_from_##s(ac_to_##s(x)); }
AC_SHORT_FLOATS(f8e4m3, 3, 7, 0x7f)
AC_SHORT_FLOATS(f8e5m2, 2, 15, 0x7c)

/* ---- integers in lanes of 32 bits; arithmetic is modulo 2^32, and shorter types take the low bits */
AC_INLINE vi vi_strided(const int32_t *p, long s) { return (vi)vf_strided((const float *)p, s); }
AC_INLINE vi vi_strided_n(const int32_t *p, long s, long n) { return (vi)vf_strided_n((const float *)p, s, n); }
AC_INLINE void vi_scatter(int32_t *p, long s, vi x) { vf_scatter((float *)p, s, (vf)x); }
AC_INLINE void vi_scatter_n(int32_t *p, long s, vi x, long n) { vf_scatter_n((float *)p, s, (vf)x, n); }
AC_INLINE vi vi_load_where(vm m, const int32_t *p) { return (vi)vf_load_where(m, (const float *)p); }
AC_INLINE vi vi_strided_where(vm m, const int32_t *p, long s) { return (vi)vf_strided_where(m, (const float *)p, s); }
AC_INLINE vi vi_add(vi a, vi b) { return (vi)((ac_vec_u32)a + (ac_vec_u32)b); }
AC_INLINE vi vi_sub(vi a, vi b) { return (vi)((ac_vec_u32)a - (ac_vec_u32)b); }
AC_INLINE vi vi_mul(vi a, vi b) { return (vi)((ac_vec_u32)a * (ac_vec_u32)b); }
AC_INLINE vi vi_max(vi a, vi b) { return vi_select(a > b, a, b); }
AC_INLINE vi vi_min(vi a, vi b) { return vi_select(a < b, a, b); }
AC_INLINE vi vi_abs(vi a) { return vi_select(a < 0, vi_sub((vi){0}, a), a); }
AC_INLINE vi vi_sign(vi a) { return (a < 0) - (a > 0); }
AC_INLINE vi vi_as_i8(vi x) { return (vi)((ac_vec_u32)x << 24) >> 24; }
AC_INLINE vi vi_as_u8(vi x) { return x & 0xff; }
AC_INLINE vi vi_as_i16(vi x) { return (vi)((ac_vec_u32)x << 16) >> 16; }
AC_INLINE vi vi_as_u16(vi x) { return x & 0xffff; }
/* lanes of a table of 256 bytes, of which three more may be read, at the low bytes of x */
AC_INLINE vi vi_table(const uint8_t *t, vi x) {
#if AC_AVX512 && defined(__AVX512VBMI__)
  const __mmask64 low = 0x1111111111111111ull;
  __m512i at = (__m512i)x, a = _mm512_load_si512(t), b = _mm512_load_si512(t + 64), c = _mm512_load_si512(t + 128);
  __m512i first = _mm512_maskz_permutex2var_epi8(low, a, at, b);
  __m512i second = _mm512_maskz_permutex2var_epi8(low, c, at, _mm512_load_si512(t + 192));
  return (vi)_mm512_mask_mov_epi32(first, _mm512_test_epi32_mask(at, _mm512_set1_epi32(128)), second);
#elif AC_AVX512
  return (vi)_mm512_i32gather_epi32((__m512i)(x & 255), t, 1) & 255;
#elif AC_AVX2
  return (vi)_mm256_i32gather_epi32((const int *)t, (__m256i)(x & 255), 1) & 255;
#else
  vi r;
  for (int l = 0; l < AC_LANES; l++) r[l] = t[x[l] & 255];
  return r;
#endif
}
AC_INLINE int32_t vi_hadd(vi a) { uint32_t r = 0; for (int l = 0; l < AC_LANES; l++) r += (uint32_t)a[l]; return (int32_t)r; }
AC_INLINE int32_t vi_hmul(vi a) { uint32_t r = 1; for (int l = 0; l < AC_LANES; l++) r *= (uint32_t)a[l]; return (int32_t)r; }
AC_INLINE int32_t vi_hmax(vi a) { int32_t r = a[0]; for (int l = 1; l < AC_LANES; l++) r = a[l] > r ? a[l] : r; return r; }
AC_INLINE int32_t vi_hmin(vi a) { int32_t r = a[0]; for (int l = 1; l < AC_LANES; l++) r = a[l] < r ? a[l] : r; return r; }
/* ---- products of bytes, four at a time: a lane holds four steps of depth, the first in its low byte */
AC_INLINE int32_t ac_quad(const void *p) { int32_t q; memcpy(&q, p, 4); return q; }
AC_INLINE int32_t ac_quad_n(const void *p, long n) { int32_t q = 0; memcpy(&q, p, (size_t)n); return q; }
/* lane l: the four bytes from p + l * s on, s 1 or 2; no byte behind the last lane's is touched */
AC_INLINE vi vi_windows(const void *from, long s) {
  const uint8_t *p = (const uint8_t *)from;
#if AC_AVX512 || AC_AVX2
  const __m128i first = s == 1 ? _mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6)
                               : _mm_setr_epi8(0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9);
  const __m128i last = _mm_add_epi8(first, _mm_set1_epi8(s == 1 ? 1 : 6)); /* of a read that ends with the last byte */
#define AC_RUN(at) (s == 1 ? _mm_loadl_epi64((const __m128i *)(p + (at))) : _mm_loadu_si128((const __m128i *)(p + (at))))
#if AC_AVX512
  __m512i x = _mm512_inserti32x4(_mm512_castsi128_si512(AC_RUN(0)), AC_RUN(4 * s), 1);
  x = _mm512_inserti32x4(_mm512_inserti32x4(x, AC_RUN(8 * s), 2), AC_RUN(s == 1 ? 11 : 18), 3);
  return (vi)_mm512_shuffle_epi8(x, _mm512_inserti32x4(_mm512_broadcast_i32x4(first), last, 3));
#else
  const __m256i x = _mm256_inserti128_si256(_mm256_castsi128_si256(AC_RUN(0)), AC_RUN(s == 1 ? 3 : 2), 1);
  return (vi)_mm256_shuffle_epi8(x, _mm256_inserti128_si256(_mm256_castsi128_si256(first), last, 1));
#endif
#undef AC_RUN
#else
  vi r;
  for (int l = 0; l < AC_LANES; l++) r[l] = ac_quad(p + l * s);
  return r;
#endif
}
AC_INLINE vi vi_byte(vi x, int at) { return (vi)((ac_vec_u32)(x & 0xff) << 8 * at); }
/* the even bytes of four as a pair of 16 bits; those of each lane, and the odd ones */
AC_INLINE int32_t ac_pair_u8(uint32_t q) { return (int32_t)(q & 0x00ff00ffu); }
AC_INLINE int32_t ac_pair_i8(uint32_t q) { return (int32_t)((uint16_t)(int8_t)q | (uint32_t)(uint16_t)(int8_t)(q >> 16) << 16); }
/* a row of bytes as pairs of 16 bits: for each four the even ones, then the odd ones; zeros behind the last */
#define AC_PAIRS(t, c) AC_INLINE void ac_pairs_##t(int32_t *restrict out, const c *restrict from, long n) { \
  for (long i = 0; i < n / 4; i++) { \
    const uint32_t q = (uint32_t)ac_quad(from + 4 * i); \
    out[2 * i] = ac_pair_##t(q), out[2 * i + 1] = ac_pair_##t(q >> 8); \
  } \
  if (n % 4) { \
    const uint32_t q = (uint32_t)ac_quad_n(from + n / 4 * 4, n % 4); \
    out[n / 4 * 2] = ac_pair_##t(q), out[n / 4 * 2 + 1] = ac_pair_##t(q >> 8); \
  } \
}
AC_PAIRS(u8, uint8_t)
AC_PAIRS(i8, int8_t)
typedef int16_t ac_vec_pairs __attribute__((vector_size(AC_LANES * 4)));
typedef uint16_t ac_vec_upairs __attribute__((vector_size(AC_LANES * 4)));
AC_INLINE vi vi_even_u8(vi x) { return (vi)((ac_vec_pairs)x & 255); }
AC_INLINE vi vi_odd_u8(vi x) { return (vi)((ac_vec_upairs)x >> 8); }
AC_INLINE vi vi_even_i8(vi x) { return (vi)((ac_vec_pairs)((ac_vec_upairs)x << 8) >> 8); }
AC_INLINE vi vi_odd_i8(vi x) { return (vi)((ac_vec_pairs)x >> 8); }
/* sums + both products of pairs of 16 bits that come from bytes */
AC_INLINE vi vi_dot2(vi sums, vi x, vi y) {
#if AC_AVX512
  return (vi)_mm512_add_epi32((__m512i)sums, _mm512_madd_epi16((__m512i)x, (__m512i)y));
#elif AC_AVX2
  return (vi)_mm256_add_epi32((__m256i)sums, _mm256_madd_epi16((__m256i)x, (__m256i)y));
#else
  return vi_add(sums, vi_add(vi_mul((vi)((ac_vec_u32)x << 16) >> 16, (vi)((ac_vec_u32)y << 16) >> 16), vi_mul(x >> 16, y >> 16)));
#endif
}
/* sums + the four products of unsigned bytes of u and signed bytes of s, without saturation */
AC_INLINE vi vi_dot4(vi sums, vi u, vi s) {
#if AC_AVX512 && defined(__AVX512VNNI__)
  return (vi)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)u, (__m512i)s);
#elif AC_AVX512
  __m512i a = (__m512i)u, b = (__m512i)s; /* even bytes, then odd ones, as 16 bits: 255 * 128 * 2 fits a lane's sum */
  __m512i even = _mm512_madd_epi16(_mm512_and_si512(a, _mm512_set1_epi16(255)), _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8));
  __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(a, 8), _mm512_srai_epi16(b, 8));
  return (vi)_mm512_add_epi32((__m512i)sums, _mm512_add_epi32(even, odd));
#elif AC_AVX2 && defined(__AVX512VNNI__) && defined(__AVX512VL__)
  return (vi)_mm256_dpbusd_epi32((__m256i)sums, (__m256i)u, (__m256i)s);
#elif AC_AVX2 && defined(__AVXVNNI__)
  return (vi)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)u, (__m256i)s);
#elif AC_AVX2
  __m256i a = (__m256i)u, b = (__m256i)s;
  __m256i even = _mm256_madd_epi16(_mm256_and_si256(a, _mm256_set1_epi16(255)), _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
  __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(b, 8));
  return (vi)_mm256_add_epi32((__m256i)sums, _mm256_add_epi32(even, odd));
#elif defined(__ARM_FEATURE_MATMUL_INT8) && AC_LANES == 4
  return (vi)vusdotq_s32((int32x4_t)sums, (uint8x16_t)u, (int8x16_t)s);
#else
  for (int i = 0; i < 4; i++) sums = vi_add(sums, (u >> 8 * i & 0xff) * ((vi)((ac_vec_u32)s << (24 - 8 * i)) >> 24));
  return sums;
#endif
}
/* the same where no pair of signed bytes saturates (ac_sums_fit) */
AC_INLINE vi vi_dot4_fits(vi sums, vi u, vi s) {
#if AC_AVX2 && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
  __m256i pairs = _mm256_maddubs_epi16((__m256i)u, (__m256i)s);
  return (vi)_mm256_add_epi32((__m256i)sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#else
  return vi_dot4(sums, u, s);
#endif
}
/* Is the sum of two products of unsigned bytes by neighbours of these signed ones, the first and second or third and fourth byte of a word,
   a number of 16 bits whatever the unsigned ones are? 255 * 128 = 32640 */
AC_INLINE int32_t ac_sums_fit(const int32_t *words, size_t n) {
  int32_t fits = 1;
  for (size_t i = 0; i < n; i++)
    for (int at = 0; at < 32; at += 16) {
      const int32_t x = (int8_t)((uint32_t)words[i] >> at), y = (int8_t)((uint32_t)words[i] >> (at + 8));
      fits &= (x > 0 ? x : 0) + (y > 0 ? y : 0) <= 128 && (x < 0 ? x : 0) + (y < 0 ? y : 0) >= -128;
    }
  return fits;
}
/* floats cut off to integers: the smallest one for NaN and beyond the range, as s_to_i32 */
#if AC_AVX512
AC_INLINE vi vi_cut(vf x) { return (vi)_mm512_cvttps_epi32((__m512)x); }
#elif AC_AVX2
AC_INLINE vi vi_cut(vf x) { return (vi)_mm256_cvttps_epi32((__m256)x); }
#else
AC_INLINE vi vi_cut(vf x) {
  vm in = vf_abs(x) < 2147483648.f;
  return vi_select(in, vi_from_vf(vf_select(in, x, (vf){0})), vi_set(INT32_MIN));
}
#endif
#endif
