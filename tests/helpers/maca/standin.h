// Written by targets/maca/stand_in.py from targets/maca/api.yaml.
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
typedef decltype(sizeof(0)) size_t;
struct standin_index { unsigned x, y, z; };
extern const __device__ standin_index threadIdx, blockIdx, blockDim, gridDim;
using __half = _Float16;
struct maca_bfloat16 { unsigned short bits; };
enum { MACA_ICMP_EQ = 32, MACA_ICMP_NE = 33 };
typedef __NATIVE_VECTOR__(4, float) standin_float4;
typedef __NATIVE_VECTOR__(4, _Float16) standin_half4;
typedef __NATIVE_VECTOR__(4, int) standin_int4;
typedef __NATIVE_VECTOR__(2, float) standin_float2;
__device__ standin_float4 __builtin_mxc_mma_16x16x16f16(standin_half4 x, standin_half4 y, standin_float4 c);
__device__ standin_float4 __builtin_mxc_mma_16x16x16bf16(standin_half4 x, standin_half4 y, standin_float4 c);
__device__ standin_int4 __builtin_mxc_mma_16x16x16i8(int x, int y, standin_int4 c);
__device__ standin_float4 __builtin_mxc_mma_16x16x4f32(float x, float y, standin_float4 c);
__device__ standin_float4 __builtin_mxc_mma_16x16x8tf32(standin_float2 x, standin_float2 y, standin_float4 c);
__device__ void __builtin_mxc_ldg_b128_bsm_predicator(void *to, void *from, int imm, bool ret0_en, bool saddr, bool pred_neg, bool is_async, int a, int b, int op);
__device__ void __builtin_mxc_arrive_gvmcnt(int n);
__device__ __host__ float __half2float(__half x);
__device__ __host__ __half __float2half(float x);
__device__ __host__ float __bfloat162float(maca_bfloat16 x);
__device__ __host__ maca_bfloat16 __float2bfloat16(float x);
__device__ __host__ float __int_as_float(int x);
__device__ __host__ int __float_as_int(float x);
__device__ __host__ double __longlong_as_double(long long x);
__device__ void __syncthreads();
template <class T> __device__ T __shfl_xor_sync(unsigned long long mask, T x, int lane, int width = 64);
template <class T> __device__ T __shfl_xor_sync(unsigned mask, T x, int lane, int width = 64) = delete;
__device__ float expf(float);
__device__ double exp(double);
__device__ float exp2f(float);
__device__ double exp2(double);
__device__ float expm1f(float);
__device__ double expm1(double);
__device__ float logf(float);
__device__ double log(double);
__device__ float log2f(float);
__device__ double log2(double);
__device__ float log1pf(float);
__device__ double log1p(double);
__device__ float sqrtf(float);
__device__ double sqrt(double);
__device__ float rsqrtf(float);
__device__ double rsqrt(double);
__device__ float sinf(float);
__device__ double sin(double);
__device__ float cosf(float);
__device__ double cos(double);
__device__ float tanf(float);
__device__ double tan(double);
__device__ float asinf(float);
__device__ double asin(double);
__device__ float acosf(float);
__device__ double acos(double);
__device__ float atanf(float);
__device__ double atan(double);
__device__ float sinhf(float);
__device__ double sinh(double);
__device__ float coshf(float);
__device__ double cosh(double);
__device__ float tanhf(float);
__device__ double tanh(double);
__device__ float asinhf(float);
__device__ double asinh(double);
__device__ float acoshf(float);
__device__ double acosh(double);
__device__ float atanhf(float);
__device__ double atanh(double);
__device__ float floorf(float);
__device__ double floor(double);
__device__ float ceilf(float);
__device__ double ceil(double);
__device__ float rintf(float);
__device__ double rint(double);
__device__ float truncf(float);
__device__ double trunc(double);
__device__ float erff(float);
__device__ double erf(double);
__device__ float fabsf(float);
__device__ double fabs(double);
__device__ float fmodf(float, float);
__device__ double fmod(double, double);
__device__ float powf(float, float);
__device__ double pow(double, double);
__device__ float fmaf(float, float, float);
__device__ float copysignf(float, float);
