/* Threads of a program's calls: part of its plan, which includes this file.
 *
 * A team of OpenMP ends the process where the system gives it no more threads, and a kernel where a stack is too small for it: so both are
 * asked for before the first call of each calling thread. In a forked child the team of the thread that forked is a new one. */
#include "autocomp_cpu_share.h"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef AC_STACK
#define AC_STACK (192L << 10) /* bytes of stack that are enough for every kernel */
#endif
#define AC_MOST 64 /* threads of a team at most, or 4 a core */
enum { AC_DONE = 0, AC_FEWER = 1, AC_NO_STACK = 2, AC_NO_MEMORY = 3, AC_OUTSIDE = 4 }; /* what ac_run says */

static __thread int ac_checked;     /* threads that a team of this thread may have: as many as were looked at, */
static __thread int ac_given;       /* and as many as there are */
static __thread long ac_smallest;   /* bytes of the smallest stack among them */
static __thread char *ac_floor;     /* the end of this thread's own stack */
static __thread int ac_alone;       /* whether it can have no team */

static void *ac_pass(void *gate) {
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return 0;
}

/* the bytes that $OMP_STACKSIZE asks for; 0 where it says nothing */
static size_t ac_stack_asked(void) {
  const char *text = getenv("OMP_STACKSIZE");
  if (!text) text = getenv("GOMP_STACKSIZE");
  char *end;
  unsigned long long n = text ? strtoull(text, &end, 10) : 0;
  if (!n) return 0;
  while (*end == ' ') end++;
  int unit = *end == 'B' || *end == 'b' ? 0 : *end == 'M' || *end == 'm' ? 20 : *end == 'G' || *end == 'g' ? 30 : 10;
  return n > (SIZE_MAX >> unit) ? SIZE_MAX : (size_t)n << unit;
}

/* how many of n threads the system gives at once */
static int ac_creatable(int n) {
  pthread_t *made = malloc(n * sizeof *made);
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  pthread_attr_t how;
  int got = 0;
  if (!made || pthread_attr_init(&how)) { free(made); return 0; }
  size_t stack = ac_stack_asked();
  if (stack) pthread_attr_setstacksize(&how, stack); /* refused below the system's least, as OpenMP's own attempt is */
  pthread_mutex_lock(&gate);
  while (got < n && !pthread_create(&made[got], &how, ac_pass, &gate)) got++;
  pthread_mutex_unlock(&gate);
  for (int i = 0; i < got; i++) pthread_join(made[i], 0);
  pthread_attr_destroy(&how);
  free(made);
  return got;
}

/* bytes of this thread's stack below its caller */
static long ac_stack_left(void) {
  if (!ac_floor) {
    pthread_attr_t how;
    void *low = 0;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &how)) return INT32_MAX;
    pthread_attr_getstack(&how, &low, &size);
    pthread_attr_destroy(&how);
    ac_floor = low;
  }
  return (char *)__builtin_frame_address(0) - ac_floor;
}

/* the threads of a team of which `wanted` were asked for */
static int ac_team_of(int wanted) {
  if (wanted > ac_checked) { /* asking how many cores there are is a call of the system */
    int most = 4 * omp_get_num_procs();
    if (most < AC_MOST) most = AC_MOST;
    if (wanted > most) wanted = most;
  }
  if (wanted > ac_checked) {
    int n = 1 + (wanted > 1 && !ac_alone ? ac_creatable(wanted - 1) : 0);
    long smallest = INT32_MAX;
    if (n > 1) {
#pragma omp parallel num_threads(n) reduction(min : smallest)
      smallest = ac_stack_left();
    }
    ac_smallest = smallest;
    ac_given = smallest < AC_STACK ? 1 : n;
    ac_checked = wanted;
  }
  return wanted < ac_given ? wanted : ac_given;
}

/* A team's threads do not live on in a forked child, where the next parallel region would wait for them: so the thread that forks gives
 * its team up before. Parent and child make a new one with their next call. Clang's runtime does so by itself. */
#if defined(__GNUC__) && !defined(__clang__)
#if __GNUC__ >= 9
static void ac_before_fork(void) { omp_pause_resource_all(omp_pause_hard); }
static void ac_in_child(void) { ac_checked = 0; }
#else
static void ac_before_fork(void) {}
static void ac_in_child(void) { ac_checked = 0; ac_alone = 1; }
#endif
__attribute__((constructor)) static void ac_at_fork(void) { pthread_atfork(ac_before_fork, 0, ac_in_child); }
#endif
