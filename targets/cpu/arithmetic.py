"""What a register tile computes in: floats, integers of 32 bits, or bytes whose products are summed four steps of depth at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autocomp.ir.types import SHORT_FLOATS, DType

QUAD = 4  # bytes of a lane
SUMMED_AS_F32 = {"f32", *(d.name for d in SHORT_FLOATS)}


@dataclass(frozen=True)
class Arithmetic:
    """element: C type of a panel's elements; vector: of a register; group: steps of the last reduced axis in one element of a panel.

    Bytes: `left` and `right` say whether the broadcast factor and the panel are signed. The instruction multiplies unsigned bytes by
    signed ones; where both are alike, the broadcast one has its top bit turned, which adds 128 to a signed byte (and takes it from an
    unsigned one), and 128 times the panel's sums are subtracted behind the depth.

    `pairs` (directive `short_pairs`): cores without that instruction multiply pairs of 16 bits. One factor is a constant. A
    group of four steps is two rows of a panel then, and as many of the broadcast factor: even bytes as 16 bits, and odd ones. `copied`:
    the constant is the panel, and the broadcast factor's rows are copied as pairs once a tile.

    `fits` (directive `byte_pairs`): no pair of a constant's signed bytes gives a sum beyond 16 bits, whatever bytes it meets, so that one
    instruction multiplies them and sums pairs. Whether it holds of a constant is found when that is packed (`ac_sums_fit`).
    """

    element: str
    vector: str
    group: int = 1
    left: bool = False
    right: bool = False
    pairs: bool = False
    copied: bool = False
    fits: bool = False

    @property
    def is_float(self) -> bool:
        return self.vector == "vf"

    @property
    def turned(self) -> bool:
        """Has the broadcast factor its top bit turned?"""
        return self.group > 1 and self.left == self.right and not self.pairs

    @property
    def rows(self) -> int:
        """Rows of a panel that a group takes."""
        return 2 if self.pairs else 1

    def half(self, word: str, odd: int) -> str:
        """C text: the even or odd bytes of a panel's words, as 16 bits."""
        return f"vi_{'odd' if odd else 'even'}_{'i8' if self.right else 'u8'}({word})"

    def step(self, total: str, x: str, panel: str) -> str:
        """C text: a sum and one step of the broadcast factor with a panel's vector."""
        if self.is_float:
            return f"{total} += {x} * {panel};"
        if self.group == 1:
            return f"{total} = vi_add({total}, vi_mul({x}, {panel}));"
        if self.pairs:
            return f"{total} = vi_dot2({total}, {x}, {panel});"
        unsigned, signed = (x, panel) if self.left == self.turned else (panel, x)
        return f"{total} = vi_dot4{'_fits' if self.fits else ''}({total}, {unsigned}, {signed});"

    def fitting(self, constant: str) -> Arithmetic | None:
        """The same where no pair of a constant saturates, the `left` or the `right` factor; None where the instruction's signed bytes
        are not the constant's."""
        plain = replace(self, pairs=False, copied=False, fits=True)
        signed = "left" if self.left and not plain.turned else "right" if self.right else ""
        return plain if self.group > 1 and signed == constant else None


FLOATS = Arithmetic("float", "vf")
INTEGERS = Arithmetic("int32_t", "vi")


def bytes_of(left: DType, right: DType, pairs: bool, copied: bool = False) -> Arithmetic:
    """Of factors with elements of one byte."""
    return Arithmetic("int32_t", "vi", QUAD, left.name == "i8", right.name == "i8", pairs, copied)


def kind_of_sums(sums: object, factors: list[object]) -> str:
    """"vf", "vi" or "": what register tiles would compute such a product in."""
    if not isinstance(sums, DType) or not all(isinstance(d, DType) for d in factors):
        return ""
    names = {d.name for d in factors if isinstance(d, DType)}
    if sums.name in SUMMED_AS_F32 and names <= SUMMED_AS_F32:
        return "vf"
    return "vi" if sums.name == "i32" and names <= {"i8", "u8", "i16", "u16", "i32"} else ""
