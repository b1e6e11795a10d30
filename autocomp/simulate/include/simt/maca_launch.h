// The part of the MACA runtime that launchers use, on the CPU model.
#pragma once
#include "maca/mc_runtime.h"
#define STANDIN_WAVE 64
#define STANDIN_ORDERED 0
#include "launch_model.h"

enum mcError_t { mcSuccess, mcFailure };
enum mcMemcpyKind { mcMemcpyHostToDevice = 1, mcMemcpyDeviceToHost = 2, mcMemcpyDeviceToDevice = 3 };
typedef int mcStream_t, mcEvent_t;  // no time passes
inline mcError_t mcStreamCreate(mcStream_t *) { return mcSuccess; }
inline mcError_t mcStreamSynchronize(mcStream_t) { return mcSuccess; }
inline mcError_t mcEventCreate(mcEvent_t *) { return mcSuccess; }
inline mcError_t mcEventRecord(mcEvent_t, mcStream_t) { return mcSuccess; }
inline mcError_t mcEventElapsedTime(float *ms, mcEvent_t, mcEvent_t) { return *ms = 0, mcSuccess; }
inline mcError_t mcMalloc(void **p, size_t bytes) { return standin_alloc(p, bytes) ? mcSuccess : mcFailure; }
inline mcError_t mcMemcpy(void *to, const void *from, size_t bytes, mcMemcpyKind) { memcpy(to, from, bytes); return mcSuccess; }
inline mcError_t mcMemcpyAsync(void *to, const void *from, size_t bytes, mcMemcpyKind, mcStream_t) { memcpy(to, from, bytes); return mcSuccess; }
inline mcError_t mcMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows, mcMemcpyKind, mcStream_t) {
  if (width > to_pitch || width > from_pitch) return mcFailure;
  for (size_t i = 0; i < rows; ++i) memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
  return mcSuccess;
}
inline mcError_t mcMemsetAsync(void *p, int value, size_t bytes, mcStream_t) { memset(p, value, bytes); return mcSuccess; }
enum mcFuncAttribute { mcFuncAttributeMaxDynamicSharedMemorySize };
inline mcError_t mcFuncSetAttribute(const void *, mcFuncAttribute, int) { return mcSuccess; }
inline mcError_t mcGetLastError() { return mcSuccess; }
inline const char *mcGetErrorString(mcError_t) { return "refused"; }
