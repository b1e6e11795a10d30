"""The table of the public Ascend C interface: printed text and the model's declarations keep to it, by architecture; ranges are told."""

from __future__ import annotations

import re

import pytest
from autocomp.targets import load_target
from autocomp.targets.ascend import stand_in
from autocomp.targets.ascend.api import api, check, fact, rows
from autocomp.targets.ascend.tables import table
from autocomp.targets.ascend.target import own_names
from autocomp.targets.ascend.toolchain import headers

import autocomp
from autocomp.errors import BuildError, UnsupportedOp
from autocomp.ir.schedule import Schedule
from autocomp.simulate.ascend_model import COMPILER, INCLUDE, AscendExecutor, ModelFailure
from tests.helpers.device_graphs import GRAPHS, graph
from tests.helpers.edits import Edit
from tests.targets.test_ascend import GOLDEN

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
MODEL = INCLUDE[0].removeprefix("-I")
BAND = graph({"a": "f16[40, 40]", "b": "f16[40, 32]"}, "%0 = matmul(a, b)")


def model_text(name):
    with open(f"{MODEL}/{name}") as f:
        return f.read()


def test_the_stand_in_is_made_from_the_table():
    """`python -m autocomp.targets.ascend.stand_in FOLDER` writes both files anew."""
    of = api(stand_in.MODELLED)
    assert model_text("api_types.h") == stand_in.types(of)
    assert model_text("api_functions.h") == stand_in.functions(of)


def test_the_model_declares_only_classes_itself_with_methods_of_the_table():
    text = re.sub(r"//.*", "", model_text("kernel_operator.h"))
    spaces = re.findall(r"^namespace AscendC \{\n(.*?)^\} *$", text, re.S | re.M)
    assert len(spaces) == 1
    classes = dict(re.findall(r"struct (\w+) \{(.*?)^\};", spaces[0], re.S | re.M))
    rest = re.sub(r"template <[^>]*> struct \w+ \{.*?^\};|struct \w+ \{.*?^\};", "", spaces[0], flags=re.S | re.M)
    assert not rest.strip() and classes.keys() == api("2201").classes.keys()
    for name, body in classes.items():
        methods = set(re.findall(r"^ +(?:template <.*> )?[\w<>]+ (\w+)\(", body, re.M)) - {"operator"}
        assert methods == api("2201").classes[name], name


def test_the_header_and_the_goldens_keep_to_the_table():
    of = api("2201")
    for name in ("autocomp_ascend.h", "autocomp_ascend_cube.h"):
        check(headers()[name], of, own_names())
    for golden in sorted(GOLDEN.glob("*.cpp")):
        check(golden.read_text(), of, own_names(), golden.stem)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("MmadParams p; p.disableGemv = true;", r"MmadParams.disableGemv is not in .* of architecture 2201 \(910B1,"),
        ("Adds(d, x, 0.0f);", r"Adds of 3 arguments \(it takes 4 or 6\)"),
        ("Sin(d, x, 4);", "Sin is not in the public Ascend C interface"),
        ("SetFlag<HardEvent::FIX_V>(0);", "HardEvent::FIX_V is not in"),
        ("Cast(d, x, RoundMode::CAST_HYBRID, 4);", "RoundMode::CAST_HYBRID is not in"),
        ("x.GetSize();", "x.GetSize is not in"),
        ("f16 v;", "f16 is not in"),  # a member of the intrinsics' vtype_t
        ("CreateVecIndex(d, 0.0f, 64);", "CreateVecIndex begins on the scalar unit, and no flag V_S"),
    ],
)
def test_what_the_table_lacks_is_refused_by_name_and_chip(text, refusal):
    with pytest.raises(UnsupportedOp, match=refusal):
        check(f"extern \"C\" __global__ __aicore__ void k(GM_ADDR a) {{ ac_f32 d; ac_f32 x; {text} }}", api("2201"), own_names())


def test_other_architectures_have_other_names():
    """Pointwise kernels are those of 3510 too; products leave L0C by another structure there, and 2002 has no copies of any length."""
    text = {g.stem: g.read_text() for g in GOLDEN.glob("*.cpp")}
    check(text["softmax"], api("3510"), own_names())
    check("void k() { MmadParams p; p.disableGemv = true; }", api("3510"))
    with pytest.raises(UnsupportedOp, match=r"DataCopyPad is not in .* 2002 \(310P\)"):
        check(text["softmax"], api("2002"), own_names())
    with pytest.raises(UnsupportedOp, match=r"SetFmatrix is not in .* 3510 \(950PR"):
        check(headers()["autocomp_ascend_cube.h"], api("3510"), own_names())
    check(headers()["autocomp_ascend.h"], api("3510"), own_names())


@needs_compiler
def test_types_that_an_architecture_lacks_are_not_compiled(tmp_path):
    """Headers that compare words as 910B does, for a 310P, whose library has comparisons of floats alone."""
    edit = Edit("CompareScalar(m, AC_FLOAT(u), 0.0f, CMPMODE::EQ, n);", "Compare(m, a, b, CMPMODE::EQ, n);")
    text = graph({"a": "i32[9, 40]", "b": "i32[9, 40]"}, "%0 = gt(a, b)")
    program = autocomp.optimize(text, target="ascend:310p", without=["tiling/npu-scalar-*"])
    program.executor = AscendExecutor(program, tmp_path, blocks=1, edit_header=edit)
    with pytest.raises(BuildError, match="Compare of 2002 has no form for elements of this type"):
        program.verify(seed=1)
    assert edit.found


def test_a_kernel_with_a_name_that_is_not_in_the_table_is_not_printed(monkeypatch):
    kernel = autocomp.optimize(GRAPHS["softmax_odd"], target="ascend").calls.calls[0].kernel
    monkeypatch.setitem(table()["unary"], "exp", {"call": "FasterExp"})
    with pytest.raises(UnsupportedOp, match="FasterExp is not in the public Ascend C interface of architecture 2201"):
        load_target("ascend").emit(kernel, Schedule.make({"i0": 4}))


def test_a_kernel_keeps_to_the_headers_that_it_includes():
    """A pad's bounds, on vector cores alone, were once of the cube cores' header."""
    assert "ac_most" in own_names(("autocomp_ascend.h",)) and "ac_mmad" not in own_names(("autocomp_ascend.h",))
    with pytest.raises(UnsupportedOp, match="ac_mmad is not in"):
        check("void k() { ac_mmad(c, a, b); }", api("2201"), own_names(("autocomp_ascend.h",)) | {"a", "b", "c"})


def test_every_row_names_its_file_and_numbers_their_page():
    for name, row in [*rows()["structures"].items(), *rows()["enumerations"].items(), *((f["names"][0], f) for f in rows()["functions"])]:
        assert row["file"], name
        for tag, now in row.get("moved", {}).items():
            assert tag in rows()["source"]["tags"] and now["file"].startswith("impl/basic_api/") and now["declared"], name
    moved = {n for f in rows()["functions"] if "v9.1.0-beta.3" in f.get("moved", {}) for n in f["names"]}
    assert moved == {f"{of}Reduce{what}" for of in ("Whole", "Block") for what in ("Sum", "Max", "Min")}
    assert fact("gemv") == 1 and fact("library") == rows()["memories"]["VECCALC"]["2201"]
    assert api("2201").most("Nd2NzParams", "srcDValue") == 65535 and api("3510").most("Nd2NzParams", "srcDValue") > 2**32


@needs_compiler
@pytest.mark.parametrize(
    ("model", "was", "by", "complaint"),
    [
        ("band", "p.n = n;", "p.n = n + 4096;", r"MmadParams.n is 41\d\d, which is not in 0..4095"),
        ("band", "p.channelSize = channels;", "p.channelSize = channels + 65536;", r"V2Pro.channelSize is 65\d\d\d, which is not"),
        ("band", "SetFmatrix(1, rows,", "SetFmatrix(1, rows - 16,", r"more places than the image has|l1W is 0, which is not in 1..32767"),
        ("band", "p.dstNzMatrixStride = 1;", "p.dstNzMatrixStride = 0;", r"Nd2NzParams.dstNzMatrixStride is 0, which is not in 1..16384"),
        ("rows", "n < 64 ? 1 : n / 64", "n < 64 ? 1 : n / 64 + 256", r"repeatTime is \d+, which is not in 0..255"),
        ("rows", "p.blockCount = rows;", "p.blockCount = rows + 4096;", r"blockCount is \d+, which is not in 1..4095"),
        ("rows", "v[r * 8], 1, rows", "v[r * 8], 65, rows", r"WholeReduceSum: mask is 65, which is not in 1..64"),
        ("rows", "v[r * 8], 1, 1, 0", "v[r * 8 + 1], 1, 1, 0", r"the address of src1 is not a multiple of 32"),
    ],
)
def test_the_model_tells_numbers_that_the_interface_does_not_take(model, was, by, complaint, tmp_path):
    edit = Edit(was, by)
    program = autocomp.optimize({"band": BAND, "rows": GRAPHS["softmax_odd"]}[model], target="ascend")
    program.executor = AscendExecutor(program, tmp_path, blocks=1, edit_header=edit)
    with pytest.raises((ModelFailure, autocomp.VerificationError), match=complaint):
        program.verify(seed=1)
    assert edit.found
