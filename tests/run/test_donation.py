"""Inputs whose memory is given away: written where they lie if nothing reads the old value later, else refused with the reason."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.text import parse
from autocomp.runtime.executor import ReferenceExecutor
from tests.helpers.repeats import repeating

RNG = np.random.default_rng(5)
CACHE, ROW = RNG.standard_normal((2, 3, 16, 8)).astype("f4"), RNG.standard_normal((2, 3, 1, 8)).astype("f4")
PLACED = """graph g
input x: f32[2, 3, 1, 8]
input at: i64[1]
input cache: f32[2, 3, 16, 8]
%0 = iota(shape=[16], axis=0)
%1 = eq(%0, at)
%2 = reshape(%1, shape=[1, 1, 16, 1])
%3 = where(%2, x, cache)
%4 = reduce_sum(%3, axes=[3])
output cache_next = %3
output total = %4
"""


def test_what_changes_is_written_where_the_input_lies():
    program = autocomp.optimize(parse(PLACED), target="cpu", donate=["cache"])
    assert "written in place: cache by " in program.explain()
    for _ in range(2):  # the second one from the cache of programs
        cache, want = CACHE.copy(), CACHE.copy()
        want[:, :, 5:6] = ROW
        new, total = program(ROW, np.array([5]), cache)
        assert new is cache and np.array_equal(cache, want)
        np.testing.assert_allclose(total, want.sum(-1), rtol=1e-4, atol=1e-4)
        program = autocomp.optimize(parse(PLACED), target="cpu", donate=["cach?"])


def test_verify_and_profile_leave_what_is_given():
    program = autocomp.optimize(parse(PLACED), target="cpu", donate=["cache"], cache=False)
    cache = CACHE.copy()
    feed = {"x": ROW, "at": np.array([3]), "cache": cache}
    assert program.verify(feed).ratio <= 1 and program.verify().ratio <= 1
    program.profile(feed, repeat=2)
    assert np.array_equal(cache, CACHE)
    out = ReferenceExecutor(program.calls).run(feed)
    assert out["cache_next"] is cache and np.array_equal(cache[:, :, 3:4], ROW)


def test_what_reads_the_old_value_runs_before():
    def f(x, cache):
        new = np.where(x > 0, x, cache)
        return np.tanh(new), new, (cache * cache).sum(axis=1), cache

    x, cache = (RNG.standard_normal((32, 32)).astype("f4") for _ in range(2))
    want = [y.copy() for y in f(x, cache)]
    got = autocomp.optimize(f, target="cpu", example_inputs=(x, cache), donate=["cache"])(x, cache)
    assert got[1] is cache
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def late(x, cache):
    new = np.where(x > 0, x, cache)
    return new, cache - new.sum()


REFUSED = {
    "no such input": (late, ["caches"], "there is no input 'caches' to donate", "inputs: x, cache"),
    "no output of its type": (lambda x, cache: (x + cache).sum(), ["cache"], "none of type f32[4, 4] is computed from it", "donate"),
    "read behind the write": (late, ["cache"], "its old value is read after the write, by kernel", "keep what the program returns"),
    "read for more": (lambda x, cache: cache + x, ["cache"], "for more than the elements that stay as they are", "donate"),
    "read elsewhere": (lambda x, cache: np.where(x > 0, x, cache[::-1]), ["cache"], "for more than the elements that stay", "donate"),
    "two inputs, one output": (lambda x, cache: np.where(x > 0, x, cache), ["x", "cache"], "no output can take the memory", "donate"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason(name):
    f, donate, why, hint = REFUSED[name]
    x = RNG.standard_normal((4, 4)).astype("f4")
    with pytest.raises(UnsupportedOp) as e:
        autocomp.optimize(f, target="cpu", example_inputs=(x, x + 1), donate=donate)
    assert why in str(e.value) and hint in str(e.value)


def test_memory_that_cannot_be_written_is_refused():
    program = autocomp.optimize(parse(PLACED), target="cpu", donate=["cache"])
    fixed, at = CACHE.copy(), np.array([0])
    fixed.flags.writeable = False
    wide = np.zeros((2, 3, 16, 16), "f4")
    apart = np.ndarray(CACHE.shape, "f4", np.zeros(CACHE.nbytes + 1, "u1"), 1)
    for cache, why in ((fixed, "read-only"), (wide[..., ::2], "do not lie one after another"), (CACHE.tolist(), "wants"),
                       (apart, "an address that is no multiple of 4 bytes")):  # fmt: skip
        with pytest.raises(ModelError, match=why):
            program(ROW, at, cache)
    cache = CACHE.copy()
    with pytest.raises(ModelError, match="'x' lies in the same memory"):
        program(cache[:, :, 4:5], at, cache)


torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")


class Writes(torch.nn.Module):
    def __init__(self, write):
        super().__init__()
        self.write = write

    def forward(self, x, at, cache):
        self.write(x, at, cache)
        return cache.sum(-1)


def put(x, at, cache):
    cache[:, :, at] = x


def sliced(x, at, cache):
    cache[:, :, 2 : 2 + x.shape[2]] = x


WRITES = {
    "one place": (lambda x, at, cache: cache.index_copy_(2, at, x), [5]),
    "several": (lambda x, at, cache: cache.index_copy_(2, at, x), [5, 0, 15]),
    "one twice, from the end": (put, [4, -1, 4]),
    "a slice": (sliced, [0, 0]),
    "all": (lambda x, at, cache: cache.copy_(x.sum(2, keepdim=True) + at[0]), [3]),
}


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize(("name", "dtype"), repeating(product(WRITES, ["float32", "bfloat16"]), {
    (n, "bfloat16"): "float32; bfloat16 is written in one place" for n in WRITES if n not in ("one place", "a slice")}))  # fmt: skip
def test_modules_that_write_into_their_inputs(name, dtype):
    write, at = WRITES[name]
    dtype, at = getattr(torch, dtype), torch.tensor(at)
    module = Writes(write).eval()
    cache = torch.from_numpy(CACHE).to(dtype)
    x = torch.from_numpy(RNG.standard_normal((2, 3, len(at), 8)).astype("f4")).to(dtype)
    program = autocomp.optimize(module, target="cpu", example_inputs=(x, at, cache.clone()), donate=["cache"])
    assert not any(c.kernel.opaque for c in program.calls.calls)
    mine, theirs = cache.clone(), cache.clone()
    got, want = program(x, at, mine), module(x, at, theirs)
    assert torch.allclose(mine, theirs, atol=1e-5 if dtype == torch.float32 else 0.05)
    assert torch.allclose(got.float(), want.float(), atol=1e-4 if dtype == torch.float32 else 0.2)


def turned(x, at, cache):
    cache.mul_(2).copy_(cache.flip(2) + x)  # elements move, so that no kernel can write them where they lie


@pytest.mark.parametrize("write", [put, turned], ids=["rows", "elements that move"])
def test_what_a_module_writes_is_copied_where_nothing_is_given_away(write):
    at = torch.tensor([1])
    given = lambda: (torch.randn(2, 3, 1, 8), at, torch.randn(2, 3, 16, 8))
    program = autocomp.optimize(Writes(write).eval(), target="cpu", example_inputs=given())
    (x, _, mine), kept = given(), torch.empty(2, 3, 8, 16).mT  # strides other than the examples'
    theirs = mine.clone()
    kept.copy_(mine)
    want = Writes(write)(x, at, theirs)
    for cache in (mine, kept, array := theirs.new_tensor(CACHE).numpy()):
        if cache is array:
            want = Writes(write)(x, at, theirs.copy_(torch.from_numpy(array)))
        got = program(x.numpy(), at.numpy(), cache) if cache is array else program(x, at, cache)
        assert np.allclose(np.asarray(cache), theirs, atol=1e-6) and np.allclose(np.asarray(got), want, atol=1e-5)
    assert program.verify()
    array.flags.writeable = False
    with pytest.raises(ModelError, match="read-only, and the model writes into it"):
        program(x.numpy(), at.numpy(), array)
    with pytest.raises(ModelError, match="input 'x' lies in the same memory"):
        program(mine[:, :, :1], at, mine)


def test_a_language_model_generates_the_tokens_of_eager(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "examples"))
    import llama

    s, context = llama.SIZES["tiny"], 24
    first, step = llama.model("tiny", context, torch.float32, "cpu")
    tokens = torch.randint(s.words, (2, 7))
    room = lambda: llama.caches(s, 2, context, torch.float32, "cpu")
    at = torch.arange(7)
    programs = [autocomp.optimize(m, target="cpu", example_inputs=(tokens[:, :n], at[:n], *room()), donate=["caches_*"])
                for m, n in ((first, 7), (step, 1))]  # fmt: skip
    mine, theirs = room(), room()
    got = llama.generate(programs[0], llama.Steps(programs[1], tokens[:, :1], at[:1], mine), tokens, 12)[0]
    want = llama.generate(first, llama.Steps(step, tokens[:, :1], at[:1], theirs), tokens, 12)[0]
    assert torch.equal(got, want)
    for a, b in zip(mine, theirs):
        assert torch.allclose(a, b, atol=1e-4)
    for p in programs:
        assert len(p.calls.donated) == 2 * s.layers
        assert any("softmax_weighted_sum" in c.kernel.name for c in p.calls.calls)
    sys.modules.pop("llama")
