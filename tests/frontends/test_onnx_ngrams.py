"""Counts of n-grams against the onnx package's own evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from autocomp import optimize
from autocomp.errors import UnsupportedOp
from autocomp.frontends.onnx import load_onnx
from autocomp.ir.reference import evaluate


def model(x: np.ndarray, **attrs: object):
    (kind,) = (helper.np_dtype_to_tensor_dtype(x.dtype),)
    graph = helper.make_graph([helper.make_node("TfIdfVectorizer", ["x"], ["y"], **attrs)], "g",
                              [helper.make_tensor_value_info("x", kind, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def drawn(seed: int):
    """An input, and the attributes of a pool of 1-, 2- and 3-grams, each at a place of its own."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 5, ((3, 17), (23,), (1, 2), (2, 5))[seed % 4]).astype((np.int32, np.int64)[seed % 2])
    pools = [sorted({tuple(g) for g in rng.integers(0, 5, (k, n)).tolist()}) for n, k in ((1, 4), (2, 9), (3, 20))]
    many = sum(map(len, pools))
    least = 1 + seed % 3
    mode = ("TF", "IDF", "TFIDF")[seed // 2 % 3]
    weighted = {} if mode == "TF" else {"weights": rng.random(many).astype("f4").tolist()}
    at = list(range(many)) if weighted else rng.permutation(many + 3)[:many].tolist()
    return x, dict(max_gram_length=int(rng.integers(least, 4)), min_gram_length=least, max_skip_count=int(rng.integers(0, 6)),
                   mode=mode, ngram_counts=[0, len(pools[0]), len(pools[0]) + 2 * len(pools[1])],
                   ngram_indexes=at, pool_int64s=[v for p in pools for g in p for v in g], **weighted)  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_drawn_pools(seed: int) -> None:
    x, attrs = drawn(seed)
    m = model(x, **attrs)
    (want,) = ReferenceEvaluator(m).run(None, {"x": x})
    got = evaluate(load_onnx(m), {"x": x})["y"]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("mode", ["IDF", "TFIDF"])
def test_without_weights(mode: str) -> None:
    """Each is 1."""
    x, attrs = drawn(0)
    count = evaluate(load_onnx(model(x, **attrs)), {"x": x})["y"]
    got = evaluate(load_onnx(model(x, **attrs | {"mode": mode})), {"x": x})["y"]
    np.testing.assert_array_equal(got, count > 0 if mode == "IDF" else count)


def test_compiled() -> None:
    x, attrs = drawn(0)
    m = model(x, **attrs)
    (want,) = ReferenceEvaluator(m).run(None, {"x": x})
    np.testing.assert_allclose(optimize(m, target="cpu").run({"x": x})["y"], want, rtol=1e-6)


def test_what_the_standard_and_its_runtimes_read_in_two_ways_is_refused() -> None:
    """The weights of n-grams that are stored in another order; one that is there twice; two at one place."""
    x = np.zeros((1, 4), np.int64)
    one = dict(max_gram_length=1, min_gram_length=1, max_skip_count=0, mode="TFIDF", ngram_counts=[0])
    for more, why in ((dict(pool_int64s=[1, 2], ngram_indexes=[1, 0], weights=[1.0, 2.0]), "in the order of the pool"),
                      (dict(pool_int64s=[1, 1], ngram_indexes=[0, 1]), "a 1-gram twice"),
                      (dict(pool_int64s=[1, 2], ngram_indexes=[0, 0]), "2 n-grams at 1 places")):
        with pytest.raises(UnsupportedOp, match=why):
            load_onnx(model(x, **one, **more))
