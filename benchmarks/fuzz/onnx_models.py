"""Hostile ONNX models through the whole `optimize`: valid ones with a few changes; what compiles runs, compared with onnxruntime."""

from __future__ import annotations

import math
import os
import pickle
import select
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import numpy as np
import onnx
from google.protobuf import text_format
from onnx import AttributeProto, TensorProto, helper, numpy_helper

import autocomp
from autocomp.errors import AutocompError
from autocomp.ir.reference import evaluate
from autocomp.ir.types import dim_hint
from autocomp.runtime.inputs import random_inputs
from benchmarks.fuzz.onnx_seeds import MADE, suite
from benchmarks.fuzz.verdict import RIGHT, Verdict

NAME = "onnx_models"
DEADLINE = 5.0  # seconds of `optimize`'s own end
RUNTIME_SECONDS = 5.0  # that onnxruntime may take
HUGE = 1e18  # numbers whose products overflow
LARGE = 1 << 24  # elements of inputs or outputs that are not run
INTS = (0, 1, -1, 2, 3, 7, -2, 16, 64, 255, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32 + 1, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 3e38, math.inf, -math.inf, math.nan, 0.5)
NAMES = ("", "x", "y", "é", "a b", "0", "/", "x" * 300, "\n", "int", "%0", "../x", "\ud7ff", "None")
TYPES = (*range(25), 99, -1, 2**31 - 1)
OPSETS = (0, 1, 6, 7, 9, 11, 13, 17, 18, 21, 23, 99, -1, 2**31 - 1)
OPS = ("Relu", "Add", "MatMul", "Reshape", "Gather", "Concat", "Identity", "Softmax", "ReduceSum", "Cast", "Slice", "Conv", "Shape",
       "Expand", "Where", "Pow", "Mod", "TopK", "NonZero", "Loop", "If", "Constant", "ConstantOfShape", "Range", "Tile", "Pad", "Split",
       "Squeeze", "Dropout", "LSTM", "Unique", "NoSuchOp", "")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """The bytes of a model and what was changed in it."""

    data: bytes
    changes: tuple[str, ...] = ()

    def text(self) -> str:
        proto = onnx.ModelProto()
        proto.ParseFromString(self.data)
        head = "\n".join((*(f"# {c}" for c in self.changes), "# autocomp.optimize(bytes.fromhex(..), target='cpu'), and as text:"))
        return f"{head}\n{self.data.hex()}\n{text_format.MessageToString(proto)}"


def prepare() -> None:
    """Once a process, before the first case: the suite's models take seconds to make."""
    suite()


def draw(seed: int) -> Case:
    rng = Random(f"onnx {seed}")
    if rng.random() < 0.5:
        proto = rng.choice(MADE)()
    else:
        proto = onnx.ModelProto()
        proto.ParseFromString(rng.choice(suite()))
    changes = []
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3, 5))):
        change = rng.choice(CHANGES)
        with suppress(ValueError, TypeError, OverflowError):  # a value that protobuf does not hold
            if said := change(rng, proto, rng.choice(list(graphs_of(proto.graph)))):
                changes.append(f"{change.__name__}: {said}")
    return Case(proto.SerializeToString(), tuple(changes))


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and those in its nodes' attributes."""
    yield graph
    for n in graph.node:
        for a in n.attribute:
            for g in ([a.g] if a.HasField("g") else []) + list(a.graphs):
                yield from graphs_of(g)


# ---- changes: (rng, model, one of its graphs) -> what was changed, "" where there was nothing to change
def _node(rng: Random, g: onnx.GraphProto) -> onnx.NodeProto | None:
    return rng.choice(g.node) if g.node else None


def _values(g: onnx.GraphProto) -> list[str]:
    return [*(v.name for v in g.input), *(t.name for t in g.initializer), *(o for n in g.node for o in n.output)]


def attribute(rng: Random, m: onnx.ModelProto, g: onnx.GraphProto) -> str:
    n = _node(rng, g)
    if n is None:
        return ""
    if not n.attribute or rng.random() < 0.1:
        name = rng.choice(("axis", "axes", "to", "perm", "keepdims", "kernel_shape", "pads", "mode", "value", "alpha", "nonsense"))
        n.attribute.append(helper.make_attribute(name, rng.choice((1, -1, 2**40, 0.5, "text", [1, 2], [0.5], ["a"]))))
        return f"{n.op_type} gets {name}"
    a = rng.choice(n.attribute)
    how = rng.choice(("value", "value", "value", "longer", "shorter", "drop", "type", "name"))
    if how == "drop":
        n.attribute.remove(a)
    elif how == "name":
        a.name = rng.choice((*NAMES, "axis", "axes"))
    elif how == "type":
        name = a.name
        tensor = numpy_helper.from_array(np.arange(3))
        a.CopyFrom(helper.make_attribute(name, rng.choice((1, 2.5, "text", b"\xff\xfe", [1, 2, 3], [0.5], ["a", "b"], tensor))))
    elif a.type == AttributeProto.INT:
        a.i = rng.choice(INTS)
    elif a.type == AttributeProto.FLOAT:
        a.f = rng.choice(FLOATS)
    elif a.type == AttributeProto.STRING:
        a.s = rng.choice((b"", b"linear", b"nearest", b"cubic", b"SAME_UPPER", b"VALID", b"reverse", b"constant", b"\xff", b"ij,jk"))
    elif a.type == AttributeProto.INTS:
        items = list(a.ints)
        if how == "shorter" and items:
            del items[rng.randrange(len(items))]
        elif how == "longer" or not items:
            items.insert(rng.randint(0, len(items)), rng.choice(INTS))
        else:
            items[rng.randrange(len(items))] = rng.choice(INTS)
        del a.ints[:]
        a.ints.extend(items)
    elif a.type == AttributeProto.TENSOR:
        return _tensor(rng, a.t)
    return f"{n.op_type}.{a.name} {how}"


def rewire(rng: Random, m: onnx.ModelProto, g: onnx.GraphProto) -> str:
    n = _node(rng, g)
    if n is None:
        return ""
    how = rng.choice(("other", "other", "other", "drop", "more", "swap", "none", "unknown", "own"))
    known = _values(g) or [""]
    i = rng.randrange(len(n.input)) if n.input else -1
    if how == "more" or i < 0:
        n.input.append(rng.choice(known))
    elif how == "drop":
        del n.input[-1]
    elif how == "swap":
        j = rng.randrange(len(n.input))
        n.input[i], n.input[j] = n.input[j], n.input[i]
    else:
        n.input[i] = {"other": rng.choice(known), "none": "", "unknown": "nowhere", "own": n.output[0] if n.output else ""}[how]
    return f"input {i} of {n.op_type}: {how}"


def names(rng: Random, m: onnx.ModelProto, g: onnx.GraphProto) -> str:
    n = _node(rng, g)
    new = rng.choice((*NAMES, *(_values(g) or ["x"])))
    places: list[Callable[[], None]] = []
    if n is not None:
        places.append(lambda: setattr(n, "name", new))
        if n.output:
            k = rng.randrange(len(n.output))
            places += [lambda: n.output.__setitem__(k, new), lambda: n.output.append(new), lambda: n.output.__delitem__(k)]
    for items in (g.input, g.output, g.initializer):
        if items:
            x = rng.choice(items)
            places.append(partial(setattr, x, "name", new))
    if not places:
        return ""
    rng.choice(places)()
    return repr(new)


def operator(rng: Random, m: onnx.ModelProto, g: onnx.GraphProto) -> str:
    n = _node(rng, g)
    if n is None:
        return ""
    old = n.op_type
    if rng.random() < 0.15:
        n.domain = rng.choice(("ai.onnx", "ai.onnx.ml", "com.microsoft", "nowhere", "é"))
    else:
        n.op_type = rng.choice(OPS)
    return f"{old} becomes {n.domain}:{n.op_type}"


def nodes(rng: Random, m: onnx.ModelProto, g: onnx.GraphProto) -> str:
    if not g.node:
        return ""
    how, i = rng.choice(("delete", "again", "order", "insert")), rng.randrange(len(g.node))
    if how == "delete":
        del g.node[i]
    elif how == "again":
        g.node.add().CopyFrom(g.node[i])
    elif how == "order":
        items = [onnx.NodeProto.FromString(x.SerializeToString()) for x in g.node]
        rng.shuffle(items)
        del g.node[:]
        g.node.extend(items)
    else:
        g.node.add().CopyFrom(helper.make_node(rng.choice(OPS), [rng.choice(_values(g) or [""])], [rng.choice(NAMES)]))
    return f"{how} {i}"


def declared(rng: Random, m: onnx.ModelProto, g: onnx.GraphProto) -> str:
    """Types and dimensions of inputs and outputs."""
    items = [*g.input, *g.output, *g.value_info]
    if not items:
        return ""
    v = rng.choice(items)
    how = rng.choice(("dtype", "dim", "dim", "named", "fewer", "more", "none", "sequence"))
    t = v.type.tensor_type
    if how == "none":
        v.ClearField("type")
    elif how == "sequence":
        v.type.Clear()
        v.type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    elif how == "dtype":
        t.elem_type = rng.choice(TYPES)
    elif how == "more" or not t.shape.dim:
        t.shape.dim.add().dim_value = rng.choice((0, 1, 3))
    elif how == "fewer":
        del t.shape.dim[rng.randrange(len(t.shape.dim))]
    elif how == "named":
        t.shape.dim[rng.randrange(len(t.shape.dim))].dim_param = rng.choice(NAMES)
    else:
        t.shape.dim[rng.randrange(len(t.shape.dim))].dim_value = rng.choice(INTS)
    return f"{v.name[:20]!r} {how}"


def initialiser(rng: Random, m: onnx.ModelProto, g: onnx.GraphProto) -> str:
    return _tensor(rng, rng.choice(g.initializer)) if g.initializer else ""


def _tensor(rng: Random, t: TensorProto) -> str:
    how = rng.choice(("values", "values", "values", "dims", "dims", "short", "long", "dtype", "external", "none", "fields"))
    if how == "values" and t.data_location != TensorProto.EXTERNAL:  # an earlier change may have sent it to a file
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                x = numpy_helper.to_array(t).copy()
            except (KeyError, ValueError, TypeError):  # an earlier change may have given it a type that there is not
                return ""
            if x.size and x.dtype.kind in "iuf":
                low, high = (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max) if x.dtype.kind in "iu" else (0, 0)
                value = rng.choice(FLOATS) if x.dtype.kind == "f" else float("nan")
                at = rng.randrange(x.size)
                x.reshape(-1)[at] = value if x.dtype.kind == "f" else min(max(rng.choice(INTS), int(low)), int(high))
            t.CopyFrom(numpy_helper.from_array(x, t.name))
    elif how == "values":
        return ""
    elif how == "dims":
        sizes = list(t.dims)
        if sizes and rng.random() < 0.7:
            sizes[rng.randrange(len(sizes))] = rng.choice(INTS)
        elif sizes and rng.random() < 0.5:
            del sizes[0]
        else:
            sizes.append(rng.choice((0, 1, 2, -1)))
        del t.dims[:]
        t.dims.extend(sizes)
    elif how in ("short", "long"):
        t.raw_data = t.raw_data[:-1] if how == "short" else t.raw_data + b"\0"
    elif how == "dtype":
        t.data_type = rng.choice(TYPES)
    elif how == "external":
        t.ClearField("raw_data")
        t.data_location = TensorProto.EXTERNAL
        place = rng.choice(("/etc/passwd", "../x", "nowhere.bin", "", "a\0b", "."))
        for key, said in (("location", place), ("offset", str(rng.choice(INTS))), ("length", str(rng.choice(INTS)))):
            entry = t.external_data.add()
            entry.key, entry.value = key, said
    elif how == "none":
        t.ClearField("raw_data")
    else:
        t.int32_data.extend([1, -1])
        t.string_data.append(b"text")
    return f"{t.name[:20]!r} {how}"


def versions(rng: Random, m: onnx.ModelProto, g: onnx.GraphProto) -> str:
    how = rng.choice(("opset", "opset", "ir", "none", "two"))
    if how == "none":
        del m.opset_import[:]
    elif how == "two" or not m.opset_import:
        m.opset_import.append(helper.make_opsetid(rng.choice(("", "ai.onnx.ml", "é")), rng.choice((1, 7, 18, 20))))
    elif how == "ir":
        m.ir_version = rng.choice((0, 1, 3, 8, 10, 99, -1, 2**62))
    else:
        m.opset_import[0].version = rng.choice(OPSETS)
    return how


def ends(rng: Random, m: onnx.ModelProto, g: onnx.GraphProto) -> str:
    how = rng.choice(("output", "more", "fewer", "no input", "clear", "input twice"))
    if how == "output" and g.output:
        rng.choice(g.output).name = rng.choice(_values(g) or [""])
    elif how == "more":
        g.output.add().name = rng.choice((*_values(g), "nowhere"))
    elif how == "fewer" and g.output:
        del g.output[rng.randrange(len(g.output))]
    elif how == "no input" and g.input:
        del g.input[rng.randrange(len(g.input))]
    elif how == "input twice" and g.input:
        g.input.add().CopyFrom(g.input[0])
    elif how == "clear":
        g.ClearField(rng.choice(("node", "input", "output", "initializer")))
    return how


CHANGES = (attribute, attribute, attribute, rewire, rewire, names, operator, nodes, declared, declared, initialiser, initialiser, versions,
           ends)  # fmt: skip


# ---- the whole way
def check(case: Case) -> Verdict:
    warnings.filterwarnings("ignore")
    with _Quick():
        try:
            program = autocomp.optimize(case.data, target="cpu", cache=False, deadline=DEADLINE)
            types = [n.type for n in (*program.graph.inputs, *(n for _, n in program.graph.outputs))]
            if sum(math.prod(dim_hint(d) for d in t.shape) for t in types) > LARGE:
                return Verdict("right", "compiled; too large to run")
            feed = random_inputs(program.graph, 1)
            got = program.run(feed)
        except AutocompError as e:
            return Verdict("refused", str(e))
    with tempfile.TemporaryFile() as f:
        want = by_onnxruntime(case.data, feed, f)
    if want is None or len(want) != len(got):
        return RIGHT
    own = None
    for position, ((name, a), b) in enumerate(zip(got.items(), want, strict=True)):
        if not isinstance(b, np.ndarray) or alike(np.asarray(a), b):
            continue
        if own is None:
            with np.errstate(all="ignore"):
                own = evaluate(program.graph, feed)
        same = alike(np.asarray(a), np.asarray(own[name]))
        given = list(_floats(case.data, feed))
        if same and _lost_nan(np.asarray(a), b) and any(np.isnan(x).any() for x in given):
            continue
        if same and any((~np.isfinite(x) | (np.abs(x) > HUGE)).any() for x in given) and _overflown(np.asarray(a), b):
            continue
        if same and (other := by_reference(case.data, feed)) is not None and alike(np.asarray(a), other[position]):
            continue
        blame = "the imported graph, in float64, says so too" if same else "and not what the imported graph says in float64"
        return Verdict("wrong", f"output '{name}': {_told(np.asarray(a), b)}; {blame}; {', '.join(case.changes)}")
    return RIGHT


class _Quick:
    """Inside, C is compiled with little optimisation: most of a case's time would be the C compiler's."""

    def __enter__(self) -> None:
        from benchmarks.onnx_coverage import quick_compiler

        self.before = os.environ.get("CC")
        os.environ["CC"] = quick_compiler()

    def __exit__(self, *_: object) -> None:
        if self.before is None:
            del os.environ["CC"]
        else:
            os.environ["CC"] = self.before


def alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal shapes, and values as near as float32 sums of a small model are; NaN is itself, and infinity is the largest number too:
    onnxruntime masks scores of attention with the lowest one, where the standard has -inf."""
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "iub" and b.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        over = np.finfo(np.float32).max
        x, y = (np.where(np.abs(v) >= over, np.copysign(np.inf, v), v) for v in (x, y))
        loose = 2e-2 if min(a.dtype.itemsize, b.dtype.itemsize) < 4 else 1e-3
        largest = float(np.max(np.abs(np.where(np.isfinite(y), y, 0)), initial=0))
        return bool(np.allclose(x, y, rtol=loose, atol=loose * max(1e-2, largest / 10), equal_nan=True))


def _lost_nan(a: np.ndarray, b: np.ndarray) -> bool:
    """Do the two differ only where `a` is NaN? onnxruntime clamps in the logistic and tanh of recurrent layers, which loses a NaN."""
    if a.shape != b.shape or a.dtype.kind != "f":
        return False
    there = np.isnan(a)
    return alike(np.where(there, 0, a), np.where(there, 0, b))


def _overflown(a: np.ndarray, b: np.ndarray) -> bool:
    """Do the two differ only where onnxruntime's is not finite? What overflows on the way depends on the order, and so does which infinity,
    or NaN, comes out."""
    if a.shape != b.shape or a.dtype.kind != "f":
        return False
    wild = ~np.isfinite(b)
    return alike(np.where(wild, 0, a), np.where(wild, 0, b))


def _floats(data: bytes, feed: dict[str, np.ndarray]) -> Iterator[np.ndarray]:
    """What a model is given in floating point: its initialisers and inputs."""
    for t in onnx.load_model_from_string(data).graph.initializer:
        with suppress(Exception):
            feed = {**feed, f"initialiser {t.name}": np.asarray(numpy_helper.to_array(t))}
    yield from (x for x in feed.values() if x.dtype.kind == "f")


def by_reference(data: bytes, feed: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """What the onnx package's own evaluator gives, where it can: the second opinion on what onnxruntime says."""
    from onnx.reference import ReferenceEvaluator

    with suppress(Exception):
        return [np.asarray(x) for x in ReferenceEvaluator(onnx.load_model_from_string(data)).run(None, feed)]
    return None


def _told(a: np.ndarray, b: np.ndarray) -> str:
    if a.shape != b.shape:
        return f"{a.dtype} {a.shape}, onnxruntime has {b.dtype} {b.shape}"
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
        at = int(np.argmax(np.where(np.isnan(apart), np.inf, apart)))
    return f"element {at} is {a.reshape(-1)[at]!r}, onnxruntime says {b.reshape(-1)[at]!r}"


def by_onnxruntime(data: bytes, feed: dict[str, np.ndarray], f: Any) -> list[Any] | None:
    """What onnxruntime gives, in a process of its own (hostile models may end it); None where it refuses, or crashes, or takes long."""
    import onnxruntime  # noqa: F401  # before the fork

    child = os.fork()
    if child == 0:
        try:
            out = _run_there(data, feed)
            pickle.dump(out, f)
            f.flush()
            os._exit(0)
        except BaseException:
            os._exit(1)
    end = time.monotonic() + RUNTIME_SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if status:
                return None
            f.seek(0)
            return list(pickle.load(f))
        select.select([], [], [], 0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _run_there(data: bytes, feed: dict[str, np.ndarray]) -> list[Any]:
    import onnxruntime as ort

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: feed[i.name] for i in session.get_inputs() if i.name in feed})  # type: ignore[no-any-return]


def smaller(case: Case) -> Iterator[Case]:
    """Without one of its nodes; without one of its outputs."""
    proto = onnx.ModelProto.FromString(case.data)
    for field in ("node", "output", "initializer"):
        for i in range(len(getattr(proto.graph, field))):
            less = onnx.ModelProto.FromString(case.data)
            del getattr(less.graph, field)[i]
            yield Case(less.SerializeToString(), case.changes)
