"""Dicts, lists and registered classes of tensors as arguments and results; operators over parameters alone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import autocomp
from autocomp.errors import ModelError, UnsupportedOp

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")

from autocomp.frontends.torch.export import load_torch  # noqa: E402
from tests.helpers.torch_modules import Apply  # noqa: E402

pytestmark = pytest.mark.torch


@dataclass
class Pair:
    a: object
    b: object = None


@pytest.fixture(scope="module")
def nested():
    x = {"a": torch.randn(3, 4), "b": [torch.randn(4, 2), None]}
    f = lambda d, flag: {"product": d["a"] @ d["b"][0] if flag else None, "none": None, "rest": [d["a"] + 1, (d["b"][0] * 2,)]}
    return autocomp.optimize(Apply(f).eval(), example_inputs=(x, True)), x, f


def test_dicts_and_lists_go_in_and_come_out(nested):
    program, x, f = nested
    expected = f(x, True)
    turned = {"b": x["b"], "a": x["a"]}  # keys in another order
    for got in (program(turned, True), program(x["a"], x["b"][0])):
        assert list(got) == list(expected) and got["none"] is None
        torch.testing.assert_close(got["product"], expected["product"])
        torch.testing.assert_close(got["rest"], expected["rest"])
    assert program.verify().ratio <= 1


@pytest.mark.parametrize(("change", "said"), [
    (lambda x: ({"a": x["a"]}, True), r"its arguments were \(\({'a': x, 'b': \[x, x\]}, x\), {}\) when it was exported"),
    (lambda x: ({**x, "b": (x["b"][0], None)}, True), "type mismatch"),
    (lambda x: (x, False), "an argument was True when it was exported, and is bool False"),
    (lambda x: ({**x, "b": [x["b"][0], x["a"]]}, True), "an argument was None when it was exported, and is Tensor"),
    (lambda x: (x["a"],), "mismatch"),
])  # fmt: skip
def test_another_structure_is_refused(nested, change, said):
    program, x, _ = nested
    with pytest.raises(ModelError, match=said):
        program(*change(x))


def test_a_class_is_refused_until_torch_knows_it():
    module = Apply(lambda x: Pair(x + 1)).eval()
    with pytest.raises(ModelError, match=r"a Pair holds, which is an output\n.*register_dataclass\(Pair\)"):
        load_torch(module, (torch.ones(3),))
    torch.export.register_dataclass(Pair)
    program = autocomp.optimize(module, example_inputs=(torch.ones(3),))
    for _ in range(2):
        made = program(torch.ones(3))
        assert isinstance(made, Pair) and made.b is None and torch.equal(made.a, torch.full((3,), 2.0))


def test_an_operator_that_is_costly_over_parameters_is_computed_by_torch():
    class Orthogonal(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(4, 4))

        def forward(self, x, of):
            return x @ torch.linalg.matrix_exp((self.w if of is None else of).triu(1))

    module, x = Orthogonal().eval(), torch.randn(3, 4)
    program = autocomp.optimize(module, example_inputs=(x, None))
    torch.testing.assert_close(program(x, None), module(x, None).detach())
    assert not program.calls.loops and any(n.op == "loop" for n in load_torch(module, (x, torch.randn(4, 4))).nodes())


def test_masks_that_are_parameters_choose_elements():
    class Chosen(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("row", torch.tensor([True, False, True, True]))
            self.register_buffer("both", torch.arange(12).reshape(4, 3) % 5 > 1)
            self.register_buffer("none", torch.zeros(3, dtype=torch.bool))
            self.register_buffer("one", torch.tensor([False, True, False]))
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, x):
            y, (i, j) = x[:, self.row], self.both.nonzero(as_tuple=True)
            picked = x[:, self.row.nonzero()[:, 0]], x[:, self.both], x[:, i, j], torch.masked_select(x[:, :1], self.both)
            few = x[..., self.none].sum(), x[:, :, self.one] + 1, x[:, ~self.row].sum(1)
            return self.linear(y), y.flatten(1), y.shape[1] * x, torch.view_as_real(torch.fft.fft(x)[:, self.row]), *picked, *few

    module, x = Chosen().eval(), torch.randn(5, 4, 3)
    program = autocomp.optimize(module, example_inputs=(x,), target="cpu", threads=1)
    x = torch.randn(5, 4, 3)
    for got, want in zip(program(x), module(x), strict=True):
        torch.testing.assert_close(got, want.detach())
    with pytest.raises(UnsupportedOp, match="how many rows output 0 has depends on data"):
        load_torch(Apply(lambda x: x[:, x[0, :, 0] > 0]).eval(), (x,))


class Keywords(torch.nn.Module):
    def forward(self, ids, mask=None, scale=None):
        y = ids if mask is None else ids * mask
        return {"y": y if scale is None else y * scale}


def test_a_dict_of_examples_by_the_arguments_names():
    ids, scale = torch.randn(2, 5), torch.randn(5)
    program = autocomp.optimize(Keywords().eval(), example_inputs={"scale": scale, "ids": ids})
    for got in (program(ids=ids, scale=scale), program(scale=scale, ids=ids)):
        assert torch.equal(got["y"], ids * scale)
    with pytest.raises(ModelError, match="takes 2 inputs"):
        program(ids=ids, mask=scale)


class One(torch.nn.Module):
    def forward(self, ids):
        return ids["ids"] + 1


class Batch(torch.nn.Module):
    def forward(self, batch, mask=None):
        return batch["ids"] + batch["weight"]


@pytest.mark.parametrize(("module", "names"), [(One(), ("ids",)), (Batch(), ("ids", "weight"))])
def test_a_dict_is_an_argument_where_it_names_none_or_the_only_one(module, names):
    given = {name: torch.ones(3) for name in names}
    graph = load_torch(module.eval(), (given,))
    assert len(graph.inputs) == len(names) and graph.structure.inputs((given,), {})


class Scaled(torch.nn.Module):
    def forward(self, x, *, scale=2.0, mask=None):
        return x * scale + (0 if mask is None else mask)


def test_keywords_are_the_modules_arguments():
    """In the order that it has them; one that is left out has the value that the module gives it, which the program may not have."""
    x, mask = torch.randn(3), torch.randn(3)
    program = autocomp.optimize(Scaled().eval(), example_inputs={"mask": mask, "scale": 3.0, "x": x})
    torch.testing.assert_close(program(x=x, scale=3.0, mask=mask), 3 * x + mask)
    torch.testing.assert_close(program(x, mask), 3 * x + mask)
    for given in ({"x": x, "mask": mask}, {"x": x, "mask": mask, "scale": 2.0}):
        with pytest.raises(ModelError, match="when it was exported"):
            program(**given)


def test_results_that_are_numbers_are_returned_as_they_are():
    """Sizes beside tokens, as backbones of images return them."""
    f = lambda x: (x.flatten(1) + 1, x.shape[-1], {"shape": x.shape, "name": "tokens", "scale": 0.5, "none": None, "last": x[-1]})
    x = torch.randn(2, 3, 4)
    got, want = autocomp.optimize(Apply(f).eval(), example_inputs=(x,), cache=False)(x), f(x)
    assert torch.equal(got[0], want[0]) and got[1] == 4 and torch.equal(got[2].pop("last"), want[2].pop("last"))
    assert got[2] == {**want[2], "shape": type(got[2]["shape"])(want[2]["shape"])}
