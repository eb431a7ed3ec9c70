"""Recurrent layers, attention, parts of nets and whole ones; some at other levels, or with open lengths."""

# ruff: noqa: PLC3002, SIM, B905, PERF, C4, RUF  modules as people write them in PyTorch

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.conformance.pnnx.functions import x2, x3, x4
from tests.conformance.pnnx.table import R, add, cases

# recurrent
for bi in (0, 1):
    for bf in (0, 1):
        for layers in (1, 2):
            for k, c in (("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)):
                add(
                    f"{k}_b{bi}_f{bf}_l{layers}",
                    (lambda m: m)(c(10, 5, num_layers=layers, bidirectional=bool(bi), batch_first=bool(bf))),
                    x3,
                )
add(
    "lstm_state",
    nn.LSTM(10, 5),
    x3,
)


class LS(nn.Module):
    def __init__(self, c, pair):
        super().__init__()
        self.m = c(10, 5, batch_first=True)
        self.p = pair

    def forward(self, x, h, c=None):
        return self.m(x, (h, c)) if self.p else self.m(x, h)


add("lstm_given", LS(nn.LSTM, True), x3, R(1, 2, 5), R(1, 2, 5))
add("gru_given", LS(nn.GRU, False), x3, R(1, 2, 5))
add("lstm_proj", nn.LSTM(10, 6, proj_size=3), x3)
add("rnn_relu", nn.RNN(10, 6, nonlinearity="relu", bias=False), x3)
add("lstm_nobias", nn.LSTM(10, 6, bias=False, batch_first=True), x3)


class LLast(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(20, 8)
        self.m = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
        self.f = nn.Linear(12, 3)

    def forward(self, i):
        y, _ = self.m(self.e(i))
        return self.f(y[:, -1])


add("lstm_text", LLast(), torch.randint(0, 20, (1, 7)))


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.LSTMCell(4, 5)
        self.g = nn.GRUCell(4, 5)
        self.r = nn.RNNCell(4, 5)

    def forward(self, x, h, c):
        a, b = self.c(x, (h, c))
        return a + b + self.g(x, h) + self.r(x, h)


add("cells", Cell(), R(2, 4), R(2, 5), R(2, 5))
# attention


class MHA(nn.Module):
    def __init__(self, mode, **k):
        super().__init__()
        self.m = nn.MultiheadAttention(16, 4, **k)
        self.mode = mode

    def forward(self, q, kv=None, mask=None):
        if self.mode == "self":
            return self.m(q, q, q, need_weights=False)[0]
        if self.mode == "w":
            return self.m(q, q, q)
        if self.mode == "cross":
            return self.m(q, kv, kv, need_weights=False)[0]
        if self.mode == "mask":
            return self.m(q, q, q, attn_mask=kv, need_weights=False)[0]
        return self.m(q, q, q, key_padding_mask=kv, need_weights=False)[0]


q = R(2, 6, 16)
add("mha_self", MHA("self", batch_first=True), q)
add("mha_w", MHA("w", batch_first=True), q)
add("mha_sf", MHA("self"), q)
add("mha_cross", MHA("cross", batch_first=True), q, R(2, 9, 16))
add("mha_kv", MHA("cross", batch_first=True, kdim=8, vdim=8), q, R(2, 9, 8))
add("mha_mask", MHA("mask", batch_first=True), q, torch.triu(torch.ones(6, 6), 1).bool())
add("mha_maskf", MHA("mask", batch_first=True, bias=False), q, R(6, 6))
add("mha_kpm", MHA("kpm", batch_first=True), q, torch.rand(2, 6) > 0.7)
add("mha_bkv", MHA("self", batch_first=True, add_bias_kv=True, add_zero_attn=True), q)
add(
    "sdpa_causal",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    R(2, 4, 6, 8),
    R(2, 4, 6, 8),
    R(2, 4, 6, 8),
)
add(
    "sdpa_mask",
    lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, scale=0.2),
    R(2, 4, 6, 8),
    R(2, 4, 5, 8),
    R(2, 4, 5, 8),
    torch.rand(2, 1, 6, 5) > 0.4,
)
add(
    "sdpa_gqa",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    R(2, 4, 6, 8),
    R(2, 2, 6, 8),
    R(2, 2, 6, 8),
)
torch.backends.mha.set_fastpath_enabled(False)
add(
    "tenc",
    nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2, enable_nested_tensor=False),
    q,
)
add("tenc_pre", nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation="gelu"), q)
add("tdec", nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, batch_first=True), 1), q, R(2, 5, 16))
add("tfull", nn.Transformer(16, 4, 1, 1, 32, batch_first=True), q, R(2, 5, 16))


# nets
class Rot(nn.Module):
    def forward(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin


add("rope", Rot(), R(1, 4, 6, 8), R(6, 8), R(6, 8))


class RMS(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(R(16))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w


add("rms_hand", RMS(), q)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(30, 16)
        self.p = nn.Parameter(R(1, 12, 16))
        self.n = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.o = nn.Linear(16, 16)
        self.f = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(approximate="tanh"), nn.Linear(32, 16))
        self.h = nn.Linear(16, 30, bias=False)

    def forward(self, i):
        B, T = i.shape
        x = self.e(i) + self.p[:, :T]
        q, k, v = self.qkv(self.n(x)).split(16, 2)
        q, k, v = [t.view(B, T, 4, 4).transpose(1, 2) for t in (q, k, v)]
        a = (q @ k.transpose(-2, -1)) / math.sqrt(4)
        m = torch.tril(torch.ones(T, T))
        a = a.masked_fill(m == 0, float("-inf")).softmax(-1)
        x = x + self.o((a @ v).transpose(1, 2).reshape(B, T, 16))
        return self.h(x + self.f(x))


add("gpt", GPT(), torch.randint(0, 30, (1, 9)))
add("gpt_dyn", GPT(), torch.randint(0, 30, (1, 9)), second=[(1, 12)])


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Conv2d(3, 16, 4, 4)
        self.c = nn.Parameter(R(1, 1, 16))
        self.pos = nn.Parameter(R(1, 17, 16))
        self.b = nn.ModuleList(
            [
                nn.ModuleList(
                    [
                        nn.LayerNorm(16),
                        nn.Linear(16, 48),
                        nn.Linear(16, 16),
                        nn.LayerNorm(16),
                        nn.Linear(16, 32),
                        nn.Linear(32, 16),
                    ]
                )
                for _ in range(2)
            ]
        )
        self.h = nn.Linear(16, 5)

    def forward(self, x):
        x = self.p(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.c.expand(x.shape[0], -1, -1), x), 1) + self.pos
        for n, qkv, o, n2, f, g in self.b:
            B, N, C = x.shape
            q, k, v = qkv(n(x)).reshape(B, N, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
            x = x + o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, C))
            x = x + g(F.gelu(f(n2(x))))
        return self.h(x[:, 0])


add("vit", ViT(), R(1, 3, 16, 16))


class CNX(nn.Module):
    def __init__(self):
        super().__init__()
        self.d = nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.n = nn.LayerNorm(8)
        self.a = nn.Linear(8, 16)
        self.b = nn.Linear(16, 8)
        self.g = nn.Parameter(R(8))

    def forward(self, x):
        y = self.d(x).permute(0, 2, 3, 1)
        y = self.b(F.gelu(self.a(self.n(y)))) * self.g
        return x + y.permute(0, 3, 1, 2)


add("convnext", CNX(), x4)


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.t = nn.Parameter(R(1, 2, 16, 16))

    def forward(self, x):
        B, H, W, C = x.shape
        x = torch.roll(x, (-2, -2), (1, 2))
        x = x.view(B, H // 4, 4, W // 4, 4, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, C)
        q, k, v = self.qkv(x).reshape(-1, 16, 3, 2, 4).permute(2, 0, 3, 1, 4)
        a = (q * 0.5 @ k.transpose(-2, -1) + self.t).softmax(-1)
        x = (a @ v).transpose(1, 2).reshape(-1, 16, C)
        return x.view(B, H // 4, W // 4, 4, 4, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)


add("swin", Swin(), R(1, 8, 8, 8))


class Yolo(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(8, 3 * 7, 1)
        self.register_buffer("g", R(1, 3, 12, 14, 2))
        self.register_buffer("a", R(1, 3, 1, 1, 2).abs())

    def forward(self, x):
        b, _, h, w = x.shape
        y = self.c(x).view(b, 3, 7, h, w).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
        xy = (y[..., 0:2] * 2 - 0.5 + self.g) * 8
        wh = (y[..., 2:4] * 2) ** 2 * self.a
        return torch.cat((xy, wh, y[..., 4:]), -1).view(b, -1, 7)


add("yolo", Yolo(), x4)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 16, 3, padding=1)
        self.u = nn.ConvTranspose2d(16, 8, 2, 2)
        self.c = nn.Conv2d(16, 4, 3, padding=1)
        self.n = nn.BatchNorm2d(8)

    def forward(self, x):
        a = F.relu(self.n(self.a(x)))
        b = F.relu(self.b(F.max_pool2d(a, 2)))
        return self.c(torch.cat((a, self.u(b)), 1))


add("unet", UNet(), R(1, 3, 16, 20))
add("unet_dyn", UNet(), R(1, 3, 16, 20), second=[(1, 3, 24, 32)])


class SE(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(8, 2, 1)
        self.b = nn.Conv2d(2, 8, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.b(F.silu(self.a(F.adaptive_avg_pool2d(x, 1)))))


add("se", SE(), x4)


class Shuf(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        return x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)


add("shuffle", Shuf(), x4)
add("shuffle_dyn", Shuf(), x4, second=[(1, 8, 20, 22)])


class SPP(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(32, 8, 1)

    def forward(self, x):
        a = F.max_pool2d(x, 5, 1, 2)
        b = F.max_pool2d(a, 5, 1, 2)
        return self.c(torch.cat((x, a, b, F.max_pool2d(b, 5, 1, 2)), 1))


add("sppf", SPP(), x4)


class Mel(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("m", R(9, 5).abs())

    def forward(self, x):
        z = torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True).abs() ** 2
        return torch.log(torch.matmul(z.transpose(1, 2), self.m) + 1e-5)


add("mel", Mel(), R(1, 64))


class Mamba(nn.Module):
    def __init__(self):
        super().__init__()
        self.i = nn.Linear(8, 16)
        self.c = nn.Conv1d(8, 8, 3, groups=8, padding=2)
        self.o = nn.Linear(8, 8)

    def forward(self, x):
        a, g = self.i(x).chunk(2, -1)
        a = F.silu(self.c(a.transpose(1, 2))[..., : x.shape[1]]).transpose(1, 2)
        return self.o(a.cumsum(1) * F.silu(g))


add("mamba", Mamba(), R(1, 6, 8))


class Dyn(nn.Module):
    def forward(self, x):
        h, w = x.shape[2:]
        return F.interpolate(x, size=(h * 2, w // 2), mode="bilinear") + 0 * x.mean()


add("dyn_interp", Dyn(), x4, second=[(1, 8, 16, 18)])
add("dyn_slice", lambda x: x[:, :, 1 : x.shape[2] - 1], x4, second=[(1, 8, 16, 18)])
add("dyn_resh", lambda x: x.reshape(x.shape[0], -1, x.shape[3] * 2), x4, second=[(1, 8, 16, 18)])
add(
    "dyn_expand",
    lambda x, y: x.expand(y.shape[0], y.shape[1], -1),
    R(1, 1, 4),
    R(2, 3, 4),
    second=[(1, 1, 4), (2, 5, 4)],
)
add("dyn_flat", lambda x: x.flatten(2).transpose(1, 2), x4, second=[(1, 8, 16, 18)])
add("dyn_arange", lambda x: x + torch.arange(x.shape[1])[None, :, None], x3, second=[(2, 9, 10)])
add("dyn_batch", UNet(), R(1, 3, 16, 20), second=[(2, 3, 16, 20)])
for o in (0, 1):
    for n in (
        "unet",
        "vit",
        "gpt",
        "convnext",
        "yolo",
        "se",
        "swin",
        "rope",
        "gru_given",
        "shuffle",
        "sppf",
        "rms_hand",
        "mamba",
        "idx_none",
        "mha_cross",
        "bn_noaff",
        "lstm_text",
        "interp_like",
        "div_floor",
        "dyn_slice_",
    ):
        if n in cases:
            add(f"opt{o}_{n}", cases[n][0], *cases[n][1], optlevel=o)
add("half_model", UNet().half(), R(1, 3, 16, 20).half())
add("half_lin", nn.Linear(10, 4).half(), x3.half())
add("bf16_lin", nn.Linear(10, 4).bfloat16(), x3.bfloat16())
add("double_lin", nn.Linear(10, 4).double(), x3.double())
add("fp16_unet", UNet(), R(1, 3, 16, 20), fp16=1)
add("tuple_in", lambda x, y, z: (x + y, [y - z, z * x]), x2, R(5, 7), R(5, 7))
add("dictout", lambda x: {"a": x + 1, "b": x * 2}, x2)
add("twice", lambda x: x + x * x, x2)
add("const_out", lambda x: (x, torch.ones(3)), x2)
add("ident", lambda x: x, x2)
add("inf_const", lambda x: torch.where(x > 0, x, torch.full_like(x, float("inf"))).clamp(max=5), x2)
add("bigint", lambda x: x + 3000000000, torch.randint(0, 5, (4,)))
