"""Why a rule did not fire: at most three lines of plain words, the nearest miss first, alike ones together.

    algebra/add-exact-zero: fired 0 times, matched and was refused 96 times
      nearest miss: needs 'value(?c) is 0', not so 16 times: value(?c) is 0.5 to 45.5; for example at layer0/add, f32[32, 64]
      failed before it: '?c is uniform (all elements are one known number)' (44 times)
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from autocomp.errors import AutocompError
from autocomp.ir.places import short
from autocomp.report.layers import called, model_places
from autocomp.report.tables import near_hint, plural

LONG = 120  # characters of a condition
SHOWN = 3  # values of other parts of the condition
SHORT = 40  # characters of such a part; longer ones are parts of it that the condition itself shows
LISTED = 3  # values that are listed; of more numbers the range is said
EARLIER = 3  # conditions before the nearest miss that are named


def why_not(program: Any, rule: str, at: str | None) -> tuple[str, dict[str, Any]]:
    """(text, data). `at`: a part of the name of a node of the model. Raises AutocompError for a rule or a node that is not there."""
    known = sorted(set(program.rule_names))
    if rule not in known:
        hint = near_hint(rule, known, "`autocomp rules list` shows them")
        raise AutocompError(f"there is no rule '{rule}' in force", where="explain --why-not", hint=hint)
    rejected = [e.data for e in program.trace.of("reject") if e.name == rule]
    if at is not None:
        rejected = [r for r in rejected if at.lower() in _where(program, r).lower()]
        places = sorted({short(p) for p in program.calls.source.locations.values()})
        if not rejected and not any(at.lower() in p.lower() for p in places):
            near = get_close_matches(at, places, 3)
            raise AutocompError(f"the model has no node that is called '{at}'", where="explain --at",
                                hint=f"nearest: {', '.join(near)}" if near else "`autocomp explain MODEL` lists them")  # fmt: skip
    count = sum(int(e.data.get("count", 1)) for e in program.trace.of("rule") if e.name == rule)
    refused = sum(int(r.get("count", 1)) for r in rejected)
    made = [(e.name, *e.data["made"][rule].values(), e.data["rule"] == rule) for e in program.trace.of("schedule")
            if rule in e.data.get("made", ())]  # fmt: skip
    gave = [(e.data["kernel"], e.data["directive"], e.data["used"]) for e in program.trace.of("directive") if e.name == rule]
    did = f"made {plural(sum(m for _, m, *_ in made), 'schedule')}" if made else f"fired {plural(count, 'time')}"
    here = "" if at is None else f" at {at}"
    lines = [f"{rule}: {did}{' in the model' if here else ''}, matched and was refused {plural(refused, 'time')}{here}"]
    given = _made(made) + _gave(gave)
    lines += [f"  {'; '.join(given)}"] if given else []
    if count and at is None and not given:
        lines.append(f"  {_used(program, rule)}")
    misses = near_misses(program, rule, rejected)
    lines += [f"  {m}" for m in misses[: 3 - len(lines)]]
    if not given and not rejected and (at is not None or not count):
        lines.append(f"  {_silent(program, rule) if at is None else _none_there(program, rule, at)}")
    return "\n".join(lines), {"rule": rule, "fired": count, "refused": rejected,
                              "made": {kernel: {"schedules": n, "cheapest": best} for kernel, n, best, _ in made},
                              "gave": [{"kernel": kernel, "directive": name, "used": used} for kernel, name, used in gave]}  # fmt: skip


def _made(made: list[tuple[str, int, str, bool]]) -> list[str]:
    """The kernel whose schedule was chosen of the rule's, else the first, and how many others there are."""
    if not made:
        return []
    kernel, n, best, chosen = max(made, key=lambda m: m[3])
    text = f"made: kernel {kernel}, {plural(n, 'schedule')}, {'one of them was chosen, ' if chosen else ''}the cheapest {best}"
    won = sum(c for *_, c in made) - chosen
    return [text + (f"; and for {plural(len(made) - 1, 'other kernel')}, chosen for {won}" if len(made) > 1 else "")]


def _used(program: Any, rule: str) -> str:
    """What became of what a rule made."""
    kernels = list(dict.fromkeys(c.kernel.name for c in program.calls.calls if any(r.partition(":")[0] == rule for r in c.rules)))
    if not kernels:
        return "what it made is in no kernel that was chosen: other forms of the same tensors cost no more"
    more = f" and {plural(len(kernels) - EARLIER, 'other')}" if len(kernels) > EARLIER else ""
    return f"what it made is in kernel {', '.join(kernels[:EARLIER])}{more}"


def _gave(gave: list[tuple[str, str, bool]]) -> list[str]:
    """The directive that a rule gave to kernels, those that had a use for it first."""
    out = []
    for use in (True, False):
        kernels = [k for k, _, used in gave if used == use]
        if kernels:
            more = f" and {plural(len(kernels) - EARLIER, 'other')}" if len(kernels) > EARLIER else ""
            out.append(f"gave: kernel {', '.join(kernels[:EARLIER])}{more}, {gave[0][1]}{'' if use else ', which had no use for it'}")
    return out


def near_misses(program: Any, rule: str, rejected: list[dict[str, Any]]) -> list[str]:
    """Up to two lines: the condition that failed last of those in the rule (they are asked in order), with the values that it saw and one
    place; and the conditions before it."""
    from autocomp.rewrite import load_rules
    from autocomp.rewrite.plain import in_words

    groups: dict[str, dict[str, int]] = {}
    example: dict[str, str] = {}
    chosen = _chosen(program)
    told = [r for r in rejected if r.get("reason") or r.get("why")]
    told.sort(key=lambda r: r.get("kernel", next(iter(chosen), "")) not in chosen)  # kernels of covers that were not chosen come last
    for r in told:
        condition, _, values = str(r.get("reason") or r["why"]).partition(" is false")
        seen = groups.setdefault(condition, {})
        seen[values.removeprefix(": ")] = seen.get(values.removeprefix(": "), 0) + max(1, int(r.get("count", 1)))
        example.setdefault(condition, _where(program, r))
    mine = next((r for r in load_rules(program.options.rules, options=program.options) if r.name == rule), None)
    order = [str(c) for c in mine.where] if mine else []
    rank = lambda c: next((k for k, text in enumerate(order) if c in text), -1)
    say = lambda c: _cut(in_words(c, mine.phase)) if mine and rank(c) >= 0 else _cut(c)
    nearest, *rest = sorted(groups.items(), key=lambda g: (-rank(g[0]), -sum(g[1].values()))) or [("", {})]
    if not nearest[0]:
        return []
    condition, seen = nearest
    values, times = together(seen, nearest[0]), plural(sum(seen.values()), "time")
    where = f"; for example at {example[condition]}" if example[condition] else ""
    needs = f"needs '{say(condition)}', not so {times}" if rank(condition) >= 0 else f"{say(condition)}, {times}"
    lines = [f"nearest miss: {needs}{f': {values}' if values else ''}{where}"]
    if rest:
        earlier = [f"'{say(c)}' ({plural(sum(n.values()), 'time')})" for c, n in rest[:EARLIER]]
        more = [plural(len(rest) - EARLIER, "other condition")] if len(rest) > EARLIER else []
        lines.append(f"failed before it: {', '.join([*earlier, *more])}")
    if left := sum(int(r["count"]) for r in rejected if r not in told):
        lines[-1] += f" ({left} more of this rule are not in the trace)"
    return lines


def together(seen: dict[str, int], condition: str = "") -> str:
    """What a condition saw, alike values said once: {'?s is 8, ?t is 16': 3, '?s is 8, ?t is 32': 1} is '?s is 8, ?t is 16 or 32'. What
    it compares is "it" where that is long; of its other parts the `SHOWN` shortest are said."""
    found: dict[str, dict[str, None]] = {}
    other = [text for text in seen if text and " is " not in text]  # what a stage said, such as bytes needed and there
    for text in (text for text in seen if " is " in text):
        for part in _pieces(text):
            name, _, value = part.partition(" is ")
            found.setdefault(name, {})[value] = None
    first = {name for name in found if name and f"'{name} " in f"'{condition.removeprefix(chr(39))} "}
    few = sorted((n for n in found if n and n not in first and len(n) <= SHORT), key=len)[:SHOWN]
    said = [n for n in found if n in first or n in few] or [n for n in found if n][:1]
    told = ", ".join(f"{n if len(n) <= SHORT else 'it'} is {_cut(_values(list(found[n])))}" for n in said)
    more = [f"{plural(len(other) - 1, 'other value')}"] if len(other) > 1 else []
    return "; ".join(filter(None, (told, *map(_cut, other[:1]), *more)))


def _pieces(text: str) -> list[str]:
    """A text cut at its commas outside of brackets."""
    out, depth, start = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth <= 0:
            out.append(text[start:i].strip())
            start = i + 1
    return out


def _values(values: list[str]) -> str:
    try:
        values = sorted(values, key=float)
        if len(values) > LISTED:
            return f"{values[0]} to {values[-1]}"
    except ValueError:
        if len(values) > LISTED:
            return f"{', '.join(values[:LISTED])} or {plural(len(values) - LISTED, 'other value')}"
    return " or ".join(filter(None, (", ".join(values[:-1]), values[-1])))


def _cut(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


def _chosen(program: Any) -> set[str]:
    """Names of the program's kernels, of those in parts the whole's too."""
    return {k.name for c in program.calls.calls for k in (c.kernel, c.of) if k is not None}


def _where(program: Any, refused: dict[str, Any]) -> str:
    """Where a rule was refused: the model's name for the node, its type; or the kernel and what it computes."""
    if "kernel" in refused:
        names = called(program, refused["kernel"])
        if refused["kernel"] not in _chosen(program):
            return f"kernel {refused['kernel']} of a cover that was not chosen"
        return f"kernel {refused['kernel']}" + (f" ({names[0]})" if names else "")
    return ", ".join(filter(None, (short(refused.get("place", "")), refused.get("at", ""))))


def _none_there(program: Any, rule: str, at: str) -> str:
    """What it means that no refusal of a rule at some node is in the trace."""
    if target := _other_target(program, rule):
        return target
    here = [c.kernel.name for c in program.calls.calls if any(at.lower() in short(p).lower() for p in model_places(program, c, views=True))
            and any(r.partition(":")[0] == rule for r in c.rules)]  # fmt: skip
    if here:
        return f"it helped to make kernel {here[0]}, which computes that: --why {here[0]} says how"
    left_out = sum(e.data.get("count", 1) for e in program.trace.of("reject") if e.name == rule and not e.data.get("reason", "-"))
    kept = f"it matched nothing there, or is one of the {left_out} refusals that the trace has not kept"
    return kept if left_out else "its left side matches nothing there, or what it made there was not chosen"


def _other_target(program: Any, rule: str) -> str:
    """That a rule is for other targets; "" where it is for this one."""
    from autocomp.rewrite import load_rules

    mine = next(r for r in load_rules(program.options.rules, options=program.options) if r.name == rule)
    if not mine.targets or program.target.name in mine.targets:
        return ""
    return f"it is for {' and '.join(mine.targets)} alone, and this program is for {program.target.name}"


def _silent(program: Any, rule: str) -> str:
    """What it means that the trace does not mention a rule."""
    from autocomp.rewrite import load_rules
    from autocomp.rewrite.check import idle
    from autocomp.rewrite.vocabulary import GRAPH_PHASES, KERNEL_PHASES

    if target := _other_target(program, rule):
        return target
    mine = next(r for r in load_rules(program.options.rules, options=program.options) if r.name == rule)
    if mine.phase in KERNEL_PHASES:
        return "it matched no kernel of this program, or made no schedule that another rule had not made before"
    never = idle(mine) if mine.phase in GRAPH_PHASES else ""
    return f"it {never}" if never else "its left side matched nothing in this model"
