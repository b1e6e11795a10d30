"""One program compiled twice, in ways that may not matter: both must agree with NumPy, and to the last bit where nothing may regroup.

The programs are those of `numpy_functions`. The other way is one of: a rule that fired is left out; no fusion; `exact`; from the cache;
one thread and two; without vectors; sizes that are open, run at the drawn size and at others. A program from the cache, and a second
call of the same program, must give the same bits.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

import autocomp
from autocomp.errors import AutocompError
from autocomp.ir.types import Sym, TensorType, dtype_of
from benchmarks.fuzz import numpy_functions as functions
from benchmarks.fuzz.verdict import RIGHT, Verdict

NAME = "metamorphic"
WAYS = ("rule", "rule", "rule", "unfused", "exact", "cache", "threads", "plain loops", "open sizes", "open sizes")
OTHER_SIZES = (1, 2, 3, 5, 16, 33)


@dataclass(frozen=True)
class Case:
    """`pick` chooses among what depends on the program: which rule, which dimension."""

    program: functions.Case
    way: str
    pick: int

    def text(self) -> str:
        return f"# the other way: {self.way} (pick {self.pick})\n{self.program.text()}"


def draw(seed: int) -> Case:
    rng = Random(seed)
    return Case(functions.draw(rng.randrange(2**31)), rng.choice(WAYS), rng.randrange(1000))


def check(case: Case) -> Verdict:
    examples, arrays = functions.arguments(case.program)
    try:
        first = _compiled(case.program, examples, cache=False)
    except AutocompError as e:
        return Verdict("refused", e.what)
    want = functions.expected(case.program, arrays)
    got = functions.outputs(first, arrays)
    for what, results in (("the first way", got), ("a second call", functions.outputs(first, arrays))):
        if text := _against(results, want):
            return Verdict("wrong", f"{what}: {text}")
        if text := _bits(results, got):
            return Verdict("wrong", f"{what}: {text}")
    try:
        return _open(case, arrays) if case.way == "open sizes" else _other(case, first, examples, arrays, got, want)
    except AutocompError as e:
        return Verdict("refused", f"{case.way}: {e.what}")


def _compiled(program: functions.Case, examples: Any, **options: Any) -> Any:
    return autocomp.optimize(program.function(), target="cpu", example_inputs=tuple(examples), **options)


def _against(got: list[np.ndarray], want: list[functions.Expected]) -> str:
    return next((f"output {k}: {t}" for k, (g, w) in enumerate(zip(got, want, strict=True)) if (t := functions.problem(g, w))), "")


def _bits(got: list[np.ndarray], want: list[np.ndarray]) -> str:
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        if g.tobytes() != w.tobytes():
            return f"output {k} has other bits: {g.ravel()[:5]!r}.., before {w.ravel()[:5]!r}.."
    return ""


def _other(case: Case, first: Any, examples: Any, arrays: list[np.ndarray], got: list[np.ndarray],
           want: list[functions.Expected]) -> Verdict:  # fmt: skip
    options: dict[str, Any] = {"cache": False}
    if case.way == "cache":
        with tempfile.TemporaryDirectory() as folder:
            before = os.environ.get("AUTOCOMP_CACHE")
            os.environ["AUTOCOMP_CACHE"] = folder
            try:
                again = [functions.outputs(_compiled(case.program, examples), arrays) for _ in range(2)]
            finally:
                os.environ.pop("AUTOCOMP_CACHE") if before is None else os.environ.update(AUTOCOMP_CACHE=before)
        text = next((t for r in again if (t := _bits(r, got))), "")
        return Verdict("wrong", f"cache: {text}") if text else RIGHT
    if case.way == "rule":
        fired = sorted({r.split(":")[0] for k in first.kernels for r in k.rules if "/" in r.split(":")[0]} & set(first.rule_names))
        if not fired:
            return RIGHT
        options["without"] = (fired[case.pick % len(fired)],)
    ways: dict[str, dict[str, Any]] = {
        "unfused": {"without": ("fusion/*",)}, "exact": {"exact": True}, "threads": {"threads": 1 + case.pick % 2},
                "plain loops": {"vectorize_inner": False, "parallel_outer": False}}  # fmt: skip
    options |= ways.get(case.way, {})
    text = _against(functions.outputs(_compiled(case.program, examples, **options), arrays), want)
    return Verdict("wrong", f"{case.way} {options}: {text}") if text else RIGHT


def _open(case: Case, arrays: list[np.ndarray]) -> Verdict:
    """A size of the inputs as a symbol, wherever it stands as many dimensions from the end."""
    places = sorted({(a.shape[d], d - a.ndim) for a in arrays for d in range(a.ndim) if a.shape[d] > 1})
    if not places:
        return RIGHT
    size, place = places[case.pick % len(places)]
    at = [a.ndim >= -place and a.shape[place] == size for a in arrays]
    types = [TensorType(dtype_of(a), tuple(Sym("n", 1, 64) if here and d - a.ndim == place else n for d, n in enumerate(a.shape)))
             for a, here in zip(arrays, at)]  # fmt: skip
    program = _compiled(case.program, types, cache=False)
    for n in (size, *OTHER_SIZES):
        fed = [_resized(a, n, place) if here else a for a, here in zip(arrays, at)]
        try:
            want = functions.expected(case.program, fed)
        except Exception:
            continue
        got = functions.outputs(program, fed)
        if text := _against(got, want):
            return Verdict("wrong", f"open size {place} at {n}: {text}")
    return RIGHT


def _resized(a: np.ndarray, n: int, place: int) -> np.ndarray:
    """The array with n elements along a dimension: its own, over and over."""
    return np.take(a, np.arange(n) % a.shape[place], axis=place)


def smaller(case: Case) -> Iterator[Case]:
    for program in functions.smaller(case.program):
        yield replace(case, program=program)
