"""Bad ONNX models: each ends in one of our errors, with its exact text; nothing else ever comes out."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from autocomp.errors import AutocompError, ModelError, UnsupportedOp  # noqa: E402
from autocomp.frontends import load  # noqa: E402
from autocomp.frontends.onnx import load_onnx  # noqa: E402


def model(nodes, initializers=(), x=(2, 3), out=None, opset=20, dtype=TensorProto.FLOAT):
    """A one-input (x), one-output (y) model."""
    g = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", dtype, x)],
        [helper.make_tensor_value_info("y", dtype, out)],
        list(initializers),
    )
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)])


def refusal(m, kind=ModelError, **kw) -> str:
    with pytest.raises(kind) as e:
        load_onnx(m, **kw)
    assert type(e.value) is kind
    return str(e.value)


def good() -> onnx.ModelProto:
    w = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4), "w")
    return model([helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"], name="act")], [w])


def test_good_model_imports() -> None:
    g = load_onnx(good())
    assert [n.op for n in g.nodes()] == ["input", "param", "matmul", "relu"]
    assert g.locations[g.outputs[0][1]] == "node 1 'act' (Relu)"


def test_no_such_file(tmp_path: Path) -> None:
    path = tmp_path / "no.onnx"
    assert refusal(path) == f"{path}: cannot be read: No such file or directory\n  next: check the path and its permissions"


@pytest.mark.parametrize(("name", "text"), [
    ("m.pt", r".pt files are not read; .*\n  next: load the module in Python .*torch.onnx.export"),
    ("m.pt2", r"next: autocomp.optimize\(torch.export.load\(path\)\)"),
    ("m.py", r"next: import the function"),
    ("folder", r"is a folder, not a model\n  next: give the path of an .onnx or .txt model"),
    ("saved", r"is a saved program, not a model\n  next: .*`autocomp compare` reads"),
    ("bytes.txt", r"is no text: invalid start byte at byte 0"),
    ("empty.txt", r"the graph has no output\n  next: a text graph ends in lines like `output y = %0`"),
    ("none.txt", r"cannot be read: No such file"),
])  # fmt: skip
def test_a_path_to_what_is_no_model_says_what_it_is(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "manifest.json").write_text("{}")
    for file, data in (("m.pt", b"x"), ("m.pt2", b"x"), ("m.py", b"x"), ("bytes.txt", b"\xff\xfe"), ("empty.txt", b"")):
        (tmp_path / file).write_bytes(data)
    with pytest.raises(ModelError, match=text) as e:
        load(tmp_path / name)
    assert e.value.where == str(tmp_path / name)


@pytest.mark.parametrize(("text", "says"), [
    ("input x: f32[3]\noutput y = x", "input x: f32[3]: is neither a path nor a text graph"), ("a\0b.pt", "a\\0b.pt: is neither"),
    ("x" * 5000, "cannot be read: File name too long"),
])  # fmt: skip
def test_text_that_is_no_model(text: str, says: str) -> None:
    with pytest.raises(ModelError) as e:
        load(text)
    assert says in str(e.value)


def test_no_onnx_at_all() -> None:
    assert refusal(b"hello, I am a text file") == (
        "<model: 23 bytes>: is no ONNX model: the 23 bytes do not parse\n"
        "  next: the file is truncated, damaged or of another format; export it again"
    )


def test_empty_file() -> None:
    assert refusal(b"") == (
        "model 'model': names no operator set\n  next: the file is truncated or no ONNX model; export it again"
    )


def test_truncated_weights() -> None:
    m = good()
    m.graph.initializer[0].raw_data = m.graph.initializer[0].raw_data[:20]
    assert refusal(m) == (
        "initializer 'w': declares f32[3, 4], which is 12 elements (48 bytes), but carries 20 bytes\n"
        "  next: the file is truncated or damaged; export it again"
    )


def test_huge_declared_shape_allocates_nothing() -> None:
    m = good()
    del m.graph.initializer[0].dims[:]
    m.graph.initializer[0].dims.extend([2**40, 2**40])
    assert "carries 48 bytes" in refusal(m)


def test_huge_generated_shape() -> None:
    shape = numpy_helper.from_array(np.asarray([2**20, 2**20], np.int64), "s")
    m = model([helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])], [shape])
    assert refusal(m, UnsupportedOp) == (
        "node 0 (ConstantOfShape): makes a tensor of shape [1048576, 1048576]; the limit is 8589934592 bytes\n"
        "  next: a shape this large is likely a damaged file"
    )


def test_cycle() -> None:
    m = model(
        [
            helper.make_node("Add", ["x", "b"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Relu", ["b"], ["y"]),
        ]
    )
    assert refusal(m) == (
        "node 0 (Add): operand 'b' is made by a later node: the graph has a cycle or is not sorted\n"
        "  next: sort the nodes so that each follows its operands"
    )


def test_missing_tensor() -> None:
    assert refusal(model([helper.make_node("Add", ["x", "gone"], ["y"])])) == (
        "node 0 (Add): operand 'gone' is made by no node, input or initializer\n  next: the model is damaged; export it again"
    )


def test_missing_output() -> None:
    assert refusal(model([helper.make_node("Relu", ["x"], ["z"])])) == (
        "output 'y': is made by no node\n  next: the model is damaged; export it again"
    )


def test_value_made_twice() -> None:
    assert refusal(model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Exp", ["x"], ["y"])])) == (
        "node 1 (Exp): 'y' is made a second time\n  next: every name may be given a value once"
    )


def test_unknown_operator() -> None:
    node = helper.make_node("FlyToTheMoon", ["x"], ["y"], domain="com.space")
    assert refusal(model([node]), UnsupportedOp) == (
        "node 0 (FlyToTheMoon): operator com.space.FlyToTheMoon (opset 1) is not supported\n"
        "  next: replace it in the exporter, or add its lowering in autocomp/frontends/onnx"
    )


def test_wrong_dtypes() -> None:
    w = numpy_helper.from_array(np.ones((2, 3), np.int32), "w")
    text = refusal(model([helper.make_node("Add", ["x", "w"], ["y"])], [w]))
    assert text == "node 0 (Add): add: add takes operands of one dtype, got f32, i32"


def test_unsupported_element_type() -> None:
    assert refusal(model([helper.make_node("Identity", ["x"], ["y"])], dtype=TensorProto.STRING), UnsupportedOp).startswith(
        "input 'x': element type string is not supported\n  next: convert to one of f32, f64, f16"
    )


def test_opset_from_the_future() -> None:
    newest = onnx.defs.onnx_opset_version()
    m = model([helper.make_node("Relu", ["x"], ["y"])], opset=newest + 1)
    assert refusal(m, UnsupportedOp) == (
        f"model 'g': uses operator set {newest + 1}; the installed onnx package knows up to {newest}\n"
        "  next: upgrade the onnx package, or export with an older opset"
    )


def test_shape_from_data_names_the_input() -> None:
    g = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3)), helper.make_tensor_value_info("s", TensorProto.INT64, (2,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(UnsupportedOp) as e:
        load_onnx(m)
    assert str(e.value) == (
        "node 0 (Reshape): operand 1 must be known while compiling, but is computed from the graph input 's'\n"
        "  next: bind the value: load_onnx(model, inputs={'s': array})"
    )
    assert load_onnx(m, inputs={"s": np.asarray([3, 2])}).outputs[0][1].type.shape == (3, 2)


# ---- numbers that are too large to be meant
def test_huge_input() -> None:
    m = model([helper.make_node("Relu", ["x"], ["y"])], x=(2**40, 2**40))
    assert refusal(m, UnsupportedOp) == (
        "input 'x': f32[1099511627776, 1099511627776] takes 4835703278458516698824704 bytes; the limit is 4398046511104\n"
        "  next: a shape this large is likely a damaged file; export it again"
    )


def test_huge_result() -> None:
    shape = numpy_helper.from_array(np.asarray([2**30, 2**30, 2, 3], np.int64), "s")
    assert refusal(model([helper.make_node("Expand", ["x", "s"], ["y"])], [shape]), UnsupportedOp) == (
        "node 0 (Expand): broadcast: f32[1073741824, 1073741824, 2, 3] takes 27670116110564327424 bytes; the limit is 4398046511104\n"
        "  next: a shape this large is likely a damaged file; export it again"
    )


def test_endless_loop() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Relu", ["h"], ["k"])], "body",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in (("i", TensorProto.INT64, ()), ("go", TensorProto.BOOL, ()),
                                                                ("h", TensorProto.FLOAT, (2, 3)))],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, ()), helper.make_tensor_value_info("k", TensorProto.FLOAT, (2, 3))],
    )  # fmt: skip
    trips = numpy_helper.from_array(np.asarray(2**62, np.int64), "n")
    assert refusal(model([helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], [trips]), UnsupportedOp) == (
        "node 0 (Loop): runs more than 1024 iterations; loops are unrolled where it runs more than 1048576 iterations\n"
        "  next: write it with tensor operators"
    )


def function(name: str, nodes: list) -> onnx.FunctionProto:
    return helper.make_function("f", name, ["x"], ["y"], nodes, [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)])


def with_functions(functions: list) -> onnx.ModelProto:
    m = model([helper.make_node("f0", ["x"], ["y"], domain="f")])
    m.opset_import.append(helper.make_opsetid("f", 1))
    m.functions.extend(functions)
    return m


def test_function_that_calls_itself() -> None:
    m = with_functions([function("f0", [helper.make_node("f0", ["x"], ["y"], domain="f")])])
    text = refusal(m, UnsupportedOp)
    assert text.endswith("functions nest deeper than 32\n  next: change the model, or the exporter's options")
    assert text.startswith("node 0 (f0)")


def test_functions_that_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten calls a function, ten functions deep: 10^10 nodes from a hundred."""
    monkeypatch.setattr("autocomp.frontends.onnx.importer.NODES", 5000)
    names = [*(f"h{k}" for k in range(9)), "y"]
    chain = lambda op: [helper.make_node(op, [a], [b], domain="f") for a, b in zip(["x", *names], names, strict=False)]
    functions = [function(f"f{k}", chain(f"f{k + 1}")) for k in range(10)]
    m = with_functions([*functions, function("f10", [helper.make_node("Relu", ["x"], ["y"])])])
    text = refusal(m, UnsupportedOp)
    assert "has more than 5000 nodes after expanding functions and loops" in text


# ---- external data
def external(tmp_path: Path, location: str, data: bytes = b"\0" * 48) -> Path:
    m = good()
    t = m.graph.initializer[0]
    t.ClearField("raw_data")
    t.data_location = TensorProto.EXTERNAL
    t.external_data.add(key="location", value=location)
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    (folder / "w.bin").write_bytes(data)
    (tmp_path / "secret.bin").write_bytes(data)
    path = folder / "m.onnx"
    path.write_bytes(m.SerializeToString())
    return path


def test_external_data_is_read_from_the_folder(tmp_path: Path) -> None:
    data = np.arange(12, dtype=np.float32).tobytes()
    g = load_onnx(external(tmp_path, "w.bin", data))
    assert g.param("w")[2, 3] == 11


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "a/../../secret.bin", "C:\\secret.bin", "..\\secret.bin"])
def test_external_data_outside(tmp_path: Path, location: str) -> None:
    assert refusal(external(tmp_path, location)) == (
        f"initializer 'w': external data at '{location}' is outside the model's folder\n"
        "  next: external data must lie in the model's folder"
    )


def test_external_data_through_a_link(tmp_path: Path) -> None:
    path = external(tmp_path, "link.bin")
    os.symlink(tmp_path / "secret.bin", path.parent / "link.bin")
    assert refusal(path) == (
        "initializer 'w': external data at 'link.bin' is a link that leaves the model's folder\n"
        "  next: external data must lie in the model's folder"
    )


def test_external_data_too_short(tmp_path: Path) -> None:
    assert refusal(external(tmp_path, "w.bin", b"\0" * 40)) == (
        "initializer 'w': declares f32[3, 4] (48 bytes) at offset 0 of 'w.bin', entry length 48, but the file has 40 bytes\n"
        "  next: the data file is truncated or belongs to another model"
    )


def test_external_data_of_bytes(tmp_path: Path) -> None:
    assert refusal(external(tmp_path, "w.bin").read_bytes()) == (
        "initializer 'w': has external data, but the model did not come from a file\n  next: load the model by its path"
    )


# ---- fuzz
def test_damaged_attributes_end_in_our_errors() -> None:
    """Models of the onnx package's suite with one attribute, operand, dimension or type changed."""
    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    files = sorted(f for kind in ("simple", "pytorch-operator", "pytorch-converted") for f in (data / kind).glob("*/model.onnx"))
    rng = np.random.default_rng(3)
    outcomes = {"imported": 0, "refused": 0}
    for k in range(300):
        m = onnx.load(files[k % len(files)])
        damage(m, rng)
        try:
            load_onnx(m.SerializeToString())
            outcomes["imported"] += 1
        except AutocompError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 80 and outcomes["imported"] > 80, outcomes


def damage(m: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Change one thing in place."""
    node = m.graph.node[rng.integers(len(m.graph.node))]
    kind = int(rng.integers(5))
    if kind == 0 and node.attribute:
        a = node.attribute[rng.integers(len(node.attribute))]
        a.i, a.f, a.s = int(rng.choice([-1, 0, 7, 2**31, 2**62, -(2**63)])), float("nan"), b"\xff"
        if a.ints:
            a.ints[rng.integers(len(a.ints))] = int(rng.choice([-1, 0, 7, 2**31, 2**62]))
    elif kind == 1 and node.attribute:
        del node.attribute[rng.integers(len(node.attribute))]
    elif kind == 2 and node.input:
        del node.input[rng.integers(len(node.input))]
    elif kind == 3 and m.graph.input:
        t = m.graph.input[rng.integers(len(m.graph.input))].type.tensor_type
        if t.shape.dim:
            t.shape.dim[rng.integers(len(t.shape.dim))].dim_value = int(rng.choice([0, 1, 7, 2**31, 2**40, -1]))
    elif m.graph.input:
        m.graph.input[rng.integers(len(m.graph.input))].type.tensor_type.elem_type = int(rng.integers(0, 26))


def test_truncations_and_bit_flips_end_in_our_errors() -> None:
    raw = good().SerializeToString()
    rng = np.random.default_rng(7)
    outcomes = {"imported": 0, "refused": 0}
    cuts = [raw[:k] for k in range(0, len(raw), 3)]
    flips = []
    for _ in range(600):
        b = bytearray(raw)
        for _ in range(int(rng.integers(1, 4))):
            b[rng.integers(len(b))] ^= 1 << rng.integers(8)
        flips.append(bytes(b))
    for data in cuts + flips:
        try:
            load_onnx(data)
            outcomes["imported"] += 1
        except AutocompError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 200 and outcomes["imported"] > 20, outcomes


def test_a_flag_that_is_neither_0_nor_1() -> None:
    """onnxruntime and others take 2 for different things."""
    m = model([helper.make_node("ReduceSum", ["x"], ["y"], keepdims=2)])
    assert refusal(m) == "node 0 (ReduceSum): attribute 'keepdims' is 2, which is neither 0 nor 1"


def test_a_recurrent_layer_without_its_weights() -> None:
    r = numpy_helper.from_array(np.zeros((1, 12, 4), np.float32), "r")
    m = model([helper.make_node("GRU", ["x", "", "r"], ["y"], hidden_size=4)], [r], x=(5, 2, 3))
    assert refusal(m) == "node 0 (GRU): has no operand 1; it has 3"


@pytest.mark.parametrize("groups", [-2, 0, 3])
def test_groups_that_do_not_divide_the_channels(groups) -> None:
    ones = [numpy_helper.from_array(np.ones(4, np.float32), n) for n in "sb"]
    node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=groups)
    said = refusal(model([node], ones, x=(3, 4, 2, 2), opset=21))
    assert f"num_groups is {groups}, which does not divide 4 channels" in said
