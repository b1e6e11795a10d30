"""One text for a family of rules: `each: {f: [relu, tanh]}` makes a rule of every word, with $f in its texts replaced. `let` names pieces
of text of one rule, each of which may use those before it.

    - name: layout/first-of/$f
      each: {f: [relu, tanh]}
      lhs: $f(transpose(?x, perm=?p))
      let:
        n: rank(?x) - 1
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

from autocomp.rewrite.yaml_source import Located

LIMIT = 200  # rules of one family
LONGEST = 20_000  # characters of a text in which names are replaced
LET = "let: {last: rank(?x) - 1}"
_OPERATOR = re.compile(r"^-|[-+*/%<>=]|\b(?:and|or|not|in)\b(?!\()|\S\s+(?:and|or|in)\(")  # `or(a, b)` is an op
_NAMED = re.compile(r"\$(\w+)")


def members(item: Located) -> list[Located]:
    """The rules of an item: itself where it has no `each`. Raises RuleError for an `each` that is no mapping to lists of words, and for a
    `let` that is no mapping to texts, or one that nothing uses."""
    if not isinstance(item.value, dict) or "each" not in item.value:
        return [_with_let(item)]
    each = item.value["each"]
    hint = "each: {f: [relu, tanh]}"
    if not isinstance(each.value, dict) or not each.value:
        raise each.error("'each' maps names to lists of words", hint)
    lists: list[list[str]] = []
    for words in each.value.values():
        if not isinstance(words.value, tuple) or not all(isinstance(w.value, str) for w in words.value):
            raise words.error("'each' maps names to lists of words", hint)
        lists.append([w.value for w in words.value])
    count = 1
    for x in lists:
        count *= len(x)
    if not 0 < count <= LIMIT:
        raise each.error(f"a family of {count} rules, 1 to {LIMIT} are allowed")
    rest = {k: v for k, v in item.value.items() if k != "each"}
    named = {n for t in _texts(Located(rest, item.location)) for n in _NAMED.findall(t)}
    unused = [n for n in each.value if n not in named]
    if unused:
        raise each.error(f"'${unused[0]}' is nowhere in the rule", hint)
    return [_with_let(_with(Located(rest, item.location), dict(zip(each.value, choice)))) for choice in product(*lists)]


def _with_let(item: Located) -> Located:
    """A rule without `let`: its pieces stand where they are named. What they changed has its line as its place."""
    if not isinstance(item.value, dict) or "let" not in item.value:
        return item
    let = item.value["let"]
    if not isinstance(let.value, dict) or not let.value:
        raise let.error("'let' maps names to texts", LET)
    pieces: dict[str, str] = {}
    used: set[str] = set()

    def spelled(x: Located) -> Located:
        if isinstance(x.value, str):
            names = set(_NAMED.findall(x.value)) & pieces.keys()
            used.update(names)
            if not names:
                return x
            text = _NAMED.sub(lambda m: pieces.get(m[1], m[0]), x.value)
            if len(text) > LONGEST:
                raise x.error(f"{len(text)} characters where names stand for their texts, at most {LONGEST} are read")
            return Located(text, replace(x.location, spelled=True))
        if isinstance(x.value, dict):
            return replace(x, value={k: spelled(v) for k, v in x.value.items()})
        return replace(x, value=tuple(map(spelled, x.value))) if isinstance(x.value, tuple) else x

    for name, x in let.value.items():
        if isinstance(x.value, (dict, tuple, bool)) or x.value is None:
            raise x.error(f"'${name}' is no text", LET)
        pieces[name] = _whole(spelled(replace(x, value=str(x.value))).value)
    rule = spelled(Located({k: v for k, v in item.value.items() if k != "let"}, item.location))
    if unused := [n for n in pieces if n not in used]:
        raise let.value[unused[0]].error(f"'${unused[0]}' is nowhere in the rule", LET)
    return rule


def _whole(text: str) -> str:
    """A piece in parentheses where it has an operator outside of brackets: `2 * $n` is twice the whole piece."""
    depth, outer = 0, ""
    for c in text:
        depth += (c in "([") - (c in ")]")
        outer += c if depth == 0 or (c == "(" and depth == 1) else " "
    return f"({text})" if _OPERATOR.search(outer) else text


def _with(x: Located, words: dict[str, str]) -> Located:
    if isinstance(x.value, str):
        return replace(x, value=_NAMED.sub(lambda m: words.get(m[1], m[0]), x.value))
    if isinstance(x.value, dict):
        return replace(x, value={k: _with(v, words) for k, v in x.value.items()})
    if isinstance(x.value, tuple):
        return replace(x, value=tuple(_with(v, words) for v in x.value))
    return x


def _texts(x: Located) -> list[str]:
    if isinstance(x.value, str):
        return [x.value]
    inner = x.value.values() if isinstance(x.value, dict) else x.value if isinstance(x.value, tuple) else ()
    return [t for v in inner for t in _texts(v)]
