"""One text for a family of rules: `each: {f: [relu, tanh]}` makes a rule of every word, with $f in its texts replaced.

    - name: layout/first-of/$f
      each: {f: [relu, tanh]}
      lhs: $f(transpose(?x, perm=?p))
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from autocomp.rewrite.yaml_source import Located

LIMIT = 200  # rules of one family


def members(item: Located) -> list[Located]:
    """The rules of an item: itself where it has no `each`. Raises RuleError for an `each` that is no mapping to lists of words."""
    if not isinstance(item.value, dict) or "each" not in item.value:
        return [item]
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
    unused = [n for n in each.value if not any(f"${n}" in t for t in _texts(Located(rest, item.location)))]
    if unused:
        raise each.error(f"'${unused[0]}' is nowhere in the rule", hint)
    return [_with(Located(rest, item.location), dict(zip(each.value, choice))) for choice in product(*lists)]


def _with(x: Located, words: dict[str, str]) -> Located:
    if isinstance(x.value, str):
        text = x.value
        for name, word in words.items():
            text = text.replace(f"${name}", word)
        return replace(x, value=text)
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
