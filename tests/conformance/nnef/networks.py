"""Networks in PyTorch, for `export.py`: 78 of them, random weights, fixed seeds."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# ruff: noqa: PLC3002, SIM, B905, PERF, C4, RUF, E731  modules as people write them in PyTorch

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Network:
    """How a module is made, the shapes of its inputs or functions that make them, and what is open."""

    make: Any
    inputs: tuple[Any, ...]
    other: tuple[Any, ...] = ()
    axes: dict[int, dict[int, str]] | None = None
    tolerance: float = 1e-4
    blocks: bool = False


NETWORKS: dict[str, Network] = {}


def add(name, make, *inputs, **options):
    NETWORKS[name] = Network(make, inputs, **options)


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *x):
        return self.function(*x)


def fn(name, function, *inputs, **options):
    add(name, lambda: Of(function), *inputs, **options)


def integers(high, *shape):
    return lambda: torch.randint(0, high, shape)


def positive(*shape):
    return lambda: torch.rand(*shape) + 0.2


def truths(*shape):
    return lambda: torch.rand(*shape) > 0.4


def chain(*makers):
    return lambda: nn.Sequential(*[make() for make in makers])


# ── convolutions and pools ──

add("conv_valid_bias", lambda: nn.Conv2d(4, 7, (1, 5), bias=True), (2, 4, 5, 11))
add("conv_same_even", lambda: nn.Conv2d(3, 4, 4, padding="same"), (1, 3, 9, 9))
add(
    "conv_separable",
    chain(lambda: nn.Conv2d(6, 6, 5, padding=2, groups=6), nn.ReLU6, lambda: nn.Conv2d(6, 9, 1)),
    (1, 6, 12, 10),
)
add("conv_circular", lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), (1, 3, 8, 7))
add(
    "conv_stack_dilated",
    chain(*[(lambda d: lambda: nn.Conv1d(5, 5, 3, padding=d, dilation=d))(2**i) for i in range(4)]),
    (1, 5, 40),
)
add("conv3d_stride", lambda: nn.Conv3d(2, 5, 3, 2, 1, bias=False), (1, 2, 7, 8, 9))
add("deconv_groups_outpad", lambda: nn.ConvTranspose2d(6, 9, 3, 2, 1, 1, groups=3), (1, 6, 5, 4))
add("deconv_wide", lambda: nn.ConvTranspose1d(3, 8, 7, 3, 2), (2, 3, 9))
add("maxpool_ceil", lambda: nn.MaxPool2d(3, 2, ceil_mode=True), (1, 3, 10, 9))
add("avgpool_exclude", lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), (1, 3, 9, 8))
add("avgpool_ceil", lambda: nn.AvgPool2d(3, 2, ceil_mode=True), (1, 2, 8, 10))
add("maxpool_indices", lambda: nn.MaxPool2d(2, return_indices=True), (1, 3, 6, 8))
add("adaptive_uneven", lambda: nn.AdaptiveAvgPool2d((3, 4)), (1, 2, 7, 9))
add("pool_lp", lambda: nn.LPPool2d(2, 3, 2), positive(1, 3, 9, 9))

# ── normalizations and activations ──

add("bn_no_affine", lambda: nn.BatchNorm2d(5, affine=False), (2, 5, 4, 4))
add("layernorm_no_bias", lambda: nn.LayerNorm(12, bias=False, eps=1e-3), (3, 4, 12))
add("groupnorm_one", lambda: nn.GroupNorm(1, 6), (2, 6, 5, 3))
add("instancenorm1d", lambda: nn.InstanceNorm1d(4, affine=True), (2, 4, 11))
fn("normalize", lambda x: F.normalize(x, p=2.0, dim=1), (3, 6, 4))
fn("softplus_beta", lambda x: F.softplus(x, beta=3.0, threshold=15.0), (2, 9))
fn("activations_a", lambda x: (F.celu(x, 1.3), F.hardtanh(x, -0.7, 0.9), F.logsigmoid(x), F.softsign(x)), (4, 7))
fn("activations_b", lambda x: (F.mish(x), F.silu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.selu(x)), (4, 7))
fn("activations_c", lambda x: (F.threshold(x, 0.1, -2.0), F.rrelu(x), F.hardswish(x), F.relu6(x * 4)), (4, 7))
add("prelu_shared", nn.PReLU, (2, 3, 5))
fn("softmins", lambda x: (F.softmin(x, 1), F.log_softmax(x, 0), F.softmax(x / 0.3, -1)), (3, 5))
fn("glu_swiglu", lambda x: F.silu(x[..., :6]) * x[..., 6:] + F.glu(x, -1), (2, 3, 12))

# ── arithmetic, reductions, comparisons ──

fn("bool_xor", lambda a, b: (a ^ b, torch.logical_xor(a, b), a & ~b), truths(3, 5), truths(3, 5))
fn(
    "hypot_lerp",
    lambda a, b: (torch.hypot(a, b), torch.lerp(a, b, 0.3), torch.addcmul(a, a, b, value=0.5)),
    (3, 5),
    (3, 5),
)
fn(
    "powers",
    lambda a, b: (a**b, a**-1.5, torch.exp2(b), torch.log10(a), torch.cbrt(a) if hasattr(torch, "cbrt") else a),
    positive(3, 4),
    (3, 4),
)
fn(
    "trigonometry",
    lambda x: (torch.sin(x) * torch.cos(x), torch.tan(x * 0.5), torch.atan(x), torch.sinh(x), torch.asinh(x)),
    (3, 5),
)
fn(
    "remainders",
    lambda a, b: (torch.fmod(a, b), torch.remainder(a, b), torch.floor_divide(a, b)),
    (4, 5),
    positive(4, 5),
)
fn("variances", lambda x: (x.var(-1), x.std((1, 2), unbiased=False), x.mean(0), x.norm(p=1, dim=2)), (3, 4, 5))
fn("extremes", lambda x: (*x.max(1), *x.min(2, keepdim=True), x.amax((0, 2)), x.argmax(-1)), (3, 4, 5))
fn("counts", lambda x: ((x > 0).sum(1), (x > 0).float().mean(), (x < -1).any(0), torch.count_nonzero(x, dim=1)), (4, 6))
fn("running", lambda x: (x.cumsum(0), x.cumsum(-1), x.logcumsumexp(1) if hasattr(x, "logcumsumexp") else x), (3, 6))
fn("ordered", lambda x: (*x.topk(3, 1, largest=False), *x.sort(2)), (2, 6, 4))
fn(
    "selected",
    lambda x, m: (torch.where(m, x, -x), x.masked_fill(~m, 7.0), x.clamp(max=0.4), x.clip(-1, 1)),
    (3, 5),
    truths(3, 5),
)
fn(
    "isclose_sign",
    lambda a, b: (torch.sign(a), a.eq(b), a.ge(b), torch.isfinite(a / b.round()), torch.maximum(a, b)),
    (3, 6),
    (3, 6),
)

# ── moves ──

fn("moves_a", lambda x: (x.movedim(0, 2), x.flatten(0, 1), x.unflatten(2, (2, 3)), x.permute(2, 1, 0)), (2, 3, 6))
fn("moves_b", lambda x: (x.roll((1, -2), (0, 1)), x.flip(0, 1), x.rot90(1, (0, 1))), (4, 5, 2))
fn("moves_c", lambda x: (*x.chunk(4, 1), *x.tensor_split(3, 1), x.narrow(1, 2, 4), x.select(1, -1)), (2, 9, 3))
fn("moves_d", lambda x: (x.diagonal(0, 0, 1), torch.diag_embed(x[0]), x.tril(-1), x.triu(2)), (5, 5))
fn(
    "moves_e",
    lambda x, y: (torch.cat((x, y), -1), torch.stack((x, y), 2), torch.hstack((x, y)), x.repeat(1, 3)),
    (3, 4),
    (3, 4),
)
fn("pads", lambda x: (F.pad(x, (1, 2, 3, 0)), F.pad(x, (2, 1), mode="reflect"), F.pad(x, (-1, -1))), (2, 3, 6))
fn("pad_circular", lambda x: F.pad(x, (2, 1, 1, 2), mode="circular"), (1, 2, 4, 5))
add("pixel_unshuffle", lambda: nn.PixelUnshuffle(3), (1, 2, 6, 9))
add("channel_shuffle", lambda: nn.ChannelShuffle(3), (1, 6, 3, 4))
add("fold_unfold", chain(lambda: nn.Unfold(2, stride=2), lambda: nn.Fold((4, 6), 2, stride=2)), (1, 3, 4, 6))
fn("index_a", lambda x: (x[:, [2, 0, 0]], x[1:, ::2, -3:], x[..., None, 0], x[[0, 2], [1, 3]]), (3, 5, 4))
fn("take_along", lambda x, i: (torch.gather(x, 2, i), torch.take_along_dim(x, i, 2)), (2, 3, 6), integers(6, 2, 3, 4))
fn("scatter_add", lambda x, i, u: x.scatter_add(1, i, u), (3, 6), integers(6, 3, 4), (3, 4))
fn("embedding_sum", lambda i, w: F.embedding(i, w).sum(1), integers(9, 3, 5), (9, 4))

# ── products ──

fn(
    "einsums",
    lambda a, b: (torch.einsum("bij,bjk->bik", a, b), torch.einsum("bij->bi", a), torch.einsum("bij,bjk->k", a, b)),
    (2, 3, 4),
    (2, 4, 5),
)
fn(
    "products",
    lambda a, b: (
        a @ b.transpose(1, 2),
        torch.bmm(a, b.transpose(1, 2)),
        torch.tensordot(a, b, ([2], [2])),
        a[0] @ b[0, 0],
    ),
    (2, 3, 4),
    (2, 5, 4),
)
add("bilinear", lambda: nn.Bilinear(4, 5, 3), (6, 4), (6, 5))
fn("cosine", lambda a, b: (F.cosine_similarity(a, b, dim=1), torch.cdist(a, b)), (4, 6), (4, 6))

# ── sizes ──

add("up_bilinear_size", lambda: nn.Upsample(size=(9, 7), mode="bilinear"), (1, 2, 4, 5))
add("up_nearest_fraction", lambda: nn.Upsample(scale_factor=1.5), (1, 3, 4, 6))
add("up_linear1d", lambda: nn.Upsample(scale_factor=2, mode="linear", align_corners=True), (1, 3, 7))
fn("down_bilinear", lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", align_corners=False), (1, 3, 8, 8))
fn(
    "affine_grid",
    lambda x, t: F.grid_sample(x, F.affine_grid(t, [1, 2, 6, 7], align_corners=True), align_corners=True),
    (1, 2, 5, 5),
    lambda: torch.eye(2, 3)[None] + 0.1 * torch.randn(1, 2, 3),
)


# ── recurrent layers ──


class Layer(nn.Module):
    def __init__(self, kind, *args, **kwargs):
        super().__init__()
        self.rnn, self.out = kind(*args, **kwargs), None

    def forward(self, x):
        y, state = self.rnn(x)
        return (y, *state) if isinstance(state, tuple) else (y, state)


add("lstm_batch3", lambda: Layer(nn.LSTM, 6, 7, batch_first=True), (3, 9, 6))
add("lstm_two_bi", lambda: Layer(nn.LSTM, 4, 5, 2, bidirectional=True), (7, 2, 4))
add("gru_batch2_nobias", lambda: Layer(nn.GRU, 5, 6, bias=False), (8, 2, 5))
add("gru_two_bi", lambda: Layer(nn.GRU, 3, 4, 2, batch_first=True, bidirectional=True), (2, 5, 3))
add("rnn_relu_batch", lambda: Layer(nn.RNN, 4, 6, nonlinearity="relu", batch_first=True), (3, 6, 4))


class LstmHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        y, _ = self.rnn(x)
        return self.head(F.relu(y[:, -1]))


add("lstm_then_head", LstmHead, (2, 10, 6))


# ── networks ──


class Squeeze(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.a, self.b = nn.Linear(channels, channels // 2), nn.Linear(channels // 2, channels)

    def forward(self, x):
        return x * torch.sigmoid(self.b(F.relu(self.a(x.mean((2, 3))))))[:, :, None, None]


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(4 + 3 * i, 3, 3, padding=1) for i in range(3))
        self.norm, self.head = nn.BatchNorm2d(13), nn.Linear(13, 4)

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat((x, F.leaky_relu(layer(x), 0.1)), 1)
        return self.head(F.adaptive_avg_pool2d(self.norm(x), 1).flatten(1))


class Conformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm = nn.MultiheadAttention(12, 3, batch_first=True), nn.LayerNorm(12)
        self.wide, self.deep, self.narrow = (
            nn.Conv1d(12, 24, 1),
            nn.Conv1d(12, 12, 5, padding=2, groups=12),
            nn.Conv1d(12, 12, 1),
        )

    def forward(self, x):
        x = x + self.attention(self.norm(x), self.norm(x), self.norm(x), need_weights=False)[0]
        return x + self.narrow(F.silu(self.deep(F.glu(self.wide(x.transpose(1, 2)), 1)))).transpose(1, 2)


class Position(nn.Module):
    """Attention with relative positions in its scores."""

    def __init__(self):
        super().__init__()
        self.qkv, self.table = nn.Linear(16, 48), nn.Parameter(torch.randn(4, 15))

    def forward(self, x):
        q, k, v = (each.view(1, 8, 4, 4).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        place = torch.arange(8)[:, None] - torch.arange(8)[None] + 7
        scores = q @ k.transpose(2, 3) / math.sqrt(4) + self.table[:, place]
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.boxes, self.classes = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 6, 1)

    def forward(self, x):
        x = F.hardswish(self.body(x))
        boxes = self.boxes(x).view(1, 2, 4, -1).permute(0, 1, 3, 2).reshape(1, -1, 4)
        return torch.cat((boxes[..., :2] * 0.1, boxes[..., 2:].exp()), -1), self.classes(x).flatten(2).sigmoid().amax(2)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 6, 3, 2, 1), nn.ELU(), nn.Conv2d(6, 8, 3, 2, 1), nn.GroupNorm(2, 8))
        self.up = nn.Sequential(
            nn.ConvTranspose2d(8, 6, 4, 2, 1), nn.SELU(), nn.ConvTranspose2d(6, 1, 4, 2, 1), nn.Sigmoid()
        )

    def forward(self, x):
        return self.up(self.down(x))


class Decoder(nn.Module):
    """A decoder as of Llama: RMS norms, turned queries and keys, fewer heads of keys, SwiGLU; the cache goes in and out."""

    def __init__(self, width=32, heads=4, shared=2, words=40, layers=2):
        super().__init__()
        self.heads, self.shared, self.depth = heads, shared, width // heads
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "before": nn.RMSNorm(width, eps=1e-5),
                    "q": nn.Linear(width, width, bias=False),
                    "k": nn.Linear(width, shared * self.depth, bias=False),
                    "v": nn.Linear(width, shared * self.depth, bias=False),
                    "o": nn.Linear(width, width, bias=False),
                    "behind": nn.RMSNorm(width, eps=1e-5),
                    "gate": nn.Linear(width, 2 * width, bias=False),
                    "up": nn.Linear(width, 2 * width, bias=False),
                    "down": nn.Linear(2 * width, width, bias=False),
                }
            )
            for _ in range(layers)
        )
        self.last, self.head = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, words, bias=False)
        self.register_buffer("rates", 1.0 / 10000 ** (torch.arange(0, self.depth, 2).float() / self.depth))

    def turned(self, x, cos, sin):
        a, b = x[..., : self.depth // 2], x[..., self.depth // 2 :]
        return x * cos + torch.cat((-b, a), -1) * sin

    def forward(self, ids, *past):
        x = self.words(ids)
        batch, new = ids.shape
        old = past[0].shape[2]
        angle = torch.arange(old, old + new).to(x.dtype)[:, None] * self.rates
        angle = torch.cat((angle, angle), -1)
        cos, sin = angle.cos(), angle.sin()
        mask = torch.full((new, old + new), -1e4, dtype=x.dtype).triu(old + 1)
        kept = []
        for index, layer in enumerate(self.layers):
            y = layer["before"](x)
            q, k, v = (layer[name](y).view(batch, new, -1, self.depth).transpose(1, 2) for name in "qkv")
            q, k = self.turned(q, cos, sin), self.turned(k, cos, sin)
            k, v = torch.cat((past[2 * index], k), 2), torch.cat((past[2 * index + 1], v), 2)
            kept += [k, v]
            times = self.heads // self.shared
            k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = x + layer["o"](y.transpose(1, 2).reshape(batch, new, -1))
            y = layer["behind"](x)
            x = x + layer["down"](F.silu(layer["gate"](y)) * layer["up"](y))
        return self.head(self.last(x)), *kept


def caches(batch, length, dtype=torch.float32):
    return [(lambda: torch.randn(batch, 2, length, 8).to(dtype))] * 4


OPEN = {0: {0: "B", 1: "S"}, **{place: {0: "B", 2: "P"} for place in range(1, 5)}}

add(
    "net_squeeze",
    chain(lambda: nn.Conv2d(3, 8, 3, 2, 1), lambda: Squeeze(8), nn.Hardswish, lambda: nn.Conv2d(8, 4, 1)),
    (2, 3, 12, 12),
)
add("net_dense", Dense, (1, 4, 9, 9))
add("net_conformer", Conformer, (1, 7, 12))
add("net_relative", Position, (1, 8, 16))
add("net_detector", Detector, (1, 3, 16, 16))
add("net_autoencoder", Autoencoder, (1, 1, 16, 16))
add(
    "net_perceiver",
    lambda: nn.TransformerDecoderLayer(12, 2, 24, batch_first=True, norm_first=True),
    (1, 4, 12),
    (1, 9, 12),
)
add("decoder", Decoder, integers(40, 2, 3), *caches(2, 5))
add("decoder_open", Decoder, integers(40, 2, 3), *caches(2, 5), axes=OPEN, other=(integers(40, 3, 1), *caches(3, 8)))
add("decoder_half", lambda: Decoder().half(), integers(40, 2, 3), *caches(2, 5, torch.float16), tolerance=2e-2)
add("decoder_q40", Decoder, integers(40, 2, 3), *caches(2, 5), blocks=True, tolerance=2e-3)
