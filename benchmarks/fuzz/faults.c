/* Makes one call to the system fail: the n-th of those that touch files below a folder. Loaded before everything else. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define FILES 4096
#define SHORT (-1) /* a write that writes half, once */

static char below[1024], hit[256];
static long count, at = -1;
static int failure, sticky, mine[FILES];

/* below: the folder; at: which call fails (-1: none, they are counted); error: errno, or SHORT; sticks: all calls of writing after it fail
   too, as on a disk that is full */
void fault_arm(const char *folder, long which, int error, int sticks) {
  snprintf(below, sizeof below, "%s", folder);
  count = 0, at = which, failure = error, sticky = sticks, hit[0] = 0;
}
long fault_count(void) { return count; }
const char *fault_hit(void) { return hit; }
void fault_disarm(void) { below[0] = 0, at = -1; }

static int inside(const char *path) { return below[0] && path && !strncmp(path, below, strlen(below)); }
static int fails(const char *call, const char *path, int writes) {
  long n = count++;
  if (at < 0 || (n != at && !(sticky && writes && n > at))) return 0;
  if (!hit[0]) snprintf(hit, sizeof hit, "%s %s", call, path ? path + strlen(below) : "");
  if (failure == SHORT) return SHORT;
  errno = failure;
  return 1;
}
/* the system's own, found once: dlsym takes a lock, which a forked child may find shut */
#define EACH(F) F(open) F(open64) F(write) F(pwrite) F(pwrite64) F(read) F(fsync) F(fdatasync) F(ftruncate) F(ftruncate64) \
  F(close) F(rename) F(mkdir) F(unlink) F(chmod) F(fork)
#define DECLARE(name) static __typeof__(&name) real_##name;
EACH(DECLARE)
#define FIND(name) real_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name);
__attribute__((constructor)) static void find(void) { EACH(FIND) }
#define REAL(name) (real_##name ? real_##name : (find(), real_##name))

#define OPEN(name)                                                                            \
  int name(const char *path, int flags, ...) {                                                \
    va_list a;                                                                                \
    va_start(a, flags);                                                                       \
    mode_t mode = va_arg(a, mode_t);                                                          \
    va_end(a);                                                                                \
    int in = inside(path);                                                                    \
    if (in && fails("open", path, flags & (O_WRONLY | O_RDWR | O_CREAT)) > 0) return -1;      \
    int fd = REAL(name)(path, flags, mode);                                                   \
    if (fd >= 0 && fd < FILES) mine[fd] = in;                                                 \
    return fd;                                                                                \
  }
OPEN(open)
OPEN(open64)
#define MINE(fd) (below[0] && (fd) >= 0 && (fd) < FILES && mine[fd])
#define WRITE(name, real, call, ...)                     \
  if (MINE(fd)) {                                        \
    int f = fails(name, 0, 1);                           \
    if (f > 0) return -1;                                \
    if (f == SHORT && n > 1) n /= 2;                     \
  }                                                      \
  return REAL(call)(fd, data, n, ##__VA_ARGS__)
ssize_t write(int fd, const void *data, size_t n) { WRITE("write", write, write); }
ssize_t pwrite(int fd, const void *data, size_t n, off_t o) { WRITE("pwrite", pwrite, pwrite, o); }
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t o) { WRITE("pwrite", pwrite64, pwrite64, o); }
ssize_t read(int fd, void *data, size_t n) { if (MINE(fd) && fails("read", 0, 0) > 0) return -1; return REAL(read)(fd, data, n); }
int fsync(int fd) { if (MINE(fd) && fails("fsync", 0, 1) > 0) return -1; return REAL(fsync)(fd); }
int fdatasync(int fd) { if (MINE(fd) && fails("fdatasync", 0, 1) > 0) return -1; return REAL(fdatasync)(fd); }
int ftruncate(int fd, off_t n) { if (MINE(fd) && fails("ftruncate", 0, 1) > 0) return -1; return REAL(ftruncate)(fd, n); }
int ftruncate64(int fd, off64_t n) { if (MINE(fd) && fails("ftruncate", 0, 1) > 0) return -1; return REAL(ftruncate64)(fd, n); }
int close(int fd) { if (fd >= 0 && fd < FILES) mine[fd] = 0; return REAL(close)(fd); }
int rename(const char *a, const char *b) { if (inside(b) && fails("rename", b, 1) > 0) return -1; return REAL(rename)(a, b); }
int mkdir(const char *p, mode_t m) { if (inside(p) && fails("mkdir", p, 1) > 0) return -1; return REAL(mkdir)(p, m); }
int unlink(const char *p) { if (inside(p) && fails("unlink", p, 0) > 0) return -1; return REAL(unlink)(p); }
int chmod(const char *p, mode_t m) { if (inside(p) && fails("chmod", p, 1) > 0) return -1; return REAL(chmod)(p, m); }
pid_t fork(void) { if (below[0] && fails("fork", 0, 0) > 0) return -1; return REAL(fork)(); }
