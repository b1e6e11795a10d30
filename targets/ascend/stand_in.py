"""api.yaml -> declarations for a model that runs printed kernels on a host: two headers, one in front of the model's bodies, one behind.

    python -m autocomp.targets.ascend.stand_in FOLDER     writes api_types.h and api_functions.h

Every enumeration, structure and function of namespace AscendC that a kernel can name comes from here. A field and an argument tell where a
number is outside of its range; a function checks types and alignment of its tensors, then calls the one of its name in namespace model.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from autocomp.targets.ascend.api import INTEGERS, Api, Field, Form, Function, Structure, api, fact, rows

MODELLED, MORE = "2201", "2002"  # and what the second alone has
CHIP = "MODEL_CHIP"  # the architecture that a kernel is compiled for
HEAD = "// Written by targets/ascend/stand_in.py from targets/ascend/api.yaml.\n#pragma once\n"


def types(of: Api) -> str:
    """Enumerations and structures."""
    lines = [HEAD, *(f"enum {n} {{ {', '.join(e['members'])} }};" for n, e in rows()["taken"].items()), "namespace AscendC {"]
    lines += [f"enum class {n} {{ {', '.join(members)} }};" for n, members in of.enumerations.items() ]
    lines += [line for s in {**api(MORE).structures, **of.structures}.values() for line in _structure(s)]
    lines.append("}  // namespace AscendC")
    lines.append("namespace model {")
    most = rows()["memories"]
    lines.append("// Bytes that a position may be given; those that chips differ in are of the chip at hand: model_chip.")
    lines += [f"inline long most_{n} = {v[MODELLED]};" for n, v in most.items() if isinstance(v, dict)]
    lines += ["inline long capacity(AscendC::TPosition p) {", "  using P = AscendC::TPosition;"]
    lines.append("  return " + " : ".join(f"p == P::{n} ? {f'most_{n}' if isinstance(v, dict) else v}" for n, v in most.items()) + " : 0;")
    lines += ["}", *(f"constexpr long {n} = {fact(n)};" for n in ("block", "repeat", "gemv")),
              f"constexpr long block_bytes = {fact('block')}, groups = {rows()['facts']['banks']['groups']}, "
              f"bank_rows = {rows()['facts']['banks']['rows']}, banks = 4 * groups;", "}  // namespace model", ""]
    return "\n".join(lines)


def _structure(s: Structure) -> Iterator[str]:
    if s.template:
        yield f"template <typename {s.template}>"
    yield f"struct {s.name} {{"
    for f in s.fields.values():
        yield f"  {_field(s, f)}"
    yield f"  {s.name}() = default;"
    for names in s.constructors:
        given = ", ".join(f"{s.fields[n].type} {n}_" for n in names)
        yield f"  {s.name}({given}) {{"
        yield from (f"    {n} = {n}_;" for n in names)
        yield "  }"
    yield "};"


def _field(s: Structure, f: Field) -> str:
    if f.type not in INTEGERS:
        return f"{f.type} {f.name} = {f.type}({f.first});"
    return f'model::Number<{f.type}> {f.name}{{"{s.name}.{f.name}", {f.first}, {_literal(f.least)}, {_literal(f.most)}}};'


def _literal(n: int | None) -> str:
    assert n is not None
    n = min(max(n, -(2**63) + 1), 2**63 - 1)
    return f"{n}ll" if abs(n) >= 2**31 else str(n)


def functions(of: Api) -> str:
    """Functions, each calling the model's."""
    chip = ("#ifdef __NPU_ARCH__", f"#define {CHIP} __NPU_ARCH__", "#else", f"#define {CHIP} {MODELLED}", "#endif")
    lines = [HEAD, *chip, "namespace AscendC {"]
    alone = [tuple(f for f in fs if MODELLED not in f.row.get("architectures", [MODELLED])) for fs in api(MORE).functions.values()]
    for overloads in (*of.functions.values(), *alone):
        for f in overloads:
            for form in f.forms:
                lines += _function(f, form)
    return "\n".join([*lines, "}  // namespace AscendC", ""])


def _function(f: Function, form: Form) -> Iterator[str]:
    names = [p for p in ("T", "U", "S") if any(_mentions(t, p) for t, _ in form.arguments)]
    template = f.row.get("template") or ", ".join(f"typename {n}" for n in names)
    own = [p.split()[-1] for p in template.split(", ")] if f.row.get("template") else []
    given = ", ".join(_parameter(t, n) for t, n in form.arguments)
    if "only" in f.row:  # libraries of kernels for several chips hold the same model
        template += f", int Chip = {CHIP}"
    if template:
        yield f"template <{template}>"
    yield f"{'' if template else 'inline '}{f.row.get('returns', 'void')} {f.name}({given}) {{"  # what is inline is made in every build
    for t in (*names, *own) if "types" in f.row else ():
        allowed = ", ".join(f.row["types"][t])
        yield f'  static_assert(model::one_of<{t}, {allowed}>, "{f.name} has no form for elements of this type");'
    for chip, lacks in f.row.get("lacks", {}).items():
        for t, absent in lacks.items():
            known = f"{CHIP} != {chip} || !model::one_of<{t}, {', '.join(absent)}>"
            yield f'  static_assert({known}, "{f.name} of {chip} has no form for elements of this type");'
    limits, whole, align = (f.row.get(k, {}) for k in ("limits", "whole", "align"))
    if "conversions" in f.row:
        yield from _conversions(f)
    yield f'  model::called = "{f.name}";'
    for t, modes in f.row.get("modes", {}).items():
        allowed = " && ".join(f"cmpMode != CMPMODE::{m}" for m in modes)
        yield f'  if (std::is_same_v<T, {t}> && {allowed}) model::tell("{f.name}: a comparison that elements of this type lack");'
    for type_, n in form.arguments:
        if type_.endswith("]"):
            if n in align:
                yield f'  for (auto x : {n}) model::aligned("{f.name}", "{n}", (const void *)x, {align[n]});'
        elif type_.startswith("LocalTensor"):
            yield f'  model::aligned("{f.name}", "{n}", {n}.at, {align.get(n, fact("block"))});'
        elif type_ in INTEGERS:
            low, high = INTEGERS[type_]
            low, high = limits.get(n, (low, _literal(high)))
            yield f'  model::within("{f.name}", "{n}", {n}, {low}, {high});'
            if n in whole:
                yield f'  model::whole("{f.name}", "{n}", {n}, {whole[n]});'
    passed = [f"{t}({n})" if t in INTEGERS else n for t, n in form.arguments]
    if len(f.steps) > 1:
        steps = ", ".join("{" + ", ".join(f"PIPE_{p}" for p in (s.split("_") * 2)[:2]) + "}" for s in f.steps)
        yield f"  static const std::vector<model::Step> steps = {{{steps}}};"
        passed.append("steps")
    call = f"model::{f.name}{'<' + ', '.join(own) + '>' if own else ''}({', '.join(passed)})"
    yield f"  {'return ' if 'returns' in f.row else ''}{call};"
    yield "}"


def _conversions(f: Function) -> Iterator[str]:
    """The pairs of types, and the roundings between them."""
    yield "  constexpr unsigned modes ="
    for chip, table in f.row.get("only", {}).items():
        yield f"      Chip == {chip} ? ("
        yield from _modes(table)
        yield "      ) :"
    yield from _modes(f.row["conversions"])
    yield "      ;"
    yield f'  static_assert(modes != 0, "{f.name} has no form between these types");'
    yield '  if (!(modes >> int(roundMode) & 1)) model::tell("a wrong rounding mode");'


def _modes(conversions: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[str]:
    for u, to in conversions.items():
        for t, modes in to.items():
            bits = " | ".join(f"1u << int(RoundMode::{m})" for m in modes)
            yield f"      std::is_same_v<U, {u}> && std::is_same_v<T, {t}> ? {bits} :"
    yield "      0u"


def _mentions(type_: str, parameter: str) -> bool:
    return type_ == parameter or f"<{parameter}>" in type_


def _parameter(type_: str, name: str) -> str:
    if type_ in INTEGERS:
        return f"int64_t {name}"  # a number outside of the type is told, not cut
    if type_.endswith("]"):  # an array of tensors
        of, _, count = type_[:-1].partition("[")
        return f"{of} (&{name})[{count}]" if of in INTEGERS else f"const {of} (&{name})[{count}]"
    return f"{type_} {name}" if type_ in rows()["enumerations"] else f"const {type_} &{name}"


def main() -> None:
    folder = Path(sys.argv[1])
    of = api(MODELLED)
    (folder / "api_types.h").write_text(types(of), encoding="utf-8")
    (folder / "api_functions.h").write_text(functions(of), encoding="utf-8")


if __name__ == "__main__":
    main()
