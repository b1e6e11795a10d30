"""Inputs for a graph: seeded random ones, and .npz files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from math import prod
from pathlib import Path
from random import Random
from zipfile import BadZipFile

import numpy as np

from autocomp.errors import ModelError
from autocomp.files import write_atomic
from autocomp.ir.node import Graph, Node
from autocomp.ir.ops.data import indexed
from autocomp.ir.orders import as_named
from autocomp.ir.sizes import inputs_of, with_computed
from autocomp.ir.types import Sym, dim_hint

LARGEST = 2**22  # elements of a tensor of a program that is verified
WHOLE = 1021  # what a dimension without a limit counts up to
ODD = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 61, 67)  # no multiples of what vectors and tiles hold


def _index_limit(graph: Graph, name: str, sizes: Mapping[str, int]) -> int:
    """Exclusive bound for an integer input: the axis that is read or written where it is an index of one, half of it where indices are
    computed from it (a position plus an offset), else 8."""
    size = lambda d: sizes.get(d.name, dim_hint(d)) if isinstance(d, Sym) else d
    limits = [8]
    for n in graph.nodes():
        if (found := indexed(n)) is not None:
            index, places = found
            while index.op in ("reshape", "cast", "transpose", "broadcast", "slice"):
                index = index.inputs[0]
            computed = index.op != "input"
            if any(x.op == "input" and x.attrs["name"] == name for x in _integers_of(index)):
                limits += [max(1, size(d) // (1 + computed)) for d in places]
    return min(limits[1:] or limits)


def _integers_of(x: Node) -> set[Node]:
    """The integer tensors that x is computed from, x among them."""
    found, left = {x}, [x]
    while left:
        new = {i for i in left.pop().inputs if i.type.dtype.is_int} - found
        found |= new
        left += new
    return found


def symbols_of(graph: Graph) -> list[Sym]:
    """The symbolic dimensions of a graph's inputs, by name."""
    dims = [d for n in graph.inputs for d in n.type.shape if isinstance(d, Sym)]
    found = {s.name: s for d in dims for s in inputs_of(d)}
    return [found[name] for name in sorted(found)]


def sizes_to_try(graph: Graph, seed: int = 0) -> list[dict[str, int]]:
    """Values of the symbols at which a program is looked at: all at their smallest, two draws of odd sizes, all at their largest, as far
    as no tensor grows beyond LARGEST elements. One empty dict where there are no symbols."""
    syms, rng = symbols_of(graph), Random(seed)
    types = [n.type for n in graph.nodes()]
    times = lambda s, k: max(s.lo, min(s.hi, k * s.multiple)) // s.multiple * s.multiple or s.multiple
    least = {s.name: -(-max(s.lo, 1) // s.multiple) * s.multiple for s in syms}

    def fits(sizes: dict[str, int]) -> bool:
        sizes = with_computed(sizes, graph.computed)
        return all(prod(sizes.get(d.name, 1) if isinstance(d, Sym) else d for d in t.shape) <= LARGEST for t in types)

    def shrunk(sizes: dict[str, int]) -> dict[str, int]:
        while not fits(sizes) and sizes != least:
            sizes = {s.name: max(least[s.name], sizes[s.name] // 2 // s.multiple * s.multiple) for s in syms}
        return sizes

    odd = [{s.name: max(least[s.name], times(s, rng.choice(ODD))) for s in syms} for _ in range(2)]
    most = {s.name: s.hi // s.multiple * s.multiple if s.hi <= WHOLE else max(least[s.name], times(s, WHOLE // s.multiple)) for s in syms}
    tried = [least, *map(shrunk, odd), shrunk(most)]
    return [x for k, x in enumerate(tried) if x not in tried[:k]]


def random_inputs(graph: Graph, seed: int = 0, sizes: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
    """By name, as callers give them: standard normal floats, small non-negative integers, fair bools; symbolic dimensions as `sizes` says,
    or at their hint."""
    rng, sizes = np.random.default_rng(seed), with_computed(sizes, graph.computed) if sizes else {}
    feed = {}
    for n in graph.inputs:
        name, t = n.attrs["name"], n.type
        shape = tuple(sizes.get(d.name, dim_hint(d)) if isinstance(d, Sym) else d for d in t.shape)
        if t.dtype.is_float:
            feed[name] = rng.standard_normal(shape).astype(t.dtype.numpy)
        elif t.dtype.is_int:
            feed[name] = rng.integers(0, _index_limit(graph, name, sizes), shape).astype(t.dtype.numpy)
        else:
            feed[name] = rng.integers(0, 2, shape).astype(bool)
    return as_named(feed, graph.input_orders)


def load_npz(path: Path) -> dict[str, np.ndarray]:
    """Arrays by name. Nothing in the file is executed (no pickles). Raises ModelError."""
    try:
        with np.load(path, allow_pickle=False) as data:
            return {k: data[k] for k in data.files}
    except FileNotFoundError:
        raise ModelError("no such file", where=str(path), hint="--inputs wants an .npz written by numpy.savez") from None
    except (ValueError, OSError, BadZipFile, EOFError) as e:
        raise ModelError(
            f"not a readable .npz: {e}", where=str(path), hint="write it with numpy.savez(path, name=array)"
        ) from None


def save_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays by name, all or nothing."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    write_atomic(path, buffer.getvalue())
