/* Loops shared on demand: part of autocomp_cpu.h and of a program's plan.
 *
 * A kernel's loop over n tiles is a function that a team's threads go through beside each other, each of which takes the next tile until
 * none is left: first of its own part, so that a tile's neighbours meet where they lay before, then of others'. Who calls waits for tiles
 * that have been begun, not for threads: one whose core is busy elsewhere comes too late and finds nothing left. */
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#define AC_PARTS 64 /* parts of a loop at most: further threads take of the others' */
struct ac_part {
  _Alignas(64) long next;
  long end;
};
struct ac_team;
struct ac_share { /* where a thread takes from */
  struct ac_team *of;
  int from;
};
typedef struct ac_share ac_share;
typedef void ac_loop(void *kernel, ac_share *mine);
struct ac_team { /* `turn` is odd while a loop is open, AC_OVER at last */
  _Alignas(64) unsigned long turn;
  _Alignas(64) long inside; /* helpers in a loop */
  ac_loop *loop;
  void *kernel;
  int parts;
  struct ac_part part[AC_PARTS];
};
typedef struct ac_team ac_team;
#define AC_OVER 0UL

/* the team whose helpers wait for what this thread calls; none: a loop makes one of its own */
__attribute__((weak, visibility("hidden"))) __thread ac_team *ac_mine;

/* a thread that has waited for some 100 us lets others have its core; for longer, it sleeps: kernels that nobody shares take a while */
static inline void ac_pause(long *waited) {
  if (++*waited > 4400) usleep(20);
  else if (*waited > 4000) sched_yield();
#if defined(__x86_64__) || defined(__i386__)
  else __builtin_ia32_pause();
#elif defined(__aarch64__)
  else __asm__ volatile("yield");
#endif
}

/* the next tile of a loop, -1 where none is left */
static inline long ac_take(ac_share *mine) {
  ac_team *t = mine->of;
  for (int tried = 0; tried < t->parts; tried++) {
    struct ac_part *p = &t->part[mine->from];
    if (__atomic_load_n(&p->next, __ATOMIC_RELAXED) < p->end) {
      long i = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED);
      if (i < p->end) return i;
    }
    if (++mine->from >= t->parts) mine->from = 0;
  }
  return -1;
}

static inline void ac_divide(ac_team *t, int parts, long n) {
  t->parts = parts;
  for (int i = 0; i < parts; i++) {
    t->part[i].next = n * i / parts;
    t->part[i].end = n * (i + 1) / parts;
  }
}

static inline int ac_parts(int threads) { return threads < AC_PARTS ? threads : AC_PARTS; }

/* go through a kernel's loop over n tiles with as many threads as the caller has */
static inline void ac_share_out(ac_loop *loop, void *kernel, long n) {
  ac_team *t = ac_mine;
  if (t && n > 1) {
    t->loop = loop;
    t->kernel = kernel;
    ac_divide(t, t->parts, n);
    unsigned long turn = t->turn;
    __atomic_store_n(&t->turn, turn + 1, __ATOMIC_SEQ_CST);
    ac_share mine = {t, 0};
    loop(kernel, &mine);
    __atomic_store_n(&t->turn, turn + 2, __ATOMIC_SEQ_CST);
    for (long waited = 0; __atomic_load_n(&t->inside, __ATOMIC_SEQ_CST);) ac_pause(&waited);
    return;
  }
  ac_team own;
  const int threads = t || n < 2 ? 1 : omp_get_max_threads();
  ac_divide(&own, ac_parts(threads), n);
  if (threads == 1) {
    ac_share mine = {&own, 0};
    loop(kernel, &mine);
    return;
  }
#pragma omp parallel
  {
    ac_share mine = {&own, omp_get_thread_num() % own.parts};
    loop(kernel, &mine);
  }
}

/* what a helper does until its team is over */
static inline void ac_help(ac_team *t, int me) {
  ac_share mine = {t, me % t->parts};
  for (unsigned long seen = 2;;) {
    unsigned long turn;
    for (long waited = 0; (turn = __atomic_load_n(&t->turn, __ATOMIC_ACQUIRE)) == seen || turn % 2 == 0;) {
      if (turn == AC_OVER) return;
      ac_pause(&waited);
    }
    __atomic_fetch_add(&t->inside, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&t->turn, __ATOMIC_SEQ_CST) == turn) { /* else the loop is another one by now */
      mine.from = me % t->parts;
      t->loop(t->kernel, &mine);
    }
    __atomic_fetch_sub(&t->inside, 1, __ATOMIC_SEQ_CST);
    seen = turn;
  }
}

static inline void ac_begin(ac_team *t, int threads) {
  t->turn = 2;
  t->inside = 0;
  t->parts = ac_parts(threads);
}

static inline void ac_end(ac_team *t) { __atomic_store_n(&t->turn, AC_OVER, __ATOMIC_SEQ_CST); }
