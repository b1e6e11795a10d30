// A stand-in for AscendCL: the names that launchers use. Memory of the device is memory of the host, filled with NaN.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <cstring>

typedef int aclError;
typedef void *aclrtStream;
enum { ACL_SUCCESS = 0, ACL_ERROR = 1 };
enum aclrtMemMallocPolicy { ACL_MEM_MALLOC_HUGE_FIRST };
enum aclrtMemcpyKind { ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEVICE_TO_DEVICE };
typedef void *aclrtEvent;  // no time passes
inline aclError aclInit(const char *) { return ACL_SUCCESS; }
inline aclError aclFinalize() { return ACL_SUCCESS; }
inline aclError aclrtSetDevice(int) { return ACL_SUCCESS; }
inline aclError aclrtResetDevice(int) { return ACL_SUCCESS; }
inline aclError aclrtCreateStream(aclrtStream *s) { return *s = (void *)1, ACL_SUCCESS; }
inline aclError aclrtDestroyStream(aclrtStream) { return ACL_SUCCESS; }
inline aclError aclrtSynchronizeStream(aclrtStream) { return ACL_SUCCESS; }
inline aclError aclrtMalloc(void **p, size_t bytes, aclrtMemMallocPolicy) {
  if (!bytes) return ACL_ERROR;
  *p = malloc(bytes);
  memset(*p, 0xff, bytes);
  return ACL_SUCCESS;
}
inline aclError aclrtMemcpy(void *to, size_t room, const void *from, size_t bytes, aclrtMemcpyKind) {
  if (bytes > room) return ACL_ERROR;
  memcpy(to, from, bytes);
  return ACL_SUCCESS;
}
inline aclError aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t bytes, aclrtMemcpyKind kind, aclrtStream) {
  return aclrtMemcpy(to, room, from, bytes, kind);
}
inline aclError aclrtCreateEvent(aclrtEvent *e) { return *e = (void *)1, ACL_SUCCESS; }
inline aclError aclrtRecordEvent(aclrtEvent, aclrtStream) { return ACL_SUCCESS; }
inline aclError aclrtEventElapsedTime(float *ms, aclrtEvent, aclrtEvent) { return *ms = 0, ACL_SUCCESS; }
