"""Gathers in C: their indices count every dimension, also where views of the same tensor lack those of one element."""

import numpy as np
from onnx import TensorProto, helper

import autocomp


def test_a_tensor_that_is_sliced_and_gathered_in_one_kernel():
    # a cubic resize reads its image [1, 1, 4, 4] at fixed lines and at computed ones; expected: onnxruntime's numbers
    resize = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="cubic")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 3, 3])
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 1, 3, 3])
    graph = helper.make_graph([resize], "g", [x], [y], [sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)
    program = autocomp.optimize(model.SerializeToString(), target="cpu")
    got = program(np.arange(1, 17, dtype="f4").reshape(1, 1, 4, 4))
    want = [1.6307871, 3.0046299, 4.3784733, 7.1261587, 8.5, 9.873844, 12.621532, 13.995373, 15.369216]
    np.testing.assert_allclose(np.asarray(got).ravel(), want, rtol=1e-5)
