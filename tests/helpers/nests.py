"""Hand-made kernels, random nests and a brute-force judge for the legality tests."""

from __future__ import annotations

from itertools import product
from random import Random

from autocomp.errors import IllegalTransform
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Contract, Expr, Inside, Load, Map, Prev, Recurrence, Reduce
from autocomp.ir.kernel import Arg, Kernel, Store
from autocomp.ir.types import F32, Dim, TensorType
from autocomp.loops import transforms as tr
from autocomp.loops.nest import Access, LoopNest, Statement


def tensor(*shape: Dim) -> TensorType:
    return TensorType(F32, shape)


def load(name: str, *axes: str) -> Load:
    return Load(F32, name, tuple(aff(a) for a in axes))


def matmul(m: Dim = 64, n: Dim = 48, k: Dim = 32) -> Kernel:
    """out = in0 @ in1 + in2"""
    value = Map(F32, "add", (Contract(F32, (Axis("k", k),), load("in0", "m", "k"), load("in1", "k", "n")), load("in2", "n")))
    inputs = (Arg("in0", tensor(m, k)), Arg("in1", tensor(k, n)), Arg("in2", tensor(n)))
    return Kernel("matmul", "C", (Axis("m", m), Axis("n", n)), inputs, (Arg("out0", tensor(m, n)),),
                  (Store("out0", (aff("m"), aff("n")), value),), f"matmul {m} {n} {k}")


def softmax(m: Dim = 16, n: Dim = 32) -> Kernel:
    """Row softmax in its three-pass form."""
    top = Reduce(F32, "max", (Axis("j", n),), (load("in0", "m", "j"),))
    low = Map(F32, "exp", (Map(F32, "sub", (load("in0", "m", "j"), top)),))
    total = Reduce(F32, "sum", (Axis("j", n),), (low,))
    value = Map(F32, "div", (Map(F32, "exp", (Map(F32, "sub", (load("in0", "m", "n"), top)),)), total))
    return Kernel("softmax", "N", (Axis("m", m), Axis("n", n)), (Arg("in0", tensor(m, n)),), (Arg("out0", tensor(m, n)),),
                  (Store("out0", (aff("m"), aff("n")), value),), f"softmax {m} {n}")


def stencil(n: int, steps: int, rank: int = 1) -> Kernel:
    """A 3-point (rank 1) or 9-point (rank 2) stencil, `steps` times; cells at an edge keep their value."""
    axes = tuple(Axis(f"i{d}", n) for d in range(rank))
    total: Expr | None = None
    for tap in product(range(3), repeat=rank):
        weight = Load(F32, "in1", tuple(aff(k) for k in tap))
        term = Map(F32, "mul", (weight, Prev(F32, tuple(aff(a.name) + (k - 1) for a, k in zip(axes, tap, strict=True)))))
        total = term if total is None else Map(F32, "add", (total, term))
    assert total is not None
    here = tuple(aff(a.name) for a in axes)
    inside = Inside.of(tuple(g for i in here for g in (i - 1, (n - 2) - i)))
    step = Map(F32, "where", (inside, total, Prev(F32, here)))
    value = Recurrence(F32, Axis("t", steps), axes, Load(F32, "in0", here), step, here)
    return Kernel("stencil", "R", axes, (Arg("in0", tensor(*(n,) * rank)), Arg("in1", tensor(*(3,) * rank))),
                  (Arg("out0", tensor(*(n,) * rank)),), (Store("out0", here, value),), f"stencil {n} {steps} {rank}")


def scan(length: int, width: int) -> Kernel:
    """Cumulative sum along the first axis: A[0] = 0, A[t + 1] = A[t] + x[t], out[t] = A[t + 1]."""
    b = Axis("b", width)
    step = Map(F32, "add", (Prev(F32, (aff("b"),)), load("in0", "t", "b")))
    init = Map(F32, "sub", (Load(F32, "in0", (aff(0), aff("b"))), Load(F32, "in0", (aff(0), aff("b")))))
    value = Recurrence(F32, Axis("t", length), (b,), init, step, (aff("b"),), aff("o") + 1)
    t = tensor(length, width)
    return Kernel("scan", "R", (Axis("o", length), b), (Arg("in0", t),), (Arg("out0", t),),
                  (Store("out0", (aff("o"), aff("b")), value),), f"scan {length} {width}")


def carried(*distance: int) -> LoopNest:
    """for i: for j: A[i, j] = f(A[i - d0, j - d1])"""
    i, j = aff("i"), aff("j")
    read, write = Access("A", (i - distance[0], j - distance[1])), Access("A", (i, j))
    return LoopNest.make((Statement("S", "step", (Axis("i", 12), Axis("j", 12)), (read,), (write,)),))


# ---- brute force

def instances(s: Statement) -> list[dict[str, int]]:
    points = (dict(zip(s.names, p, strict=True)) for p in product(*(range(int(str(a.extent))) for a in s.axes)))
    return [p for p in points if all(g.eval(p) >= 0 for g in s.guard)]


def timed(nest: LoopNest) -> list[tuple[Statement, dict[str, int], tuple[int, ...], tuple[int, ...]]]:
    """(statement, point, time as written, new time) of every instance."""
    deep = max(1 + 2 * max(len(r.loops) for r in rows) for rows in (nest.origin, nest.rows))
    out = []
    for s, old, new in zip(nest.statements, nest.origin, nest.rows, strict=True):
        for p in instances(s):
            out.append((s, p, tuple(e.eval(p) for e in old.flat(deep)), tuple(e.eval(p) for e in new.flat(deep))))
    return out


def touches(s: Statement, p: dict[str, int]) -> list[tuple[tuple[str, tuple[int, ...]], bool, bool]]:
    """(cell, writes?, folds?) of each access of an instance."""
    out = []
    for access, writes in [*((a, False) for a in s.reads), *((a, True) for a in s.writes)]:
        if all(g.eval(p) >= 0 for g in access.guard):
            cell = (access.tensor, tuple(i.eval(p) for i in access.index))
            out.append((cell, writes, s.reassociable and access == s.cell))
    return out


def brute_force(nest: LoopNest, relaxed: bool = False) -> bool:
    """Is every conflicting pair kept in order, and none carried by a loop marked to run at once? By enumeration."""
    every = sorted(timed(nest), key=lambda x: x[2])
    cells = [touches(s, p) for s, p, _, _ in every]
    for i, (a, _, _, at) in enumerate(every):
        for j in range(i + 1, len(every)):
            b, _, _, bt = every[j]
            clash = any(x == y and (w or v) and not (relaxed and f and g and a is b)
                        for x, w, f in cells[i] for y, v, g in cells[j])
            if clash and (at >= bt or any(carries(nest, a, b, at, bt, loop) for loop, _ in nest.marks)):
                return False
    return True


def carries(nest: LoopNest, a: Statement, b: Statement, at: tuple[int, ...], bt: tuple[int, ...], loop: str) -> bool:
    rows = [nest.rows[nest.statements.index(s)].names() for s in (a, b)]
    if not all(loop in r for r in rows) or rows[0].index(loop) != rows[1].index(loop):
        return False
    place = 2 * rows[0].index(loop) + 1
    return at[:place] == bt[:place] and at[place] != bt[place]


# ---- random cases

def random_nest(rng: Random) -> LoopNest:
    """One to three statements over up to three loops, with affine accesses to two arrays or a reduction's cell."""
    loops = ["i", "j", "k"][:rng.randint(1, 3)]
    extent = {l: rng.randint(2, 4) for l in loops}
    out = []
    for n in range(rng.randint(1, 3)):
        own = loops[:rng.randint(1, len(loops))]
        axes = tuple(Axis(l, extent[l]) for l in own)

        def access(own: list[str] = own) -> Access:
            rank = rng.randint(1, 2)
            index = tuple(sum((aff(l) * rng.choice((0, 0, 1, 1, -1)) for l in own), Aff((), rng.randint(-1, 1)))
                          for _ in range(rank))
            return Access(f"{rng.choice('AB')}{rank}", index)
        if len(own) > 1 and rng.random() < 0.4:
            cell = Access("R", tuple(aff(l) for l in own[:-1]))
            reads = (cell, *(access() for _ in range(rng.randint(0, 1))))
            out.append(Statement(f"S{n}", "update", axes, reads, (cell,), cell, True))
        else:
            out.append(Statement(f"S{n}", "store", axes, tuple(access() for _ in range(rng.randint(0, 2))), (access(),)))
    return LoopNest.make(tuple(out))


def random_steps(rng: Random, nest: LoopNest) -> tuple[LoopNest, list[tr.Transform]]:
    """One to three transformations that apply (legal or not)."""
    steps: list[tr.Transform] = []
    for _ in range(rng.randint(1, 3)):
        loops = list(nest.loops())
        a, b = rng.choice(loops), rng.choice(loops)
        base = [l for l in ("i", "j", "k") if l in loops] or loops
        step = rng.choice([
            tr.Interchange(a, b), tr.Reverse(a), tr.Skew(a, b, rng.choice((1, -1, 2))), tr.Fuse(tuple(base[:rng.randint(1, 2)])),
            tr.Tile(tuple(base[:2]), (2, 3)[:len(base[:2])]), tr.Tile((a,), (2,)), tr.Parallel(a), tr.Vectorize(a, 2),
            tr.UnrollAndJam(a, 2), tr.Unimodular((a, b), ((1, 1), (0, 1))), tr.SplitReduction(a, 2)])
        if a == b and isinstance(step, (tr.Interchange, tr.Skew, tr.Unimodular)):
            continue
        try:
            nest = step.apply(nest)
        except IllegalTransform:
            continue
        steps.append(step)
    return nest, steps
