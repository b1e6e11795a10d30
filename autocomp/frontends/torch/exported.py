"""Modules -> decomposed exported programs, with what torch says where it cannot made errors of this package."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import lru_cache, partial, wraps
from pathlib import Path
from textwrap import shorten
from typing import Any

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.torch.call import ATEN, TABLE, name_of
from autocomp.frontends.torch.checks import unraised

KEPT = ("scaled_dot_product_attention.default", "linear.default", "silu.default", "layer_norm.default", "rms_norm.default", "softmax.int",
        "matmul.default", "masked_fill.Scalar", "stack.default", "roll.default", "unbind.int", "split.Tensor", "chunk.default",
        "log_softmax.int", "pad.default", "linalg_cross.default",
        "batch_norm.default", "tril.default", "triu.default", "softplus.default", "leaky_relu.default", "hardtanh.default",
        "upsample_linear1d.vec", "upsample_trilinear3d.vec", "upsample_bicubic2d.vec", "upsample_nearest1d.vec", "upsample_nearest3d.vec",
        "col2im.default", "select_scatter.default", "multilabel_margin_loss.default", "lstm.input",
        "gru.input", "rnn_tanh.input", "rnn_relu.input",
        "_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec")  # fmt: skip
TRANSFORMS = ("torch._functorch", "torch._C._functorch", "torch.func", "torch.autograd")
PURE = "take the state as an input and return the new one"


def export(module: Any, examples: Sequence[Any], named: Mapping[str, Any] | None = None) -> Any:
    """The module as an ExportedProgram, on examples (`named`: of keyword arguments) that are each an input of its own.

    torch takes arguments that are one object for one input (also a parameter that is passed as an argument), and the program would
    read the last of them for all. Raises ModelError where torch cannot export it, UnsupportedOp where it assigns to its attributes.
    """
    import torch
    from torch.utils._pytree import tree_map_only

    name, module = type(module).__name__, _held(module)
    apart = tree_map_only(torch.Tensor, lambda x: x.detach(), (tuple(examples), dict(named or {})))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            with _traceable(), unraised():
                program = torch.export.export(module, *apart)
                if _transforms(program):
                    program = _traced(module, *apart)
        except Exception as e:
            if (program := _tried(module, *apart)) is not None:
                return program
            if unknown := re.search(r"<class '[\w.<>]*?(\w+)'> in (input|output), which is not a known type", str(e)):
                raise ModelError(f"torch does not know which tensors a {unknown[1]} holds, which is an {unknown[2]}", where=name,
                                 hint=f"torch.export.register_dataclass({unknown[1]}), or register_pytree_node of torch.utils._pytree, "
                                      "once before") from e  # fmt: skip
            raise ModelError(f"torch cannot export it: {_first_line(e)}", where=f"{name}{_own_line(e)}",
                             hint="torch.export.export(module, example_inputs) shows torch's own report; torch.compile(module, "
                                  "backend='autocomp') takes much that it does not") from e  # fmt: skip
    for w in said:
        if "assigned during export" in str(w.message):
            if not _changed(module, apart, str(w.message)):
                continue
            if _forgets(module, apart):  # what it leaves behind, no later call reads: the program does not set it, as torch says
                warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
                continue
            raise UnsupportedOp(f"the module changes itself: {_first_line(w.message).partition('. ')[0]}", where=name, hint=PURE)
        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    return program


def _held(module: Any) -> Any:
    """The module; where it has a parameter, a buffer or a part by a name of `torch.fx.GraphModule`'s own (`code`, `graph`, `meta`), which
    is what torch decomposes, one that holds it."""
    import torch

    own = (name for named in (module._parameters, module._buffers, module._modules) for name in named)
    if not any(hasattr(torch.fx.GraphModule, name) or name == "meta" for name in own):
        return module
    holder = torch.nn.Module().train(module.training)
    holder.held = module
    holder.forward = wraps(module.forward)(lambda *args, **named: module(*args, **named))
    return holder


def by_name(module: Any, examples: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Examples by position, and by keyword: one dict whose keys are names of the module's arguments, all that it needs, gives them by
    name. A module of one argument takes a dict as that argument."""
    from inspect import signature

    (first, *rest) = examples or (None,)
    if rest or not isinstance(first, Mapping) or not first or not all(isinstance(k, str) for k in first):
        return tuple(examples), {}
    asked = signature(module.forward)
    try:
        asked.bind(**first)
    except TypeError:
        return tuple(examples), {}
    taken = [p for p in asked.parameters.values() if p.kind is not p.VAR_KEYWORD]
    if len(taken) < 2 or not set(first) <= {p.name for p in taken}:
        return tuple(examples), {}
    return (), {p.name: first[p.name] for p in taken if p.name in first}  # inputs in the order of the module's arguments


def _tried(module: Any, examples: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """`_traced`, or as torch exports it by reading its code (a branch of torch.cond behind a loop); None where torch refuses that too: what
    torch says of its export then names the module's own lines."""
    import torch

    with _traceable(), unraised():
        try:
            return _traced(module, examples, named)
        except UnsupportedOp:
            raise
        except Exception:
            pass
        try:
            return torch.export.export(module, examples, named, strict=True)
        except Exception:
            return None


def _transforms(program: Any) -> bool:
    """Whether a program calls torch's transforms of functions."""
    return any(str(getattr(n.target, "__module__", "")).startswith(TRANSFORMS) for n in program.graph.nodes)


def zeros_in_memory() -> dict[Any, Callable[..., Any]]:
    """Tangents that are zero (jvp, hessian), of which torch makes tensors without memory (in tracing of the device `meta`), as zeros."""
    import torch

    return {torch.ops.aten._efficientzerotensor.default: lambda size, **named: torch.ops.aten.zeros.default(size, **named)}


def _traced(module: Any, examples: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A module that takes gradients or maps functions by itself (torch.func, torch.autograd.grad), as a program of the operators that it
    calls meanwhile: torch.export keeps such transforms as calls, which nothing decomposes. Tensors without elements run through it, so that
    a choice by an element raises, as in torch.export. Raises UnsupportedOp where attributes of the module are others behind it."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    before = [(m, dict(vars(m)), dict(m._parameters), dict(m._buffers)) for m in module.modules()]
    with torch.enable_grad():
        graph = make_fx(module, decomposition_table=zeros_in_memory(), tracing_mode="fake", _allow_non_fake_inputs=True)(*examples)
    changed = False
    for m, *kept in before:
        for mine, was in zip((vars(m), m._parameters, m._buffers), kept, strict=True):
            changed |= {k: id(v) for k, v in mine.items()} != {k: id(v) for k, v in was.items()}
            mine.clear()
            mine.update(was)
    if changed:
        raise UnsupportedOp("the module changes itself", where=type(module).__name__, hint=PURE)
    return torch.export.export(graph, examples)


@contextmanager
def _traceable() -> Iterator[None]:
    """While torch traces, last states of an LSTM have the shape of the first ones (torch up to 2.12 traces layers that are not oneDNN's
    with one dimension more, `hx.squeeze(1)` behind `unsqueeze(0)` in torch/_decomp/decompositions.py, and every shape behind is wrong),
    layers of nn.Transformer do not ask whether the elements of their mask are those of a causal one, which is a hint alone, and
    torch.distributions does not ask whether its arguments are valid, as under torch.compile (one asked for by validate_args=True does)."""
    from importlib import import_module

    decompositions: Any = import_module("torch._decomp.decompositions")
    transformer: Any = import_module("torch.nn.modules.transformer")
    distribution: Any = import_module("torch.distributions").Distribution
    layer, asked, checked = decompositions.one_layer_lstm, transformer._detect_is_causal_mask, distribution._validate_args

    def shaped(x: Any, hidden: Any, *args: Any, **kwargs: Any) -> Any:
        out, states = layer(x, hidden, *args, **kwargs)
        return out, tuple(s.reshape(h.shape) for s, h in zip(states, hidden, strict=True))

    decompositions.one_layer_lstm = shaped
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    distribution._validate_args = False
    from autocomp.frontends.torch.written import Written

    try:
        with Written():
            yield
    finally:
        decompositions.one_layer_lstm, transformer._detect_is_causal_mask, distribution._validate_args = layer, asked, checked


def _changed(module: Any, arguments: tuple[tuple[Any, ...], dict[str, Any]], said: str) -> bool:
    """Whether what is in the attributes of which torch says that they were assigned depends on calls: copies of the module are called
    once, twice, and with other elements. What is the same after each is computed from the module alone: a table that the first call
    makes and later ones read. Lists of a module's own parameters (nn.LSTM has one) are assigned whenever export puts others in their
    place."""
    import torch

    names = re.findall(r"self\.((?:\w|\.\w|\[\w+\]|\['[^']*'\])+)", said.partition("assigned during export")[0])
    others = _others(arguments)

    def after(*calls: Any) -> list[Any]:
        mine = copied(module)
        with torch.no_grad():
            for args, kwargs in calls:
                mine(*args, **kwargs)
        return [_attribute(mine, n).detach() for n in names]

    try:
        found = after(arguments)
        return not names or any(a.shape != b.shape or not torch.equal(a, b) for c in ((arguments, arguments), (others,))
                                for a, b in zip(found, after(*c), strict=True))  # fmt: skip
    except Exception:  # what cannot be called or copied is not known to stay as it is
        return True


def copied(module: Any) -> Any:
    """A copy of a module, also of one that keeps tensors which it computed with gradients (a weight of torch.nn.utils.weight_norm)."""
    import torch

    computed = [x for m in module.modules() for x in vars(m).values() if isinstance(x, torch.Tensor) and not x.is_leaf]
    return deepcopy(module, {id(x): x.detach().clone() for x in computed})


def _forgets(module: Any, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> bool:
    """Whether a call gives the same results, bit by bit, after a call with other elements and without one: what calls assign (the
    correlations of RAFT) is made anew by each before it is read."""
    import torch
    from torch.utils._pytree import tree_leaves

    def last(*calls: Any) -> list[Any]:
        mine = copied(module)
        with torch.no_grad():
            return tree_leaves([mine(*args, **kwargs) for args, kwargs in calls][-1])

    def same(x: Any, y: Any) -> bool:
        if not isinstance(x, torch.Tensor):
            return x is y or bool(x == y)
        return x.shape == y.shape and bool(((x == y) | ((x != x) & (y != y))).all())

    others = _others(arguments)
    try:
        pairs = [(last(then), last(first, then)) for first, then in ((others, arguments), (arguments, others))]
        return all(len(x) == len(y) and all(map(same, x, y)) for x, y in pairs)
    except Exception:
        return False


def _others(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of the same shapes and types with other elements, of the same range."""
    import torch
    from torch.utils._pytree import tree_map_only

    changed = lambda x: (x * 0.5 + 0.25 if x.is_floating_point() else x).flip([*range(x.dim())])
    return tree_map_only(torch.Tensor, changed, arguments)  # type: ignore[no-any-return]


def _attribute(module: Any, path: str) -> Any:
    """The tensor under `a.b[0]['c']`."""
    x = module
    for name, index, key in re.findall(r"(\w+)|\[(\w+)\]|\['([^']*)'\]", path):
        x = getattr(x, name) if name else x[int(index)] if index.isdigit() else x[key or index]
    return x


def decompose(program: Any, name: str) -> Any:
    """The program in ATen's core operators and those of KEPT, each result new. Raises ModelError or UnsupportedOp with torch's reason."""
    import torch

    check_apart(program, name)
    implicit = tuple(torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"))
    libraries = composites(program)
    try:
        with warnings.catch_warnings(), _traceable():
            warnings.simplefilter("ignore")  # torch about its own trees, which it copies here
            if libraries:
                with suppress(Exception):  # one that asks for elements stays, and is refused by its name
                    return _decompositions(implicit, libraries)(program)
            return _decompositions(implicit, ())(program)
    except Exception as e:
        writer = next(_writers(program), None)
        if writer is not None:
            spec, node = writer
            written = spec.target or spec.arg.name
            raise UnsupportedOp(f"'{written}' is changed in place by {node.target}", where=place_of(node) or name, hint=PURE) from e
        if _transforms(program):
            raise UnsupportedOp("an exported program keeps gradients and maps of functions (torch.func) as calls", where=name,
                                hint="give the module itself: optimize(module, example_inputs=(x, ..))") from e  # fmt: skip
        raise ModelError(f"torch cannot decompose it: {_first_line(e)}", where=name,
                         hint="torch.export.export(..).run_decompositions() shows torch's own report") from e  # fmt: skip


def composites(program: Any) -> tuple[Any, ...]:
    """Operators of libraries, in a program of torch's, that are written with others, as their one kernel for all devices: what a program's
    author made with torch.library, or pt2e's quantisation writes. Without those that have rows."""
    import torch

    def written(op: Any) -> bool:
        has = partial(torch._C._dispatch_has_kernel_for_dispatch_key, op.name())
        return has("CompositeExplicitAutograd") and not has("CPU") and not has("CUDA") and name_of(op) not in TABLE

    targets = {n.target for n in program.graph.nodes if getattr(n.target, "namespace", ATEN[0]) not in ATEN}
    return tuple(sorted((t for t in targets if isinstance(t, torch._ops.OpOverload) and written(t)), key=str))


def composed(op: Any) -> Callable[..., Any]:
    """What an operator of `composites` does, with the operators that it is written with."""
    import torch

    return partial(op._op_dk, torch._C.DispatchKey.CompositeExplicitAutograd)


@lru_cache(maxsize=4)
def _decompositions(_composite: tuple[str, ...], libraries: tuple[Any, ...]) -> Callable[[Any], Any]:
    """What decomposes a program: torch's own decompositions without those of KEPT, and operators of `libraries` (`composites`). It looks
    through all operators that there are to make the table, so it is made once for the operators that have a decomposition of their own
    now: libraries that are imported later may bring others."""
    import torch

    table = torch.export.default_decompositions()
    for kept in KEPT:
        op, _, overload = kept.partition(".")
        table.pop(getattr(getattr(torch.ops.aten, op), overload), None)
    whole = dict(table.items()) | {op: composed(op) for op in libraries}
    return _prepared(whole) or (lambda program: program.run_decompositions(whole))


def _prepared(table: Mapping[Any, Any]) -> Callable[[Any], Any] | None:
    """`run_decompositions(table)` less what it does for every program anew (0.2 s): it looks through all operators once for each namespace,
    and registers some 20 kernels for each of 500 composite ones, twice, nearly all to say that the dispatcher decomposes them, as it
    does by itself. Made of torch's own steps; None where this torch has others."""
    from importlib import import_module
    from inspect import signature

    torchs: Any = import_module("torch.export.exported_program")
    try:
        split, steps = torchs._split_decomp_table_to_cia_and_python_decomp, torchs._decompose_exported_program
        plain, apart = torchs._get_decomp_for_cia, torchs._disable_prexisiting_fake_mode
    except AttributeError:
        return None
    if {*signature(steps).parameters} != {"ep", "cia_to_decomp", "python_decomp_table", "joint_loss_index", "decompose_custom_triton_ops"}:
        return None
    composite, others = split(dict(table))
    own = {op: f for op, f in composite.items() if not _by_dispatcher(f, plain(op))}
    return apart(lambda program: steps(program, cia_to_decomp=own, python_decomp_table=dict(others), joint_loss_index=None,  # type: ignore[no-any-return]
                                       decompose_custom_triton_ops=False))  # fmt: skip


def _by_dispatcher(decomposition: Any, plain: Any) -> bool:
    """Whether a decomposition is torch's way to ask the dispatcher for one (`plain`: the one of its operator)."""
    return isinstance(decomposition, partial) and isinstance(plain, partial) and decomposition.func.__code__ is plain.func.__code__


def check_apart(program: Any, name: str) -> None:
    """Raises ModelError where the program was exported on arguments that were one tensor: it reads one input where there were two."""
    import torch
    from torch.export.graph_signature import InputKind
    from torch.utils._pytree import tree_leaves

    if program.example_inputs is None:
        return
    given = [s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    owner: dict[int, str] = {}  # by identity, as torch does it
    for s in program.graph_signature.input_specs:
        if s.kind in (InputKind.PARAMETER, InputKind.BUFFER) and s.target in program.state_dict:
            owner.setdefault(id(program.state_dict[s.target]), s.arg.name)
    for s, value in zip(given, tree_leaves(program.example_inputs)):
        if isinstance(value, torch.Tensor) and hasattr(s.arg, "name") and (other := owner.setdefault(id(value), s.arg.name)) != s.arg.name:
            raise ModelError(f"'{other}' and '{s.arg.name}' were one tensor when it was exported, so that it reads one of them for both",
                             where=name, hint="export it on tensors of their own: x.clone()")  # fmt: skip


def _writers(program: Any) -> Iterator[tuple[Any, Any]]:
    """What writes into an input, a buffer or a constant: (its spec, the node), through views too."""
    specs = {s.arg.name: s for s in program.graph_signature.input_specs if hasattr(s.arg, "name")}
    base: dict[Any, Any] = {n: specs[n.name] for n in program.graph.nodes if n.op == "placeholder" and n.name in specs}
    for n in program.graph.nodes:
        schema = getattr(n.target, "_schema", None)
        if schema is None:
            continue
        for arg, value in zip(schema.arguments, n.args):
            if hasattr(value, "users") and value in base:
                if arg.alias_info is not None and arg.alias_info.is_write:
                    yield base[value], n
                elif arg.alias_info is not None:
                    base[n] = base[value]


def place_of(node: Any) -> str:
    """Where in the module a node comes from: 'layers.0.attention (view_3)'."""
    stack = node.meta.get("nn_module_stack") or {}
    path = next(reversed([p for p, _ in stack.values()]), "") if stack else ""
    return f"{path} ({node.name})" if path else str(node.name)


def _first_line(e: object) -> str:
    return next((line.strip() for line in str(e).splitlines() if line.strip()), type(e).__name__)


def _own_line(e: object) -> str:
    """The module's line at which torch gave up, where it says so: ", model.py:7 in forward `if x.sum() > 0:`"."""
    said = re.search(r'The following call raised this error:\s+File "([^"]+)", line (\d+), in (\w+)(?:\n[ \t]+(\S.*))?', str(e))
    return f", {Path(said[1]).name}:{said[2]} in {said[3]}" + (f" `{shorten(said[4], 100)}`" if said[4] else "") if said else ""
