"""Rule files -> RuleSet: the shipped `rules/*.yaml` and the user's own, every mistake at file:line:column."""

from __future__ import annotations

import io
import pickle
import re
import sys
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import is_dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from autocomp.deadline import current
from autocomp.errors import RuleError
from autocomp.files import digest, read_given
from autocomp.ir.loop_choice import ONE as ONE_STEP
from autocomp.ir.ops import OPS
from autocomp.options import Options
from autocomp.rewrite.check import check_rule, next_step
from autocomp.rewrite.expr import Expr, Lit, Ref, bound_are, check_names, parse_expr, walk
from autocomp.rewrite.family import members
from autocomp.rewrite.laws import check_fusion, check_kernel_rule, target_names
from autocomp.rewrite.location import Location, Text
from autocomp.rewrite.pattern import Apply, Pattern, applications, bound_attrs, check_operands, check_pattern, operands, parse_pattern
from autocomp.rewrite.rule import Example, Rule, RuleSet
from autocomp.rewrite.vocabulary import GRAPH_PHASES, PHASES, arity_rule, vocabulary
from autocomp.rewrite.yaml_source import Located, read_yaml
from autocomp.store import package_stamp, read_entry, write_entry

FIELDS = (
    "name",
    "phase",
    "each",
    "let",
    "siblings",
    "lhs",
    "rhs",
    "match",
    "choose",
    "where",
    "exact",
    "finite",
    "commutes",
    "examples",
    "targets",
    "requires",
    "assumed",
    "why",
)
KEPT = "autocomp rules 1"  # format of an entry
MAX_ORDERS = 256  # of the operands of one left side
NAME = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$")
USER_SAMPLES = 8  # random inputs on which a user rule is tried


def load_rules(files: Iterable[str | Path | Rule] = (), without: Iterable[str] = (), options: Options = Options()) -> RuleSet:  # noqa: B008
    """The shipped rules, then the user's files (or `@autocomp.rule` rules), less those whose name matches a glob of `without`. A file that
    is one of the shipped adds nothing.

    Left out are also rules marked `exact: false` with `options.exact`, those that require an option which is off, and rules of the user
    that were not tested when the deadline came.
    Raises RuleError: a file that is no rule file, an unknown field, op, function or variable, a name given twice, a rule
    whose own examples refute it.
    """
    rules, late = list(shipped_rules(options.cache)), list[Rule]()
    for f in files:
        if not isinstance(f, (str, Path, Rule)):
            raise RuleError(f"a {type(f).__name__} is neither a file of rules nor a rule", where="rules",
                            hint="give a path, or a function under @autocomp.rule(phase=..)")  # fmt: skip
        mine = [f] if isinstance(f, Rule) else [] if shipped_name(f) else _read_file(Path(f))
        for r in mine:
            (rules if _is_tested(r) else late).append(r)
    seen: dict[str, Rule] = {}
    for r in rules:
        if r.name in seen:
            raise RuleError(
                f"the name '{r.name}' is taken", where=str(r.location), hint=f"it is defined at {seen[r.name].location}"
            )
        seen[r.name] = r
    if late:
        current().ended("rules", f"rules that were not tested in time: {', '.join(r.name for r in late)}")
    without = tuple(without)
    _refuse_idle(without, (*seen, *(r.name for r in late), *filter(None, map(arity_rule, OPS)), ONE_STEP))
    chosen = RuleSet(tuple(rules)).without(without)
    return RuleSet(tuple(r for r in chosen if (r.exact or not options.exact) and all(getattr(options, o) for o in r.requires)))


def _refuse_idle(without: Iterable[str], names: Iterable[str]) -> None:
    """What is to be left out and is not there is a slip of the pen."""
    known = tuple(names)
    for glob in without:
        if not any(fnmatchcase(n, glob) for n in known):
            near = get_close_matches(glob, known, 3)
            raise RuleError(f"no rule is called '{glob}'", where="without",
                            hint=f"nearest: {', '.join(near)}" if near else "`autocomp rules list` shows them")  # fmt: skip


def _is_tested(r: Rule) -> bool:
    """A user's rule is tested before it is used (the shipped ones are tested with the package): whether it was, to the end, or is not to
    be. Raises RuleError where it is refuted."""
    if not r.assumed:
        found = check_rule(r, USER_SAMPLES, prove=False)
        if found.cut:
            return False
        if found.status == "refuted":
            raise r.error(f"is refuted: {found.detail}", next_step(r, USER_SAMPLES, found.detail))
        if found.status == "assumed" and r.phase in GRAPH_PHASES:
            raise r.error(f"cannot be tested: {found.detail}", "change its conditions" if "never" in found.detail else
                          "give it examples: [{x: 'f32[3, 4]'}], a type or a value for each variable; or `assumed: true`")  # fmt: skip
    return True


_SHIPPED: dict[str, tuple[Rule, ...]] = {}  # under "" once they are read


def shipped_rules(cache: bool = False) -> tuple[Rule, ...]:
    """Rules of the package's own `rules/*.yaml`, files in order of name, read once. `cache`: a process before this one may have
    done that, and have kept them in the cache folder."""
    found = _SHIPPED.get("")
    return found if found is not None else _SHIPPED.setdefault("", _kept() if cache else _read_shipped())  # the same for all threads


def forget_shipped() -> None:
    """The package's files are read again when they are asked for."""
    _SHIPPED.clear()


def _kept() -> tuple[Rule, ...]:
    """The rules of these files as this package reads them, by an entry of the cache or for one."""
    stamp = package_stamp()
    if " " in stamp:  # files were edited since this process began: no other will ask for these
        return _read_shipped()
    key = digest([sys.version, stamp])
    kept = read_entry("rules", KEPT, key)
    if kept is not None:
        with suppress(Exception):  # whatever is the matter with it, they are read again
            rules: tuple[Rule, ...] = _Records(io.BytesIO(zlib.decompress(kept))).load()
            return rules
    write_entry("rules", KEPT, key, zlib.compress(pickle.dumps(rules := _read_shipped()), 1))
    return rules


class _Records(pickle.Unpickler):
    """Reads values of our own classes, and nothing else: that runs no code."""

    def find_class(self, module: str, name: str) -> type:
        found = super().find_class(module, name) if module.startswith("autocomp.rewrite.") else None
        if not is_dataclass(found) or not isinstance(found, type):
            raise pickle.UnpicklingError(f"{module}.{name} is no record of rules")
        return found


def _read_shipped() -> tuple[Rule, ...]:
    folder = resources("autocomp.rules")
    out: list[Rule] = []
    for f in sorted(folder.iterdir(), key=lambda f: f.name):
        if f.name.endswith(".yaml"):
            out += parse_rules(f.read_text(encoding="utf-8"), f"rules/{f.name}")
    return tuple(out)


def shipped_name(path: str | Path) -> str:
    """What locations of rules call a file that is one of the package's own, "" for another: its rules are in force anyway."""
    mine = Path(str(resources("autocomp.rules"))) / Path(path).name
    try:
        return f"rules/{mine.name}" if mine.suffix == ".yaml" and mine.samefile(path) else ""
    except OSError:
        return ""


def _read_file(path: Path) -> list[Rule]:
    try:
        data = read_given(path)
    except OSError as x:
        raise RuleError(
            f"cannot be read: {x.strerror or x}", where=str(path), hint="give the path of a .yaml file of rules"
        ) from None
    try:
        return parse_rules(data.decode("utf-8"), str(path))
    except UnicodeDecodeError as x:
        raise RuleError(f"not UTF-8 text (byte {x.start})", where=str(path)) from None


def parse_rules(text: str, file: str) -> list[Rule]:
    """The rules of one document: a list of rules, or a mapping with the one key `rules`."""
    doc = read_yaml(text, file)
    if isinstance(doc.value, dict) and set(doc.value) == {"rules"}:
        doc = doc.value["rules"]
    if doc.value is None:
        return []
    if not isinstance(doc.value, tuple):
        raise doc.error("a rule file is a list of rules", "start each rule with '- name: group/name'")
    return [build_rule(rule) for item in doc.value for rule in members(item)]


def build_rule(item: Located) -> Rule:
    """One checked rule from its mapping."""
    if not isinstance(item.value, dict):
        raise item.error("a rule is a mapping with name, phase, lhs, rhs", "start each rule with '- name: group/name'")
    fields: dict[str, Located] = item.value
    for key in fields:
        if key not in FIELDS:
            near = get_close_matches(key, FIELDS, 1, 0.6)
            raise fields[key].error(
                f"unknown field '{key}'", f"did you mean '{near[0]}'?" if near else f"fields are {', '.join(FIELDS)}"
            )
    name = _text(fields, "name", item)
    if not NAME.match(name):
        raise fields["name"].error(f"'{name}' is no rule name", "use words of letters, digits, _ . - joined by /")
    phase = _text(fields, "phase", item)
    if phase not in PHASES:
        near = get_close_matches(phase, PHASES, 1)
        raise fields["phase"].error(f"unknown phase '{phase}'",
                                    (f"did you mean '{near[0]}'? " if near else "") + f"phases are {', '.join(PHASES)}")  # fmt: skip
    sides = {k: _pattern(fields[k], name, phase, k) for k in ("lhs", "rhs", "match") if k in fields}
    left = "lhs" if phase in (*GRAPH_PHASES, "fusion") else "match"
    if left not in sides:
        raise item.error(f"rule '{name}' has no '{left}'", f"a {phase} rule says what it matches in '{left}'")
    if "rhs" not in sides:
        raise item.error(f"rule '{name}' has no 'rhs'")
    choose = _choose(fields, name, phase)
    bound = _bound(sides[left]) | {"root"} | {c for c, _ in choose}
    where = tuple(_condition(t, name, phase, bound) for t in _conditions(fields))
    rule = Rule(
        name,
        phase,
        item.location,
        sides.get("lhs"),
        sides.get("rhs"),
        sides.get("match"),
        choose,
        where,
        _flag(fields, "exact", True),
        _flag(fields, "commutes", False),
        _examples(fields),
        _words(fields, "targets"),
        _switches(fields),
        _flag(fields, "assumed", False),
        _text(fields, "why", item, ""),
        _siblings(fields, frozenset(r.name for r in operands(sides[left]))),
        _flag(fields, "finite", False),
        _choices_at(fields),
    )
    _check_rhs(rule, fields["rhs"], bound)
    _check_orders(rule, fields)
    _check_targets(rule, fields)
    if phase not in GRAPH_PHASES:
        check = check_fusion if phase == "fusion" else check_kernel_rule
        check(rule, *(Text(str(fields[side].value), fields[side].location, name) for side in (left, "rhs")))
    return rule


def _check_orders(rule: Rule, fields: dict[str, Located]) -> None:
    """A left side that commutes is matched in every order of its operands: twice as often with each op that does."""
    if rule.lhs is None or not rule.commutes or rule.phase not in GRAPH_PHASES:
        return
    turns = sum(OPS[a.op].commutes and len(a.args) == 2 for a in applications(rule.lhs) if a.op in OPS)
    if 2**turns > MAX_ORDERS:
        raise fields["lhs"].error(f"commutes in {turns} places, which is {2**turns} orders of operands; the limit is {MAX_ORDERS}",
                                  "write several rules of smaller patterns, or leave out `commutes`")  # fmt: skip


def _check_targets(rule: Rule, fields: dict[str, Located]) -> None:
    for t in rule.targets:
        if t not in target_names():
            near = get_close_matches(t, target_names(), 1)
            known = f"did you mean '{near[0]}'?" if near else f"targets are {', '.join(target_names())}"
            raise fields["targets"].error(f"there is no target '{t}'", known)


def _check_rhs(rule: Rule, rhs: Located, bound: frozenset[str]) -> None:
    """Variables of the right side are bound, and attributes that have no default are given."""
    assert rule.rhs is not None
    text = Text(str(rhs.value), rhs.location, rule.name)
    v = vocabulary(rule.phase)
    tensors = frozenset(r.name for r in operands(rule.lhs)) if rule.lhs is not None else bound
    for ref in operands(rule.rhs):
        if rule.phase in GRAPH_PHASES and ref.name in bound - tensors:
            what = "is the whole left side" if ref.name == "root" else "stands for an attribute"
            raise text.error(f"?{ref.name} {what}, and a tensor of the left side is wanted", ref.at, bound_are(tensors))
        if ref.name not in bound:
            raise text.error(f"?{ref.name} is not bound by the pattern", ref.at, bound_are(bound))
        if ref.rest and rule.phase in GRAPH_PHASES and not rule.siblings:
            raise text.error(f"?{ref.name}... lists the tensors of siblings", ref.at, "name what they share: siblings: [x]")
    for a in applications(rule.rhs):
        for k, e in a.attrs:
            check_names(e, text, bound, v.functions, v.words, rule.phase)
            if rule.phase in GRAPH_PHASES and isinstance(e, Ref) and e.name in tensors | {"root"}:
                raise text.error(f"?{e.name} is a tensor, and {k} is none", e.at, f"such as shape(?{e.name}), dtype(?{e.name})")
        if rule.phase in GRAPH_PHASES:
            from autocomp.ir.ops import OPS

            given = dict(a.attrs)
            for k, default in ({"value": ...} if a.op == "const" else OPS[a.op].attrs).items():
                if default is ... and k not in given:
                    raise text.error(f"{a.op} needs the attribute '{k}'", a.at)


def _bound(left: Pattern) -> frozenset[str]:
    words = {r.name for r in operands(left)} | {r.name for r in bound_attrs(left)}
    return frozenset(words)


def _pattern(x: Located, name: str, phase: str, side: str) -> Pattern:
    if not isinstance(x.value, str):
        x = Located(str(x.value), x.location) if isinstance(x.value, (int, float)) else x
        if not isinstance(x.value, str):
            raise x.error(f"rule '{name}': {side} is a pattern in one line of text")
    text = Text(x.value, x.location, name)
    p = parse_pattern(text)
    v = vocabulary(phase)
    check_pattern(p, text, v.arity, v.attrs, phase)
    if phase in GRAPH_PHASES:
        check_operands(p, text, side)
    if side == "lhs" and not isinstance(p, Apply):
        raise text.error("a left side starts with an op", 0, "a bare variable would match every tensor")
    if side in ("lhs", "match"):
        bound = _bound(p)
        both = {r.name for r in operands(p)} & {r.name for r in bound_attrs(p)}
        if both and phase in GRAPH_PHASES:
            raise text.error(f"?{min(both)} stands for a tensor and for an attribute", 0, "give them two names")
        for a in applications(p):
            for _, e in a.attrs:
                if not isinstance(e, Ref):
                    check_names(e, text, bound, v.functions, v.words | frozenset(str(w) for w in walk(e) if side == "match"), phase)
    return p


def _condition(text: Text, name: str, phase: str, bound: frozenset[str]) -> Expr:
    located = Text(text.value, text.location, name)
    e = parse_expr(located)
    v = vocabulary(phase)
    check_names(e, located, bound, v.functions, v.words, phase)
    if isinstance(e, Lit) and isinstance(e.value, str):
        raise located.error("a quoted condition is a word, which always holds", 0, "write it without quotes")
    return e


def _conditions(fields: dict[str, Located]) -> list[Text]:
    """`where` as texts: a block list, or `[a, b]` / one condition in a line (split at its outer commas)."""
    if "where" not in fields:
        return []
    w = fields["where"]
    if isinstance(w.value, tuple):
        return [t for item in w.value for t in _split(str(item.value), item.location)]
    if isinstance(w.value, str):
        s = w.value.strip()
        if s.startswith("[") and s.endswith("]"):
            at = replace(w.location, column=w.location.column + 1)
            return _split(s[1:-1], at)
        return _split(s, w.location)
    if isinstance(w.value, bool):
        return [Text(str(w.value).lower(), w.location)]
    raise w.error("'where' is a list of conditions")


def _split(s: str, at: Location) -> list[Text]:
    """Split at commas outside of brackets."""
    out, depth, start = [], 0, 0
    for i, c in enumerate(s + ","):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth <= 0:
            piece = s[start:i]
            if piece.strip():
                lead = len(piece) - len(piece.lstrip())
                out.append(Text(piece.strip(), replace(at, column=at.column + start + lead)))
            start = i + 1
    return out


def _choose(fields: dict[str, Located], name: str, phase: str) -> tuple[tuple[str, tuple[Any, ...] | Expr], ...]:
    if "choose" not in fields:
        return ()
    c = fields["choose"]
    if not isinstance(c.value, dict):
        raise c.error("'choose' maps names to lists of candidates", "choose: {bm: [64, 128]}")
    v, out = vocabulary(phase), []
    for key, x in c.value.items():
        if x.value == ():
            raise x.error(f"?{key} has no candidate", f"choose: {{{key}: [64, 128]}}")
        if isinstance(x.value, tuple):
            out.append((key, plain(x)))
        elif isinstance(x.value, str):
            text = Text(x.value, x.location, name)
            e = parse_expr(text)
            if isinstance(e, Lit):
                raise x.error(f"?{key} is to be chosen from the text '{x.value[:40]}', which is no list", f"choose: {{{key}: [64, 128]}}")
            check_names(e, text, frozenset(r.name for r in walk(e) if isinstance(r, Ref)), v.functions, v.words, phase)
            out.append((key, e))
        else:
            out.append((key, (x.value,)))
    return tuple(out)


def _choices_at(fields: dict[str, Located]) -> dict[str, tuple[Location, ...]]:
    chosen = fields["choose"].value if "choose" in fields else {}
    return {name: tuple(i.location for i in x.value) if isinstance(x.value, tuple) else (x.location,) for name, x in chosen.items()}


def plain(x: Located) -> Any:
    """The value without its places."""
    if isinstance(x.value, tuple):
        return tuple(plain(i) for i in x.value)
    if isinstance(x.value, dict):
        return {k: plain(v) for k, v in x.value.items()}
    return x.value


def _examples(fields: dict[str, Located]) -> tuple[Example, ...]:
    if "examples" not in fields:
        return ()
    out, xs = [], fields["examples"]
    if not isinstance(xs.value, tuple):
        raise xs.error("'examples' is a list of mappings from variables to types")
    for x in xs.value:
        if not isinstance(x.value, dict):
            raise x.error("an example maps variables to types", "- {x: 'f32[2, 3]', fires: true}")
        b = plain(x)
        graph = b.get("graph", "")
        if not isinstance(graph, str):
            raise x.error("an example's 'graph' is text", "- {graph: 'input x: f32[3]; %0 = neg(x); output y = %0'}")
        if not isinstance(b.get("fires", True), bool):
            raise x.value["fires"].error("an example's 'fires' is true or false")
        bindings = tuple((k, v) for k, v in b.items() if k not in ("fires", "graph"))
        if bool(graph) == bool(bindings):
            raise x.error("an example has either a 'graph' or types for the rule's variables")
        out.append(Example(bindings, b.get("fires", True), x.location, graph))
    return tuple(out)


def _text(fields: dict[str, Located], key: str, item: Located, default: str | None = None) -> str:
    if key not in fields:
        if default is not None:
            return default
        raise item.error(f"a rule without '{key}'")
    if not isinstance(fields[key].value, str):
        raise fields[key].error(f"'{key}' is text")
    return str(fields[key].value).strip()


def _flag(fields: dict[str, Located], key: str, default: bool) -> bool:
    if key not in fields:
        return default
    if not isinstance(fields[key].value, bool):
        raise fields[key].error(f"'{key}' is true or false")
    return bool(fields[key].value)


def _siblings(fields: dict[str, Located], tensors: frozenset[str]) -> tuple[str, ...]:
    names = _words(fields, "siblings")
    for n in names:
        if n not in tensors:
            raise fields["siblings"].error(f"?{n} is not bound by the pattern", "siblings: [x] names tensors of lhs")
    return names


def _switches(fields: dict[str, Located]) -> tuple[str, ...]:
    """`requires`: options that are on or off; the rule is in force where all of them are on."""
    names = _words(fields, "requires")
    known = sorted(n for n, v in vars(Options()).items() if isinstance(v, bool)) if names else []
    for n in names:
        if n not in known:
            raise fields["requires"].error(f"no option '{n}' to require", f"options that are on or off: {', '.join(known)}")
    return names


def _words(fields: dict[str, Located], key: str) -> tuple[str, ...]:
    if key not in fields:
        return ()
    x = fields[key]
    values = plain(x) if isinstance(x.value, tuple) else (x.value,)
    if not all(isinstance(v, str) for v in values):
        raise x.error(f"'{key}' is a list of words")
    return tuple(values)
