// The part of the CUDA runtime and driver that launchers use, on the CPU model.
#pragma once
#include "autocomp_cuda.cuh"
#define STANDIN_WAVE 32
#define STANDIN_ORDERED 1
#include "launch_model.h"

enum cudaError_t { cudaSuccess, cudaFailure };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
typedef int cudaStream_t, cudaEvent_t;  // no time passes
inline cudaError_t cudaStreamCreate(cudaStream_t *) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t *) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t) { return *ms = 0, cudaSuccess; }
inline cudaError_t cudaMalloc(void **p, size_t bytes) { return standin_alloc(p, bytes) ? cudaSuccess : cudaFailure; }
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) { memcpy(to, from, bytes); return cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t) { memcpy(to, from, bytes); return cudaSuccess; }
inline cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows, cudaMemcpyKind, cudaStream_t) {
  if (width > to_pitch || width > from_pitch) return cudaFailure;
  for (size_t i = 0; i < rows; ++i) memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t) { memset(p, value, bytes); return cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char *cudaGetErrorString(cudaError_t) { return "refused"; }
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
inline cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }

// Descriptors: what the driver would encode is the model's own record
typedef ac_tensor_map CUtensorMap;
typedef unsigned long long cuuint64_t;
typedef unsigned cuuint32_t;
enum CUresult { CUDA_SUCCESS };
enum CUtensorMapDataType { CU_TENSOR_MAP_DATA_TYPE_UINT8 = 1, CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 2, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 3, CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 4, CU_TENSOR_MAP_DATA_TYPE_FLOAT64 = 8 };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B = 32, CU_TENSOR_MAP_SWIZZLE_64B = 64, CU_TENSOR_MAP_SWIZZLE_128B = 128 };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_64B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B };
enum { CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };
inline CUresult cuTensorMapEncodeTiled(CUtensorMap *m, CUtensorMapDataType type, int rank, void *at, const cuuint64_t *dims, const cuuint64_t *strides,
                                       const cuuint32_t *box, const cuuint32_t *steps, int, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, int) {
  static const int sizes[] = {0, 1, 2, 2, 4, 0, 0, 0, 8};
  memset(m, 0, sizeof *m);
  m->data = (unsigned char *)at, m->rank = rank, m->size = sizes[type], m->swizzle = swizzle;
  for (int i = 0; i < rank; ++i) {
    m->dims[i] = dims[i], m->steps[i] = steps[i], m->box[i] = box[i] / steps[i];
    m->strides[i] = i ? strides[i - 1] : m->size;
  }
  return CUDA_SUCCESS;
}
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };
enum { cudaEnableDefault };
inline cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **f, int, int, cudaDriverEntryPointQueryResult *) { *f = (void *)cuTensorMapEncodeTiled; return cudaSuccess; }

// What cudaLaunchKernelEx does
enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension };
struct cudaLaunchAttribute { cudaLaunchAttributeID id; struct { struct { unsigned x, y, z; } clusterDim; } val; };
struct cudaLaunchConfig_t { dim3 gridDim, blockDim; size_t dynamicSmemBytes; cudaStream_t stream; cudaLaunchAttribute *attrs; unsigned numAttrs; };
template <class... A, class... B> cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *c, void (*kernel)(A...), B... values) {
  standin_run(kernel, c->gridDim, c->blockDim.x, c->dynamicSmemBytes, c->attrs[0].val.clusterDim.x, std::tuple<A...>(values...), std::index_sequence_for<A...>{});
  return cudaSuccess;
}
