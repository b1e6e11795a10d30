"""Patterns: `mul(matmul(?a, ?b), ?c)`, `transpose(?x, perm=?p)`, `map(?f, load(store(?k)), ?rest...)`.

    pattern ::= ?var | ?var... | number | word | op '(' (pattern ',')* (attr ('='|':') expr ',')* ')'

An attribute is an expression of the `where` language; on a left side a bare ?var binds, everything else is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

from autocomp.ir.scalar import SCALAR
from autocomp.rewrite.expr import Expr, Lit, Parser, Ref, Word, meant, nearest, walk
from autocomp.rewrite.location import Text


@dataclass(frozen=True)
class Apply:
    """An op of given operands. `attrs` are (name, expression) in the order written."""

    op: str
    args: tuple[Pattern, ...] = ()
    attrs: tuple[tuple[str, Expr], ...] = ()
    at: int = 0

    def __str__(self) -> str:
        return f"{self.op}({', '.join([*map(str, self.args), *(f'{k}={v}' for k, v in self.attrs)])})"


LARGEST = 1e300  # numbers of patterns


Pattern = Ref | Lit | Word | Apply


class PatternParser(Parser):
    def pattern(self) -> Pattern:
        self.depth += 1
        if self.depth > 40:
            raise self.text.error("nested deeper than 40", self.now.at)
        t = self.now
        if t.kind == "name" and self.tokens[self.i + 1].value == "(":
            self.i += 2
            p: Pattern = self.application(t.value, t.at)
        else:
            e = self.unary()
            if not isinstance(e, (Ref, Lit, Word)):
                raise self.text.error("expected an op, a ?variable or a number", t.at)
            p = e
        self.depth -= 1
        return p

    def application(self, op: str, at: int) -> Apply:
        args: list[Pattern] = []
        attrs: list[tuple[str, Expr]] = []
        while not self.take(")"):
            if args or attrs:
                self.need(",")
            t = self.now
            if t.kind == "name" and self.tokens[self.i + 1].value in ("=", ":"):
                if t.value in dict(attrs):
                    raise self.text.error(f"'{t.value}' is given twice", t.at)
                self.i += 2
                attrs.append((t.value, self.expr()))
            elif attrs:
                raise self.text.error("an operand after an attribute", t.at)
            else:
                args.append(self.pattern())
        return Apply(op, tuple(args), tuple(attrs), at)


def parse_pattern(text: Text) -> Pattern:
    """The pattern. Raises RuleError at file:line:column."""
    p = PatternParser(text)
    out = p.pattern()
    for a in applications(out):
        for _, e in a.attrs:
            p.end(e)
    p.end()
    return out


def applications(p: Pattern) -> Iterator[Apply]:
    """Every op of the pattern, outermost first."""
    if isinstance(p, Apply):
        yield p
        for a in p.args:
            yield from applications(a)


def operands(p: Pattern) -> Iterator[Ref]:
    """Tensor variables in order of occurrence, repeated as written."""
    if isinstance(p, Ref):
        yield p
    elif isinstance(p, Apply):
        for a in p.args:
            yield from operands(a)


def typed_by(p: Apply) -> int | None:
    """The operand whose dtype bare numbers beside it take: of an element-wise op the first that is no number itself (of `where` behind the
    choice). None where there is none: then numbers take the dtype of the whole side."""
    if p.op not in SCALAR or not any(map(is_number, p.args)):
        return None
    return next((i for i, a in enumerate(p.args) if not is_number(a) and not (p.op == "where" and i == 0)), None)


def is_number(p: Pattern) -> bool:
    """A number that says no dtype."""
    return isinstance(p, (Lit, Word)) or (isinstance(p, Apply) and p.op == "const" and "dtype" not in dict(p.attrs))


def bound_attrs(p: Pattern) -> Iterator[Ref]:
    """Attribute variables that a left side binds (bare ?var as an attribute's value)."""
    for a in applications(p):
        for _, e in a.attrs:
            if isinstance(e, Ref):
                yield e


def check_pattern(
    p: Pattern, text: Text, arity: Mapping[str, tuple[int, int]], attrs: Mapping[str, frozenset[str]], phase: str
) -> None:
    """Raises RuleError on an unknown op, a wrong number of operands, or an attribute the op does not have."""
    for a in applications(p):
        if a.op not in arity:
            raise text.error(f"unknown op '{a.op}'", a.at, nearest(a.op, arity, phase))
        low, high = arity[a.op]
        rest = any(isinstance(x, Ref) and x.rest for x in a.args)
        if not rest and not low <= len(a.args) <= high:
            wants = str(low) if low == high else f"{low} to {high}"
            raise text.error(f"{a.op} takes {wants} operands, got {len(a.args)}", a.at)
        for name, e in a.attrs:
            if name not in attrs[a.op]:
                value = next((x.at for x in walk(e)), len(text.value))
                at = max(text.value.rfind(name, a.at, value), a.at)
                has = f"its attributes are {', '.join(sorted(attrs[a.op])) or 'none'}"
                raise text.error(f"{a.op} has no attribute '{name}'", at, f"{meant(name, attrs[a.op])} {has}".lstrip())


def check_operands(p: Pattern, text: Text, side: str) -> None:
    """Raises RuleError where an operand is a word (its `?` is missing), a number that no tensor holds, or a list on the left side."""
    for x in (p, *(x for a in applications(p) for x in a.args)):
        if isinstance(x, Word):
            raise text.error(f"'{x.name}' is a word, and a tensor is wanted", x.at, f"a variable has a question mark: ?{x.name}")
        if isinstance(x, Lit) and (isinstance(x.value, str) or LARGEST < abs(x.value) < inf):
            raise text.error(f"{x} is no number that a tensor holds", x.at)
        if isinstance(x, Ref) and x.rest and side == "lhs":
            raise text.error(f"?{x.name}... stands on the right side of a rule of siblings", x.at, f"?{x.name} binds one tensor")


def ops_of(p: Pattern | None) -> frozenset[str]:
    """The ops that a pattern applies."""
    return frozenset((p.op,)).union(*map(ops_of, p.args)) if isinstance(p, Apply) else frozenset()
