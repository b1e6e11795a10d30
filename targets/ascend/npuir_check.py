"""AscendNPU-IR as npuir.py prints it, read back: a grammar of its operations, the types of all uses, and what a module computes (NumPy).

The grammar is that of the public tests named in npuir.yaml, as far as they are used. `check` raises AutocompError with the line; `run`
executes every block of the function on arrays, with memory on chip that starts as NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from autocomp.targets.ascend.npuir import forms

from autocomp.errors import AutocompError

NAME = r"%[A-Za-z_]\w*(?:#\d+)?|%\d+(?:#\d+)?"
TYPE = r"(?:memref|tensor)<(?:[^<>]|<[^<>]*>)*>|index|i64|i1|f32|f16|bf16"
GROUP = re.compile(r"(ins|outs)\(([^:()]*) : ((?:[^()]|\([^()]*\))*)\)")
ASSIGNED = re.compile(rf"(?:({NAME})(?::\d+)? = )?([a-z]\w*(?:\.\w+)+)(.*)$")
CASTS: Mapping[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
ARITHMETIC: Mapping[str, Callable[[int, int], Any]] = {
    "muli": lambda a, b: a * b, "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "divsi": lambda a, b: a // b,
    "remsi": lambda a, b: a % b, "minsi": min}  # fmt: skip
VECTOR: Mapping[str, Callable[..., Any]] = {
    "vexp": np.exp, "vln": np.log, "vabs": np.abs, "vrelu": lambda x: np.maximum(x, 0), "vsqrt": np.sqrt,
    "vrsqrt": lambda x: 1 / np.sqrt(x), "vtanh": np.tanh, "vcast": lambda x: x,
    "vadd": np.add, "vsub": np.subtract, "vmul": np.multiply, "vdiv": np.divide, "vmax": np.maximum,
    "vmin": np.minimum}  # fmt: skip
FOLDS: Mapping[str, Callable[..., Any]] = {"sum": np.sum, "max": np.max, "min": np.min}


@dataclass
class Op:
    """One operation: its result's name, its name, the rest of the line; `body`: of a loop."""

    result: str
    name: str
    rest: str
    line: int
    body: list[Op] = field(default_factory=list)


def parse(text: str) -> tuple[list[str], list[Op]]:
    """(arguments, operations) of the module's function. Raises AutocompError for a line that is no operation of the table."""
    lines = text.splitlines()
    head = next((x for x in lines if x.strip().startswith("func.func")), "")
    arguments = re.findall(r"(%\w+): memref<\?x\w+>", head)
    root: list[Op] = []
    stack = [root]
    known = {*forms()["operations"], *(f"hivm.hir.{row['op']}" for row in forms()["functions"].values())}
    for number, line in enumerate(lines, 1):
        s = line.strip()
        if not s or s == "module {" or s.startswith("func.func") or s == "return":
            continue
        if s == "}":
            if len(stack) > 1:
                stack.pop()
            continue
        found = ASSIGNED.match(s)
        if not found or found[2] not in known:
            raise AutocompError(f"'{s[:60]}' is no operation of the table", where=f"line {number}", hint="see targets/ascend/npuir.yaml")
        op = Op(found[1] or "", found[2], found[3], number)
        stack[-1].append(op)
        if s.endswith("{"):
            stack.append(op.body)
    if text.count("{") != text.count("}"):
        raise AutocompError("a loop is not closed", where=f"line {len(lines)}")
    return arguments, root


def check(text: str) -> None:
    """Raises AutocompError for an operation of another form, a use before its definition or with another type, shapes that do not agree."""
    _, body = parse(text)
    head = next(x for x in text.splitlines() if x.strip().startswith("func.func"))
    types = {a: t for a, t in re.findall(r"(%\w+): (memref<\?x\w+>)", head)}
    _check(body, types)


def _check(body: list[Op], types: dict[str, str]) -> None:
    for op in body:
        fail = lambda what, op=op: AutocompError(what, where=f"line {op.line}: {op.name}")
        used = op.rest.partition(" = ")[2] if op.name == "scf.for" else op.rest
        for name in re.findall(NAME, used.split(" iter_args(")[0]):
            if name not in types:
                raise fail(f"{name} is not defined")
        shapes = []
        for kind, names, given in GROUP.findall(op.rest):
            ns, ts = [n.strip() for n in names.split(",")], re.findall(TYPE, given)
            if len(ns) != len(ts):
                raise fail(f"{len(ns)} operands of {kind} have {len(ts)} types")
            for n, t in zip(ns, ts):
                if types[n] != t:
                    raise fail(f"{n} is a {types[n]}, not a {t}")
            shapes += [_shape(t) for t in ts if t.startswith(("memref", "tensor"))]
        if op.name.startswith("hivm.hir.v") and op.name not in ("hivm.hir.vbrc", "hivm.hir.vreduce") and len(set(shapes)) != 1:
            raise fail(f"operands of shapes {', '.join(map(str, shapes))}")
        inner = dict(types)
        if op.name == "scf.for":
            counter = re.match(rf" ({NAME}) = ", op.rest)
            assert counter is not None, op.rest
            inner[counter[1]] = "index"
            carried = re.findall(rf"({NAME}) = ({NAME})", op.rest.partition("iter_args")[2])
            inner |= {n: types[v] for n, v in carried}
            _check(op.body, inner)
            for i, (_, v) in enumerate(carried):
                types[f"{op.result}#{i}" if len(carried) > 1 else op.result] = types[v]
        elif op.result:
            types[op.result] = _result(op)


def _result(op: Op) -> str:
    if op.name in ("arith.constant", "arith.cmpi"):
        return "i1" if op.name == "arith.cmpi" or " : " not in op.rest else op.rest.rpartition(" : ")[2]
    found = re.findall(TYPE, op.rest)
    if not found:
        raise AutocompError("no type of its result", where=f"line {op.line}: {op.name}")
    return str(found[-1]).replace("memref", "tensor", 1) if op.name == "bufferization.to_tensor" else str(found[-1])


def _shape(type_: str) -> tuple[str, ...]:
    inner = type_.partition("<")[2].rstrip(">").partition(",")[0]
    return tuple(inner.split("x")[:-1])


def run(text: str, arrays: Mapping[str, np.ndarray], blocks: int) -> None:
    """Every block on flat arrays by argument name; outputs are written in place. Raises AutocompError as `check` does."""
    check(text)
    _, body = parse(text)
    with np.errstate(all="ignore"):
        for block in range(blocks):
            values: dict[str, Any] = {f"%{n}": x for n, x in arrays.items()}
            _run(body, values, block)


def _run(body: list[Op], v: dict[str, Any], block: int) -> None:
    for op in body:
        short = op.name.rpartition(".")[2]
        if op.name == "scf.for":
            _loop(op, v, block)
        elif op.name == "scf.yield":
            v["yielded"] = [v[n] for n in re.findall(NAME, op.rest.partition(" : ")[0])]
        elif op.name == "arith.constant":
            number = op.rest.split()[0]
            v[op.result] = number == "true" if number in ("true", "false") else float(number) if "e" in number else int(number)
        elif op.name.startswith("arith."):
            names = [v[n] for n in re.findall(NAME, op.rest)]
            v[op.result] = names[0] == names[1] if short == "cmpi" else names[0] if short == "index_cast" else ARITHMETIC[short](*names)
        elif short == "get_block_idx":
            v[op.result] = block
        else:
            _memory(op, short, v)


def _loop(op: Op, v: dict[str, Any], block: int) -> None:
    head = re.match(rf" ({NAME}) = (\S+) to (\S+) step (\S+)", op.rest)
    assert head is not None
    carried = re.findall(rf"({NAME}) = ({NAME})", op.rest.partition("iter_args")[2])
    state = [v[x] for _, x in carried]
    for i in range(v[head[2]], v[head[3]], v[head[4]]):
        inner = v | {head[1]: i} | {n: x for (n, _), x in zip(carried, state)}
        _run(op.body, inner, block)
        state = inner.get("yielded", state)
    for i, x in enumerate(state):
        v[f"{op.result}#{i}" if len(state) > 1 else op.result] = x


def _memory(op: Op, short: str, v: dict[str, Any]) -> None:
    groups = {kind: [v[n.strip()] for n in names.split(",")] for kind, names, _ in GROUP.findall(op.rest)}
    type_ = _result(op) if op.result else ""
    number = lambda x: v[x] if x.startswith("%") else int(x)
    lists = [[number(x.strip()) for x in inside.split(",")] for inside in re.findall(r"\[([^\[\]]*)\]", op.rest.partition(" : ")[0])]
    if short in ("alloc", "empty"):
        v[op.result] = np.full(tuple(map(int, _shape(type_))), np.nan).astype(_kind(type_))
    elif short == "reinterpret_cast":
        (offset,), sizes, strides = lists
        base = v[re.findall(NAME, op.rest)[0]]
        last = offset + sum((n - 1) * s for n, s in zip(sizes, strides))
        if last >= base.size or min(sizes) < 0:
            raise AutocompError(f"a view up to element {last} of {base.size}", where=f"line {op.line}")
        v[op.result] = np.lib.stride_tricks.as_strided(base[offset:], sizes, [s * base.itemsize for s in strides])
    elif short in ("subview", "extract_slice"):
        _, sizes, _ = lists
        v[op.result] = v[re.findall(NAME, op.rest)[0]][tuple(slice(n) for n in sizes)]
    elif short == "to_tensor":
        v[op.result] = v[re.findall(NAME, op.rest)[0]].copy()
    elif short in ("load", "store", "fixpipe"):
        (source,), (to,) = groups["ins"], groups["outs"]
        if "init_out_buffer = true" in op.rest and to.base is not None:
            to.base[...] = 0
        to[...] = source.astype(to.dtype)
    elif short == "mmadL1":
        a, b, begins, m, k, n = groups["ins"]
        (c,) = groups["outs"]
        a, b = (a.T if "a_transpose" in op.rest else a), (b.T if "b_transpose" in op.rest else b)
        got = np.full_like(c, np.nan)
        got[:m, :n] = a[:m, :k].astype(np.float32) @ b[:k, :n].astype(np.float32) + (0 if begins else c[:m, :n])
        v[op.result] = got
    elif short == "vbrc":
        v[op.result] = np.broadcast_to(groups["ins"][0], groups["outs"][0].shape).astype(_kind(type_))
    elif short == "vreduce":
        dims = re.search(r"reduce_dims = \[(\d+)\]", op.rest)
        how = re.match(r" <(\w+)>", op.rest)
        assert dims is not None and how is not None
        v[op.result] = FOLDS[how[1]](groups["ins"][0].astype(np.float32), axis=int(dims[1]), keepdims=True).astype(_kind(type_))
    else:
        v[op.result] = _vector(short, groups["ins"]).astype(_kind(type_))


def _vector(short: str, operands: list[Any]) -> Any:
    if short == "verf":
        from math import erf

        return np.vectorize(erf)(operands[0].astype(np.float64))
    return VECTOR[short](*(x.astype(np.float32) if isinstance(x, np.ndarray) else np.float32(x) for x in operands))


def _kind(type_: str) -> Any:
    return CASTS[re.split(r"x", type_.partition("<")[2].rstrip(">").partition(",")[0])[-1]]
