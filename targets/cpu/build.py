"""A nest -> its loop tree: contractions with what can stay in their registers, loops over elements for the statements between them."""

from __future__ import annotations

from autocomp.targets.cpu.arithmetic import kind_of_sums
from autocomp.targets.cpu.element_loops import contiguity, loops_over
from autocomp.targets.cpu.lower import Nest, domain, gathers, reads
from autocomp.targets.cpu.shape import runs_in_tiles
from autocomp.targets.cpu.tree import Contraction, Node, Tiles

from autocomp.tile.program import Loop, Stmt, walk


def build(nest: Nest, is_unit: bool = True) -> list[Node]:
    """The loop tree of a nest. `is_unit`: contractions may use the vector unit's register tiles (else plain reductions)."""
    return _block(nest, list(nest.body), frozenset(a for a, t in nest.tile.items() if t == 1), is_unit)


def _block(nest: Nest, body: list[Loop | Stmt], bound: frozenset[str], is_unit: bool) -> list[Node]:
    nodes: list[Node] = []
    run: list[Stmt] = []
    scores = contiguity(nest, [s for s, _ in walk(tuple(body)) if not (s.op == "mma" and is_unit and _unit_takes(nest, s))])
    flush = lambda: (nodes.extend(loops_over(nest, list(run), bound, scores)), run.clear())  # type: ignore[func-returns-value]
    i = 0
    while i < len(body):
        n = body[i]
        mma = _contraction_at(nest, body, i, is_unit)
        if mma is not None:
            early, c, i = mma
            starts = frozenset(c.starts & {f.dst for f in run if f.op == "fill"} - _touched(run, c.starts))
            run[:] = [s for s in run if not (s.op == "fill" and s.dst in starts)] + early
            flush()
            c.starts = starts
            nodes.append(c)
            continue
        if isinstance(n, Loop):
            flush()
            nodes.append(Tiles(n, _block(nest, list(n.body), bound, is_unit)))
        else:
            run.append(n if n.op != "mma" else _plain(nest, n))
        i += 1
    flush()
    return nodes


def _touched(run: list[Stmt], accs: frozenset[str]) -> set[str]:
    """Accumulators that a statement other than their zero fill uses."""
    out: set[str] = set()
    for s in run:
        if s.op == "fill" and s.dst in accs and s.expr == 0:
            continue
        out |= ({s.dst} | set(reads(s))) & accs
    return out


def _plain(nest: Nest, s: Stmt) -> Stmt:
    """acc += mma a, b  ->  acc += reduce add k (a * b): for element types that the vector unit's tiles do not take."""
    axes = [a for a in domain(s, nest) if a not in nest.slots[s.dst].axes]
    return Stmt("reduce", s.dst, s.srcs, "add", axis=",".join(axes), acc=True)


def _unit_takes(nest: Nest, s: Stmt) -> bool:
    return bool(_sums(nest, s)) and bool([a for a in domain(s, nest) if a not in nest.slots[s.dst].axes])


def _sums(nest: Nest, s: Stmt) -> str:
    return kind_of_sums(nest.dtype_of(s.dst), [nest.dtype_of(x) for x in s.srcs])


def _contraction_at(nest: Nest, body: list[Loop | Stmt], i: int, is_unit: bool) -> tuple[list[Stmt], Contraction, int] | None:
    """A contraction that starts at statement i: (statements to run before it, it, index behind it)."""
    n = body[i]
    loop = None
    if isinstance(n, Loop):
        mmas = [s for s in n.body if isinstance(s, Stmt) and s.op == "mma"]
        if n.kind == "grid" or not mmas or len(mmas) < len(n.body):
            return None
        loop, j = n, i + 1
    elif n.op == "mma":
        mmas, j = [n], i + 1
        while j < len(body) and isinstance(s := body[j], Stmt) and _joins(nest, s, mmas):
            mmas.append(s)
            j += 1
    else:
        return None
    axes = [set(nest.slots[m.dst].axes) for m in mmas]
    if not is_unit or not all(_unit_takes(nest, m) for m in mmas) or any(a != axes[0] for a in axes):
        return None
    if len({_sums(nest, m) for m in mmas}) > 1:
        return None
    early, epilogue, after = _epilogue(nest, body, j, {m.dst for m in mmas}, axes[0])
    c = Contraction(mmas, frozenset(m.dst for m in mmas), epilogue, loop)
    if runs_in_tiles(nest, c):
        return early, c, after
    bare = Contraction(mmas, frozenset(m.dst for m in mmas), [], loop)
    return ([], bare, j) if runs_in_tiles(nest, bare) else None


def _joins(nest: Nest, s: Stmt, mmas: list[Stmt]) -> bool:
    """Whether a statement is one more product over the same output axes, of other values than these products make."""
    if s.op != "mma" or set(s.srcs) & {m.dst for m in mmas} or _sums(nest, s) != _sums(nest, mmas[0]):
        return False
    return set(nest.slots[s.dst].axes) == set(nest.slots[mmas[0].dst].axes)


def _epilogue(nest: Nest, body: list[Loop | Stmt], j: int, accs: set[str], axes: set[str]) -> tuple[list[Stmt], list[Stmt], int]:
    """Element-wise statements behind the contraction that can stay in its registers; independent ones go before it."""
    early: list[Stmt] = []
    late: list[Stmt] = []
    derived = set(accs)
    while j < len(body):
        s = body[j]
        if not isinstance(s, Stmt) or s.op in ("mma", "reduce"):
            break
        uses = set(reads(s)) | ({s.dst} if s.acc else set())
        if s.op in ("map", "store") and set(domain(s, nest)) == axes and uses & derived and not gathers(s):
            late.append(s)
            derived.add(s.dst)
        elif not uses & derived and s.dst not in derived and s.op in ("map", "fill") and not _begins(s, body[j + 1 :]):
            early.append(s)
        else:
            break
        j += 1
    return early, late, j


def _begins(s: Stmt, later: list[Loop | Stmt]) -> bool:
    """Is this the zero that a later contraction's sums start from? It is absorbed there."""
    return s.op == "fill" and any(x.op == "mma" and x.dst == s.dst for x, _ in walk(tuple(later)))
