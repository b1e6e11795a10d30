"""torch.nn's own layers, and nets of them that people write by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.architectures.table import Built, add


def module(forward: Callable[..., Any], **parts: Any) -> Any:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, *xs: Any) -> Any:
            return forward(self, *xs)

    return Net()


def nn_row(name: str, build: Callable[[Any, Any], Built]) -> None:
    def made() -> Built:
        import torch

        return build(torch, torch.nn)

    add("torch", name, made)


def _unet(torch: Any, nn: Any) -> Built:
    block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU())

    def forward(net: Any, x: Any) -> Any:
        a = net.a(x)
        b = net.b(nn.functional.max_pool2d(a, 2))
        up = nn.functional.interpolate(net.c(b), scale_factor=2.0, mode="bilinear", align_corners=False)
        return net.d(torch.cat([a, up], 1))

    return Built(
        module(forward, a=block(3, 8), b=block(8, 16), c=nn.ConvTranspose2d(16, 16, 3, padding=1), d=block(24, 4)),
        (torch.randn(1, 3, 32, 32),),
    )


def _gan(torch: Any, nn: Any) -> Built:
    up = lambda i, o: (nn.ConvTranspose2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
    net = nn.Sequential(nn.ConvTranspose2d(16, 32, 4, bias=False), *up(32, 16), *up(16, 8), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())
    return Built(net, (torch.randn(2, 16, 1, 1),))


def _tcn(torch: Any, nn: Any) -> Built:
    layers = [nn.Sequential(nn.ConstantPad1d((2 * d, 0), 0.0), nn.Conv1d(8, 8, 3, dilation=d), nn.ReLU()) for d in (1, 2, 4)]

    def forward(net: Any, x: Any) -> Any:
        for layer in net.layers:
            x = x + layer(x)
        return x.mean(-1)

    return Built(module(forward, layers=nn.ModuleList(layers)), (torch.randn(2, 8, 20),))


def _moe(torch: Any, nn: Any) -> Built:
    """Experts of which each token takes the best two, all computed and weighted."""

    def forward(net: Any, x: Any) -> Any:
        p, chosen = torch.softmax(net.gate(x), -1).topk(2)
        weight = torch.zeros(*x.shape[:-1], 4, dtype=x.dtype).scatter(-1, chosen, p / p.sum(-1, keepdim=True))
        return sum(weight[..., i : i + 1] * e(x) for i, e in enumerate(net.experts))

    return Built(
        module(forward, gate=nn.Linear(16, 4), experts=nn.ModuleList(nn.Linear(16, 16) for _ in range(4))), (torch.randn(2, 5, 16),)
    )


def _graph(torch: Any, nn: Any) -> Built:
    """A graph convolution on a list of edges, added up at their ends."""

    def forward(net: Any, x: Any, edges: Any) -> Any:
        h = net.a(x)
        h = torch.relu(torch.zeros_like(h).index_add(0, edges[1], h[edges[0]]))
        return net.b(h)

    return Built(module(forward, a=nn.Linear(8, 16), b=nn.Linear(16, 4)), (torch.randn(10, 8), torch.randint(0, 10, (2, 24))))


nn_row(
    "mlp", lambda torch, nn: Built(nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10)), (torch.randn(4, 16),))
)
nn_row(
    "lenet",
    lambda torch, nn: Built(
        nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.Sigmoid(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.Sigmoid(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.Sigmoid(),
            nn.Linear(120, 10),
        ),
        (torch.randn(2, 1, 28, 28),),
    ),
)
nn_row("lstm", lambda torch, nn: Built(nn.LSTM(8, 16, batch_first=True), (torch.randn(2, 20, 8),)))
nn_row("lstm_two_layers_both_ways", lambda torch, nn: Built(nn.LSTM(8, 12, num_layers=2, bidirectional=True), (torch.randn(9, 2, 8),)))
nn_row("lstm_projected", lambda torch, nn: Built(nn.LSTM(8, 16, proj_size=6, batch_first=True), (torch.randn(2, 7, 8),)))
nn_row("gru", lambda torch, nn: Built(nn.GRU(8, 16, batch_first=True), (torch.randn(2, 20, 8),)))
nn_row("rnn", lambda torch, nn: Built(nn.RNN(8, 16, nonlinearity="relu"), (torch.randn(12, 2, 8),)))
nn_row("lstm_cell", lambda torch, nn: Built(nn.LSTMCell(8, 16), (torch.randn(2, 8), (torch.randn(2, 16), torch.randn(2, 16)))))
nn_row(
    "multihead_attention",
    lambda torch, nn: Built(nn.MultiheadAttention(32, 4, batch_first=True), (*(torch.randn(2, 7, 32) for _ in range(3)),)),
)
nn_row(
    "transformer",
    lambda torch, nn: Built(nn.Transformer(32, 4, 2, 2, 64, batch_first=True), (torch.randn(2, 7, 32), torch.randn(2, 5, 32))),
)
nn_row(
    "transformer_encoder",
    lambda torch, nn: Built(
        nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2, enable_nested_tensor=False),
        (torch.randn(2, 7, 32),),
    ),
)
nn_row(
    "transformer_decoder_causal",
    lambda torch, nn: Built(
        nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 64, batch_first=True, norm_first=True), 2),
        (torch.randn(2, 7, 32), torch.randn(2, 5, 32), nn.Transformer.generate_square_subsequent_mask(7)),
    ),
)
nn_row(
    "conv3d_net",
    lambda torch, nn: Built(
        nn.Sequential(
            nn.Conv3d(3, 8, 3, padding=1),
            nn.BatchNorm3d(8),
            nn.ReLU(),
            nn.MaxPool3d(2),
            nn.Conv3d(8, 8, 3),
            nn.AdaptiveAvgPool3d(1),
            nn.Flatten(),
            nn.Linear(8, 4),
        ),
        (torch.randn(1, 3, 8, 12, 12),),
    ),
)
nn_row("unet", _unet)
nn_row("gan_generator", _gan)
nn_row("temporal_convolutions", _tcn)
nn_row("mixture_of_experts", _moe)
nn_row("graph_convolution", _graph)
nn_row("embedding_bag", lambda torch, nn: Built(nn.EmbeddingBag(50, 8, mode="mean"), (torch.randint(0, 50, (4, 6)),)))
nn_row(
    "pixel_shuffle",
    lambda torch, nn: Built(
        nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.PReLU(), nn.Conv2d(16, 12, 3, padding=1), nn.PixelShuffle(2)),
        (torch.randn(1, 3, 16, 16),),
    ),
)
