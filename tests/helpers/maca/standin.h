// A stand-in for the MACA SDK's headers, for type checks only: clang in HIP mode for a GPU with waves of 64 lanes.
#pragma once
#define memcpy __builtin_memcpy
#define __MACA__ 1
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __NATIVE_VECTOR__(n, T) T __attribute__((ext_vector_type(n)))
#define __align__(n) __attribute__((aligned(n)))
#define STANDIN __device__ __host__ inline
typedef decltype(sizeof(0)) size_t;
struct standin_index { unsigned x, y, z; };
extern const __device__ standin_index threadIdx, blockIdx, blockDim, gridDim;
using __half = _Float16;
struct maca_bfloat16 { unsigned short bits; };
STANDIN float __half2float(__half x) { return x; }
STANDIN __half __float2half(float x) { return x; }
STANDIN float __bfloat162float(maca_bfloat16 x) { return __builtin_bit_cast(float, unsigned(x.bits) << 16); }
STANDIN maca_bfloat16 __float2bfloat16(float x) { return {(unsigned short)(__builtin_bit_cast(unsigned, x) >> 16)}; }
STANDIN float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
STANDIN int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
STANDIN double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
__device__ void __syncthreads();
template <class T> __device__ T __shfl_xor_sync(unsigned long long mask, T x, int lane, int width = 64);
template <class T> __device__ T __shfl_xor_sync(unsigned mask, T x, int lane, int width = 64) = delete;  // 64 lanes need 64 bits
enum { MACA_ICMP_EQ = 32, MACA_ICMP_NE = 33, MACA_ICMP_SLT = 40 };
typedef __NATIVE_VECTOR__(4, float) standin_float4;
typedef __NATIVE_VECTOR__(4, _Float16) standin_half4;
__device__ standin_float4 __builtin_mxc_mma_16x16x16f16(standin_half4 x, standin_half4 y, standin_float4 c);
__device__ standin_float4 __builtin_mxc_mma_16x16x16bf16(standin_half4 x, standin_half4 y, standin_float4 c);
typedef __NATIVE_VECTOR__(4, int) standin_int4;
typedef __NATIVE_VECTOR__(2, float) standin_float2;
__device__ standin_int4 __builtin_mxc_mma_16x16x16i8(int x, int y, standin_int4 c);
__device__ standin_float4 __builtin_mxc_mma_16x16x4f32(float x, float y, standin_float4 c);
__device__ standin_float4 __builtin_mxc_mma_16x16x8tf32(standin_float2 x, standin_float2 y, standin_float4 c);
__device__ void __builtin_mxc_ldg_b128_bsm_predicator(void *to, void *from, int imm, bool ret0, bool saddr, bool neg, bool async, int a, int b, int op);
__device__ void __builtin_mxc_arrive_gvmcnt(int n);
#define STANDIN_MATH(name) __device__ float name##f(float); __device__ double name(double);
STANDIN_MATH(exp) STANDIN_MATH(exp2) STANDIN_MATH(expm1) STANDIN_MATH(log) STANDIN_MATH(log2) STANDIN_MATH(log1p) STANDIN_MATH(sqrt)
STANDIN_MATH(rsqrt) STANDIN_MATH(sin) STANDIN_MATH(cos) STANDIN_MATH(tan) STANDIN_MATH(asin) STANDIN_MATH(acos) STANDIN_MATH(atan)
STANDIN_MATH(sinh) STANDIN_MATH(cosh) STANDIN_MATH(tanh) STANDIN_MATH(asinh) STANDIN_MATH(acosh) STANDIN_MATH(atanh)
STANDIN_MATH(floor) STANDIN_MATH(ceil) STANDIN_MATH(rint) STANDIN_MATH(trunc) STANDIN_MATH(erf) STANDIN_MATH(fabs)
__device__ float fmodf(float, float);
__device__ double fmod(double, double);
__device__ float powf(float, float);
__device__ double pow(double, double);
__device__ float fmaf(float, float, float);
__device__ float copysignf(float, float);
