"""Changes printed Ascend C, MACA C and CUDA one place at a time and asks the models: each wait, flag, barrier, copy, instruction left
out; each index, count, stride, bound, place, width, capacity, operand order, comparison changed.

    python -m benchmarks.text_mutants                       a table for all goldens
    python -m benchmarks.text_mutants ascend/softmax --each  of one, and each mutant that nobody objects to

A mutant is caught where the model complains, or where a value differs from the kernel's by more than its type's rounding. One that gives
the same bits from poisoned memory on all tiles, each access in its tensor and ordered, is no fault of this kernel: a flag that another
implies, a stride of one row, lanes that only pad. What differs within the tolerance is asked again with inputs STEEP times as large, among
which one score of a row outweighs all others: a maximum that leaves it out is no base of weights then. What is left is missed.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import select
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from autocomp.targets.source import KernelSource

import autocomp
from autocomp.errors import BuildError
from autocomp.runtime.program import Program
from autocomp.simulate.ascend_model import AscendExecutor
from autocomp.simulate.simt_model import ModelExecutor, compile_model
from tests.helpers.device_graphs import GRAPHS

TARGETS = {"ascend": "ascend:910b", "maca": "maca:c500", "a100": "cuda:a100", "h200": "cuda:h200"}
LANGUAGES = {"a100": "cuda", "h200": "cuda"}  # of others: as they are called here
NAMES = ("ascend/chain", "ascend/softmax", "ascend/layer_norm_odd", "ascend/gemm_bias_gelu", "ascend/attention_causal",
         "maca/softmax", "maca/layer_norm_odd", "maca/gemm_bias_gelu", "maca/attention_f16",
         "a100/softmax", "a100/gemm_odd", "a100/attention_f16", "h200/attention_causal_128")  # fmt: skip
LIMIT = 20.0  # seconds of one mutant's run: longer ones never end
BLOCKS = 2  # cores or groups of an NPU: each takes several tiles
TOGETHER = 16  # mutants of a library
STEEP = 8.0


@dataclass(frozen=True)
class Mutant:
    """One line of a kernel's text, changed; "" for a line left out."""

    kind: str
    line: int
    was: str
    now: str

    def applied(self, text: str) -> str:
        lines = text.splitlines()
        assert lines[self.line] == self.was
        lines[self.line] = self.now
        return "\n".join([*lines, ""])


# ---- what is changed, by kind: a pattern of the line, the pattern of each place in it, and what stands there then
Change = tuple[str, str, str, str | Callable[[re.Match[str]], str]]


def _fewer(m: re.Match[str]) -> str:
    return f"{m[1]}{max(1, int(m[2]) // 2)}{m[3]}"


LEFT_OUT = {
    "ascend": [("wait", r"\s*WaitFlag<"), ("flag", r"\s*SetFlag<"), ("cross-core flag", r"\s*CrossCore\w+Flag"),
               ("barrier", r"\s*PipeBarrier<"), ("copy", r"\s*(for .*\) )?(DataCopyPad|ac_to_l\w+|ac_fixpipe\w*)\("),
               ("instruction", r"\s*(ac_(?!to_l|fixpipe)\w+|[A-Z]\w+)\(\w+, .*\);")],
    "maca": [("wait", r"\s*ac_wait\w*<"), ("barrier", r"\s*(ac_sync|__syncthreads|__syncwarp)\("),
             ("copy", r"\s*(if \(c < \d+\) )?(ac_copy\w*<|ac_keep\()"),
             ("instruction", r"\s*ac_(mma|take|load|store|fill)\w*[<(]")],
    "cuda": [("wait", r"\s*ac_(?:barrier_|team_|bulk_|launch_)?wait\w*[<(]"),
             ("arrival", r"\s*(?:if \(.*\) )?ac_barrier_(?:arrive|expect)"), ("fence", r"\s*ac_(?:async|barrier|team)_fence"),
             ("commit", r"\s*ac_(?:team_)?commit\("),
             ("barrier", r"\s*(?:ac_sync|ac_barrier_sync|__sync\w+)\("),
             ("copy", r"\s*(?:if \(.*\) )?(?:ac_copy<|ac_keep\(smem|ac_bulk_(?:load|store|drain))"),
             ("instruction", r"\s*(?:if \(.*\) )?ac_(?:mma|ldmatrix|wgmma|load|store|fill|barrier_init)\w*[<(]")],
}  # fmt: skip
# of all GPUs
STRIDE: Change = ("stride", r".*", r"\)\*(\d+)", lambda m: f")*{int(m[1]) + 1}")
ORDER: Change = ("operand order", r".*ac_mma", r"(f\w+\[\w+\]), (f\w+\[\w+\])", r"\2, \1")
PLACE: Change = ("place", r".*smem \+", r"smem \+ (\d+)", lambda m: f"smem + {int(m[1]) + 16}")
WIDTH: Change = ("width", r".*ac_store<", r"ac_store<([124])>", lambda m: f"ac_store<{2 * int(m[1])}>")
CHANGED: dict[str, list[Change]] = {
    "ascend": [
        ("flag", r"\s*(?:Set|Wait|CrossCore\w+)Flag", r"\((.+)\);", r"(1 + \1);"),
        ("index", r".*_g\[", r"(_g\[.+?\])(?=,)", lambda m: m[1][:-1] + " + 1]"),
        ("count", r"\s*(?:[A-Z]\w+|ac_\w+)\(.*, \d+\);", r"(, )(\d+)(\);)", _fewer),
        ("count", r".*ac_copy\(", r"ac_copy\(([^,]+), ", r"ac_copy(\1 - 1, "),
        ("count", r".*ac_copy\(", r"ac_copy\(([^,]+), ([^,]+),", r"ac_copy(\1, \2 - 4,"),
        ("stride", r".*ac_copy\(", r"ac_copy\(([^,]+), ([^,]+), (.+?), (.+?)\)(?=[,)])", r"ac_copy(\1, \2, 32 + \3, \4)"),
        ("stride", r".*ac_copy\(", r"ac_copy\(([^,]+), ([^,]+), (.+?), (.+?)\)(?=[,)])", r"ac_copy(\1, \2, \3, 32 + \4)"),
        ("stride", r"\s*ac_(?:to_l|fixpipe|row_|fold|\w+_(?:stat|line))\w*\(", r", (\d+)\);", lambda m: f", {int(m[1]) + 16});"),
        ("operand order", r"\s*(?:Sub|Div|ac_\w+|Max|Cast|Exp|Adds|Muls|Select|Add|Mul)\(\w+, \w+,", r"\((\w+), (\w+),", r"(\2, \1,"),
        ("operand order", r"\s*(?:Sub|Div|Select|ac_Sub\w+|ac_Div\w+|ac_mmad)\(\w+, \w+, \w+,", r"\((\w+), (\w+), (\w+),", r"(\1, \3, \2,"),
        ("place", r".*(?:ac_at|GetWithOffset)<", r", (\d+)( \+ .*)?\);", lambda m: f", {int(m[1]) + 512 if m[2] else 0});"),
        ("place", r".*(?:ac_at|GetWithOffset)<", r" % 2 \* (\d+)\);", r" % 2 * 32);"),
        ("capacity", r"\s*pipe\.InitBuffer", r"(, )(\d+)(\);)", _fewer),
        ("bound", r"\s*(?:for|const uint32_t [ncw]_)", r"<=? (\d+)( \?|;)", lambda m: f"< {int(m[1]) - 1}{m[2]}"),
        ("bound", r"\s*const uint32_t (?:own|w_row)", r"n_(\w+) \+ 1", r"n_\1"),
        ("mask", r".*(?:CMPMODE|RoundMode)", r"CMPMODE::GE", "CMPMODE::GT"),
        ("mask", r".*RoundMode", r"CAST_RINT|CAST_NONE", lambda m: {"CAST_RINT": "CAST_NONE", "CAST_NONE": "CAST_RINT"}[m[0]]),
    ],
    "maca": [
        ("index", r".*ac_(?:copy|load|store)\w*<", r"((?:in|out)\d+) \+ \(", r"\1 + 1 + ("),
        ("index", r".*ac_take", r"ac_swizzle<(\d+)>\((.+?), ", r"ac_swizzle<\1>(1 + \2, "),
        STRIDE,
        ("stride", r".*ac_(?:copy|take)", r"ac_swizzle<(\d+)>\((.+?), \((.+?)\) \* 2\)", r"ac_swizzle<\1>(\2, (\3) * 2 ^ 16)"),
        ("bound", r".*(?:if|for|ac_copy)", r"< (\d+)\b", lambda m: f"< {int(m[1]) - 1}"),
        ("count", r".*", r"ac_wait_copies<(\d+)>", lambda m: f"ac_wait_copies<{int(m[1]) + 1}>"),
        ORDER,
        ("mask", r".*0xf+ull", r"0xf{16}ull", "0xffffffffull"),
        PLACE,
        ("place", r".*% (\d+) \* \d+", r"% (\d+) \* (\d+)", r"% \1 * 32"),
        WIDTH,
    ],
    "cuda": [
        ("index", r".*ac_(?:copy|load|store|fetched)\w*<", r"((?:in|out)\d+) \+ \(?", r"\g<0>1 + "),
        ("index", r".*ac_ldmatrix", r"ac_swizzle<(\d+)>\((.+?), ", r"ac_swizzle<\1>(1 + \2, "),
        ("index", r".*ac_wgmma", r"ac_descriptor_at\((\w+), ", r"ac_descriptor_at(\1, 2 + "),
        ("index", r".*ac_bulk_(?:load|store)", r", (\w+|0 \+ \d+)(?=(?:, \w+)*\);)", r", 1 + \1"),
        STRIDE,
        ("stride", r".*ac_ldmatrix", r"\) \* 2\)\)", r") * 2 ^ 16))"),
        ("bound", r".*(?:if|for|ac_copy|ac_fetched)", r"< (\d+)\b", lambda m: f"< {int(m[1]) - 1}"),
        ("count", r".*", r"(ac_(?:team_|bulk_)?wait)<(\d+)>", lambda m: f"{m[1]}<{int(m[2]) + 1}>"),
        ("count", r".*ac_barrier_(?:init|expect|sync)", r", (\d+)\);", lambda m: f", {int(m[1]) * 2});"),
        ORDER,
        ("operand order", r".*ac_wgmma", r"(ac_descriptor_at\(.+?\)), (ac_descriptor_at\(.+?\))\);", r"\2, \1);"),
        ("flag", r".*ac_barrier_wait", r", (1 \^ )?(\(?q\d / \d)", lambda m: f", {'' if m[1] else '1 ^ '}{m[2]}"),
        ("mask", r".*if \(lane", r"lane (?:/|%) (\d+) == 0", lambda m: m[0].replace(" == ", " != ")),
        ("mask", r".*ac_shuffle_xor", r"ac_shuffle_xor\((.+?), (\d+)\)", r"ac_shuffle_xor(\1, \2 ^ 3)"),
        PLACE,
        ("place", r".*% (\d+) \* \d+", r"% (\d+) \* (\d{3,})", r"% \1 * 32"),
        WIDTH,
    ],
}  # fmt: skip


def mutants(language: str, text: str) -> Iterator[Mutant]:
    """All of a kernel's text behind its comment."""
    lines = text.splitlines()
    first = next((i for i, x in enumerate(lines) if x.strip() == "*/"), -1) + 1
    for i, line in enumerate(lines[first:], first):
        for kind, pattern in LEFT_OUT[language]:
            if re.match(pattern, line):
                yield Mutant(f"{kind} left out", i, line, line[: len(line) - len(line.lstrip())] + ";")
        seen = {line}
        for kind, of, pattern, by in CHANGED[language]:
            for m in re.finditer(pattern, line) if re.match(of, line) else ():
                now = line[: m.start()] + (m.expand(by) if isinstance(by, str) else by(m)) + line[m.end() :]
                if now not in seen:
                    seen.add(now)
                    yield Mutant(kind, i, line, now)


# ---- running them
def guarded(work: Callable[[], Any], limit: float = LIMIT) -> Any:
    """The result of a function run in a process of its own; a text where it died or did not end."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            result = work()
        except BaseException as e:
            result = f"{type(e).__name__}: {e}".split("\n")[0][:200]
        with os.fdopen(write, "wb") as f:
            pickle.dump(result, f)
        os._exit(0)
    os.close(write)
    until, data = time.monotonic() + limit, b""
    with os.fdopen(read, "rb", buffering=0) as f:
        while select.select([f], [], [], max(0.0, until - time.monotonic()))[0]:
            if not (part := f.read(1 << 20)):
                break
            data += part
        else:
            os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return pickle.loads(data) if data and not status else "it does not end" if status == signal.SIGKILL else f"it dies with {status}"


@dataclass
class Subject:
    """A program of one kernel on its model, with values that it was given and gave."""

    name: str
    program: Program
    source: KernelSource
    feed: Mapping[str, np.ndarray]
    folder: Path
    model: Path | None = None

    def changed(self, text: str, entry: str) -> KernelSource:
        return replace(self.source, entry=entry, text=text.replace(f" {self.source.entry}(", f" {entry}("))

    def run(self, texts: list[str]) -> list[Any]:
        """Outputs of each text, or what was said against it."""
        if self.model is not None:
            return [self.alone(t) for t in texts]
        sources = [self.changed(t, f"m{i}") for i, t in enumerate(texts)]
        executor = AscendExecutor(self.program, Path(tempfile.mkdtemp(dir=self.folder)), blocks=BLOCKS)
        kept, self.program.printed = self.program.printed, {s.entry: s for s in sources}  # type: ignore[assignment]
        try:
            executor.library = executor.build()
        except BuildError:
            return [self.alone(t) for t in texts] if len(texts) > 1 else ["it does not compile"]
        finally:
            self.program.printed = kept
        return [guarded(partial(self.one, executor, s)) for s in sources]

    def alone(self, text: str) -> Any:
        if self.model is None:
            return self.run([text])[0]
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        kept = dict(self.program.printed)
        self.program.printed[self.source.name] = replace(self.source, text=text)
        try:
            executor = ModelExecutor(self.program, folder, self.model)
        except BuildError:
            return "it does not compile"
        finally:
            changed, self.program.printed = self.program.printed, kept
        return guarded(lambda: self._with(changed, executor))

    def _with(self, printed: Any, executor: ModelExecutor) -> Any:
        self.program.printed = printed
        return executor.run(self.feed)

    def one(self, executor: AscendExecutor, source: KernelSource) -> Any:
        self.program.printed = {self.source.name: source}  # type: ignore[assignment]
        return executor.run(self.feed)


def language(name: str) -> str:
    return LANGUAGES.get(prefix := name.partition("/")[0], prefix)


def subject(name: str, folder: Path, model: Path | None = None) -> Subject:
    target, _, graph = name.partition("/")
    program = autocomp.optimize(GRAPHS[graph], target=TARGETS[target])
    assert len(program.printed) == 1, name
    rng = np.random.default_rng(7)
    inputs = {i.attrs["name"]: i.type for i in program.calls.source.inputs}
    feed = {n: rng.standard_normal([int(str(d)) for d in t.shape]).astype(t.dtype.numpy) for n, t in inputs.items()}
    return Subject(name, program, next(iter(program.printed.values())), feed, folder, model)


def verdict(got: Any, whole: Mapping[str, np.ndarray]) -> str:
    """What becomes of a mutant: caught, same or missed, and why."""
    if isinstance(got, str):
        return f"caught: {got}"
    worst = 0.0
    for n, w in whole.items():
        if got[n].tobytes() != w.tobytes():
            a, b = got[n].astype(np.float64), w.astype(np.float64)
            rounding = 4e-3 if w.dtype.itemsize == 2 else 1e-5
            far = np.abs(a - b) / (rounding * np.maximum(np.abs(b), np.sqrt(np.mean(b * b))))
            worst = max(worst, float(np.max(far)) if np.isfinite(far).all() else np.inf)
    return "same" if not worst else "caught: other values" if worst > 1 else f"missed: values differ by {worst:.2g} of the tolerance"


def judged(name: str, folder: Path, model: Path | None = None, every: int = 1) -> Iterator[tuple[Mutant, str]]:
    """Each mutant (or one of `every`) of a golden with its verdict. Raises AssertionError where the kernel itself is not right."""
    s = subject(name, folder, model)
    whole = s.run([s.source.text])[0]
    assert not isinstance(whole, str), whole
    made = list(mutants(language(name), s.source.text))[::every]
    for i in range(0, len(made), TOGETHER):
        some = made[i : i + TOGETHER]
        for m, got in zip(some, s.run([m.applied(s.source.text) for m in some])):
            said = verdict(got, whole)
            if said.startswith("missed"):
                steep = replace(s, feed={n: (x * STEEP).astype(x.dtype) for n, x in s.feed.items()})
                said = verdict(steep.alone(m.applied(s.source.text)), steep.alone(s.source.text))
            yield m, said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, help="goldens, as ascend/softmax")
    parser.add_argument("--each", action="store_true", help="list each that is not caught")
    parser.add_argument("--every", type=int, default=1, help="only one of so many")
    args = parser.parse_args()
    total: Counter[str] = Counter()
    caught: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as t:
        folder = Path(t)
        model = compile_model(folder) if any(language(n) != "ascend" for n in args.names) else None
        for name in args.names:
            for m, said in judged(name, folder, model if language(name) != "ascend" else None, args.every):
                kind = f"{language(name)} {m.kind}"
                total[kind] += 1
                caught[kind] += said.startswith("caught")
                missed[kind] += said.startswith("missed")
                if args.each and not said.startswith("caught"):
                    print(f"{name}:{m.line + 1}: {m.kind}: {said}\n    {m.was.strip()}\n    {m.now.strip()}", flush=True)
    wrong = sum(caught.values()) + sum(missed.values())
    share = sum(caught.values()) / max(1, wrong)
    print(f"{sum(total.values())} mutants, {wrong} really wrong, of which {sum(caught.values())} caught ({share:.1%})")
    for kind, n in total.most_common():
        print(f"{kind:28} {n:4}: {caught[kind]:4} caught, {n - caught[kind] - missed[kind]:4} no fault, {missed[kind]:3} missed")
    raise SystemExit(sum(missed.values()) > 0.01 * wrong)


if __name__ == "__main__":
    main()
