"""Torch modules of the corpus: name -> (group, build, inputs, options). Random weights, fixed seeds."""

import math

import torch
import torch.nn.functional as F
from torch import nn

NETS = {}


def net(name, group, build, *inputs, **options):
    """inputs: shapes (float32 normal), or functions without arguments that return a tensor."""
    NETS[name] = (group, build, inputs, options)


class Fn(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *x):
        return self.f(*x)


def fn(f):
    return lambda: Fn(f)


def seq(*layers):
    return lambda: nn.Sequential(
        *[layer() if callable(layer) and not isinstance(layer, nn.Module) else layer for layer in layers]
    )


def ints(high, *shape, low=0):
    return lambda: torch.randint(low, high, shape)


def ints32(high, *shape, low=0):
    return lambda: torch.randint(low, high, shape, dtype=torch.int32)


def bools(*shape):
    return lambda: torch.rand(*shape) > 0.5


def positive(*shape):
    return lambda: torch.rand(*shape) + 0.1


def unit(*shape):
    return lambda: torch.rand(*shape) * 1.8 - 0.9


# ---- convolutions
net("conv1d", "conv", lambda: nn.Conv1d(4, 6, 3, padding=1), (1, 4, 15))
net("conv1d_stride_dilated", "conv", lambda: nn.Conv1d(2, 4, 5, 2, 3, 2), (2, 2, 32))
net("conv2d", "conv", lambda: nn.Conv2d(3, 5, 3), (1, 3, 9, 10))
net("conv2d_nobias_asym", "conv", lambda: nn.Conv2d(3, 4, (3, 5), (2, 1), (1, 0), bias=False), (1, 3, 12, 11))
net("conv2d_same", "conv", lambda: nn.Conv2d(2, 4, (2, 4), padding="same", dilation=(1, 2)), (1, 2, 8, 9))
net("conv2d_groups", "conv", lambda: nn.Conv2d(6, 9, 3, padding=1, groups=3), (1, 6, 7, 7))
net("conv2d_depthwise", "conv", lambda: nn.Conv2d(6, 12, 3, 2, 1, groups=6), (2, 6, 9, 9))
net("conv2d_dilated", "conv", lambda: nn.Conv2d(2, 3, 3, dilation=3, padding=3), (1, 2, 11, 12))
net("conv2d_reflect", "conv", lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (1, 2, 6, 7))
net("conv2d_replicate", "conv", lambda: nn.Conv2d(2, 3, 3, padding=(2, 1), padding_mode="replicate"), (1, 2, 6, 7))
net("conv3d", "conv", lambda: nn.Conv3d(2, 3, (2, 3, 3), padding=(0, 1, 1)), (1, 2, 5, 6, 7))
net("conv_filter_input", "conv", fn(lambda x, w: F.conv2d(x, w, padding=1)), (1, 3, 6, 6), (4, 3, 3, 3))
net("deconv1d", "conv", lambda: nn.ConvTranspose1d(4, 3, 4, 2, 1), (1, 4, 9))
net("deconv2d", "conv", lambda: nn.ConvTranspose2d(4, 3, 3), (1, 4, 5, 6))
net("deconv2d_stride", "conv", lambda: nn.ConvTranspose2d(4, 6, 4, 2, 1), (1, 4, 5, 6))
net("deconv2d_outpad", "conv", lambda: nn.ConvTranspose2d(3, 5, 3, 2, 1, output_padding=1), (1, 3, 4, 5))
net("deconv2d_groups", "conv", lambda: nn.ConvTranspose2d(6, 4, 3, 2, groups=2, bias=False), (1, 6, 4, 4))
net("deconv2d_depthwise", "conv", lambda: nn.ConvTranspose2d(4, 4, 3, 2, 1, groups=4), (1, 4, 5, 5))
net("deconv2d_dilated", "conv", lambda: nn.ConvTranspose2d(2, 3, 3, dilation=2), (1, 2, 5, 5))
net("deconv3d", "conv", lambda: nn.ConvTranspose3d(2, 3, 2, 2), (1, 2, 3, 3, 4))

# ---- pools
net("maxpool2d", "pool", lambda: nn.MaxPool2d(2), (1, 3, 8, 8))
net("maxpool2d_pad", "pool", lambda: nn.MaxPool2d(3, 2, 1), (1, 3, 9, 8))
net("maxpool2d_floor", "pool", lambda: nn.MaxPool2d((2, 3), (2, 1), (1, 0)), (1, 2, 7, 8))
net("maxpool2d_dilated", "pool", lambda: nn.MaxPool2d(2, 1, dilation=2), (1, 2, 7, 7))
net("maxpool1d", "pool", lambda: nn.MaxPool1d(3, 2), (2, 3, 11))
net("maxpool3d", "pool", lambda: nn.MaxPool3d(2), (1, 2, 4, 4, 6))
net("avgpool2d", "pool", lambda: nn.AvgPool2d(2), (1, 3, 8, 8))
net("avgpool2d_pad_include", "pool", lambda: nn.AvgPool2d(3, 2, 1), (1, 3, 8, 8))
net("avgpool2d_asym", "pool", lambda: nn.AvgPool2d((2, 3), (1, 2), (0, 1)), (1, 3, 8, 8))
net("avgpool1d", "pool", lambda: nn.AvgPool1d(4, 3), (1, 3, 13))
net("adaptive_avg1", "pool", lambda: nn.AdaptiveAvgPool2d(1), (2, 3, 7, 5))
net("adaptive_avg_even", "pool", lambda: nn.AdaptiveAvgPool2d((2, 3)), (1, 2, 8, 9))
net("adaptive_max", "pool", lambda: nn.AdaptiveMaxPool2d(2), (1, 2, 8, 8))
net("lp_pool", "pool", fn(lambda x: F.avg_pool2d(x * x, 2).sqrt()), (1, 2, 6, 6))

# ---- normalizations
net("batchnorm2d", "norm", lambda: nn.BatchNorm2d(4), (1, 4, 5, 5))
net("batchnorm1d", "norm", lambda: nn.BatchNorm1d(6), (3, 6))
net(
    "conv_bn_relu",
    "norm",
    seq(lambda: nn.Conv2d(3, 8, 3, bias=False), lambda: nn.BatchNorm2d(8), nn.ReLU()),
    (1, 3, 8, 8),
)
net("layernorm", "norm", lambda: nn.LayerNorm(8), (2, 5, 8))
net("layernorm_two_axes", "norm", lambda: nn.LayerNorm((5, 8), elementwise_affine=False), (2, 5, 8))
net("groupnorm", "norm", lambda: nn.GroupNorm(3, 6), (2, 6, 4, 4))
net("instancenorm", "norm", lambda: nn.InstanceNorm2d(4, affine=True), (2, 4, 5, 5))
net("rmsnorm", "norm", lambda: nn.RMSNorm(8, eps=1e-6), (2, 5, 8))
net("lrn", "norm", lambda: nn.LocalResponseNorm(3), (1, 6, 4, 4))
net("l2norm", "norm", fn(lambda x: x / (x * x).sum(1, keepdim=True).sqrt().clamp(min=1e-6)), (2, 5, 3))
net("weightnorm", "norm", lambda: torch.nn.utils.weight_norm(nn.Conv1d(3, 4, 3)), (1, 3, 8))

# ---- activations
for _name, _layer in {
    "relu": nn.ReLU(),
    "relu6": nn.ReLU6(),
    "leaky_relu": nn.LeakyReLU(0.2),
    "prelu": nn.PReLU(4),
    "elu": nn.ELU(1.5),
    "selu": nn.SELU(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "silu": nn.SiLU(),
    "mish": nn.Mish(),
    "hardswish": nn.Hardswish(),
    "hardsigmoid": nn.Hardsigmoid(),
    "hardtanh": nn.Hardtanh(-0.5, 0.7),
    "softplus": nn.Softplus(),
    "softshrink": nn.Softshrink(0.3),
    "softsign": nn.Softsign(),
    "sigmoid": nn.Sigmoid(),
    "tanh": nn.Tanh(),
    "softmax": nn.Softmax(-1),
    "log_softmax": nn.LogSoftmax(1),
    "celu": nn.CELU(0.7),
    "logsigmoid": nn.LogSigmoid(),
    "glu": nn.GLU(1),
    "hardshrink": nn.Hardshrink(0.4),
    "tanhshrink": nn.Tanhshrink(),
}.items():
    net("act_" + _name, "activation", (lambda layer: lambda: layer)(_layer), (2, 4, 6))

# ---- arithmetic
net(
    "unary_smooth",
    "math",
    fn(lambda x: (torch.exp(x), torch.sin(x), torch.cos(x), torch.tan(x), torch.sinh(x), torch.cosh(x), torch.atan(x))),
    unit(3, 4),
)
net(
    "unary_domain",
    "math",
    fn(
        lambda x: (
            torch.log(x),
            torch.sqrt(x),
            torch.rsqrt(x),
            torch.log2(x),
            torch.reciprocal(x),
            torch.log1p(x),
            torch.expm1(x),
        )
    ),
    positive(3, 4),
)
net(
    "unary_arc",
    "math",
    fn(lambda x: (torch.asin(x), torch.acos(x), torch.atanh(x), torch.asinh(x), torch.erf(x))),
    unit(3, 4),
)
net(
    "rounding",
    "math",
    fn(lambda x: (torch.floor(x), torch.ceil(x), torch.round(x), torch.trunc(x), torch.sign(x), torch.abs(x))),
    lambda: torch.tensor([[-2.5, -1.5, -0.5, 0.5], [1.5, 2.5, 0.49999997, -3.7]]),
)
net(
    "binary_broadcast",
    "math",
    fn(lambda a, b: (a + b, a - b, a * b, a / (b * b + 1), torch.maximum(a, b), torch.minimum(a, b))),
    (2, 3, 4),
    (3, 1),
)
net("pow_scalars", "math", fn(lambda x: (x**2, x**3, x**0.5, 2.0**x, 1.0 - x, 3.0 / x)), positive(2, 5))
net(
    "compare_logic",
    "math",
    fn(lambda a, b: ((a > b) & (a > 0), (a < b) | (b <= 0), ~(a >= b), a == b, a != b)),
    (3, 4),
    (3, 4),
)
net("where_clamp", "math", fn(lambda a, b: torch.where(a > b, a, b * 2).clamp(-0.5, 0.8)), (3, 4), (3, 4))
net(
    "int_arithmetic",
    "math",
    fn(lambda a, b: (a + b, a * b, a // 3, a % 3, a - b)),
    ints(50, 4, 5),
    ints(9, 4, 5, low=1),
)
net("remainder_fmod", "math", fn(lambda a: (torch.remainder(a, 0.7), torch.fmod(a, 0.7))), (3, 4))
net("atan2", "math", fn(lambda a, b: torch.atan2(a, b)), (3, 4), (3, 4))
net("isnan_isinf", "math", fn(lambda a: (torch.isnan(a / a.round()), torch.isinf(1 / a.round()))), (3, 4))

# ---- reductions
net(
    "reduce_mean_sum",
    "reduce",
    fn(lambda x: (x.mean(1), x.sum((0, 2)), x.mean((1, 2), keepdim=True), x.sum())),
    (2, 3, 4),
)
net("reduce_max_min", "reduce", fn(lambda x: (x.amax(1), x.amin((1, 2)), x.max(2).values, x.max(2).indices)), (2, 3, 4))
net("reduce_prod", "reduce", fn(lambda x: x.prod(1)), (2, 3, 4))
net("reduce_arg", "reduce", fn(lambda x: (x.argmax(1), x.argmin(2, keepdim=True))), (2, 3, 4))
net("reduce_any_all", "reduce", fn(lambda x: ((x > 0).any(1), (x > -1).all(2))), (2, 3, 4))
net("reduce_var_std", "reduce", fn(lambda x: (x.var(1, unbiased=False), x.std(2), x.norm(dim=1))), (2, 3, 4))
net("reduce_logsumexp", "reduce", fn(lambda x: torch.logsumexp(x, 1)), (2, 3, 4))
net("cumsum", "reduce", fn(lambda x: (torch.cumsum(x, 1), torch.cumprod(x, 2))), (2, 3, 4))
net("topk", "reduce", fn(lambda x: torch.topk(x, 2, 1)), (2, 5, 3))
net("sort", "reduce", fn(lambda x: torch.sort(x, 1, descending=True)), (2, 5, 3))

# ---- shapes
net("reshape_permute", "shape", fn(lambda x: x.reshape(2, 6, 2).permute(2, 0, 1).flatten(1)), (2, 3, 4))
net("squeeze_unsqueeze", "shape", fn(lambda x: (x.squeeze(1), x.unsqueeze(-1), x.transpose(1, 2))), (2, 1, 4))
net("concat_stack", "shape", fn(lambda a, b: (torch.cat([a, b], 1), torch.stack([a, b], 1))), (2, 3), (2, 3))
net(
    "split_chunk",
    "shape",
    fn(lambda x: (*torch.split(x, [1, 3, 2], 1), *torch.chunk(x, 3, 1), *x.unbind(0))),
    (2, 6, 2),
)
net("slice_step", "shape", fn(lambda x: (x[:, 1:4], x[:, ::2], x[..., -2:], x[1], x[:, -3:-1])), (2, 6, 5))
net("flip_roll", "shape", fn(lambda x: (x.flip(1), x.roll(1, 1))), (2, 5, 3))
net(
    "expand_repeat",
    "shape",
    fn(lambda x: (x.expand(2, 3, 4), x.repeat(2, 1, 3), x.repeat_interleave(2, 2))),
    (1, 3, 4),
)
net("pad_constant", "shape", fn(lambda x: F.pad(x, (1, 2, 0, 1), value=0.5)), (1, 2, 3, 4))
net("pad_reflect", "shape", fn(lambda x: F.pad(x, (1, 2), mode="reflect")), (1, 2, 5))
net("pad_replicate", "shape", fn(lambda x: F.pad(x, (2, 1, 1, 0), mode="replicate")), (1, 2, 3, 4))
net("pad_crop", "shape", fn(lambda x: F.pad(x, (-1, 1))), (1, 2, 5))
net("tril_triu", "shape", fn(lambda x: (x.tril(), x.triu(1))), (4, 5))
net("pixel_shuffle", "shape", lambda: nn.PixelShuffle(2), (1, 8, 3, 3))
net("unfold", "shape", lambda: nn.Unfold(3, padding=1), (1, 2, 5, 5))
net(
    "meshgrid_arange",
    "shape",
    fn(lambda x: x + torch.arange(4.0).view(1, 4) * torch.linspace(0, 1, 3).view(3, 1)),
    (3, 4),
)

# ---- gather, scatter
net("embedding", "gather", lambda: nn.Embedding(20, 6), ints(20, 2, 5))
net("gather", "gather", fn(lambda x, i: torch.gather(x, 1, i)), (3, 5), ints(5, 3, 2))
net("index_select", "gather", fn(lambda x: (x.index_select(1, torch.tensor([2, 0, 1])), x[:, [3, 1]])), (2, 4, 3))
net("index_tensor", "gather", fn(lambda x, i: x[i]), (6, 4), ints(6, 3))
net(
    "scatter",
    "gather",
    fn(lambda x, i, u: x.scatter(1, i, u)),
    (3, 5),
    lambda: torch.tensor([[0, 2], [1, 4], [3, 0]]),
    (3, 2),
)
net("masked_fill", "gather", fn(lambda x, m: x.masked_fill(m, -5.0)), (3, 5), bools(3, 5))
net("one_hot", "gather", fn(lambda i: F.one_hot(i, 6).float()), ints(6, 4))
net("grid_sample", "gather", fn(lambda x, g: F.grid_sample(x, g, align_corners=False)), (1, 2, 5, 6), unit(1, 4, 3, 2))
net("slice_assign", "gather", fn(lambda x, y: torch.slice_scatter(x, y, 1, 1, 3)), (3, 5), (3, 2))

# ---- types
net(
    "cast_chain",
    "types",
    fn(lambda x: (x.to(torch.int64), x.to(torch.int32).float(), (x * 3).to(torch.uint8).float(), x > 0)),
    positive(3, 4),
)
net("int64_io", "types", fn(lambda i: i * 2 + 1), ints(100, 3, 4))
net("int32_io", "types", fn(lambda i: (i - 3).clamp(min=0)), ints32(10, 3, 4))
net("bool_io", "types", fn(lambda m, n: (m & n, m | n, ~m)), bools(3, 4), bools(3, 4))
net(
    "half_conv",
    "types",
    lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).half(),
    lambda: torch.randn(1, 3, 6, 6).half(),
    tol=5e-3,
)
net(
    "half_linear",
    "types",
    lambda: nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)).half(),
    lambda: torch.randn(2, 8).half(),
    tol=1e-2,
)
net("double_linear", "types", lambda: nn.Linear(6, 3).double(), lambda: torch.randn(2, 6).double())

# ---- products
net("linear", "matmul", lambda: nn.Linear(8, 5), (3, 8))
net("linear_nd", "matmul", lambda: nn.Linear(8, 5, bias=False), (2, 3, 4, 8))
net("matmul_batch", "matmul", fn(lambda a, b: a @ b), (2, 3, 4, 5), (2, 1, 5, 6))
net("matmul_vector", "matmul", fn(lambda a, b: (a @ b, torch.outer(b, b), torch.dot(b, b))), (3, 5), (5,))
net(
    "bmm_baddbmm",
    "matmul",
    fn(lambda a, b, c: torch.baddbmm(c, a, b, beta=0.5, alpha=2.0)),
    (2, 3, 4),
    (2, 4, 5),
    (2, 3, 5),
)
net("addmm", "matmul", fn(lambda c, a, b: torch.addmm(c, a, b)), (5,), (3, 4), (4, 5))
net("einsum_bilinear", "matmul", fn(lambda a, b: torch.einsum("bij,bkj->bik", a, b)), (2, 3, 4), (2, 5, 4))
net("einsum_heads", "matmul", fn(lambda a, b: torch.einsum("bqhd,bkhd->bhqk", a, b)), (1, 3, 2, 4), (1, 5, 2, 4))
net("einsum_three", "matmul", fn(lambda a, b, c: torch.einsum("bi,ij,bj->b", a, b, c)), (2, 3), (3, 4), (2, 4))

# ---- resize
net("up_nearest", "resize", lambda: nn.Upsample(scale_factor=2), (1, 2, 3, 4))
net("up_nearest_1d", "resize", lambda: nn.Upsample(scale_factor=3), (1, 2, 5))
net("up_bilinear", "resize", lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 4))
net(
    "up_bilinear_corners",
    "resize",
    lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
    (1, 2, 3, 4),
)
net("up_size", "resize", fn(lambda x: F.interpolate(x, size=(7, 5))), (1, 2, 3, 4))
net("up_bicubic", "resize", fn(lambda x: F.interpolate(x, scale_factor=2, mode="bicubic")), (1, 2, 4, 4))
net("down_nearest", "resize", fn(lambda x: F.interpolate(x, scale_factor=0.5)), (1, 2, 8, 8))


# ---- recurrent
class Rnn(nn.Module):
    def __init__(self, cell, *args, **kwargs):
        super().__init__()
        self.rnn = cell(*args, **kwargs)

    def forward(self, x, *state):
        if isinstance(self.rnn, nn.LSTM):
            y, (h, c) = self.rnn(x, state) if state else self.rnn(x)
            return y, h, c
        return self.rnn(x, *state)


net("lstm", "recurrent", lambda: Rnn(nn.LSTM, 4, 5, batch_first=True), (1, 6, 4))
net("lstm_time_first", "recurrent", lambda: Rnn(nn.LSTM, 4, 5), (6, 2, 4))
net("lstm_two_layers", "recurrent", lambda: Rnn(nn.LSTM, 4, 5, 2, batch_first=True), (2, 6, 4))
net("lstm_bidirectional", "recurrent", lambda: Rnn(nn.LSTM, 4, 5, batch_first=True, bidirectional=True), (1, 6, 4))
net("lstm_bi_two_layers", "recurrent", lambda: Rnn(nn.LSTM, 4, 3, 2, batch_first=True, bidirectional=True), (1, 5, 4))
net("lstm_nobias", "recurrent", lambda: Rnn(nn.LSTM, 4, 5, bias=False, batch_first=True), (1, 6, 4))
net("lstm_projected", "recurrent", lambda: Rnn(nn.LSTM, 4, 6, proj_size=3, batch_first=True), (1, 5, 4))
net("lstm_state", "recurrent", lambda: Rnn(nn.LSTM, 4, 5, batch_first=True), (1, 6, 4), (1, 1, 5), (1, 1, 5))
net("gru", "recurrent", lambda: Rnn(nn.GRU, 4, 5, batch_first=True), (1, 6, 4))
net("gru_bidirectional", "recurrent", lambda: Rnn(nn.GRU, 4, 5, batch_first=True, bidirectional=True), (1, 6, 4))
net("gru_two_layers", "recurrent", lambda: Rnn(nn.GRU, 4, 5, 2), (6, 2, 4))
net("rnn_tanh", "recurrent", lambda: Rnn(nn.RNN, 4, 5, batch_first=True), (1, 6, 4))
net(
    "rnn_relu_bi",
    "recurrent",
    lambda: Rnn(nn.RNN, 4, 5, nonlinearity="relu", bidirectional=True, batch_first=True),
    (1, 6, 4),
)
net("lstm_cell", "recurrent", lambda: Fn2(nn.LSTMCell(4, 5)), (2, 4), (2, 5), (2, 5))
net("gru_cell", "recurrent", lambda: nn.GRUCell(4, 5), (2, 4), (2, 5))


class Fn2(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x, h, c):
        return self.m(x, (h, c))


# ---- attention
class Mha(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, q, k):
        return self.m(q, k, k, need_weights=False)[0]


class HandMha(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).reshape(1, 6, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        a = torch.softmax(q @ k.transpose(-2, -1) / 2, -1) @ v
        return x + self.out(a.transpose(1, 2).reshape(1, 6, 16))


def encoder(**options):
    return lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options), 2, enable_nested_tensor=False
    )


net(
    "sdpa",
    "attention",
    fn(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)),
    (1, 2, 5, 4),
    (1, 2, 6, 4),
    (1, 2, 6, 4),
)
net(
    "sdpa_causal",
    "attention",
    fn(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    (1, 2, 5, 4),
    (1, 2, 5, 4),
    (1, 2, 5, 4),
)
net(
    "sdpa_mask_scale",
    "attention",
    fn(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.3)),
    (1, 2, 5, 4),
    (1, 2, 6, 4),
    (1, 2, 6, 4),
    (1, 1, 5, 6),
)
net(
    "sdpa_bool_mask",
    "attention",
    fn(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(5, 5, dtype=torch.bool).tril())),
    (1, 2, 5, 4),
    (1, 2, 5, 4),
    (1, 2, 5, 4),
)
net(
    "sdpa_grouped",
    "attention",
    fn(
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True
        )
    ),
    (1, 4, 5, 4),
    (1, 2, 5, 4),
    (1, 2, 5, 4),
)
net("mha", "attention", Mha, (1, 5, 16), (1, 6, 16))
net("mha_hand", "attention", HandMha, (1, 6, 16))
net("encoder_post_relu", "attention", encoder(), (1, 6, 16))
net("encoder_pre_gelu", "attention", encoder(norm_first=True, activation="gelu"), (1, 6, 16))
net(
    "decoder_layer",
    "attention",
    lambda: nn.TransformerDecoderLayer(16, 4, 32, batch_first=True),
    (1, 5, 16),
    (1, 6, 16),
)


# ---- signal
class Power(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.hann_window(16))

    def forward(self, x):
        y = torch.view_as_real(torch.stft(x, 16, 8, window=self.w, center=False, return_complex=True))
        return torch.log((y * y).sum(-1) + 1e-5)


net(
    "stft",
    "signal",
    fn(
        lambda x: torch.view_as_real(
            torch.stft(x, 16, 8, window=torch.hann_window(16), center=False, return_complex=True)
        )
    ),
    (1, 64),
)
net("stft_buffer", "signal", lambda: Power(), (1, 64))
net("rfft", "signal", fn(lambda x: torch.view_as_real(torch.fft.rfft(x))), (2, 16))
net(
    "istft",
    "signal",
    fn(lambda x: torch.istft(torch.view_as_complex(x), 16, 8, window=torch.hann_window(16))),
    (9, 7, 2),
)


# ---- networks
class Basic(nn.Module):
    def __init__(self, i, o, st=1):
        super().__init__()
        self.a = nn.Sequential(
            nn.Conv2d(i, o, 3, st, 1, bias=False),
            nn.BatchNorm2d(o),
            nn.ReLU(),
            nn.Conv2d(o, o, 3, 1, 1, bias=False),
            nn.BatchNorm2d(o),
        )
        self.d = (
            nn.Sequential(nn.Conv2d(i, o, 1, st, bias=False), nn.BatchNorm2d(o)) if st != 1 or i != o else nn.Identity()
        )

    def forward(self, x):
        return F.relu(self.a(x) + self.d(x))


class Inverted(nn.Module):
    def __init__(self, i, o, st, e):
        super().__init__()
        h = i * e
        self.r = st == 1 and i == o
        self.n = nn.Sequential(
            nn.Conv2d(i, h, 1, bias=False),
            nn.BatchNorm2d(h),
            nn.ReLU6(),
            nn.Conv2d(h, h, 3, st, 1, groups=h, bias=False),
            nn.BatchNorm2d(h),
            nn.Hardswish(),
            nn.Conv2d(h, o, 1, bias=False),
            nn.BatchNorm2d(o),
        )
        self.se = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(o, o // 4, 1), nn.ReLU(), nn.Conv2d(o // 4, o, 1), nn.Hardsigmoid()
        )

    def forward(self, x):
        y = self.n(x)
        y = y * self.se(y)
        return x + y if self.r else y


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.g = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.Conv2d(8, 16, 3, padding=1, stride=2),
            nn.GroupNorm(4, 16),
        )
        self.c, self.o = nn.Conv2d(24, 8, 3, padding=1), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = F.silu(self.a(x))
        u = F.interpolate(F.elu(self.g(self.b(a))), scale_factor=2, mode="bilinear", align_corners=False)
        return torch.softmax(self.o(F.relu(self.c(torch.cat([a, u], 1)))), 1)


class Audio(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(
            nn.Conv1d(1, 8, 5, 2, dilation=2),
            nn.PReLU(8),
            nn.AvgPool1d(3, 2, 1),
            nn.Conv1d(8, 16, 3, padding="same"),
            nn.InstanceNorm1d(16),
            nn.GELU(),
        )
        self.f = nn.Linear(16, 3)

    def forward(self, x):
        y = self.n(x)
        return self.f(y.amax(-1)), y.argmax(1)


class TextNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.p = nn.Embedding(50, 16), nn.Parameter(torch.randn(1, 6, 16))
        self.t, self.f = encoder(norm_first=True, activation="gelu")(), nn.Linear(16, 50)

    def forward(self, i):
        return self.f(self.t(self.e(i) + self.p))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.cls, self.pos = (
            nn.Conv2d(3, 16, 4, 4),
            nn.Parameter(torch.randn(1, 1, 16)),
            nn.Parameter(torch.randn(1, 17, 16)),
        )
        self.t, self.f = encoder(norm_first=True, activation="gelu")(), nn.Linear(16, 5)

    def forward(self, x):
        y = torch.cat([self.cls.expand(x.shape[0], -1, -1), self.patch(x).flatten(2).transpose(1, 2)], 1) + self.pos
        return self.f(self.t(y)[:, 0])


class Crnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d((2, 1)))
        self.r, self.f = nn.LSTM(32, 12, batch_first=True, bidirectional=True), nn.Linear(24, 7)

    def forward(self, x):
        y = self.c(x)
        y = y.permute(0, 3, 1, 2).flatten(2)
        return F.log_softmax(self.f(self.r(y)[0]), -1)


class Rotary(nn.Module):
    """A Llama-like decoder: RMSNorm, rotary embedding, grouped queries, SwiGLU; with a cache, its keys and values go in and out."""

    def __init__(self, layers=2, width=32, heads=4, kv=2, vocabulary=48, cache=True, additive=True):
        super().__init__()
        self.additive = additive
        self.cache, self.h, self.kv, self.d = cache, heads, kv, width // heads
        self.e = nn.Embedding(vocabulary, width)
        self.l = nn.ModuleList(
            [
                nn.ModuleDict(
                    {
                        "n1": nn.RMSNorm(width, eps=1e-6),
                        "q": nn.Linear(width, width, bias=False),
                        "k": nn.Linear(width, kv * self.d, bias=False),
                        "v": nn.Linear(width, kv * self.d, bias=False),
                        "o": nn.Linear(width, width, bias=False),
                        "n2": nn.RMSNorm(width, eps=1e-6),
                        "g": nn.Linear(width, 2 * width, bias=False),
                        "u": nn.Linear(width, 2 * width, bias=False),
                        "w": nn.Linear(2 * width, width, bias=False),
                    }
                )
                for _ in range(layers)
            ]
        )
        self.n, self.f = nn.RMSNorm(width, eps=1e-6), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("inv", 1.0 / 10000 ** (torch.arange(0, self.d, 2).float() / self.d))

    def turn(self, x, cos, sin):
        a, b = x[..., : self.d // 2], x[..., self.d // 2 :]
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(self, ids, *past):
        x = self.e(ids)
        t = ids.shape[1]
        p = past[0].shape[2] if past else 0
        a = torch.arange(p, p + t).float().unsqueeze(1) * self.inv
        a = torch.cat([a, a], -1)
        cos, sin = a.cos(), a.sin()
        out = []
        for i, m in enumerate(self.l):
            y = m["n1"](x)
            q = m["q"](y).view(1, t, self.h, self.d).transpose(1, 2)
            k = m["k"](y).view(1, t, self.kv, self.d).transpose(1, 2)
            v = m["v"](y).view(1, t, self.kv, self.d).transpose(1, 2)
            q, k = self.turn(q, cos, sin), self.turn(k, cos, sin)
            if past:
                k, v = torch.cat([past[2 * i], k], 2), torch.cat([past[2 * i + 1], v], 2)
            out += [k, v]
            r = self.h // self.kv
            k, v = k.repeat_interleave(r, 1), v.repeat_interleave(r, 1)
            if past:
                mask = (
                    torch.full((t, p + t), -1e4).triu(p + 1)
                    if self.additive
                    else torch.ones(t, p + t, dtype=torch.bool).tril(p)
                )
                z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            else:
                z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + m["o"](z.transpose(1, 2).reshape(1, t, -1))
            y = m["n2"](x)
            x = x + m["w"](F.silu(m["g"](y)) * m["u"](y))
        y = self.f(self.n(x))
        return (y, *out) if self.cache else y


net(
    "net_resnet",
    "network",
    seq(
        lambda: nn.Conv2d(3, 8, 7, 2, 3, bias=False),
        lambda: nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        lambda: Basic(8, 8),
        lambda: Basic(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        lambda: nn.Linear(16, 10),
    ),
    (1, 3, 32, 32),
)
net(
    "net_mobilenet",
    "network",
    seq(
        lambda: nn.Conv2d(3, 8, 3, 2, 1),
        nn.Hardswish(),
        lambda: Inverted(8, 8, 1, 2),
        lambda: Inverted(8, 12, 2, 3),
        lambda: Inverted(12, 12, 1, 3),
    ),
    (1, 3, 32, 32),
)
net(
    "net_generator",
    "network",
    seq(
        lambda: nn.ConvTranspose2d(8, 16, 4, 1, 0),
        lambda: nn.BatchNorm2d(16),
        nn.ReLU(),
        lambda: nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1, groups=2),
        nn.LeakyReLU(0.2),
        lambda: nn.ConvTranspose2d(8, 3, 4, 2, 1),
        nn.Tanh(),
    ),
    (1, 8, 1, 1),
)
net("net_unet", "network", UNet, (1, 3, 16, 16))
net("net_audio", "network", Audio, (2, 1, 64))
net("net_text", "network", TextNet, ints(50, 1, 6))
net("net_vit", "network", Vit, (1, 3, 16, 16))
net("net_crnn", "network", Crnn, (1, 1, 8, 12))
net(
    "net_mlp_mixer",
    "network",
    seq(
        lambda: nn.Conv2d(3, 12, 4, 4),
        nn.Flatten(2),
        lambda: nn.Linear(16, 16),
        nn.GELU(),
        lambda: nn.LayerNorm(16),
        lambda: nn.Linear(16, 8),
    ),
    (1, 3, 16, 16),
)
net("llama", "network", lambda: Rotary(cache=False), ints(48, 1, 7))
net("llama_cache", "network", lambda: Rotary(), ints(48, 1, 3), (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8))
net(
    "llama_cache_bool",
    "network",
    lambda: Rotary(additive=False),
    ints(48, 1, 3),
    (1, 2, 4, 8),
    (1, 2, 4, 8),
    (1, 2, 4, 8),
    (1, 2, 4, 8),
)
net(
    "llama_cache_dyn",
    "dynamic",
    lambda: Rotary(),
    ints(48, 1, 3),
    (1, 2, 4, 8),
    (1, 2, 4, 8),
    (1, 2, 4, 8),
    (1, 2, 4, 8),
    dynamic={"x0": {1: "S"}, **{f"x{i}": {2: "P"} for i in range(1, 5)}},
    other=[(1, 1), *[(1, 2, 7, 8)] * 4],
)
net("llama_q40", "quantized", lambda: Rotary(cache=False), ints(48, 1, 7), q40=True, tol=2e-3)
net("linear_q40", "quantized", lambda: nn.Linear(64, 16), (3, 64), q40=True, tol=2e-3)
net(
    "mlp_q40",
    "quantized",
    seq(lambda: nn.Linear(32, 64), nn.SiLU(), lambda: nn.Linear(64, 8)),
    (2, 32),
    q40=True,
    tol=2e-3,
)
net(
    "embedding_q40",
    "quantized",
    seq(lambda: nn.Embedding(20, 32), lambda: nn.Linear(32, 8)),
    ints(20, 1, 5),
    q40=True,
    tol=2e-3,
)


class Static8(nn.Module):
    """Eight bits, the torch way: quint8 activations, qint8 weights."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()
        self.c, self.r = nn.Conv2d(3, 4, 3), nn.ReLU()

    def forward(self, x):
        return self.dequant(self.r(self.c(self.quant(x))))


def static8():
    torch.backends.quantized.engine = "fbgemm"
    m = Static8().eval()
    m.qconfig = torch.ao.quantization.QConfig(
        activation=torch.ao.quantization.HistogramObserver.with_args(reduce_range=True),
        weight=torch.ao.quantization.default_weight_observer,
    )
    torch.ao.quantization.fuse_modules(m, [["c", "r"]], inplace=True)
    torch.ao.quantization.prepare(m, inplace=True)
    for _ in range(4):
        m(torch.randn(1, 3, 6, 6))
    return torch.ao.quantization.convert(m)


net("conv_quint8", "quantized", static8, (1, 3, 6, 6), tol=5e-2)

# ---- open axes
B = {"x0": {0: "B"}}
net(
    "dyn_batch_mlp",
    "dynamic",
    seq(lambda: nn.Linear(8, 6), nn.ReLU(), lambda: nn.Linear(6, 3)),
    (3, 8),
    dynamic=B,
    other=[(5, 8)],
)
net(
    "dyn_batch_cnn",
    "dynamic",
    seq(lambda: nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), lambda: nn.Linear(4, 3)),
    (2, 3, 8, 8),
    dynamic=B,
    other=[(4, 3, 8, 8)],
)
net(
    "dyn_time_conv",
    "dynamic",
    seq(lambda: nn.Conv1d(4, 6, 3, padding=1), nn.ReLU(), lambda: nn.Conv1d(6, 2, 3, 2)),
    (1, 4, 15),
    dynamic={"x0": {2: "T"}},
    other=[(1, 4, 21)],
)
net(
    "dyn_time_lstm",
    "dynamic",
    lambda: Rnn(nn.LSTM, 4, 5, batch_first=True),
    (1, 6, 4),
    dynamic={"x0": {1: "T"}},
    other=[(1, 9, 4)],
)
net("dyn_reshape", "dynamic", fn(lambda x: x.reshape(x.shape[0], -1).sum(1)), (2, 3, 4), dynamic=B, other=[(5, 3, 4)])
net(
    "dyn_shape_of",
    "dynamic",
    fn(lambda x: x / x.shape[1] + torch.arange(x.shape[1])),
    (2, 6),
    dynamic={"x0": {1: "S"}},
    other=[(2, 9)],
)
net(
    "dyn_concat",
    "dynamic",
    fn(lambda a, b: torch.cat([a, b], 1)),
    (2, 3),
    (2, 4),
    dynamic={"x0": {1: "S"}, "x1": {1: "P"}},
    other=[(2, 5), (2, 2)],
)
net(
    "dyn_attention",
    "dynamic",
    fn(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)),
    (1, 2, 5, 4),
    dynamic={"x0": {2: "S"}},
    other=[(1, 2, 8, 4)],
)
net(
    "dyn_text",
    "dynamic",
    seq(lambda: nn.Embedding(20, 16), encoder(norm_first=True, activation="gelu")),
    ints(20, 1, 6),
    dynamic={"x0": {1: "S"}},
    other=[(1, 9)],
)
net(
    "dyn_slice",
    "dynamic",
    fn(lambda x: (x[:, 1:], x[:, :-1], x[:, -2:])),
    (2, 6),
    dynamic={"x0": {1: "S"}},
    other=[(2, 9)],
)


def make(name):
    """(module, inputs, other inputs of another size or None)"""
    group, build, inputs, options = NETS[name]
    torch.manual_seed(sum(map(ord, name)))
    module = build().eval()
    for m in module.modules():
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)):
            m.running_mean.normal_(0, 0.2)
            m.running_var.uniform_(0.5, 1.5)
            m.weight.data.uniform_(0.5, 1.5)
            m.bias.data.normal_(0, 0.2)

    def tensor(i):
        return i() if callable(i) else torch.randn(*i)

    xs = [tensor(i) for i in inputs]
    other = None
    if "other" in options:
        other = [
            torch.randint(0, 20, s) if x.dtype == torch.int64 else torch.randn(*s) for x, s in zip(xs, options["other"])
        ]
    return module, xs, other
