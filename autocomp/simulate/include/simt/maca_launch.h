// The part of the MACA runtime that launchers use, on the CPU model.
#pragma once
#include "maca/mc_runtime.h"
#define STANDIN_WAVE 64
#define STANDIN_ORDERED 0
#include "launch_model.h"

enum mcError_t { mcSuccess, mcFailure };
enum mcMemcpyKind { mcMemcpyHostToDevice = 1, mcMemcpyDeviceToHost = 2 };
inline mcError_t mcMalloc(void **p, size_t bytes) { return standin_alloc(p, bytes) ? mcSuccess : mcFailure; }
inline mcError_t mcMemcpy(void *to, const void *from, size_t bytes, mcMemcpyKind) { memcpy(to, from, bytes); return mcSuccess; }
inline mcError_t mcMemset(void *p, int value, size_t bytes) { memset(p, value, bytes); return mcSuccess; }
enum mcFuncAttribute { mcFuncAttributeMaxDynamicSharedMemorySize };
inline mcError_t mcFuncSetAttribute(const void *, mcFuncAttribute, int) { return mcSuccess; }
inline mcError_t mcDeviceSynchronize() { return mcSuccess; }
inline mcError_t mcGetLastError() { return mcSuccess; }
inline const char *mcGetErrorString(mcError_t) { return "refused"; }
