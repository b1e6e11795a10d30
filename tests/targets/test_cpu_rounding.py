"""Doubles become halves in one rounding on the CPU target: by way of a float, values beside a tie went to the wrong side."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.types import F64, TensorType

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")


def test_doubles_beside_ties_of_halves():
    halves = np.arange(0, 0x7C00, 7, dtype=np.uint16).view(np.float16).astype(np.float64)
    above = np.append(halves[1:], 65536.0)
    ties = (np.arange(0, 0x7BFF, 7, dtype=np.uint16).view(np.float16).astype(np.float64)
            + np.arange(1, 0x7C00, 7, dtype=np.uint16).view(np.float16).astype(np.float64)) / 2  # fmt: skip
    x = np.concatenate([ties, np.nextafter(ties, 0), np.nextafter(ties, 1e9), halves, above, [65519.999999, 65520.0, 2.0**-25, 1e300,
                        2.0**-25 * (1 + 2.0**-52), 5e-324, 0.0, np.inf, np.nan]])  # fmt: skip
    x = np.concatenate([x, -x])
    b = Builder("halves")
    b.output("y", b.op("cast", b.input("x", TensorType(F64, x.shape)), to="f16"))
    with np.errstate(over="ignore"):
        want = x.astype(np.float16)
    got = autocomp.optimize(b.graph()).run({"x": x})["y"]
    assert (got[~np.isnan(want)].view(np.uint16) == want[~np.isnan(want)].view(np.uint16)).all()
    assert np.isnan(got[np.isnan(want)]).all()
