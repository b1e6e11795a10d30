"""The kernel e-graph: one class, the kernel, and every schedule that computes it as a node of that class.

Tiling and scheduling rules run in egglog to a fixed point. Between rounds Python answers what the e-graph asked: which axes a
size cuts, whether isl allows these cuts (once for each set of cut axes, never for each match), and conditions that egglog has
no words for. Out come the schedules with the rule that made each, and what every condition refused.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from egglog import bindings

from autocomp.cost.roles import Roles, spread
from autocomp.egraph.engine import execute
from autocomp.egraph.kernel_rules import COLUMNS, TILES, Decoder, KernelRule, Words, axes_of, compile_rule, default_row
from autocomp.egraph.kernel_terms import is_legal
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import dim_hint
from autocomp.loops.verdict import Verdict
from autocomp.options import Options
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Env, holds

UNTILED = "untiled"
STEPS = 16  # of egglog between two looks at the clock
LAST = 1_000_000  # in `made`, the number of the schedule that no rule made: any rule's is smaller


_Tables = Mapping[str, bindings.FrozenFunction]


@dataclass(frozen=True)
class Found:
    """Schedules with the rule that made each (UNTILED for the kernel as one tile), in a fixed order; refusals by text, counted;
    `budget`: the limit that stopped the rules, "" if none did."""

    schedules: tuple[tuple[Schedule, str], ...]
    refused: Mapping[str, int]
    budget: str = ""


def schedules(roles: Roles, rules: Iterable[Rule], functions: Mapping[str, Any], judge: Callable[[Schedule], Verdict],
              options: Options) -> Found:  # fmt: skip
    """All schedules that the rules make of a kernel with these roles, within the phase's budget. `judge` says whether one may be run."""
    graph = _KernelEGraph(roles, tuple(rules), functions, judge)
    budget = graph.saturate(options.phase_iterations, options.phase_nodes, options.phase_seconds)
    return Found(graph.found(), graph.refusals(), budget)


class _KernelEGraph:
    def __init__(self, roles: Roles, rules: tuple[Rule, ...], functions: Mapping[str, Any],
                 judge: Callable[[Schedule], Verdict]) -> None:  # fmt: skip
        self.roles, self.functions, self.judge, self.words = roles, functions, judge, Words()
        self.eg = bindings.EGraph()
        columns = " ".join("i64" for _ in COLUMNS)
        first = " ".join(map(str, default_row(self.words)))
        self._run(f"""(sort Kernel) (ruleset schedules) (constructor Body () Kernel) (constructor Tile ({columns}) Kernel)
            (function made ({columns}) i64 :merge (min old new))
            (relation ask_cut (i64 i64)) (function cut (i64 i64) i64 :no-merge)
            (relation ask_legal (i64)) (function legal (i64) i64 :no-merge)
            (union (Body) (Tile {first})) (set (made {first}) {LAST})""")
        self.rules = [compile_rule(r, n, roles, functions, self.words) for n, r in enumerate(rules)]
        for r in self.rules:
            for command in r.commands:
                self._run(command, r.rule.where_text)
        self.axes = {a.name: n for n, a in enumerate(dict.fromkeys(a for t in TILES for g in axes_of(roles, t) for a in g))}
        self.cut_by: dict[int, dict[str, int]] = {0: {}}  # set of cut axes, as bits -> a tile that cuts them
        self.cuts: dict[tuple[int, ...], int] = {}
        self.verdicts: dict[int, Verdict] = {}
        self.answered: dict[str, set[tuple[int, ...]]] = {}

    def _run(self, text: str, source: str = "kernel") -> list[Any]:
        return execute(self.eg, text, source)

    def _rows(self, functions: _Tables, name: str, at: Sequence[int] | None = None) -> list[tuple[int, ...]]:
        """Rows of a relation, or some columns of them."""
        number = self.eg.value_to_i64
        if at is None:
            return [tuple(map(number, r.inputs)) for r in functions[name].rows]
        return [tuple(number(v[k]) for k in at) for v in (r.inputs for r in functions[name].rows)]

    # ---- rounds
    def saturate(self, rounds: int, nodes: int, seconds: float) -> str:
        """Run rules and answer questions until nothing is new; the limit that was hit, if one was."""
        end = time.perf_counter() + seconds
        for _ in range(rounds):
            more = True
            while more and time.perf_counter() < end:
                done = self._run(f'(run-schedule (repeat {STEPS} (run schedules :until (> (get-size! "Tile") {nodes}))))')
                more = done[-1].report.updated
            self.tables = self.eg.freeze().functions  # asked once: every look at it copies all rows
            if len(self.tables["Tile"].rows) > nodes:
                return f"{nodes} schedules"
            if more:
                return f"{seconds:g} seconds"
            answers = self._answers(self.tables)
            if not answers:
                return ""
            self._run("\n".join(answers), "answers")
        return f"{rounds} rounds"

    def _answers(self, functions: _Tables) -> list[str]:
        """Commands that answer the questions which are new."""
        out = []
        for role, size in self._new(functions, "ask_cut"):
            out.append(f"(set (cut {role} {size}) {self._cut(role, size)})")
        for (mask,) in self._new(functions, "ask_legal"):
            out.append(f"(set (legal {mask}) {int(self._legal(mask))})")
        for r in (r for r in self.rules if not r.never):
            for i, c in enumerate(r.conditions):
                if not c.text and not is_legal(c.expr):
                    for row in self._new(functions, r.question(i)):
                        yes = not self._why_not(r, i, dict(zip(c.variables, row, strict=True)))
                        out.append(f"(set ({' '.join((r.answer(i), *map(str, row)))}) {int(yes)})")
        return out

    def _new(self, functions: _Tables, relation: str) -> list[tuple[int, ...]]:
        known = self.answered.setdefault(relation, set())
        new = sorted(set(self._rows(functions, relation)) - known)
        known.update(new)
        return new

    def _cut(self, role: int, size: int) -> int:
        """The axes of a role that tiles of this size cut, as bits."""
        tile: dict[str, int] = {}
        for axes in axes_of(self.roles, TILES[role]) if size else ():
            tile |= {n: t for n, t in spread(axes, size, self.roles.padded and TILES[role] != "taps").items()}
        extent = {a.name: a.extent for axes in axes_of(self.roles, TILES[role]) for a in axes}
        cut = {a: t for a, t in tile.items() if not isinstance(extent[a], int) or t < dim_hint(extent[a])}
        mask = sum(1 << self.axes[a] for a in cut)
        self.cut_by.setdefault(mask, cut)
        self.cuts[role, size] = mask
        return mask

    def _legal(self, mask: int) -> bool:
        """isl's answer about cutting these axes; the sizes do not matter to it."""
        tile = {a: t for m, cut in self.cut_by.items() if m and m & mask == m for a, t in cut.items()}
        self.verdicts[mask] = verdict = self.judge(Schedule.make(tile))
        return bool(verdict.ok)

    def _why_not(self, r: KernelRule, i: int, row: Mapping[str, int]) -> str:
        """Why a condition fails for these values, "" if it holds."""
        spoken = {n: self.words.values[v] if n in r.words else v for n, v in row.items()}
        return holds((r.conditions[i].expr,), Env({**r.fixed, **spoken}, self.functions)).reason

    # ---- results
    def found(self) -> tuple[tuple[Schedule, str], ...]:
        """The nodes of the kernel's class: schedules in the order of their columns, each once."""
        (root,) = (r.output for r in self.tables["Body"].rows)
        number = self.eg.value_to_i64
        made = {tuple(map(number, r.inputs)): number(r.output) for r in self.tables["made"].rows}
        nodes = (tuple(map(number, r.inputs)) for r in self.tables["Tile"].rows if r.output == root and not r.subsumed)
        rows = sorted((columns, made[columns]) for columns in nodes)
        decoder = Decoder(self.roles, self.words)
        out: dict[tuple[Any, ...], tuple[tuple[int, ...], str]] = {}
        for columns, by in rows:
            same = (decoder.tile(columns[: len(TILES)]), columns[len(TILES) :])
            out.setdefault(same, (columns, UNTILED if by == LAST else self.rules[by].rule.name))
        return tuple((decoder.schedule(columns), name) for columns, name in out.values())

    def refusals(self) -> dict[str, int]:
        """`rule: condition with its values` -> how many choices it refused."""
        out: Counter[str] = Counter()
        for r in self.rules:
            if r.never:
                out[f"{r.rule.name}: {r.never}"] += r.choices
                continue
            for i, c in enumerate(r.conditions):
                at = [r.at[v] for v in c.variables]
                for values, n in Counter(self._rows(self.tables, r.refusal(i), at)).items():
                    why = self._illegal(c.expr) if is_legal(c.expr) else self._why_not(r, i, dict(zip(c.variables, values)))
                    out[f"{r.rule.name}: {why}"] += n
        return dict(out)

    def _illegal(self, question: object) -> str:
        """The first refusal of isl, with its two iterations."""
        why = next((v.why or str(v.witness or "") for _, v in sorted(self.verdicts.items()) if not v.ok), "")
        return f"{question} is false" + (f": {why}" if why else "")
