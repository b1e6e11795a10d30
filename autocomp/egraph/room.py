"""What a tile needs of a block: the bound that `fits(tile)` stands for in a tiling rule.

    rhs: "tile(m: ?bm, n: ?bn, k: ?bk, stages: ?s, workers: ?w, roles: 'warp_specialise')"

    fits(tile)   ->   ?bm * min(?bn, extent(n)) <= 160 * (128 * ?w)                                         results of a thread
                      ?s * factor_bytes() * ?bk * (?bm + ?bn) + staged results, barriers <= room(shared)    bytes of a block

    rhs: "tile(i: ?bi, j: ?bk, k: ?bk)"         two slots of a tile, whose rows or columns begin at whole blocks, <= room(ub)
    rhs: "tile(.., y: ?by, x: ?bx, k: ?bk)"     elements of windows that a thread reads, neighbours along y in common <= its registers

It is written over the fields that a rule's right side gives, so that the e-graph decides it as arithmetic. Placement knows the views of a
kernel and needs as much wherever a tile is as large as its rule says and has more turns than its ring has slots. What else a target refuses
is found when it is asked for the best (`Target.fits`, `admit`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autocomp.cost.derived import constant
from autocomp.rewrite.expr import Call, Expr, Lit, Op, Word
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.vocabulary import ROLE

TEAM, TEAM_ROWS, WARP_ROWS = int(constant("team_threads")), int(constant("team_rows")), int(constant("warp_rows"))
STAGED, BOX, ALIGN = int(constant("staged_bytes")), int(constant("box_columns")), int(constant("shared_align"))
RESULTS, OF_TEAM = int(constant("held_results")), int(constant("held_of_team"))
PITCH, SLOTS = int(constant("vector_pitch")), int(constant("vector_slots"))
HALF = 2
SUM = 4  # bytes of a product's result while it is summed


@dataclass(frozen=True)
class Need:
    """`needed <= available`, and of what."""

    what: str
    needed: Expr
    available: Expr

    @property
    def holds(self) -> Expr:
        return Op("<=", (self.needed, self.available))


@dataclass(frozen=True)
class _Term:
    """An expression that takes Python's operators."""

    expr: Expr

    def _with(self, op: str, other: _Term | int) -> _Term:
        return _Term(Op(op, (self.expr, _term(other).expr)))

    def __add__(self, other: _Term | int) -> _Term:
        return self._with("+", other)

    def __sub__(self, other: _Term | int) -> _Term:
        return self._with("-", other)

    def __mul__(self, other: _Term | int) -> _Term:
        return self._with("*", other)

    def __floordiv__(self, other: _Term | int) -> _Term:
        return self._with("//", other)


def _term(x: _Term | int) -> _Term:
    return x if isinstance(x, _Term) else _Term(Lit(x))


def _call(name: str, *args: _Term | int) -> _Term:
    return _Term(Call(name, tuple(_term(a).expr for a in args)))


def is_room(e: Expr) -> bool:
    """Is the condition `fits(tile)`?"""
    return isinstance(e, Call) and e.name == "fits" and len(e.args) == 1


def needs(rule: Rule, form: str) -> tuple[Need, ...]:
    """What the tiles that a rule makes of kernels of a form need; () where nothing is bounded for it."""
    at = {ROLE.get(k, k): _Term(e) for k, e in rule.rhs.attrs}  # type: ignore[union-attr]
    words = {k: x.expr.value for k, x in at.items() if isinstance(x.expr, Lit)}
    tile = _Tile(at, words.get("roles") == "warp_specialise", words.get("instruction") == "direct")
    return tuple(_NEEDS[form](tile)) if form in _NEEDS else ()


def levels(rule: Rule, form: str) -> frozenset[str]:
    """The memories in which a tiling rule asks for room: on a chip that lacks one of them it makes nothing."""
    asked = [e for c in rule.where for e in ([n.available for n in needs(rule, form)] if is_room(c) else [c])]
    named = [e.args[0] for e in asked if isinstance(e, Call) and e.name in ("room", "fits") and e.args]
    return frozenset(x.name.lower() for x in named if isinstance(x, Word)) - {"registers"}


@dataclass(frozen=True)
class _Tile:
    """The fields of a schedule by the names of its columns; those that a rule does not give are a schedule's own."""

    at: Mapping[str, _Term]
    roles: bool
    direct: bool

    def __getitem__(self, name: str) -> _Term:
        default = 0 if name in ("persistent", "taps", "stream_k", "still", "high", "wide") else 1
        return self.at.get(name, _term(default))

    def whole(self, name: str, role: str) -> _Term:
        """A field, or all of the role's axes where the rule does not cut them."""
        return self.at.get(name) or _Term(Call("extent", (Word(role),)))

    @property
    def threads(self) -> _Term:
        """Of those that multiply."""
        return self["workers"] * TEAM if self.roles else self["threads"]

    @property
    def own_rows(self) -> _Term:
        """1 where each warpgroup has rows of its own, else 0: columns have the rows' place, or several warpgroups have columns of the
        same rows."""
        return _call("min", 1, self["rows"] // (self["workers"] * TEAM_ROWS))

    @property
    def staged(self) -> _Term:
        """Bytes in which results of two bytes leave: two boxes of each warpgroup, or one where that is all it has, behind barriers."""
        boxes = _call("min", STAGED, (self["cols"] + (BOX - 1)) // BOX * (STAGED // 2))
        return (self["workers"] * boxes + ALIGN) * _call("short_results") * self.own_rows

    def of_block(self, bytes_: _Term) -> Need:
        """Bytes of shared memory: the blocks that share a core have each their part, of which the chip keeps some."""
        kept = _call("kept_shared")
        return Need("bytes of shared memory", ((bytes_ + kept) * self["resident"] - kept).expr, Call("room", (Word("shared"),)))


def _contract(t: _Tile) -> Iterator[Need]:
    rows, cols, depth = (t[x] for x in ("rows", "cols", "depth"))
    each = _call("factor_bytes")
    if t.direct:
        return
    own = rows * (_call("min", cols, _Term(Call("extent", (Word("n"),)))) if t.roles else cols)
    yield Need("results of a thread", own.expr, (t.threads * (OF_TEAM if t.roles else RESULTS)).expr)
    if not t.roles:
        rows, cols = (_call("max", x, WARP_ROWS) for x in (rows, cols))
    if "taps" in t.at:  # the taps of all steps stay, patches pass by
        yield t.of_block(each * depth * (t["taps"] * cols + t["stages"] * rows) + t.staged)
        return
    bytes_ = t["stages"] * each * depth * (rows + cols)
    if t.roles:
        bytes_ = bytes_ + t.staged
    if "cluster_split_k" in t.at:  # what the other blocks send
        bytes_ = bytes_ + (rows * cols - rows * cols // t["cluster_split_k"]) * SUM
    yield t.of_block(bytes_)


def _online(t: _Tile) -> Iterator[Need]:
    rows, cols, depth = (t[x] for x in ("rows", "cols", "depth"))
    rings = t.own_rows + 1 if t.roles else _term(2)  # keys and values; where warpgroups share rows, one tensor may be both
    bytes_ = (  # keys and values have two bytes or more, whatever the scores are in
        ((t["persistent"] + 1) * rows * cols + rings * t["stages"] * depth * cols) * HALF
    )
    yield t.of_block(bytes_ + t.staged if t.roles else bytes_)


def _reduce(t: _Tile) -> Iterator[Need]:
    if "persistent" in t.at:  # a row's pieces in slots
        yield t.of_block(_call("input_bytes") * t["stages"] * t["depth"] // t["cluster"] + ALIGN)
    elif "wide" in t.at:
        yield _windows(t)
    elif "threads" not in t.at:
        yield _lines(t)


def _windows(t: _Tile) -> Need:
    """Registers of a block: each result and the elements of its window. Windows below each other in one thread share their lines, those
    beside each other are in different threads."""
    line, high = _call("window_line"), t["high"]
    lines = high + t["depth"] // line - 1
    results = t["still"] * high * t["wide"]
    room = _call("min", t.threads * _call("own_registers"), _call("core_registers"))
    return Need("registers of windows", (t["still"] * t["wide"] * line * lines + results).expr, room.expr)


def _lines(t: _Tile) -> Need:
    """Bytes of a vector core: what is folded lies in lines, where a tensor has it side by side; else rows do, one element of each line."""
    rows, depth, along = t.whole("rows", "i"), t.whole("depth", "k"), _call("folds_lines")
    pitch = lambda x: (x + (PITCH - 1)) // PITCH * PITCH
    tile = along * rows * pitch(depth) + (_term(1) - along) * depth * pitch(rows)
    return Need("bytes of unified buffer", (_call("input_bytes") * SLOTS * tile).expr, Call("room", (Word("ub"),)))


_NEEDS = {"contract": _contract, "online": _online, "reduce": _reduce}
