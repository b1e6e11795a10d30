"""Inputs for a graph: seeded random ones, and .npz files."""

from __future__ import annotations

import io
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from autocomp.errors import ModelError
from autocomp.files import write_atomic
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import dim_hint


def _index_limit(graph: Graph, name: str) -> int:
    """Exclusive bound for an integer input: the gathered axis where it is used as an index, else 8."""
    limits = [8]
    for n in graph.nodes():
        if n.op.startswith("gather") and len(n.inputs) > 1:
            index = n.inputs[1]
            while index.op in ("reshape", "cast", "transpose", "broadcast", "slice"):
                index = index.inputs[0]
            if index.op == "input" and index.attrs["name"] == name:
                limits += [dim_hint(n.inputs[0].type.shape[k]) for k in _indexed(n)]
    return min(limits[1:] or limits)


def _indexed(n: Node) -> range:
    """The dimensions that a gather's indices point into."""
    if n.op == "gather_nd":
        return range(n.attrs["batch_dims"], n.attrs["batch_dims"] + dim_hint(n.inputs[1].type.shape[-1]))
    axis = int(n.attrs.get("axis", 0))
    return range(axis, axis + 1)


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Standard normal floats, small non-negative integers, fair bools; symbolic dimensions at their hint."""
    rng = np.random.default_rng(seed)
    feed = {}
    for n in graph.inputs:
        name, t = n.attrs["name"], n.type
        shape = tuple(dim_hint(d) for d in t.shape)
        if t.dtype.is_float:
            feed[name] = rng.standard_normal(shape).astype(t.dtype.numpy)
        elif t.dtype.is_int:
            feed[name] = rng.integers(0, _index_limit(graph, name), shape).astype(t.dtype.numpy)
        else:
            feed[name] = rng.integers(0, 2, shape).astype(bool)
    return feed


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
