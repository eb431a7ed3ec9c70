"""Networks of PyTorch whose exports show what exporters write: shapes computed at run time, control flow, narrow types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

DYNAMIC = torch.export.Dim.DYNAMIC


@dataclass(frozen=True)
class Net:
    """How to make a network, its arguments at every size, and which axes of them are open."""

    make: Callable[[], nn.Module]
    sizes: Mapping[str, Callable[[], tuple[Any, ...]]]
    open_axes: tuple[tuple[int, ...], ...]


class Of(nn.Module):
    """A function as a network, with its layers."""

    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *x):
        return self.function(self, *x)


def real(*shape):
    return torch.randn(shape)


def below(limit, *shape):
    return torch.randint(0, limit, shape)


class Attention(nn.Module):
    """Heads parted and joined by view, scores with a causal mask."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self.qkv, self.out, self.norm, self.heads = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
            nn.LayerNorm(width),
            heads,
        )

    def forward(self, x):
        batch, steps, width = x.shape
        parted = self.qkv(self.norm(x)).view(batch, steps, 3, self.heads, width // self.heads)
        q, k, v = parted.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        mask = torch.ones(steps, steps, dtype=torch.bool).tril()
        joined = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        return x + self.out(joined.transpose(1, 2).reshape(batch, steps, width))


class Fused(Attention):
    """The same by PyTorch's own function, a mask as an operand."""

    def forward(self, x, mask):
        batch, steps, width = x.shape
        parted = self.qkv(self.norm(x)).view(batch, steps, 3, self.heads, width // self.heads)
        q, k, v = parted.permute(2, 0, 3, 1, 4).unbind(0)
        joined = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :].bool())
        return x + self.out(joined.transpose(1, 2).flatten(2))


class Rotary(nn.Module):
    """Positions as angles, keys repeated for groups of heads, RMSNorm."""

    def __init__(self, width=16, heads=4, groups=2):
        super().__init__()
        self.size = width // heads
        self.q, self.k, self.v = (
            nn.Linear(width, width),
            nn.Linear(width, groups * self.size),
            nn.Linear(width, groups * self.size),
        )
        self.out, self.norm, self.heads, self.groups = (
            nn.Linear(width, width, bias=False),
            nn.RMSNorm(width),
            heads,
            groups,
        )
        self.register_buffer("rates", 10000.0 ** (-torch.arange(0, self.size, 2) / self.size))

    def turned(self, x, angle):
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    def forward(self, x):
        batch, steps, _ = x.shape
        h = self.norm(x)
        angle = torch.arange(steps)[:, None] * self.rates
        angle = torch.cat([angle, angle], -1)
        q = self.turned(self.q(h).view(batch, steps, self.heads, self.size).transpose(1, 2), angle)
        k = self.turned(self.k(h).view(batch, steps, self.groups, self.size).transpose(1, 2), angle)
        v = self.v(h).view(batch, steps, self.groups, self.size).transpose(1, 2)
        times = self.heads // self.groups
        k = (
            k[:, :, None]
            .expand(batch, self.groups, times, steps, self.size)
            .reshape(batch, self.heads, steps, self.size)
        )
        v = v.repeat_interleave(times, 1)
        joined = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(joined.transpose(1, 2).reshape(batch, steps, -1))


class Cached(nn.Module):
    """One step of a decoder: keys and values of earlier steps are operands and results."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.embed, self.qkv, self.out, self.heads = (
            nn.Embedding(30, width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, 30),
            heads,
        )

    def forward(self, ids, mask, keys, values):
        batch, steps = ids.shape
        position = (mask.cumsum(1) - 1)[:, -steps:]
        x = self.embed(ids) + position[..., None].float() * 0.01
        q, k, v = (t.view(batch, steps, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        past = keys.shape[2]
        causal = torch.arange(past + steps) <= torch.arange(past, past + steps)[:, None]
        allowed = causal[None, None] & mask[:, None, None, :].bool()
        scores = torch.where(allowed, q @ k.transpose(-1, -2) * 0.3, torch.finfo(torch.float32).min)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, steps, -1)), k, v


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 8)
        self.lstm = nn.LSTM(8, 6, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(12, 7, batch_first=True)
        self.rnn = nn.RNN(7, 5, nonlinearity="relu")

    def forward(self, ids):
        y, (h, c) = self.lstm(self.embed(ids))
        z, last = self.gru(y)
        return self.rnn(z.transpose(0, 1))[0], h, c, last


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU())
        self.deep = nn.Sequential(
            nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.GroupNorm(2, 8), nn.Hardswish(), nn.Conv2d(8, 12, 1)
        )
        self.up = nn.ConvTranspose2d(12, 6, 3, 2, 1, output_padding=1)
        self.head = nn.Linear(12, 5)
        for norm in (self.first[1],):
            norm.running_mean.normal_(0, 0.1)
            norm.running_var.uniform_(0.8, 1.2)

    def forward(self, x):
        h = self.deep(self.first(x))
        shaken = h * F.adaptive_avg_pool2d(h, 1).sigmoid()
        large = F.interpolate(self.up(shaken), size=x.shape[-2:], mode="bilinear", align_corners=False)
        return large, self.head(shaken.mean((2, 3))), F.max_pool2d(shaken, 2, ceil_mode=True)


class Patches(nn.Module):
    """A picture as steps: what vision transformers begin and end with."""

    def __init__(self):
        super().__init__()
        self.cut, self.token = nn.Conv2d(3, 16, 4, 4), nn.Parameter(torch.randn(1, 1, 16))
        self.layer, self.head = Attention(), nn.Linear(16, 4)

    def forward(self, x):
        h = self.cut(x).flatten(2).transpose(1, 2)
        h = torch.cat([self.token.expand(x.shape[0], -1, -1), h], 1)
        return self.head(self.layer(h)[:, 0])


class Windows(nn.Module):
    """Windows parted, moved round and joined again."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def forward(self, x):
        b, h, w, c = x.shape
        moved = torch.roll(x, (-1, -1), (1, 2))
        parted = moved.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
        mixed = self.mix(parted).softmax(1)
        joined = mixed.view(b, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(joined, (1, 1), (1, 2)) + x


class Branches(nn.Module):
    def forward(self, x, flag):
        return torch.cond(flag.sum() > 0, lambda x: x.sin() + 1, lambda x: x * 2, (x,))


class Relative(nn.Module):
    """Buckets of distances: integer arithmetic on positions, by logarithms."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(8, 2)

    def forward(self, x):
        n = x.shape[1]
        distance = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        sign = (distance > 0).long() * 4
        distance = distance.abs()
        far = 2 + (torch.log(distance.float().clamp(min=1) / 2) / 1.4 * 2).long()
        bucket = sign + torch.where(distance < 2, distance, far.clamp(max=3))
        return x[:, None] + self.bias(bucket).permute(2, 0, 1)[None].sum(-1, keepdim=True)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.route, self.weights = nn.Linear(8, 4), nn.Parameter(torch.randn(4, 8, 6) * 0.3)

    def forward(self, x):
        chance = self.route(x).softmax(-1)
        best, which = chance.topk(2, -1)
        share = torch.zeros_like(chance).scatter(-1, which, best / best.sum(-1, keepdim=True))
        return torch.einsum("nd,edf,ne->nf", x, self.weights, share), which


def slices(_, x):
    return (
        x[:, 1:],
        x[..., :-1],
        x[::2, 1::3],
        x[-1],
        x[:, 0:],
        x.narrow(1, 1, 2),
        x.unfold(1, 3, 2),
        x[:, -2:],
        x[:-1, None],
    )


def indices(_, x, i):
    mask = x > 0.5
    return (
        x[i],
        x[:, i % 3],
        torch.gather(x, 0, i[:, None] % 3),
        x.masked_fill(mask, 0.0),
        x.index_select(1, i % 4),
        x[i, i % 3],
    )


def found(_, x):
    return torch.nonzero(x > 0), x[x > 0.2], torch.masked_select(x, x < 0)


def reductions(_, x):
    return (
        *(x.sum(-1), x.mean((0, 2)), x.std(1), x.var(-1, unbiased=False), x.amax(1), x.argmax(-1), x.prod(1)),
        *(x.logsumexp(1), x.norm(dim=-1), x.cumsum(1), x.max(1)[0], x.min(2)[1], (x > 0).any(1), (x > -9).all(2)),
    )


def padded(_, x):
    return (
        F.pad(x, (1, 2)), F.pad(x, (1, 1, 2, 0), value=3.0), F.pad(x, (1, 1), mode="reflect"),
        F.pad(x, (2, 1), mode="replicate"), F.pad(x, (1, 2), mode="circular"), F.pad(x, (-1, -1)),
    )  # fmt: skip


def resized(_, x):
    return (
        F.interpolate(x, scale_factor=2.0, mode="nearest"), F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True),
        F.interpolate(x, scale_factor=1.5, mode="bicubic"), F.adaptive_avg_pool2d(x, (2, 2)), F.pixel_shuffle(x, 2),
        F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    )  # fmt: skip


def integers(_, x, y):
    return (
        x // y, x % y, torch.div(x, y, rounding_mode="floor"), x / y, x.float().pow(2).long(), x.clamp(-2, 2),
        (x == y) | (x > y), x.abs().float().sqrt(), torch.remainder(x, 3), x.bool(), x * 3 - y,
    )  # fmt: skip


def elements(_, x):
    return (
        F.gelu(x), F.gelu(x, approximate="tanh"), F.softplus(x), F.mish(x), F.elu(x), F.celu(x), F.selu(x), F.hardtanh(x),
        F.leaky_relu(x, 0.2), F.relu6(x), F.hardsigmoid(x), F.logsigmoid(x), F.glu(x, 1), F.softsign(x), F.tanhshrink(x),
        F.hardshrink(x), F.softmin(x, 1), F.log_softmax(x, -1), x.erf(), x.sign(), x.round(), x.trunc(), x.frac(),
        x.exp().log1p(), x.expm1(), torch.atan2(x, x + 2), x.clamp(min=-0.5), torch.lerp(x, x * 2, 0.3), torch.logaddexp(x, x + 1),
    )  # fmt: skip


def moved(_, x):
    b, n, m = x.shape
    return (
        x.permute(2, 0, 1), x.flatten(1), x.unflatten(-1, (2, 2)), x.view(b, -1, 2), x.reshape(b * n, m), x.repeat(1, 2, 1),
        x.expand(2, b, n, m), torch.stack([x, x + 1], 1), torch.cat([x, x], -1), x.flip(1), x.roll(1, 1), x.diff(dim=1),
        *x.split(2, -1), *x.chunk(2, -1), x.swapaxes(0, 1), x.unsqueeze(-1), x.tril(), x.movedim(0, -1),
        x.repeat_interleave(2, 1), torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij")[0],
    )  # fmt: skip


def products(_, x, y):
    return (
        x @ y, torch.bmm(x, y), torch.einsum("bij,bjk->bki", x, y), torch.einsum("bij,bkj->b", x, x), torch.matmul(x, y[0]),
        torch.baddbmm(x @ y, x, y, beta=0.5, alpha=2.0), torch.cdist(x, x), torch.cross(x[..., :3], x[..., 1:4], dim=-1),
        torch.outer(x[0, 0], x[0, 0]), (x[0] @ y[0][:, 0]),
    )  # fmt: skip


def sorted_(_, x):
    values, places = x.sort(-1)
    best, which = x.topk(3, 1, largest=False)
    return (
        values,
        places,
        best,
        which,
        x.argsort(0, descending=True),
        torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
    )


def scattered(_, x, i):
    zero = torch.zeros_like(x)
    put = x.clone()
    put[:, 1] = 7.0
    return (
        zero.scatter(0, i, x), zero.scatter_add(0, i, x), x.index_add(0, i[:, 0], x), put,
        torch.scatter_reduce(zero, 0, i, x, "amax", include_self=False), x.index_fill(0, i[:1, 0], 2.0),
    )  # fmt: skip


def made(_, x):
    b, n = x.shape
    return (
        torch.arange(n) + x.long(), torch.zeros(b, n) + x, torch.full((n,), 2.5) * x, torch.ones_like(x).cumsum(1), torch.eye(3),
        torch.linspace(0, 1, 5) + x[:1, :1], F.one_hot(x.abs().long() % 4, 4), x.new_zeros(b, 2), torch.triu(torch.ones(n, n), 1),
        torch.tensor([1.0, 2.0]) * x[:, :2], x * b + n,
    )  # fmt: skip


def spatial(_, x, grid):
    return F.grid_sample(x, grid, align_corners=False), F.affine_grid(
        torch.eye(2, 3)[None], (1, 1, 3, 4), align_corners=True
    )


def unfolded(_, x):
    columns = F.unfold(x, 3, padding=1, stride=2)
    return columns, F.fold(columns * 1.0, (6, 6), 3, padding=1, stride=2)


def norms(s, x):
    return (
        s.i(x),
        s.g(x),
        s.r(x),
        s.b(x),
        F.normalize(x, dim=1),
        F.layer_norm(x, x.shape[1:]),
        F.local_response_norm(x, 3),
        s.p(x),
    )


def convolved(s, x):
    return s.c1(x), s.t1(x), s.d(x), F.max_pool1d(x, 3, 2, 1), F.avg_pool1d(x, 2), F.lp_pool1d(x, 2, 2)


def volumes(s, x):
    return s.c3(x), s.t3(x), F.max_pool3d(x, 2), F.avg_pool3d(x, 2, padding=1), F.adaptive_avg_pool3d(x, 1)


def losses(_, x, y):
    return (
        F.cross_entropy(x, y),
        F.nll_loss(x.log_softmax(1), y, reduction="none"),
        F.mse_loss(x, x + 1),
        F.smooth_l1_loss(x, x * 2),
    )


def twice(_, x):
    y = x.relu()
    return y, x, y, y + 0.0


def squeezed(_, x):
    return x.squeeze(1), x.unsqueeze(0).squeeze(), x.sum(), x.mean().reshape(1), x.max()


def quantized(_, x):
    return torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127), (x * 10).round().clamp(-8, 7) / 10


def named(*sizes):
    """Sizes a, b, n (a batch of 1) of arguments that functions make."""
    return dict(zip("abn", sizes, strict=False))


class Packed(nn.Module):
    """Sequences of several lengths through layers in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.l, self.g = nn.LSTM(4, 5, bidirectional=True), nn.GRU(10, 3, bidirectional=True)

    def forward(self, x, lengths):
        y, (h, _) = self.l(nn.utils.rnn.pack_padded_sequence(x, lengths))
        z, last = self.g(y)
        return nn.utils.rnn.pad_packed_sequence(z)[0], h, last


class Upsampled(nn.Module):
    """A picture made twice as large with zeros in front, as StyleGAN does, one channel at a time and all at once."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.v = nn.Parameter(real(4, 1, 4, 4) / 4), nn.Parameter(real(4, 3, 3, 3) / 4)

    def forward(self, x):
        y = F.conv_transpose2d(F.pad(x, (1, 1, 1, 1)), self.w, stride=2, padding=1, groups=4)
        return F.leaky_relu(y, 0.2), F.conv_transpose2d(F.pad(x, (2, 1, 0, 1)), self.v, stride=(3, 2), output_padding=1)


class Neighbours(nn.Module):
    """The way from each point to the three nearest, beside the point itself, through one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Conv2d(6, 4, 1)

    def forward(self, x):
        batch, count, _ = x.shape
        nearest = (-torch.cdist(x, x)).topk(3, -1).indices + torch.arange(batch).view(-1, 1, 1) * count
        around = x.reshape(-1, 3)[nearest.view(-1)].view(batch, count, 3, 3)
        here = x[:, :, None].expand(-1, -1, 3, -1)
        return F.leaky_relu(self.c(torch.cat([around - here, here], -1).permute(0, 3, 1, 2)), 0.2).amax(-1)


NETS: Mapping[str, Net] = {
    "attention": Net(
        Attention, named(lambda: (real(2, 5, 16),), lambda: (real(3, 7, 16),), lambda: (real(1, 4, 16),)), ((0, 1),)
    ),
    "fused_attention": Net(
        Fused,
        named(lambda: (real(2, 5, 16), torch.ones(2, 5).long()), lambda: (real(3, 7, 16), torch.ones(3, 7).long())),
        ((0, 1), (0, 1)),
    ),
    "rotary": Net(
        Rotary, named(lambda: (real(2, 5, 16),), lambda: (real(3, 7, 16),), lambda: (real(1, 1, 16),)), ((0, 1),)
    ),
    "cached": Net(
        Cached,
        named(
            lambda: (below(30, 2, 3), torch.ones(2, 7).long(), real(2, 2, 4, 8), real(2, 2, 4, 8)),
            lambda: (below(30, 3, 2), torch.ones(3, 7).long(), real(3, 2, 5, 8), real(3, 2, 5, 8)),
        ),
        ((0, 1), (0, 1), (0, 2), (0, 2)),
    ),
    "recurrent": Net(Recurrent, named(lambda: (below(40, 2, 6),), lambda: (below(40, 3, 4),)), ((0, 1),)),
    "convolutional": Net(
        Convolutional,
        named(lambda: (real(2, 3, 16, 16),), lambda: (real(3, 3, 24, 20),), lambda: (real(1, 3, 16, 16),)),
        ((0, 2, 3),),
    ),
    "batch_only": Net(Convolutional, named(lambda: (real(2, 3, 16, 16),), lambda: (real(1, 3, 16, 16),)), ((0,),)),
    "patches": Net(
        Patches,
        named(lambda: (real(2, 3, 16, 16),), lambda: (real(3, 3, 16, 16),), lambda: (real(1, 3, 16, 16),)),
        ((0,),),
    ),
    "patches_any": Net(Patches, named(lambda: (real(2, 3, 16, 16),), lambda: (real(1, 3, 12, 8),)), ((0, 2, 3),)),
    "windows": Net(Windows, named(lambda: (real(2, 4, 6, 8),), lambda: (real(1, 4, 6, 8),)), ((0,),)),
    "windows_any": Net(Windows, named(lambda: (real(2, 4, 6, 8),), lambda: (real(1, 6, 2, 8),)), ((0, 1, 2),)),
    "branches": Net(
        Branches, named(lambda: (real(2, 3), torch.ones(2)), lambda: (real(4, 3), -torch.ones(4))), ((0,), (0,))
    ),
    "relative": Net(Relative, named(lambda: (real(2, 5, 3),), lambda: (real(1, 7, 3),)), ((0,),)),
    "experts": Net(Experts, named(lambda: (real(5, 8),), lambda: (real(3, 8),), lambda: (real(1, 8),)), ((0,),)),
    "slices": Net(lambda: Of(slices), named(lambda: (real(4, 6),), lambda: (real(5, 9),)), ((0, 1),)),
    "indices": Net(
        lambda: Of(indices), named(lambda: (real(4, 5), below(4, 6)), lambda: (real(5, 5), below(4, 3))), ((0,), (0,))
    ),
    "found": Net(lambda: Of(found), named(lambda: (real(4, 5),), lambda: (real(3, 5),)), ((0,),)),
    "reductions": Net(lambda: Of(reductions), named(lambda: (real(3, 4, 5),), lambda: (real(2, 6, 5),)), ((0, 1),)),
    "padded": Net(lambda: Of(padded), named(lambda: (real(2, 4, 6),), lambda: (real(3, 4, 7),)), ((0, 2),)),
    "resized": Net(lambda: Of(resized), named(lambda: (real(2, 4, 6, 6),), lambda: (real(1, 4, 8, 6),)), ((0,),)),
    "integers": Net(
        lambda: Of(integers),
        named(lambda: (below(20, 3, 4) - 10, below(5, 3, 4) + 1), lambda: (below(20, 2, 4) - 10, -below(5, 2, 4) - 1)),
        ((0,), (0,)),
    ),
    "elements": Net(lambda: Of(elements), named(lambda: (real(3, 4),), lambda: (real(1, 4),)), ((0,),)),
    "moved": Net(lambda: Of(moved), named(lambda: (real(2, 3, 4),), lambda: (real(3, 5, 4),)), ((0, 1),)),
    "products": Net(
        lambda: Of(products),
        named(lambda: (real(2, 4, 4), real(2, 4, 4)), lambda: (real(3, 4, 4), real(3, 4, 4))),
        ((0,), (0,)),
    ),
    "sorted": Net(lambda: Of(sorted_), named(lambda: (real(3, 5),), lambda: (real(2, 5),)), ((0,),)),
    "scattered": Net(
        lambda: Of(scattered),
        named(lambda: (real(4, 3), below(4, 4, 3)), lambda: (real(6, 3), below(4, 6, 3))),
        ((0,), (0,)),
    ),
    "made": Net(lambda: Of(made), named(lambda: (real(2, 5),), lambda: (real(3, 4),)), ((0, 1),)),
    "spatial": Net(
        lambda: Of(spatial),
        named(lambda: (real(2, 3, 5, 6), real(2, 4, 3, 2) * 0.6), lambda: (real(1, 3, 5, 6), real(1, 4, 3, 2) * 0.6)),
        ((0,), (0,)),
    ),
    "unfolded": Net(lambda: Of(unfolded), named(lambda: (real(2, 3, 6, 6),), lambda: (real(1, 3, 6, 6),)), ()),
    "norms": Net(
        lambda: Of(
            norms,
            i=nn.InstanceNorm2d(6, affine=True),
            g=nn.GroupNorm(3, 6),
            r=nn.RMSNorm(5),
            b=nn.BatchNorm2d(6),
            p=nn.PReLU(6),
        ),
        named(lambda: (real(2, 6, 4, 5),), lambda: (real(3, 6, 4, 5),), lambda: (real(1, 6, 4, 5),)),
        ((0,),),
    ),
    "convolved": Net(
        lambda: Of(
            convolved,
            c1=nn.Conv1d(4, 6, 3, padding="same"),
            t1=nn.ConvTranspose1d(4, 2, 4, 2, 1),
            d=nn.Conv1d(4, 8, 3, dilation=2, groups=2),
        ),
        named(lambda: (real(2, 4, 11),), lambda: (real(3, 4, 14),), lambda: (real(1, 4, 11),)),
        ((0, 2),),
    ),
    "volumes": Net(
        lambda: Of(volumes, c3=nn.Conv3d(2, 3, 3, padding=1), t3=nn.ConvTranspose3d(2, 2, 2, 2)),
        named(lambda: (real(2, 2, 4, 6, 4),), lambda: (real(1, 2, 4, 6, 4),)),
        ((0,),),
    ),
    "losses": Net(
        lambda: Of(losses), named(lambda: (real(4, 5), below(5, 4)), lambda: (real(3, 5), below(5, 3))), ((0,), (0,))
    ),
    "twice": Net(lambda: Of(twice), named(lambda: (real(2, 3),), lambda: (real(4, 3),)), ((0,),)),
    "squeezed": Net(lambda: Of(squeezed), named(lambda: (real(3, 1, 4),), lambda: (real(2, 1, 5),)), ((0, 2),)),
    "quantized": Net(lambda: Of(quantized), named(lambda: (real(3, 4),), lambda: (real(2, 4),)), ((0,),)),
    "encoder": Net(
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 24, 0.0, batch_first=True, norm_first=True), 2, enable_nested_tensor=False
        ),
        named(lambda: (real(2, 5, 16),), lambda: (real(3, 7, 16),)),
        ((0, 1),),
    ),
    "multihead": Net(
        lambda: Of(lambda s, x, y: s.m(x, y, y), m=nn.MultiheadAttention(16, 4, batch_first=True)),
        named(lambda: (real(2, 5, 16), real(2, 3, 16)), lambda: (real(1, 4, 16), real(1, 6, 16))),
        ((0, 1), (0, 1)),
    ),
    "bag": Net(
        lambda: Of(lambda s, i: (s.e(i).mean(1), s.e.weight[i[:, 0]]), e=nn.Embedding(12, 6, padding_idx=0)),
        named(lambda: (below(12, 3, 4),), lambda: (below(12, 2, 5),)),
        ((0, 1),),
    ),
    "shared": Net(
        lambda: Of(lambda s, x: s.l(F.relu(s.l(x))) + F.linear(x, s.l.weight.t()), l=nn.Linear(6, 6)),
        named(lambda: (real(3, 6),), lambda: (real(1, 6),)),
        ((0,),),
    ),
    "packed": Net(
        Packed,
        named(
            lambda: (real(5, 3, 4), torch.tensor([5, 3, 2])),
            lambda: (real(6, 3, 4), torch.tensor([6, 6, 1])),
        ),
        ((0,), ()),
    ),
    "upsampled": Net(
        Upsampled,
        named(lambda: (real(2, 4, 4, 5),), lambda: (real(1, 4, 6, 3),), lambda: (real(1, 4, 4, 5),)),
        ((0, 2, 3),),
    ),
    "neighbours": Net(Neighbours, named(lambda: (real(2, 8, 3),), lambda: (real(1, 10, 3),)), ((0, 1),)),
}
