"""Arrays that lie about themselves, or raise where they are asked: a ModelError that names the input, no other traceback, no crash."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")
DATA = np.arange(12, dtype="<f4")


@pytest.fixture(scope="module")
def program():
    return autocomp.optimize("graph g\ninput x: f32[3, 4]\ninput e: f32[0, 4]\n%0 = add(x, x)\n%1 = add(e, e)\n"
                             "output y = %0\noutput z = %1\n")  # fmt: skip


def call(program, x):
    return program(x, np.empty((0, 4), "f4"))[0]


def interface(**changed):
    """An array of another library, whose interface differs from the right one by `changed`."""

    said = {"version": 3, "shape": (3, 4), "typestr": "<f4", "data": (DATA.ctypes.data, False), **changed}
    return type("Foreign", (), {"__array_interface__": said})()


LIES = {
    "another shape": {"shape": (4, 3)},
    "negative extent": {"shape": (-3, 4)},
    "extents that overflow": {"shape": (2**40, 2**40)},
    "shape of text": {"shape": "34"},
    "no shape": {"shape": None},
    "huge strides": {"strides": (2**40, 4)},
    "strides that overflow": {"strides": (2**62, 2**62)},
    "strides below zero": {"strides": (-(2**44), 4)},
    "strides of another rank": {"strides": (4,)},
    "null": {"data": (0, False)},
    "low address": {"data": (64, False)},
    "address of the kernel": {"data": (2**64 - 4096, False)},
    "negative address": {"data": (-8, False)},
    "no data": {"data": None},
    "data of text": {"data": "abc"},
    "data of numbers": {"data": (1.5, False)},
    "other byte order": {"typestr": ">f4"},
    "other type": {"typestr": "<f8"},
    "no type": {"typestr": None},
    "unknown type": {"typestr": "<q77"},
    "objects": {"typestr": "|O8"},
    "void": {"typestr": "|V4"},
    "short buffer": {"data": b"1234"},
    "buffer read behind its end": {"data": DATA, "offset": 4},
    "buffer read before its begin": {"data": DATA, "strides": (-16, 4)},
}


@pytest.mark.parametrize("lie", LIES)
def test_an_array_interface_that_lies_is_refused(program, lie):
    with pytest.raises(ModelError, match=r"input 'x'"):
        call(program, interface(**LIES[lie]))


@pytest.mark.parametrize("error", [ValueError, RuntimeError, KeyError, ZeroDivisionError, AttributeError, RecursionError, OSError])
@pytest.mark.parametrize("name", ["__array_interface__", "__array__", "__dlpack__", "__dlpack_device__", "__cuda_array_interface__"])
def test_what_raises_where_it_is_asked_is_refused(program, name, error):
    def get(self):
        raise error("what it says")

    with pytest.raises(ModelError, match="input 'x'"):
        call(program, type("Raises", (), {name: property(get)})())


@pytest.mark.parametrize("what", [lambda **kw: 3, lambda **kw: None, lambda **kw: object(), lambda: 1 / 0],
                         ids=["number", "none", "object", "raises"])  # fmt: skip
def test_a_dlpack_that_lies_is_refused(program, what):
    class Foreign:
        __dlpack__ = staticmethod(what)

        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(ModelError, match=r"input 'x': NumPy cannot read a .*Foreign"):
        call(program, Foreign())


@pytest.mark.parametrize("x", [None, "text", [[1.0] * 4] * 3, [[1], [1, 2]], {}, 3, b"bytes", object(), np.ma.masked_array(
    DATA.reshape(3, 4), mask=np.eye(3, 4, dtype=bool)), np.zeros((3, 4), "U4"), np.zeros((3, 4), object), np.zeros((3, 4), "M8[s]"),
    np.zeros((3, 4), [("a", "f4")]), np.zeros((3, 4), ">f4"), np.zeros((3, 4, 1), "f4"), np.zeros((), "f4")],
    ids=lambda x: type(x).__name__ + str(getattr(x, "dtype", "")))  # fmt: skip
def test_what_is_no_array_of_the_right_kind_is_refused(program, x):
    with pytest.raises(ModelError, match=r"input 'x'"):
        call(program, x)


RIGHT = {
    "as it is": lambda x: x,
    "read-only": lambda x: np.frombuffer(x.tobytes(), "f4").reshape(3, 4),
    "turned": lambda x: np.asfortranarray(x),
    "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "broadcast": lambda x: np.lib.stride_tricks.as_strided(x[0], (3, 4), (0, 4)),
    "every second": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "at an odd address": lambda x: np.frombuffer(b"-" + x.tobytes(), "f4", offset=1).reshape(3, 4),
    "memory map's class": lambda x: x.view(np.memmap),
    "masked nowhere": lambda x: np.ma.masked_array(x),
    "another library's": lambda x: interface(),
    "another library's with strides": lambda x: interface(strides=(16, 4)),
    "another library's, read-only": lambda x: interface(data=(DATA.ctypes.data, True)),
    "another library's buffer": lambda x: interface(data=DATA),
    "an array's array": lambda x: type("Has", (), {"__array__": lambda self, dtype=None, copy=None: x})(),
}


@pytest.mark.parametrize("how", RIGHT)
def test_right_arrays_lie_as_they_like(program, how):
    x = DATA.reshape(3, 4).copy()
    given = RIGHT[how](x)
    np.testing.assert_array_equal(call(program, given), 2 * np.asarray(given))


def test_empty_arrays_need_no_memory(program):
    empty = interface(shape=(0, 4), data=(0, False))
    assert program(DATA.reshape(3, 4), empty)[1].shape == (0, 4)


@pytest.mark.skipif(sys.platform != "linux", reason="the system is asked for its pages on Linux")
def test_memory_that_was_given_back_is_noticed(program):
    import mmap

    pages = mmap.mmap(-1, 1 << 20)
    at = np.frombuffer(pages, "f4").ctypes.data
    call(program, interface(data=(at, False)))
    pages.close()
    with pytest.raises(ModelError, match=r"input 'x': .* is memory of this process\n  next: give a NumPy array"):
        call(program, interface(data=(at, False)))
