"""The CPU workloads: torch modules with random weights; ours and onnxruntime take the ONNX file that torch exports from them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import benchmarks.cpu_networks as net

WIDTHS = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # ResNet-50: inner channels, blocks, stride of the first


@dataclass(frozen=True)
class Workload:
    """`make(torch)` gives (module, arguments). flops and bytes are those that no program can avoid (0 flops: not bound by them)."""

    make: Callable[[Any], tuple[Any, tuple[Any, ...]]]
    flops: float = 0
    bytes: float = 0
    quantised: str = ""  # "qdq" or "qlinear": onnxruntime's quantiser makes it of the f32 model; "qdq7": with weights of 7 bits


def onnx_bytes(torch: Any, module: Any, args: tuple[Any, ...]) -> bytes:
    """The module as an ONNX model with its arguments' shapes, inputs named x0, x1, ..."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [f"x{i}" for i in range(len(args))]
        torch.onnx.export(module, args, out, input_names=names, dynamo=False, opset_version=17, do_constant_folding=True)
    return out.getvalue()


def quantised(model: bytes, arrays: list[Any], form: str) -> bytes:
    """The model with 8-bit weights and activations, calibrated on these inputs: nodes between quantisations, or fused (QLinearConv, ..).
    Weights of 7 bits are what onnxruntime asks for (`reduce_range`) where a processor's products of bytes saturate."""
    import logging
    import tempfile
    from pathlib import Path

    from onnxruntime import quantization as q

    class Once(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = [{f"x{i}": a for i, a in enumerate(arrays)}]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        first, clean, last = (Path(folder) / n for n in ("f32.onnx", "clean.onnx", "i8.onnx"))
        first.write_bytes(model)
        q.quant_pre_process(first, clean, skip_symbolic_shape=True)
        way = q.QuantFormat.QDQ if form.startswith("qdq") else q.QuantFormat.QOperator
        q.quantize_static(clean, last, Once(), quant_format=way, per_channel=True, activation_type=q.QuantType.QUInt8,
                          reduce_range=form.endswith("7"))  # fmt: skip
        return last.read_bytes()


def _function(torch: Any, f: Callable[..., Any], **weights: Any) -> Any:
    """A module whose forward is f(module, *args), with these tensors as its parameters."""
    module = type("Function", (torch.nn.Module,), {"forward": f})()
    for name, w in weights.items():
        module.register_parameter(name, torch.nn.Parameter(w, requires_grad=False))
    return module


def _gemm(n: int = 1024) -> Workload:
    return Workload(lambda t: (_function(t, lambda m, x: x @ m.w, w=t.randn(n, n)), (t.randn(n, n),)), 2 * n**3, 12 * n * n)


def _gemm_gelu(m: int = 512, n: int = 3072, k: int = 768) -> Workload:
    def make(t: Any) -> Any:
        f = lambda self, x: t.nn.functional.gelu(x @ self.w + self.b)
        return _function(t, f, w=t.randn(k, n) / k**0.5, b=t.randn(n)), (t.randn(m, k),)

    return Workload(make, 2 * m * n * k, 4 * (m * k + k * n + m * n))


def _softmax(m: int = 4096, n: int = 1024) -> Workload:
    return Workload(lambda t: (_function(t, lambda self, x: t.softmax(x, -1)), (t.randn(m, n),)), 0, 8 * m * n)


def _layer_norm(m: int = 4096, n: int = 768) -> Workload:
    return Workload(lambda t: (t.nn.LayerNorm(n), (t.randn(m, n),)), 0, 8 * m * n)


def _pointwise(n: int = 1 << 22) -> Workload:
    def make(t: Any) -> Any:
        f = lambda self, x, y: t.nn.functional.gelu(x * y + 1.0) * 0.5 + t.tanh(y)
        return _function(t, f), (t.randn(n), t.randn(n))

    return Workload(make, 0, 12 * n)


def _conv(c: int = 256, size: int = 14) -> Workload:
    def make(t: Any) -> Any:
        nn = t.nn
        norm = nn.BatchNorm2d(c)
        norm.running_var.uniform_(0.5, 1.5)
        return nn.Sequential(nn.Conv2d(c, c, 3, padding=1, bias=False), norm, nn.ReLU()), (t.randn(1, c, size, size),)

    return Workload(make, 2 * 9 * c * c * size * size, 4 * (9 * c * c + 2 * c * size * size))


def _attention(heads: int = 12, s: int = 512, d: int = 64) -> Workload:
    def make(t: Any) -> Any:
        f = lambda self, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v)
        return _function(t, f), tuple(t.randn(1, heads, s, d) for _ in range(3))

    return Workload(make, 4 * heads * s * s * d, 16 * heads * s * d)


def _resnet50(t: Any) -> Any:
    nn = t.nn

    def conv(i: int, o: int, k: int, stride: int) -> Any:
        norm = nn.BatchNorm2d(o)
        norm.weight.data.uniform_(0.2, 0.5)
        return nn.Sequential(nn.Conv2d(i, o, k, stride, k // 2, bias=False), norm)

    class Bottleneck(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, i: int, width: int, stride: int) -> None:
            super().__init__()
            self.a, self.b, self.c = conv(i, width, 1, 1), conv(width, width, 3, stride), conv(width, 4 * width, 1, 1)
            self.skip = conv(i, 4 * width, 1, stride) if i != 4 * width or stride > 1 else nn.Identity()

        def forward(self, x: Any) -> Any:
            return t.relu(self.c(t.relu(self.b(t.relu(self.a(x))))) + self.skip(x))

    layers, channels = [conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, stride in WIDTHS:
        for block in range(count):
            layers.append(Bottleneck(channels, width, stride if block == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)), (t.randn(1, 3, 224, 224),)


def _bert(t: Any, layers: int = 12, s: int = 128) -> Any:
    from benchmarks.gpu_models import bert

    return bert(t, layers), (t.randint(0, 30522, (1, s)),)


def _llama(t: Any, s: int = 128, width: int = 1024, heads: int = 16, kv: int = 4, inner: int = 2816) -> Any:
    nn, nf, d = t.nn, t.nn.functional, width // heads
    linear = lambda i, o: nn.Linear(i, o, bias=False)

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.o = linear(width, width), linear(width, kv * d), linear(width, kv * d), linear(width, width)
            self.gate, self.up, self.down = linear(width, inner), linear(width, inner), linear(inner, width)
            self.n1, self.n2 = nn.Parameter(t.ones(width)), nn.Parameter(t.ones(width))
            angle = t.outer(t.arange(s).float(), 10000.0 ** (-t.arange(0, d, 2) / d)).repeat(1, 2)
            self.register_buffer("cos", angle.cos())
            self.register_buffer("sin", angle.sin())
            self.register_buffer("causal", t.full((s, s), -1e9).triu(1))

        def norm(self, x: Any, g: Any) -> Any:
            return x * t.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * g

        def rotate(self, x: Any) -> Any:
            low, high = x[..., : d // 2], x[..., d // 2 :]
            return x * self.cos + t.cat((-high, low), -1) * self.sin

        def forward(self, x: Any) -> Any:
            y = self.norm(x, self.n1)
            split = lambda v, n: v.view(1, s, n, d).transpose(1, 2)
            q, k, v = self.rotate(split(self.q(y), heads)), self.rotate(split(self.k(y), kv)), split(self.v(y), kv)
            k, v = (z[:, :, None].expand(1, kv, heads // kv, s, d).reshape(1, heads, s, d) for z in (k, v))
            a = nf.scaled_dot_product_attention(q, k, v, attn_mask=self.causal)
            x = x + self.o(a.transpose(1, 2).reshape(1, s, width))
            y = self.norm(x, self.n2)
            return x + self.down(nf.silu(self.gate(y)) * self.up(y))

    return Block(), (t.randn(1, s, width),)


_BERT_LAYER = 2 * 128 * 768 * 768 * 12 + 4 * 128 * 128 * 768
_LLAMA = 2 * 128 * 1024 * (1024 + 512 + 1024 + 3 * 2816) + 4 * 128 * 128 * 1024
WORKLOADS: dict[str, Workload] = {
    "resnet50": Workload(_resnet50, 8.18e9, 4 * 25.6e6),
    "bert": Workload(_bert, 12 * _BERT_LAYER, 12 * 4 * 12 * 768 * 768),
    "llama_block": Workload(_llama, _LLAMA, 4 * 1024 * (2560 + 3 * 2816)),
    "gemm": _gemm(),
    "softmax": _softmax(),
    "layer_norm": _layer_norm(),
    "gemm_gelu": _gemm_gelu(),
    "pointwise": _pointwise(),
    "conv_bn_relu": _conv(),
    "attention": _attention(),
    "resnet18": Workload(net.resnet18, 3.6e9, 4 * 11.7e6),
    "squeezenet": Workload(net.squeezenet, 0.70e9, 4 * 1.2e6),
    "mobilenet": Workload(net.mobilenet, 0.43e9, 4 * 5.5e6),
    "efficientnet": Workload(net.efficientnet, 0.78e9, 4 * 5.3e6),
    "gpt2": Workload(net.gpt2, 2 * 64 * (4 * 12 + 10.7) * 768 * 768, 4 * (4 * 12 + 10.7) * 768 * 768),
    "gemma": Workload(net.gemma, 2 * 32 * 4 * 6.3e6, 4 * 4 * 6.3e6),
    "vit": Workload(net.vit, 2 * 196 * 6 * 12 * 384 * 384, 4 * 6 * 12 * 384 * 384),
    "mlp": Workload(net.mlp, 2 * 64 * 9.4e6, 4 * 9.4e6),
    "resnet18_qdq": Workload(net.resnet18, quantised="qdq"),
    "resnet18_qlinear": Workload(net.resnet18, quantised="qlinear"),
    "resnet18_qdq7": Workload(net.resnet18, quantised="qdq7"),
    "mobilenet_qdq": Workload(net.mobilenet, quantised="qdq"),
    "mobilenet_qdq7": Workload(net.mobilenet, quantised="qdq7"),
    "mlp_qdq": Workload(net.mlp, quantised="qdq"),
    "mlp_qdq7": Workload(net.mlp, quantised="qdq7"),
    "mlp_qlinear": Workload(net.mlp, quantised="qlinear"),
}
