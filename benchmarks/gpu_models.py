"""Whole models as torch modules, with random weights."""

from __future__ import annotations

from typing import Any


def bert(torch: Any, layers: int = 12, width: int = 768, heads: int = 12) -> Any:
    """BERT-base's encoder: embeddings, post-norm layers with fused attention, no pooler."""
    nn, nf = torch.nn, torch.nn.functional

    class Layer(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            b, s, h = x.shape
            q, k, v = self.qkv(x).view(b, s, 3, heads, h // heads).permute(2, 0, 3, 1, 4).unbind(0)
            a = nf.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, h)
            x = self.n1(x + self.o(a))
            return self.n2(x + self.down(nf.gelu(self.up(x))))

    class Bert(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place, self.norm = nn.Embedding(30522, width), nn.Embedding(512, width), nn.LayerNorm(width)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))

        def forward(self, ids: Any) -> Any:
            x = self.norm(self.token(ids) + self.place.weight[: ids.shape[1]])
            for layer in self.layers:
                x = layer(x)
            return x

    return Bert()
