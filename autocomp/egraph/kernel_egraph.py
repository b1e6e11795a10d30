"""The kernel e-graph: one class for each kernel, and every schedule that computes it as a node of that class.

Tiling and scheduling rules run in egglog to a fixed point, declared once for all kernels of one form. Between rounds Python answers
what the e-graph asked: which axes a size cuts, whether isl allows these cuts (once for each set of cut axes, never for each match), and
conditions that egglog has no words for. Out come the schedules with the rule that made each, and what every condition refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from autocomp.budget import LATE
from autocomp.cost.roles import Roles, spread_role
from autocomp.deadline import current
from autocomp.egraph.directives import Directives
from autocomp.egraph.engine import execute
from autocomp.egraph.kept import Pool
from autocomp.egraph.kernel_rules import COLUMNS, TILES, Decoder, KernelEntry, KernelRule, Words, axes_of, compile_rule, default_row
from autocomp.egraph.kernel_terms import is_legal
from autocomp.egraph.native import egglog
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import dim_hint
from autocomp.loops.verdict import Verdict
from autocomp.options import Options
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Env

UNTILED = "untiled"
FEW = "all but a few schedules of each kernel"  # what is left out after the deadline
STEPS = 16  # of egglog in a round
AT_ONCE = 16  # facts that are parsed together: each keeps a copy of the text that it came in
LAST = 1_000_000  # in `made`, the number of the schedule that no rule made: any rule's is smaller

_DECLARED = Pool()
_Tables = Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """Schedules with the rule that made each (UNTILED for the kernel as one tile), in a fixed order; refusals by text, counted;
    `budget`: the limit that stopped the rules, "" if none did; `legal`: what the judge was asked, and whether it may be run;
    `illegal`: its first refusal, where one is told."""

    schedules: tuple[tuple[Schedule, str], ...]
    refused: Mapping[str, int]
    budget: str = ""
    legal: tuple[tuple[Schedule, bool], ...] = ()
    illegal: str | None = None


@dataclass(frozen=True)
class Asked:
    """A kernel whose schedules are wanted. `functions`: what conditions may ask; `judge` says whether a schedule may be run; `directives`:
    what rules give its schedules; `alike`: all that `functions` and `directives` answer by, but for the roles (None: not known)."""

    roles: Roles
    functions: Mapping[str, Any]
    judge: Callable[[Schedule], Verdict]
    directives: Directives = Directives((), {})
    alike: Hashable = None


class Made:
    """What rules made of the kernels of one graph, under one set of rules and options and for one chip: kernels of equal roles have the
    same schedules where what conditions ask of the kernel itself, and isl, answer the same. `joined`: the schedules that were chosen for
    what combines the parts of their reductions (`choose.Joins`)."""

    MOST = 1 << 17  # schedules that are kept, of a few hundred bytes

    def __init__(self) -> None:
        self.joined: dict[Kernel, tuple[tuple[str, int], ...]] = {}
        self._known: dict[Hashable, list[Found]] = {}
        self._held = 0

    def get(self, k: Asked) -> Found | None:
        """What was made for a kernel like this one."""
        same = self._known.get((k.roles, k.alike), ()) if k.alike is not None else ()
        return next((f for f in same if self._answered(k, f)), None)

    @staticmethod
    def _answered(k: Asked, found: Found) -> bool:
        """Whether the judge answers for a kernel as it did for another."""
        first = None
        for s, ok in found.legal:
            verdict = k.judge(s)
            if verdict.ok != ok:
                return False
            first = first or (None if ok else verdict)
        return found.illegal is None or (first is not None and _refusal(first) == found.illegal)

    def put(self, k: Asked, found: Found) -> None:
        """Keep it, if no limit cut it short."""
        if k.alike is None or found.budget:
            return
        if self._held + len(found.schedules) > self.MOST:
            self._known.clear()
            self._held = 0
        self._known.setdefault((k.roles, k.alike), []).append(found)
        self._held += len(found.schedules)


def _refusal(v: Verdict) -> str:
    """Why isl says no."""
    return v.why or str(v.witness or "")


def schedules(kernels: Sequence[Asked], rules: Iterable[Rule], options: Options, made: Made | None = None) -> list[Found]:
    """All schedules that the rules make of each kernel, within the phase's budget. `rules` speak of the kernels' form, which is one.
    `made`: what they made before of kernels of the same graph; of several that are alike rules make those of one."""
    rules, known = tuple(rules), made or Made()
    out = {n: f for n, k in enumerate(kernels) if (f := known.get(k)) is not None}
    waits: dict[tuple[Roles, Hashable], list[int]] = {}
    for n, k in enumerate(kernels):
        if n not in out:
            waits.setdefault((k.roles, n if k.alike is None else k.alike), []).append(n)
    firsts = [same[0] for same in waits.values()]
    out |= zip(firsts, _made([kernels[n] for n in firsts], rules, options))
    for n in firsts:
        known.put(kernels[n], out[n])
    rest = [n for same in waits.values() for n in same[1:]]
    out |= {n: f for n in rest if (f := known.get(kernels[n])) is not None}
    rest = [n for n in rest if n not in out]  # a limit was met, or isl answers otherwise
    out |= zip(rest, _made([kernels[n] for n in rest], rules, options))
    return [out[n] for n in range(len(kernels))]


def _made(kernels: Sequence[Asked], rules: tuple[Rule, ...], options: Options) -> list[Found]:
    """What rules make of each kernel: an e-graph for those whose roles have axes alike."""
    alike: dict[tuple[bool, ...], list[int]] = {}
    for n, k in enumerate(kernels):
        alike.setdefault(tuple(any(axes_of(k.roles, t)) for t in TILES), []).append(n)
    out: dict[int, Found] = {}
    for group in alike.values():
        graph = _KernelEGraph([kernels[n] for n in group], rules)
        budget = graph.saturate(options.phase_iterations, options.max_schedules)
        found, refusals = graph.found(), graph.refusals()
        graph.close()
        out |= {n: Found(found[i], refusals[i], budget, k.answers(), k.told) for i, (n, k) in enumerate(zip(group, graph.kernels))}
    return [out[n] for n in range(len(kernels))]


class _Kernel:
    """What Python knows of one kernel and answers about it."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        roles = asked.roles
        self.axes = {a.name: n for n, a in enumerate(dict.fromkeys(a for t in TILES for g in axes_of(roles, t) for a in g))}
        self.cut_by: dict[int, dict[str, int]] = {0: {}}  # set of cut axes, as bits -> a tile that cuts them
        self.verdicts: dict[int, Verdict] = {}
        self.judged: dict[int, Schedule] = {}
        self.told: str | None = None

    def cut(self, role: int, size: int) -> int:
        """The axes of a role that tiles of this size cut, as bits."""
        roles = self.asked.roles
        tile: dict[str, int] = {}
        for axes in axes_of(roles, TILES[role]) if size else ():
            tile |= spread_role(roles, TILES[role], axes, size)
        extent = {a.name: a.extent for axes in axes_of(roles, TILES[role]) for a in axes}
        cut = {a: t for a, t in tile.items() if not isinstance(extent[a], int) or t < dim_hint(extent[a])}
        mask = sum(1 << self.axes[a] for a in cut)
        self.cut_by.setdefault(mask, cut)
        return mask

    def legal(self, mask: int) -> bool:
        """isl's answer about cutting these axes; the sizes do not matter to it."""
        tile = {a: t for m, cut in self.cut_by.items() if m and m & mask == m for a, t in cut.items()}
        self.judged[mask] = Schedule.make(tile)
        self.verdicts[mask] = verdict = self.asked.judge(self.judged[mask])
        return bool(verdict.ok)

    def answers(self) -> tuple[tuple[Schedule, bool], ...]:
        """What isl was asked, in the order in which `illegal` looks for a refusal, with its answers."""
        return tuple((self.judged[mask], v.ok) for mask, v in sorted(self.verdicts.items()))

    def illegal(self, question: object) -> str:
        """The first refusal of isl, with its two iterations."""
        self.told = why = next((_refusal(v) for _, v in sorted(self.verdicts.items()) if not v.ok), "")
        return f"{question} is false" + (f": {why}" if why else "")


@dataclass
class _Base:
    """An e-graph in which tables and rules are declared: of each rule that kernels of a form needed its commands, by its number. One that
    no fact calls live finds nothing; one whose commands are others here, as numbers are written into them, needs another e-graph."""

    eg: Any
    form: tuple[str, ...]  # names of the rules that speak of it
    known: dict[int, tuple[str, ...]]

    def has_no_other(self, form: tuple[str, ...], rules: Sequence[KernelRule]) -> bool:
        return self.form == form and all(self.known.get(r.number, r.commands) == r.commands for r in rules if r.commands)


class _KernelEGraph:
    """One e-graph. What is declared in it is the same for most kernels of a form, and is kept for the next of them."""

    def __init__(self, kernels: Sequence[Asked], rules: tuple[Rule, ...]) -> None:
        self.kernels, self.words = [_Kernel(k) for k in kernels], Words()
        first = " ".join(map(str, default_row(self.words)))
        entries = [KernelEntry(n, k.roles, k.functions) for n, k in enumerate(kernels)]
        self.rules = [compile_rule(r, n, entries, self.words) for n, r in enumerate(rules)]
        self.eg = self._declared()
        self._run("(push)")
        self._say([f"(union (Body {n}) (Tile {n} {first})) (set (made {n} {first}) {LAST})" for n, _ in enumerate(kernels)])
        self._say([fact for r in self.rules for fact in r.facts])
        self.answered: dict[str, set[tuple[int, ...]]] = {}
        self.refused: dict[tuple[int, int, int, tuple[int, ...]], str] = {}  # rule, condition, kernel, values -> why
        self.sizes: dict[str, int] = {}  # rows of every table, at the end

    def _declared(self) -> Any:
        """An e-graph with the tables and rules: the last one that has no others in their places, or a fresh one."""
        form = tuple(r.rule.name for r in self.rules)
        self.base: _Base = _DECLARED.take_one(lambda base: base.has_no_other(form, self.rules)) or self._fresh(form)
        self.eg = self.base.eg
        for r in self.rules:
            if r.number not in self.base.known:
                for command in r.commands:
                    self._run(command, r.rule.where_text)
                if r.commands:
                    self.base.known[r.number] = r.commands
        return self.eg

    def _fresh(self, form: tuple[str, ...]) -> _Base:
        self.eg = egglog().EGraph()
        columns = " ".join("i64" for _ in COLUMNS)
        self._run(f"""(sort Kernel) (ruleset schedules) (constructor Body (i64) Kernel) (constructor Tile (i64 {columns}) Kernel)
            (function made (i64 {columns}) i64 :merge (min old new))
            (relation ask_cut (i64 i64 i64)) (function cut (i64 i64 i64) i64 :no-merge)
            (relation ask_legal (i64 i64)) (function legal (i64 i64) i64 :no-merge)""")
        return _Base(self.eg, form, {})

    def close(self) -> None:
        """Drop what was said, keep what is declared. An e-graph that is not closed keeps nothing for the next."""
        self._run("(pop)")
        self._keep()

    def _keep(self) -> None:
        _DECLARED.keep((self.base.form, *sorted(self.base.known.items())), self.base)

    def _run(self, text: str, source: str = "kernel") -> list[Any]:
        return execute(self.eg, text, source)

    def _size(self, name: str) -> int:
        """Rows of a table: egglog's count, which copies none of them."""
        return int(self._run(f"(print-size {name})")[-1].size)

    def _say(self, facts: Sequence[str]) -> None:
        for i in range(0, len(facts), AT_ONCE):
            self._run("\n".join(facts[i : i + AT_ONCE]))

    def _rows(self, functions: _Tables, name: str) -> list[tuple[int, ...]]:
        """Rows of a relation."""
        number = self.eg.value_to_i64
        return [tuple(map(number, r.inputs)) for r in functions[name].rows] if name in functions else []

    def _counted(self, name: str, columns: Sequence[int]) -> dict[tuple[int, ...], int]:
        """How many rows of a relation have the same numbers in these columns."""
        if not self.sizes.get(name):
            return {}
        if len(columns) == len(self.kernels) == 1:  # the kernel's own column: no row is read
            return {(0,): self.sizes[name]}
        number, rows = self.eg.value_to_i64, (r.inputs for r in self.tables[name].rows)  # a look at a row copies it
        if len(columns) == 1:
            return {(number(x),): count for x, count in Counter(row[columns[0]] for row in rows).items()}
        return {tuple(map(number, x)): count for x, count in Counter(map(itemgetter(*columns), rows)).items()}

    # ---- rounds
    def saturate(self, rounds: int, nodes: int) -> str:
        """Run rules and answer questions until nothing is new; the limit (of a kernel, in the mean) that was hit, if one was. `rounds`:
        of STEPS of egglog's, those before each answer counted together."""
        limit = rounds
        while rounds:
            late = current().passed("schedule", FEW)
            most, more = (min(nodes, LATE) if late else nodes) * len(self.kernels), True
            while more and rounds:
                rounds -= 1
                more = self._steps(most)
            self.tables = self.eg.freeze().functions  # asked once: every look at it copies all rows
            if self._size("Tile") > most:
                return f"{current().seconds:g} seconds" if late else f"{nodes} schedules"
            answers = self._answers(self.tables) if not more else []
            if not answers and not more:
                return ""
            self._say(answers)
        return f"{limit} rounds"

    def _steps(self, most: int) -> bool:
        """STEPS of egglog's at most, until there are more schedules than `most`; whether there may be more to do.

        The number is asked for beside them: a step's `:until` makes a query of it each time, which takes longer than most steps.
        """
        return all(self._size("Tile") <= most and self._run("(run schedules 1)")[-1].report.updated for _ in range(STEPS))

    def _answers(self, functions: _Tables) -> list[str]:
        """Commands that answer the questions which are new."""
        out = []
        for n, role, size in self._new(functions, "ask_cut"):
            out.append(f"(set (cut {n} {role} {size}) {self.kernels[n].cut(role, size)})")
        for n, mask in self._new(functions, "ask_legal"):
            out.append(f"(set (legal {n} {mask}) {int(self.kernels[n].legal(mask))})")
        for r in self.rules:
            for i, c in enumerate(r.conditions):
                if not c.text and not is_legal(c.expr):
                    for row in self._new(functions, r.question(i)):
                        yes = not self._why_not(r, i, row[0], dict(zip(c.variables, row[1:], strict=True)))
                        out.append(f"(set ({' '.join((r.answer(i), *map(str, row)))}) {int(yes)})")
        return out

    def _new(self, functions: _Tables, relation: str) -> list[tuple[int, ...]]:
        known = self.answered.setdefault(relation, set())
        new = sorted(set(self._rows(functions, relation)) - known)
        known.update(new)
        return new

    def _why_not(self, r: KernelRule, i: int, n: int, row: Mapping[str, int]) -> str:
        """Why a condition fails for these values, "" if it holds."""
        spoken = {name: self.words.values[v] if name in r.words else v for name, v in row.items()}
        return r.conditions[i].why_not(Env({**r.fixed[n], **spoken}, self.kernels[n].asked.functions))

    def _refused(self, r: KernelRule, i: int, n: int, values: tuple[int, ...]) -> str:
        """`rule: condition with its values` if a condition fails for them, else ""."""
        key = r.number, i, n, values
        if key not in self.refused:
            c = r.conditions[i]
            why = self.kernels[n].illegal(c.expr) if is_legal(c.expr) else self._why_not(r, i, n, dict(zip(c.variables, values)))
            self.refused[key] = why and f"{r.rule.name}: {why}"
        return self.refused[key]

    # ---- results
    def found(self) -> list[tuple[tuple[Schedule, str], ...]]:
        """Of each kernel the nodes of its class: schedules in the order of their columns, each once."""
        number = self.eg.value_to_i64
        rows: list[list[tuple[tuple[int, ...], int]]] = [[] for _ in self.kernels]
        for r in self.tables["made"].rows:
            n, *columns = map(number, r.inputs)
            rows[n].append((tuple(columns), number(r.output)))
        assert self._size("Tile") == sum(map(len, rows)), "a Tile that no rule made"  # what is made is said beside each node: one is read
        return [self._decoded(k, sorted(mine)) for k, mine in zip(self.kernels, rows)]

    def _decoded(self, kernel: _Kernel, rows: Sequence[tuple[tuple[int, ...], int]]) -> tuple[tuple[Schedule, str], ...]:
        decoder = Decoder(kernel.asked.roles, self.words, kernel.asked.directives)
        out: dict[tuple[Any, ...], int] = {}
        for columns, by in rows:
            out.setdefault((decoder.tile(columns[: len(TILES)]), columns[len(TILES) :]), by)
        names = {n: r.rule.name for n, r in enumerate(self.rules)} | {LAST: UNTILED}
        return tuple((decoder.tiled(*same), names[by]) for same, by in out.items())

    def refusals(self) -> list[dict[str, int]]:
        """Of each kernel `rule: condition with its values` -> how many choices it refused."""
        out: list[Counter[str]] = [Counter() for _ in self.kernels]
        self.sizes = dict(self._run("(print-size)")[-1].sizes)
        for r in self.rules:
            for n, why in r.never.items():
                if why:
                    out[n][f"{r.rule.name}: {why}"] += r.choices[n]
            for i, some in r.together():
                names = tuple(dict.fromkeys(v for c in some for v in c.variables))
                for (n, *values), count in self._counted(r.refusal(i), [0, *(1 + r.at[v] for v in names)]).items():
                    row = dict(zip(names, values))
                    whys = (self._refused(r, i + k, n, tuple([row[v] for v in c.variables])) for k, c in enumerate(some))
                    if why := next(filter(None, whys), ""):  # what a limit stopped on its way is not refused
                        out[n][why] += count
        return [dict(x) for x in out]
