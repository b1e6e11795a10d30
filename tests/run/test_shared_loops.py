"""Loops that threads share on demand (targets/cpu/include/autocomp_cpu_share.h): each tile runs once, what it wrote is there behind the
loop, and who calls waits for tiles that have been begun, not for helpers."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

import autocomp
from tests.helpers import fresh
from tests.helpers.c_driver import PLAIN

MAIN = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "autocomp_cpu_share.h"
enum { TILES = 37, LOOPS = 3000, SLOW = 0 }; /* SLOW: helpers are, and have begun before who calls goes on */
static long done[TILES];
static int begun;
static __thread int helps;
static ac_team team;
static void meet(void) {
  if (helps) {
    __atomic_store_n(&begun, 1, __ATOMIC_RELAXED);
    usleep(3000);
  } else for (int i = 0; i < 2000 && !__atomic_load_n(&begun, __ATOMIC_RELAXED); i++) usleep(500);
}
static void tiles(void *kernel, ac_share *from) {
  for (long i; (i = ac_take(from)) >= 0;) {
    if (SLOW) meet();
    done[i] += *(long *)kernel;
  }
}
static void *helper(void *me) { helps = 1; ac_help(&team, (int)(long)me); return 0; }
int main(int argc, char **argv) {
  (void)argc; (void)argv;
  const int members = atoi(argv[1]), helpers = atoi(argv[2]);
  pthread_t of[16];
  ac_begin(&team, members);
  for (long i = 0; i < helpers; i++) if (pthread_create(&of[i], 0, helper, (void *)(i + 1))) return 8;
  ac_mine = &team;
  int wrong = 0;
  for (long l = 1; l < LOOPS; l++) {
    const long n = 1 + l % TILES;
    ac_share_out(tiles, &l, n);
    for (long i = 0; i < TILES; i++) {
      wrong += done[i] != (i < n ? l : 0);
      done[i] = 0;
    }
  }
  ac_mine = 0;
  ac_end(&team);
  for (int i = 0; i < helpers; i++) pthread_join(of[i], 0);
  return wrong > 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if PLAIN.missing():
        pytest.skip(PLAIN.missing())
    folder = tmp_path_factory.mktemp("loops")
    (folder / "main.c").write_text(MAIN)
    PLAIN.toolchain.compile(folder, ["main.c"], folder / "program", program=True)
    return folder / "program"


@pytest.mark.parametrize(("members", "helpers"), [(2, 1), (5, 4), (100, 3), (1, 0)])
def test_every_tile_runs_once_and_is_seen(program, members, helpers):
    assert subprocess.run([program, str(members), str(helpers)], timeout=60, check=False).returncode == 0


def test_who_calls_waits_for_no_helper(program):
    """Three of four members never come: their parts are the caller's."""
    assert subprocess.run([program, "4", "0"], timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_kernels_that_share_and_kernels_that_make_their_own_team_run_in_turns(threads):
    """Loops before, between and behind an order, which has a team of its own; results have the same bytes whatever the team."""
    text = ("graph g\ninput x: f32[96, 640]\nparam w: f32[640, 640] = random(0)\n%0 = matmul(x, w)\n%1 = softmax(%0, axes=[1])\n"
            "%2 = topk(%1, k=64, axis=1, largest=True)\n%3 = cast(%2, to=\"f32\")\n%4 = reduce_sum(%3, axes=[1], keepdims=True)\n"
            "%5 = matmul(%1, w)\n%6 = mul(%5, %4)\noutput y = %6\noutput z = %2\n")  # fmt: skip
    x = fresh.rng().standard_normal((96, 640)).astype("f4")
    programs = [autocomp.optimize(text, target="cpu", threads=n) for n in (1, threads)]
    assert threads == 1 or {s.threads for s in programs[1].printed.values()} >= {"own", "shared"}
    results = [p.run({"x": x}) for p in programs]
    for name in ("y", "z"):
        assert np.array_equal(results[0][name], results[1][name])
