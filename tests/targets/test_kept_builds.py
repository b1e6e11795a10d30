"""What a run keeps of its builds for models is taken for the same text and headers alone, and changes no library in use."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import autocomp
from autocomp.errors import BuildError
from autocomp.simulate.compiler import found
from autocomp.simulate.simt_model import ModelExecutor
from tests.helpers import kept_builds
from tests.helpers.kept_builds import kept

pytestmark = pytest.mark.skipif(not found(), reason="no C++ compiler (g++ or clang++)")


@pytest.fixture
def built(tmp_path, monkeypatch):
    """The number in a library whose source has `text`, in a folder of that name with a header that says `header`; what was compiled."""
    (tmp_path / "kept").mkdir()
    done = []
    real = kept_builds.compile_all
    monkeypatch.setattr(kept_builds, "compile_all", lambda a, *rest, **by: done.extend(a) or real(a, *rest, **by))

    def build(folder: str, text: str, header: str = "1", flags: tuple[str, ...] = ()):
        at = tmp_path / folder
        at.mkdir(exist_ok=True)
        (at / "own.h").write_text(f"#define OWN {header}\n")
        (at / "k.cpp").write_text(f'#include "own.h"\nextern "C" int number() {{ return {text}; }}\n')
        out = at / "k.so"
        kept(tmp_path / "kept", [["-shared", "-fPIC", *flags, f"-I{at}", str(at / "k.cpp"), "-o", str(out)]], [out], at)
        return ctypes.CDLL(str(out)).number

    build.done = done
    return build


def test_the_same_text_is_built_once_wherever_it_lies(built):
    assert [built("a", "7 * OWN")(), built("b", "7 * OWN")(), len(built.done)] == [7, 7, 1]


@pytest.mark.parametrize("more", [{"text": "8 * OWN"}, {"header": "2"}, {"flags": ("-O1",)}], ids=lambda m: next(iter(m)))
def test_another_text_header_or_flag_is_built(built, more):
    built("a", "7 * OWN")
    built("b", **{"text": "7 * OWN", **more})
    assert len(built.done) == 2


def test_a_library_in_use_stays_what_it_is(built):
    first, _, _ = built("a", "7 * OWN"), built("a", "8 * OWN"), built("a", "9 * OWN")
    assert [first(), len(built.done)] == [7, 3]
    built("b", "8 * OWN"), built("b", "9 * OWN")
    assert [first(), built("c", "9 * OWN")(), len(built.done)] == [7, 9, 3]


def test_a_second_program_in_a_folder_is_not_the_first(model, tmp_path):
    """Kernels of one name: the loader knows a library by its path."""
    for factor in (2.0, 3.0):
        program = autocomp.optimize(f"graph g\ninput x: f32[40]\n%0 = mul(x, const({factor}, f32))\noutput y = %0\n", target="cuda:h200")
        (got,) = ModelExecutor(program, tmp_path, model).run({"x": np.ones(40, "f4")}).values()
        assert (got == factor).all()


def test_what_fails_is_not_kept(built):
    for _ in range(2):
        with pytest.raises(BuildError):
            built("a", "7 * MISSING")
    assert len(built.done) == 2
