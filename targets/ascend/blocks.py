"""Chips whose copies are of whole blocks of 32 bytes (feature `whole_blocks`): kernels of vector cores as others have them, their copies by
functions of autocomp_ascend_blocks.h, in the types and roundings that such a chip has.

    DataCopyPad(out_g[at], x, ac_copy(..))  ->  ac_blocks(ac_spare, out_g[at], x, ac_copy(..))
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from math import prod
from typing import TypeGuard

from autocomp.targets.ascend.api import MACRO, api, architecture, rows
from autocomp.targets.ascend.bf16 import BF16, BITS
from autocomp.targets.ascend.chips import flag_of
from autocomp.targets.ascend.geometry import extent, geometry, strides, tile_of
from autocomp.targets.ascend.packed import run_of_result
from autocomp.targets.ascend.tables import interface, interface_of, table
from autocomp.targets.ascend.toolchain import headers
from autocomp.targets.ascend.whole import whole

from autocomp.cost.chip import Chip
from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Expr, Map, postorder
from autocomp.tile.program import Tensor, TileProgram, walk

HEADER, ARCHITECTURE = "autocomp_ascend_blocks.h", "2002"
BLOCK, WORD_BITS = 32, 32
COUNT = ("DataCopyExtParams", "blockCount")
SPARE = 2 * BLOCK  # bytes of unified buffer that copies use: a block on the way out, and one on the way in
TYPES = ("f32", "f16", "bf16", "i8", "u8", "bool", "i32", "i64")
DEFINED = re.compile(r"^ *(?:AC_FN|AC_T|template|__aicore__)\b.*?\b(ac_\w+)\(", re.M)
WORD = re.compile(r"^#define (AC_(?!FN\b|T\b)\w+) (.*)$", re.M)
PADDED = re.compile(r"DataCopyPad\((.+?\]), (\w+)\[(.*)\], (ac_copy\(.*\)), \{false, uint8_t\((.*)\), 0, 0\}\);")
TYPED = re.compile(r"(?:LocalTensor<(\w+)>|(ac_f32)) (\w+) = ")
CONVERTED = re.compile(r"\bCast\((?:AC_FLOAT\()?(\w+)[^,]*, (?:AC_FLOAT\()?(\w+)[^,]*, RoundMode::(\w+)")
PARAMETER = re.compile(r"\b(?:(ac_f32|ac_i32|ac_u32)|LocalTensor<(\w+)>) &?(\w+)")
SHORT = {"ac_f32": "float", "ac_i32": "int32_t", "ac_u32": "uint32_t"}
ROUNDINGS = ("FLOOR", "CEIL", "RINT", "TRUNC")


def by_blocks(chip: Chip) -> bool:
    return "whole_blocks" in chip.features


def rounds(chip: Chip) -> bool:
    """Whether a conversion of single precision to itself rounds to whole numbers."""
    return {f"CAST_{m}" for m in ROUNDINGS} <= set(conversions(architecture(flag_of(chip))).get("float", {}).get("float", ()))


def converts(chip: Chip, element: str) -> bool:
    """Whether elements of a type become others."""
    return element in conversions(architecture(flag_of(chip)))


def shifts(chip: Chip) -> bool:
    """Whether the vector unit shifts words."""
    return "ShiftLeft" in interface_of(chip).functions


def conversions(of: str) -> dict[str, dict[str, list[str]]]:
    """What an architecture's `Cast` is printed for: from -> to -> roundings."""
    (row,) = (f for f in rows()["functions"] if "Cast" in f["names"])
    return row["only"].get(of) or row["conversions"]  # type: ignore[no-any-return]


def check_blocks(p: TileProgram) -> None:
    """Raises UnsupportedOp for types that are not copied or converted so."""
    held = whole(p).names
    copied = [s for s, _ in walk(p.body) if s.op == "copy"]
    read = {s.srcs[0] for s in copied if s.dst in held or p.buf(s.dst).dtype.is_float}  # type: ignore[union-attr]
    counted = {s.srcs[0] for s in copied} - read  # by the scalar unit
    tensors = {t.name: t for t in (*p.inputs, *p.outputs)}.values()
    known = lambda t: t.dtype.name in TYPES or (t.name in counted and t.dtype.name in table()["integers"])
    if other := next((t for t in tensors if not known(t)), None):
        raise UnsupportedOp(f"{other.name} has elements of type {other.dtype.name}", where=p.name,
                            hint=f"cores of architecture {ARCHITECTURE} are printed for {', '.join(TYPES)}")  # fmt: skip
    if far := next((e for s, _ in walk(p.body) if isinstance(s.expr, Expr) for e in postorder(s.expr) if _makes_long(e)), None):
        raise UnsupportedOp(f"{far.operands[0].dtype} is converted to {far.dtype}", where=p.name,
                            hint=f"architecture {ARCHITECTURE} has conversions to integers of 32 bits")  # fmt: skip


def check_results(p: TileProgram, joined: Collection[str] = ()) -> None:
    """Raises UnsupportedOp for parts of results that are shorter than a block: what lies behind them is another core's. `joined`: buffers
    whose rows leave as runs (packed.py)."""
    for t in p.outputs:
        if (size := least_run(p, t, f"{t.buffer}_g" in joined) * t.dtype.bytes) < BLOCK:
            raise UnsupportedOp(f"a core's part of {t.name} has {size} bytes side by side, a copy takes {BLOCK}", where=p.name,
                                hint="larger tiles or rows")  # fmt: skip


def _makes_long(e: Expr) -> TypeGuard[Map]:
    """Whether an integer of more than 32 bits is made of a float, whose values may need as many."""
    return isinstance(e, Map) and e.fn == "cast" and e.dtype.is_int and e.dtype.bits > WORD_BITS and e.operands[0].dtype.is_float


def least_run(p: TileProgram, t: Tensor, joined: bool = False) -> int:
    """Elements of a result that the shortest copy takes side by side: of a row, of rows that lie one behind the other where these are less
    than a block or `joined`, or a block where that is all there is."""
    step, _ = strides(t, p.name)
    if joined and (found := run_of_result(p, t)) is not None:
        first, n = found.rows[0]
        run = found.run // n * shortest(p, first)
        return BLOCK // t.dtype.bytes if run == prod(extent(p, a) for a in t.axes) else run
    each, total = BLOCK // t.dtype.bytes, prod(extent(p, a) for a in t.axes)
    lane = next((a for a, n in step.items() if n == 1 and extent(p, a) > 1), "")
    row = shortest(p, lane) if lane else 1
    if row >= each:
        return row
    wide = [a for a, n in geometry(p, {}).rows if n > 1 and a in t.axes]
    whole = not lane or tile_of(p, lane) == extent(p, lane)
    run = row
    if whole and wide and wide[-1] != lane and step.get(wide[-1]) == row and tile_of(p, wide[-1]) <= interface().most(*COUNT):
        run = row * shortest(p, wide[-1])
    return each if run == total else run


def shortest(p: TileProgram, axis: str) -> int:
    """The shortest of an axis's tiles."""
    n, tile = extent(p, axis), tile_of(p, axis)
    return n % tile or tile


def blocks_text(lines: Iterable[str], top: int, where: str) -> list[str]:
    """A kernel's lines; `top`: bytes of unified buffer that it uses itself. Raises UnsupportedOp for what the chip has no function for."""
    out = []
    for line in lines:
        if line.strip() == f"pipe.InitBuffer(ub, {top});":
            line = line.replace(str(top), str(top + SPARE))
        line = PADDED.sub(r"ac_border(ac_spare, \1, \2, \3, \4, \5);", line)
        line = line.replace("DataCopyPad(", "ac_blocks(ac_spare, ").replace(BF16, BITS)
        out.append(line)
        if line.strip() == "pipe.Destroy();":
            out.append(f"const LocalTensor<uint8_t> ac_spare = ac_at<uint8_t>(ub, {SPARE}, {top});")
    types = {m[3]: m[1] or "float" for x in out for m in TYPED.finditer(x)}
    out = [CONVERTED.sub(lambda m: rounded(m, types, where), x) for x in out]
    if lacks := sorted(unusable().intersection(re.findall(r"\bac_\w+", "\n".join(out)))):
        raise UnsupportedOp(f"{lacks[0]} calls what architecture {ARCHITECTURE} does not have", where=where,
                            hint="see `roundings` and `architectures` in targets/ascend/api.yaml")  # fmt: skip
    return out


def rounded(cast: re.Match[str], types: Mapping[str, str], where: str) -> str:
    """A conversion with the rounding to even as the architecture calls it. Raises UnsupportedOp where it has none between these types."""
    to, of, mode = types.get(cast[1], "?"), types.get(cast[2], "?"), cast[3]
    known = conversions(ARCHITECTURE).get(of, {}).get(to, ())
    name = "CAST_NONE" if mode == "CAST_RINT" and mode not in known else mode
    if name not in known:
        raise UnsupportedOp(f"{of} is converted to {to} by {mode}", where=where,
                            hint=f"architecture {ARCHITECTURE} has no such Cast: `only` of it in targets/ascend/api.yaml")  # fmt: skip
    return cast[0].replace(mode, name)


@lru_cache(maxsize=1)
def unusable() -> frozenset[str]:
    """Functions of the vector cores' headers that end at one of the interface, or at a conversion, that the architecture does not have."""
    text = expanded(for_architecture(headers()["autocomp_ascend.h"] + headers()["autocomp_ascend_words.h"]))
    absent = api("2201").functions.keys() - api(ARCHITECTURE).functions.keys()
    found = list(DEFINED.finditer(text))
    calls: dict[str, set[str]] = {}
    bad: set[str] = set()
    for m, end in zip(found, [*(x.start() for x in found[1:]), len(text)]):
        body = text[m.start() : end].split("\n#define")[0]
        calls.setdefault(m[1], set()).update(re.findall(r"\w+", body))
        if not _converts(body):
            bad.add(m[1])
    bad |= {n for n, c in calls.items() if c & absent}
    while more := {n for n, c in calls.items() if n not in bad and c & bad - {n}}:
        bad |= more
    return frozenset(bad)


def _converts(body: str) -> bool:
    """Whether the architecture has all conversions of a function; of elements that a parameter of a template names it has none."""
    types = {m[3]: SHORT.get(m[1] or "", m[2]) for m in PARAMETER.finditer(body)}
    for m in CONVERTED.finditer(body):
        to, of = ("float" if f"AC_FLOAT({x})" in m[0] else types.get(x, "") for x in m.groups()[:2])
        if m[3] not in conversions(ARCHITECTURE).get(of, {}).get(to, ()):
            return False
    return True


def expanded(text: str) -> str:
    """A header with what its macros stand for, and the functions that they define instead of the lines that name those."""
    for m in WORD.finditer(text):
        text = re.sub(rf"(?<!#define )\b{m[1]}\b", m[2], text)
    made = {m[1]: ([x.strip() for x in m[2].split(",")], m[3].replace("\\\n", "\n")) for m in MACRO.finditer(text) if " ac_" in m[3]}

    def body(m: re.Match[str]) -> str:
        names, out = made[m[1]]
        given = [x.strip() for x in m[2].split(",", len(names) - 1)]
        for name, x in zip(names, given):
            out = re.sub(rf"(?:##)?(?:\b|(?<=_)){re.escape(name.replace('...', '__VA_ARGS__'))}(?:\b|(?=_))(?:##)?", x, out)
        return out.lstrip()

    return re.sub(rf"^({'|'.join(made)})\((.*)\)$", body, MACRO.sub("", text), flags=re.M)


def for_architecture(text: str) -> str:
    """A header without what other architectures have in its place."""
    out, open_ = [], []  # type: ignore[var-annotated]
    for line in text.splitlines():
        if line.startswith("#if"):
            known = re.fullmatch(r"#if __NPU_ARCH__ (==|!=) (\d+)\b.*", line)
            open_.append(None if known is None else (known[2] == ARCHITECTURE) == (known[1] == "=="))
        elif line.startswith("#else") and open_[-1] is not None:
            open_[-1] = not open_[-1]
        elif line.startswith("#endif"):
            open_.pop()
        elif all(x is not False for x in open_):
            out.append(line)
    return "\n".join(out)
