"""Kinds of nets that no library of those here has, each as its paper writes it: one layer or two, small."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.plain import module, nn_row
from benchmarks.architectures.table import Built


def _fourier_mixing(torch: Any, nn: Any) -> Built:
    """FNet: tokens are mixed by a Fourier transform over both axes, of which the real part stays."""

    def forward(net: Any, x: Any) -> Any:
        y = net.first(x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real)
        return net.second(y + net.feed(y))

    feed = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))
    return Built(module(forward, first=nn.LayerNorm(12), second=nn.LayerNorm(12), feed=feed), (torch.randn(2, 10, 12),))


def _long_convolution(torch: Any, nn: Any) -> Built:
    """Hyena: gates around a convolution as long as the sequence, by Fourier transforms of twice its length; its filter is a small net's."""
    n = 20

    def forward(net: Any, x: Any) -> Any:
        v, a, b = net.into(x).mT.chunk(3, 1)
        filter = (net.filter(net.places) * torch.exp(-3 * net.places[:, :1])).mT
        y = torch.fft.irfft(torch.fft.rfft(v * a, 2 * n) * torch.fft.rfft(filter, 2 * n), 2 * n)[..., :n]
        return net.out((y * b).mT)

    net = module(forward, into=nn.Linear(8, 24), filter=nn.Sequential(nn.Linear(5, 16), nn.SiLU(), nn.Linear(16, 8)), out=nn.Linear(8, 8))
    net.register_buffer("places", torch.rand(n, 5))
    return Built(net, (torch.randn(2, n, 8),))


def _retention(torch: Any, nn: Any) -> Built:
    """RetNet: products of queries and keys decay with their distance, with no softmax."""

    def forward(net: Any, x: Any) -> Any:
        b, n, width = x.shape
        q, k, v = net.qkv(x).view(b, n, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        apart = torch.arange(n)[:, None] - torch.arange(n)
        decay = torch.where(apart >= 0, net.rates[:, None, None] ** apart.clamp(min=0), 0.0)
        y = ((q @ k.mT) * (decay / decay.sum(-1, keepdim=True).sqrt()) @ v).transpose(1, 2).reshape(b * n, width)
        return net.out(net.norm(y).view(b, n, width) * nn.functional.silu(net.gate(x)))

    net = module(forward, qkv=nn.Linear(16, 48), gate=nn.Linear(16, 16), out=nn.Linear(16, 16), norm=nn.GroupNorm(2, 16))
    net.register_buffer("rates", torch.tensor([0.97, 0.98]))
    return Built(net, (torch.randn(2, 13, 16),))


def _splines(torch: Any, nn: Any) -> Built:
    """KAN: each edge has a function of its own, a sum of cubic B-splines, by de Boor's recursion."""

    def forward(net: Any, x: Any) -> Any:
        x, t = x.tanh(), net.knots
        y = x[..., None]
        basis = ((y >= t[:-1]) & (y < t[1:])).to(x.dtype)
        for k in (1, 2, 3):
            left = (y - t[: -k - 1]) / (t[k:-1] - t[: -k - 1]) * basis[..., :-1]
            basis = left + (t[k + 1 :] - y) / (t[k + 1 :] - t[1:-k]) * basis[..., 1:]
        return net.base(nn.functional.silu(x)) + net.spline(basis.flatten(1))

    net = module(forward, base=nn.Linear(6, 5), spline=nn.Linear(6 * 8, 5, bias=False))
    net.register_buffer("knots", torch.linspace(-2.2, 2.2, 12))
    return Built(net, (torch.randn(7, 6),))


def _deformed(torch: Any, nn: Any) -> Built:
    """A deformable convolution: each tap of each place reads where an offset says, with a weight of its own."""

    def forward(net: Any, x: Any) -> Any:
        _, _, h, w = x.shape
        offsets, gates = net.offsets(x).view(len(x), 9, 2, h, w), net.gates(x).sigmoid()
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        taps = []
        for k in range(9):
            at = torch.stack((columns + k % 3 - 1 + offsets[:, k, 0], rows + k // 3 - 1 + offsets[:, k, 1]), -1)
            at = 2 * at / torch.tensor([w - 1, h - 1]) - 1
            taps.append(nn.functional.grid_sample(x, at, align_corners=True) * gates[:, k : k + 1])
        return net.mixed(torch.cat(taps, 1))

    parts = {"offsets": nn.Conv2d(4, 18, 3, padding=1), "gates": nn.Conv2d(4, 9, 3, padding=1), "mixed": nn.Conv2d(36, 5, 1)}
    return Built(module(forward, **parts), (torch.randn(1, 4, 7, 8),))


def _recommender(torch: Any, nn: Any) -> Built:
    """DLRM: bags of categories and a net of numbers, whose products by pairs another net reads."""
    i, j = torch.tril_indices(4, 4, -1)

    def forward(net: Any, numbers: Any, categories: Any) -> Any:
        x = net.below(numbers)
        all = torch.stack([x, *(e(categories[k]) for k, e in enumerate(net.bags))], 1)
        return net.above(torch.cat([x, (all @ all.mT)[:, i, j]], 1)).sigmoid()

    bags = nn.ModuleList(nn.EmbeddingBag(20, 8, mode="sum") for _ in range(3))
    net = module(forward, below=nn.Linear(5, 8), bags=bags, above=nn.Sequential(nn.Linear(14, 8), nn.ReLU(), nn.Linear(8, 1)))
    return Built(net, (torch.randn(4, 5), torch.randint(0, 20, (3, 4, 2))))


def _codebook(torch: Any, nn: Any) -> Built:
    """VQ-VAE: each place of an image becomes the nearest of sixteen codes."""

    def forward(net: Any, x: Any) -> Any:
        z = net.into(x).permute(0, 2, 3, 1)
        nearest = ((z[..., None, :] - net.codes.weight) ** 2).sum(-1).argmin(-1)
        return net.out(net.codes(nearest).permute(0, 3, 1, 2)), nearest

    into, out = nn.Conv2d(3, 6, 4, 2, 1), nn.ConvTranspose2d(6, 3, 4, 2, 1)
    return Built(module(forward, into=into, codes=nn.Embedding(16, 6), out=out), (torch.randn(2, 3, 12, 12),))


def _radiance(torch: Any, nn: Any) -> Built:
    """NeRF: sines of places along rays, a net of density and colour, and what reaches the eye of each of them."""

    def forward(net: Any, origin: Any, direction: Any) -> Any:
        depth = torch.linspace(2, 6, 12)
        places = origin[:, None] + direction[:, None] * depth[:, None]
        angles = (places[..., None, :] * net.scales[:, None]).flatten(-2)
        density, colour = net.field(torch.cat((places, angles.sin(), angles.cos()), -1)).split([1, 3], -1)
        left = torch.exp(-density[..., 0].relu() * (depth[1] - depth[0]))
        reached = torch.cat((torch.ones_like(left[:, :1]), left.cumprod(-1)[:, :-1]), -1)
        return ((reached * (1 - left))[..., None] * colour.sigmoid()).sum(1)

    net = module(forward, field=nn.Sequential(nn.Linear(27, 16), nn.ReLU(), nn.Linear(16, 4)))
    net.register_buffer("scales", torch.tensor([1.0, 2.0, 4.0, 8.0]))
    return Built(net, (torch.randn(5, 3), torch.randn(5, 3)))


def _capsules(torch: Any, nn: Any) -> Built:
    """Capsules: votes are routed by agreement, three times."""

    def forward(net: Any, x: Any) -> Any:
        votes = torch.einsum("bid,ijdk->bijk", x, net.weights)
        logits = torch.zeros(x.shape[0], 12, 5)
        out = votes[:, 0]
        for _ in range(3):
            out = (logits.softmax(-1)[..., None] * votes).sum(1)
            square = out.pow(2).sum(-1, keepdim=True)
            out = out * square / (1 + square) / (square + 1e-8).sqrt()
            logits = logits + (votes * out[:, None]).sum(-1)
        return out

    net = module(forward)
    net.register_buffer("weights", 0.3 * torch.randn(12, 5, 8, 6))
    return Built(net, (torch.randn(2, 12, 8),))


def _ordinary_differential_equation(torch: Any, nn: Any) -> Built:
    """A neural ODE: four steps of Runge and Kutta over a small field."""

    def forward(net: Any, x: Any) -> Any:
        h = 0.1
        for _ in range(4):
            a = net.field(x)
            b = net.field(x + h / 2 * a)
            c = net.field(x + h / 2 * b)
            x = x + h / 6 * (a + 2 * b + 2 * c + net.field(x + h * c))
        return x

    return Built(module(forward, field=nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 6))), (torch.randn(5, 6),))


def _sinkhorn(torch: Any, nn: Any) -> Built:
    """Attention whose weights are made doubly stochastic, by rows and columns in turns."""

    def forward(net: Any, x: Any) -> Any:
        scores = net.q(x) @ net.k(x).mT
        for _ in range(5):
            scores = scores - scores.logsumexp(-1, keepdim=True)
            scores = scores - scores.logsumexp(-2, keepdim=True)
        return scores.exp() @ x

    return Built(module(forward, q=nn.Linear(4, 4), k=nn.Linear(4, 4)), (torch.randn(2, 9, 4),))


def _graph_attention(torch: Any, nn: Any) -> Built:
    """GAT: nodes attend to their neighbours, whom a matrix names."""

    def forward(net: Any, x: Any, near: Any) -> Any:
        h = net.w(x)
        scores = nn.functional.leaky_relu(net.p(h) + net.q(h).mT, 0.2)
        return nn.functional.elu(torch.where(near > 0, scores, -1e9).softmax(-1) @ h)

    net = module(forward, w=nn.Linear(6, 8), p=nn.Linear(8, 1), q=nn.Linear(8, 1))
    return Built(net, (torch.randn(2, 7, 6), (torch.rand(2, 7, 7) > 0.5).float()))


def _spatial_gating(torch: Any, nn: Any) -> Built:
    """gMLP: half of the channels, mixed along the sequence, is the gate of the other half."""

    def forward(net: Any, x: Any) -> Any:
        u, v = nn.functional.gelu(net.up(x)).chunk(2, -1)
        return x + net.down(u * net.along(net.norm(v).mT).mT)

    net = module(forward, up=nn.Linear(8, 32), norm=nn.LayerNorm(16), along=nn.Linear(11, 11), down=nn.Linear(16, 8))
    return Built(net, (torch.randn(2, 11, 8),))


def _cost_volume(torch: Any, nn: Any) -> Built:
    """PWC-Net: products of one image's features with the other's at 25 places around, and the place that is likeliest."""

    def forward(net: Any, one: Any, other: Any) -> Any:
        a, b = net.features(one), nn.functional.pad(net.features(other), (2, 2, 2, 2))
        h, w = a.shape[-2:]
        costs = torch.stack([(a * b[:, :, i : i + h, j : j + w]).mean(1) for i in range(5) for j in range(5)], 1)
        likely = costs.softmax(1)
        apart = torch.arange(-2, 3.0)
        x, y = apart.repeat(5)[:, None, None], apart.repeat_interleave(5)[:, None, None]
        return torch.stack([(likely * x).sum(1), (likely * y).sum(1)], 1)

    return Built(module(forward, features=nn.Conv2d(3, 4, 3, 2, 1)), (torch.randn(2, 3, 10, 12), torch.randn(2, 3, 10, 12)))


def _complex_rotary(torch: Any, nn: Any) -> Built:
    """Attention as the first Llama wrote it: queries and keys are turned as complex numbers, a table of which is a buffer."""

    def forward(net: Any, x: Any) -> Any:
        b, n, width = x.shape
        q, k, v = net.qkv(x).view(b, n, 3, 2, width // 2).unbind(2)
        turn = net.turns[:n, None]
        q, k = (torch.view_as_real(torch.view_as_complex(y.float().reshape(b, n, 2, -1, 2)) * turn).flatten(3).type_as(x) for y in (q, k))
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        scores = (q @ k.mT) / (width // 2) ** 0.5 + torch.full((n, n), float("-inf")).triu(1)
        return net.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    net = module(forward, qkv=nn.Linear(16, 48), out=nn.Linear(16, 16))
    angles = torch.outer(torch.arange(16.0), 10000 ** -(torch.arange(4) / 4))
    net.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))
    return Built(net, (torch.randn(2, 9, 16),))


def _steps_written_out(torch: Any, nn: Any) -> Built:
    """Elman's net as people write it: a Python loop over the steps, whose last one is read."""

    def forward(net: Any, x: Any) -> Any:
        h = x.new_zeros(x.shape[1], 32)
        for step in x:
            h = torch.tanh(net.hidden(torch.cat([step, h], -1)))
        return net.out(h)

    return Built(module(forward, hidden=nn.Linear(96, 32), out=nn.Linear(32, 5)), (torch.randn(24, 3, 64),))


def _point_sets(torch: Any, nn: Any) -> Built:
    """PointNet++: points that lie far apart, and around each the first ones within a ball; both write where a mask says."""

    def forward(net: Any, x: Any) -> Any:
        b, n, _ = x.shape
        rows, far = torch.arange(b), torch.zeros(b, dtype=torch.long)
        distance, chosen = torch.full((b, n), 1e10, dtype=x.dtype), torch.zeros(b, 4, dtype=torch.long)
        for k in range(4):
            chosen[:, k] = far
            new = ((x - x[rows, far][:, None]) ** 2).sum(-1)
            nearer = new < distance
            distance[nearer] = new[nearer]
            far = distance.max(-1)[1]
        centres = x[rows[:, None], chosen]
        near = torch.arange(n).repeat(b, 4, 1)
        near[torch.cdist(centres, x) > 1.2] = n
        near = near.sort(-1)[0][:, :, :3]
        first = near[:, :, :1].repeat(1, 1, 3)
        near[near == n] = first[near == n]
        return net.local(x[rows[:, None, None], near] - centres[:, :, None]).amax(2)

    return Built(module(forward, local=nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 6))), (torch.randn(2, 12, 3),))


def _experts_by_places(torch: Any, nn: Any) -> Built:
    """Mixtral's experts as their first code has them: each takes the rows that chose it, by their places, and adds to these."""

    def forward(net: Any, x: Any) -> Any:
        rows = x.view(-1, 8)
        weights, which = net.gate(rows).softmax(-1).topk(2, -1)
        out = torch.zeros_like(rows)
        for k, expert in enumerate(net.experts):
            row, choice = torch.where(which == k)
            out.index_add_(0, row, expert(rows[row]) * weights[row, choice, None])
        return out.view(x.shape)

    experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8)) for _ in range(3))
    return Built(module(forward, gate=nn.Linear(8, 3, bias=False), experts=experts), (torch.randn(2, 7, 8),))


nn_row("fourier_mixing", _fourier_mixing)
nn_row("long_convolution", _long_convolution)
nn_row("retention", _retention)
nn_row("spline_network", _splines)
nn_row("deformable_convolution", _deformed)
nn_row("recommender", _recommender)
nn_row("codebook", _codebook)
nn_row("radiance_field", _radiance)
nn_row("capsules", _capsules)
nn_row("ordinary_differential_equation", _ordinary_differential_equation)
nn_row("sinkhorn_attention", _sinkhorn)
nn_row("graph_attention", _graph_attention)
nn_row("spatial_gating", _spatial_gating)
nn_row("cost_volume", _cost_volume)
nn_row("complex_rotary", _complex_rotary)
nn_row("steps_written_out", _steps_written_out)
nn_row("point_sets", _point_sets)
nn_row("experts_by_places", _experts_by_places)
