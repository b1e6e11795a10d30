"""Printed C as a program of its own: each tensor in memory of its exact size, read from a file and written to one. So kernels are run
under sanitizers, which would not load into Python, and for instruction sets that this machine lacks, under an emulator.

    program = for_machine(graph, AVX2)              # printed for that machine, not built
    driven = Driven(program, folder, toolchain)     # built with a main
    outputs = driven.run(feed)
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from autocomp.targets.cpu.target import CpuTarget
from autocomp.targets.cpu.toolchain import Toolchain

from autocomp.cost.chip import adapt, shipped
from autocomp.cost.host import HostFacts, facts
from autocomp.ir.node import Graph
from autocomp.ir.ops import OPS
from autocomp.ir.reference import input_sizes
from autocomp.options import Options
from autocomp.pipeline import extract
from autocomp.rewrite import load_rules
from autocomp.runtime.executor import constants_of, shape_of
from autocomp.runtime.library import packings, symbols_of
from autocomp.runtime.plan import segments, size_of, slots
from autocomp.runtime.program import Program, build_program
from autocomp.trace import Trace

SECONDS = 60.0  # of one run


class DrivenFailure(AssertionError):
    """The program ended with an error: its text."""


@dataclass(frozen=True)
class Machine:
    """A CPU to print for: its vectors and registers, the compiler's options, and what starts its programs here."""

    name: str
    arch: str
    vector_bytes: int
    registers: int
    toolchain: Toolchain
    runner: tuple[str, ...] = ()
    packages: str = "gcc"

    def missing(self) -> str:
        """What keeps its programs from being built and run here, "" where nothing does."""
        absent = next((x for x in (self.toolchain.command, *self.runner[:1]) if x and not shutil.which(x)), "")
        if absent or self.toolchain.missing():
            return f"no {absent or 'C compiler'} for {self.name}: `apt-get install {self.packages}`"
        order = ("generic", "x86-64-v3", "x86-64-v4")
        here = facts().arch
        if not self.runner and (self.arch not in order or here not in order or order.index(here) < order.index(self.arch)):
            return f"this machine ({here}) has no {self.name}"
        return ""

    def target(self, options: Options) -> CpuTarget:
        chip = adapt(shipped("cpu"), HostFacts(self.name, self.arch, 2, self.vector_bytes, self.registers, 32 << 10, 1 << 20, 16 << 20))
        return _Elsewhere(chip, toolchain=self.toolchain, options=options)


@dataclass(frozen=True)
class _Elsewhere(CpuTarget):
    """Sources are printed and not built: they are for another machine, or need a main."""

    def why_not_runnable(self) -> str:
        return "its programs are started by a main of their own"


CROSS = os.environ.get("AUTOCOMP_AARCH64_CC", "aarch64-linux-gnu-gcc")
EMULATOR = os.environ.get("AUTOCOMP_AARCH64_RUN", "qemu-aarch64-static")
PLAIN = Machine("SSE2", "generic", 16, 16, Toolchain(machine=("-march=x86-64",)))
AVX2 = Machine("AVX2", "x86-64-v3", 32, 16, Toolchain(machine=("-march=x86-64-v3",)))
AVX512 = Machine("AVX-512", "x86-64-v4", 64, 32, Toolchain(machine=("-march=x86-64-v4",)))
NEON = Machine("NEON", "aarch64", 16, 32, Toolchain(CROSS, ("-march=armv8.2-a",), ("-static",)), (EMULATOR,),
               "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static")  # fmt: skip
MACHINES = (PLAIN, AVX2, AVX512, NEON)


def for_machine(graph: Graph, machine: Machine, **options: Any) -> Program:
    """The graph's program as it is printed for a machine. Raises AutocompError as `optimize` does."""
    from autocomp.ir.decompose import decompose

    chosen, trace = Options(cache=False, tuned=False, **options), Trace()
    rules, target = load_rules(chosen.rules, without=chosen.without, options=chosen), machine.target(chosen)
    calls, schedules = extract(decompose(graph), target, rules, chosen, trace)
    return build_program(calls, schedules, target, chosen, trace, rules.names)


@dataclass
class Driven:
    """A program with a main, built in `folder`. `threads`: of OpenMP."""

    program: Program
    folder: Path
    toolchain: Toolchain
    runner: Sequence[str] = ()
    threads: int = 2
    environment: Mapping[str, str] = field(default_factory=dict)
    _built: tuple[tuple[str, int], ...] = ()

    def run(self, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name. Raises DrivenFailure with what the program said, BuildError with the compiler's log."""
        p = self.program
        values = input_sizes(p.graph, feed)
        places = slots(p.calls)
        arrays = {**{k: np.ascontiguousarray(v) for k, v in feed.items()}, **constants_of(p.calls)}
        self._build(values)
        for first, last, opaque in segments(p.calls.calls):
            if opaque:
                c = p.calls.calls[first]
                given = tuple(arrays[c.args[a.name]] for a in c.kernel.inputs)
                out = c.kernel.outputs[0]
                made = OPS[c.kernel.opaque].reference(given, c.kernel.attrs, out.type)
                t = p.calls.tensors[c.args[out.name]]
                arrays[c.args[out.name]] = np.asarray(made).astype(t.dtype.numpy).reshape(shape_of(t, values))
                continue
            for name, i in places.index.items():
                path = self.folder / f"{i}.bin"
                path.unlink(missing_ok=True)
                if name in arrays:
                    path.write_bytes(arrays[name].tobytes())
            self._start(first, last)
            for c in p.calls.calls[first:last]:
                for o in c.kernel.outputs:
                    name = c.args[o.name]
                    t = p.calls.tensors[name]
                    data = (self.folder / f"{places.index[name]}.bin").read_bytes()
                    arrays[name] = np.frombuffer(data, t.dtype.numpy).reshape(shape_of(t, values)).copy()
        return {name: arrays[t] for name, t in p.calls.outputs}

    def _start(self, first: int, last: int) -> None:
        command = [*self.runner, str(self.folder / "program"), str(first), str(last), str(self.threads)]
        try:
            done = subprocess.run(command, cwd=self.folder, capture_output=True, timeout=SECONDS, check=False,
                                  env={**os.environ, **self.environment})  # fmt: skip
        except subprocess.TimeoutExpired:
            raise DrivenFailure(f"calls {first} to {last} do not end within {SECONDS:.0f} s") from None
        said = done.stderr.decode(errors="replace")
        if done.returncode or "runtime error" in said:
            raise DrivenFailure(f"exit status {done.returncode}: {said[:6000]}")

    def _build(self, values: Mapping[str, int]) -> None:
        key = tuple(sorted(values.items()))
        if self._built == (*key, ("", 0)):
            return
        for name, text in {**self.program.sources, "main.c": self._main(values)}.items():
            (self.folder / name).write_text(text)
        names = [*(n for n in self.program.sources if n.endswith(".c")), "main.c"]
        self.toolchain.compile(self.folder, sorted(names), self.folder / "program", program=True)
        self._built = (*key, ("", 0))

    def _main(self, values: Mapping[str, int]) -> str:
        p = self.program
        places, packed = slots(p.calls), packings(p.calls, slots(p.calls), p.printed)
        bytes_ = {i: size_of(p.calls.tensors[name], values) for name, i in places.index.items()} | {x.slot: x.bytes for x in packed}
        made = sorted({(i, places.index[c.args[o.name]]) for i, c in enumerate(p.calls.calls) for o in c.kernel.outputs})
        scratch = max((s.scratch for s in p.printed.values()), default=0)
        return MAIN.format(
            sizes=", ".join(str(bytes_[i]) for i in range(len(bytes_))) or "0", slots=len(bytes_), tensors=len(places.index),
            z=", ".join(str(values[s]) for s in symbols_of(p.printed, p.calls)) or "0", packs=len(packed), scratch=scratch,
            pack="ac_pack(i, t);" if packed else "", declared="void ac_pack(int i, void *const *t);" if packed else "",
            calls=", ".join(str(i) for i, _ in made) or "0", slot=", ".join(str(s) for _, s in made) or "0", made=len(made),
        )  # fmt: skip


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int ac_run(void *const *t, const long *z, void *scratch, int first, int last, int threads, long *said);
{declared}
static const size_t bytes[] = {{{sizes}}};
static const long z[] = {{{z}}};
static const int calls[] = {{{calls}}}, slot[] = {{{slot}}};
int main(int n, char **words) {{
  const int first = atoi(words[1]), last = atoi(words[2]), threads = atoi(words[3]);
  void *t[{slots} + 1];
  char name[64];
  for (int i = 0; i < {slots}; i++) {{
    t[i] = malloc(bytes[i] ? bytes[i] : 1); /* of its exact size: what reads or writes behind it shows */
    memset(t[i], 0xFF, bytes[i]);
    snprintf(name, sizeof name, "%d.bin", i);
    FILE *f = i < {tensors} ? fopen(name, "rb") : 0;
    if (f && fread(t[i], 1, bytes[i], f) != bytes[i]) {{ fprintf(stderr, "%s is too short\\n", name); return 3; }}
    if (f) fclose(f);
  }}
  for (int i = 0; i < {packs}; i++) {{ {pack} }}
  void *scratch = malloc({scratch} + 1);
  long said[4] = {{0}};
  ac_run(t, z, scratch, first, last, threads, said);
  for (int k = 0; k < {made}; k++) {{
    if (calls[k] < first || calls[k] >= last) continue;
    snprintf(name, sizeof name, "%d.bin", slot[k]);
    FILE *f = fopen(name, "wb");
    if (!f || fwrite(t[slot[k]], 1, bytes[slot[k]], f) != bytes[slot[k]] || fclose(f)) return 4;
  }}
  for (int i = 0; i < {slots}; i++) free(t[i]);
  free(scratch);
  return 0;
}}
"""


def sanitized(toolchain: Toolchain) -> Toolchain:
    """With AddressSanitizer and UndefinedBehaviorSanitizer (conversions of floats out of range among it); the first error ends it."""
    checks = "-fsanitize=address,undefined,float-cast-overflow"
    return replace(toolchain, more=("-O1", "-g", checks, "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"))
