"""Functions of PyTorch, one a model."""

# ruff: noqa: B023, PLC3002, PLW0108, SIM, B905, PERF, C4, RUF  modules as people write them in PyTorch

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.conformance.pnnx.table import R, add

x4 = R(1, 8, 12, 14)
x3 = R(2, 6, 10)
x2 = R(5, 7)
v = R(9)
# fft / complex
for n in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    add(
        "fft_" + n,
        (lambda n: lambda x: (lambda y: torch.view_as_real(y) if y.is_complex() else y)(getattr(torch.fft, n)(x)))(n),
        x3,
    )
for n in ("fft2", "ifft2", "rfft2", "fftn", "rfftn", "ifftn", "irfft2", "irfftn"):
    add(
        "fft_" + n,
        (lambda n: lambda x: (lambda y: torch.view_as_real(y) if y.is_complex() else y)(getattr(torch.fft, n)(x)))(n),
        x3,
    )
add("fft_roundtrip", lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1, norm="ortho"), n=6, dim=1, norm="ortho"), x3)
add("fft_abs", lambda x: torch.abs(torch.fft.rfft(x)), x3)
add("fft_n", lambda x: torch.view_as_real(torch.fft.fft(x, n=12)), x3)
add("fft_mix", lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real, x3)
add("fft_angle", lambda x: torch.fft.rfft(x).angle(), x3)
add("fft_shift", lambda x: torch.fft.fftshift(x, dim=-1), x3)
add(
    "stft",
    lambda x: torch.stft(x, n_fft=16, hop_length=4, win_length=16, window=torch.hann_window(16), return_complex=False),
    R(2, 64),
)
add("stft_complex", lambda x: torch.view_as_real(torch.stft(x, n_fft=16, return_complex=True)), R(2, 64))
add(
    "istft",
    lambda x: torch.istft(
        torch.stft(x, n_fft=16, hop_length=4, window=torch.hann_window(16), return_complex=True),
        n_fft=16,
        hop_length=4,
        window=torch.hann_window(16),
    ),
    R(2, 64),
)
add("complex_mk", lambda x, y: torch.view_as_real(torch.complex(x, y) * torch.complex(y, x)), x2, R(5, 7))
add("complex_conj", lambda x: torch.view_as_real(torch.conj(torch.view_as_complex(x))), R(3, 4, 2))
add("complex_real", lambda x: torch.real(torch.view_as_complex(x)) + torch.imag(torch.view_as_complex(x)), R(3, 4, 2))
add(
    "complex_rope",
    lambda x, f: torch.view_as_real(torch.view_as_complex(x.reshape(1, 4, 3, 4, 2)) * torch.view_as_complex(f)).flatten(
        3
    ),
    R(1, 4, 3, 8),
    R(3, 4, 2),
)
add("polar", lambda a, b: torch.view_as_real(torch.polar(a, b)), x2.abs(), x2)
# cumulative, sort etc
for n in ("cummax", "cummin"):
    add(n, (lambda n: lambda x: getattr(torch, n)(x, dim=1))(n), x3)
add("logcumsumexp", lambda x: torch.logcumsumexp(x, 1), x3)
add("kthvalue", lambda x: torch.kthvalue(x, 3, dim=1), x3)
add("mode", lambda x: torch.mode(x, dim=1), torch.randint(0, 3, (4, 6)).float())
add("msort", lambda x: torch.msort(x), x2)
add("nanmean", lambda x: torch.nanmean(x, 1), x2)
add("nansum", lambda x: torch.nansum(x, 1), x2)
add("quantile", lambda x: torch.quantile(x, 0.3, dim=1), x2)
add("bucketize", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5, 2.0])), x2)
add("searchsorted", lambda x: torch.searchsorted(torch.tensor([-1.0, 0.0, 0.5, 2.0]), x, right=True), x2)
add("unique", lambda x: torch.unique(x), torch.randint(0, 5, (12,)))
add("unique_consecutive", lambda x: torch.unique_consecutive(x), torch.tensor([1, 1, 2, 2, 3, 1]))
add("bincount", lambda x: torch.bincount(x, minlength=6), torch.tensor([1, 1, 2, 5, 3, 1]))
add("histc", lambda x: torch.histc(x, 5, -2, 2), v)
add("trapz", lambda x: torch.trapz(x, dim=1), x2)
add("renorm", lambda x: torch.renorm(x, 2, 0, 1.0), x2)
add("cov", lambda x: torch.cov(x), x2)
add("clamp_t", lambda x, a, b: torch.clamp(x, a, b), x2, R(5, 7) - 1, R(5, 7) + 1)
add("clamp_min_only", lambda x: torch.clamp(x, min=0.1), x2)
add("lerp_t", lambda a, b, w: torch.lerp(a, b, w), x2, R(5, 7), R(5, 7))
add("where_scalar", lambda x: torch.where(x > 0, x, torch.zeros_like(x)), x2)
add("where_scalar2", lambda x: torch.where(x > 0, 1.0, -1.0), x2)
add("isclose", lambda x, y: torch.isclose(x, y, atol=0.5), x2, R(5, 7))
add("masked_fill_neg", lambda x: x.masked_fill(x < 0, float("-inf")).softmax(-1), x2)
add("masked_scatter", lambda x, y: x.masked_scatter(x > 0, y), x2, R(35))
add("nan_to_num", lambda x: torch.nan_to_num(x / 0.0, nan=1.0, posinf=2.0, neginf=-2.0), x2)
add("round_dec", lambda x: torch.round(x, decimals=2), x2)
add("erfinv", lambda x: torch.erfinv(x.tanh()), x2)
add("digamma_lgamma", lambda x: torch.lgamma(x.abs() + 1), x2)
add("logit", lambda x: torch.logit(x.sigmoid()), x2)
add("expit", lambda x: torch.special.expit(x), x2)
add("ldexp", lambda x: torch.ldexp(x, torch.tensor([1, 2, 3, 1, 2, 3, 1])), x2)
add("gcd", lambda x, y: torch.gcd(x, y), torch.randint(1, 50, (5,)), torch.randint(1, 50, (5,)))
add("bitshift", lambda x: (x << 2) | (x >> 1), torch.randint(1, 50, (5,)))
add("fmod_rem", lambda x, y: torch.fmod(x, y) + torch.remainder(x, y), x2, R(5, 7))
add("div_floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), x2, R(5, 7))
add("div_trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), x2, R(5, 7))
add("int_div", lambda x: x // 3, torch.randint(-20, 20, (6,)))
add("int_truediv", lambda x: x / 3, torch.randint(-20, 20, (6,)))
add("int_float_mix", lambda x, y: x * y + 1.5, torch.randint(-20, 20, (6,)), R(6))
add("bool_sum", lambda x: (x > 0).sum(1), x2)
add("bool_any", lambda x: (x > 0).any(1) | (x < -1).all(1), x2)
add("half_cast", lambda x: (x.half() * 2).float(), x2)
add("to_int", lambda x: x.to(torch.int32) + x.long(), x2 * 4)
add("cast_like", lambda x, y: x.to(y.dtype), x2, torch.zeros(1, dtype=torch.int64))
# linalg
add("linalg_inv", lambda x: torch.linalg.inv(x), R(3, 3) + 3 * torch.eye(3))
add("det", lambda x: torch.det(x), R(2, 3, 3))
add("matrix_exp_pow", lambda x: torch.linalg.matrix_power(x, 3), R(3, 3))
add(
    "norm_p", lambda x: torch.norm(x, p=1, dim=1) + torch.norm(x, dim=1) + torch.linalg.vector_norm(x, ord=3, dim=1), x2
)
add("norm_inf", lambda x: torch.linalg.vector_norm(x, ord=float("inf"), dim=1), x2)
add("matnorm", lambda x: torch.linalg.norm(x), x2)
add("trace", lambda x: torch.trace(x), R(4, 4))
add(
    "chain",
    lambda a, b, c: torch.linalg.multi_dot([a, b, c]),
    R(3, 4),
    R(4, 5),
    R(5, 2),
)
add("cosine", nn.CosineSimilarity(dim=1), x3, R(2, 6, 10))
add("cdist", lambda a, b: torch.cdist(a, b), R(2, 4, 3), R(2, 5, 3))
add("pdist", lambda a: torch.pdist(a), R(5, 3))
add("triu_mask", lambda x: x + torch.triu(torch.full((6, 10), float("-inf")), 1)[None], x3)
add("diag_embed", lambda x: torch.diag_embed(x), x2)
add("block_diag", lambda a, b: torch.block_diag(a, b), R(2, 3), R(3, 2))
add("cartesian", lambda a, b: torch.cartesian_prod(a, b), R(3), R(4))
add("combinations", lambda a: torch.combinations(a), R(4))
add("vander", lambda a: torch.vander(a, 4), R(4))
add("tril_ind", lambda x: x[:, torch.tril_indices(6, 6)[0], torch.tril_indices(6, 6)[1]], R(2, 6, 6))
# indexing
add("idx_none", lambda x: x[:, None, ::2, ..., 1:-1], x4)
add("idx_neg", lambda x: x[:, -1, :, -3:], x4)
add("idx_list", lambda x: x[:, [0, 3, 5]], x4)
add("idx_two", lambda x: x[:, [0, 1, 2], [3, 4, 5]], x4)
add("idx_mask", lambda x: x[x > 0], x2)
add("idx_tensor", lambda x, i: x[i], x2, torch.tensor([[0, 1], [3, 4]]))
add("idx_put", lambda x, i: x.clone().index_put((i,), torch.zeros(1)), x2, torch.tensor([0, 3]))
add("setitem", lambda x: (lambda y: (y.__setitem__((slice(None), slice(1, 4)), 0.0), y)[1])(x.clone()), x2)
add("setitem_t", lambda x, y: (lambda z: (z.__setitem__((slice(None), slice(1, 4)), y), z)[1])(x.clone()), x2, R(5, 3))
add("index_add", lambda x, y: torch.index_add(x, 0, torch.tensor([0, 2]), y), x2, R(2, 7))
add("index_copy", lambda x, y: torch.index_copy(x, 0, torch.tensor([0, 2]), y), x2, R(2, 7))
add("index_fill", lambda x: torch.index_fill(x, 0, torch.tensor([0, 2]), 3.0), x2)
add("gather_nd", lambda x, i: torch.gather(x, 2, i), x3, torch.randint(0, 10, (2, 6, 3)))
add("scatter_mean", lambda x, s: torch.scatter_reduce(x, 1, torch.randint(0, 7, (5, 7)), s, "mean"), x2, R(5, 7))
add(
    "scatter_amax",
    lambda x, s: torch.scatter_reduce(x, 1, torch.zeros(5, 7, dtype=torch.int64), s, "amax"),
    x2,
    R(5, 7),
)
add("diag_scatter", lambda x: torch.diagonal_scatter(x, torch.zeros(5)), x2)
add("argwhere", lambda x: torch.argwhere(x > 0), x2)
add("roll2", lambda x: torch.roll(x, (1, -2), (2, 3)), x4)
add(
    "window_part",
    lambda x: x.view(1, 4, 2, 3, 7, 2).permute(0, 1, 3, 5, 2, 4).contiguous().view(-1, 4, 14),
    R(1, 4, 6, 14),
)
# resize etc
add("bicubic", lambda x: F.interpolate(x, size=(9, 20), mode="bicubic", align_corners=False), x4)
add("bicubic_ac", lambda x: F.interpolate(x, size=(9, 20), mode="bicubic", align_corners=True), x4)
add("nearest_exact", lambda x: F.interpolate(x, scale_factor=1.7, mode="nearest-exact"), x4)
add("area", lambda x: F.interpolate(x, size=(5, 6), mode="area"), x4)
add("lin1d", lambda x: F.interpolate(x, size=17, mode="linear"), x3)
add("tri3d", lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), R(1, 2, 3, 4, 5))
add("interp_like", lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bilinear"), x4, R(1, 3, 20, 22))
add("interp_recomp", lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear", recompute_scale_factor=True), x4)
add("aa_bicubic", lambda x: F.interpolate(x, size=(6, 7), mode="bicubic", antialias=True), x4)
for m in ("bilinear", "nearest", "bicubic"):
    for p in ("zeros", "border", "reflection"):
        add(
            f"grid_{m}_{p}",
            (lambda m, p: lambda x, g: F.grid_sample(x, g, mode=m, padding_mode=p, align_corners=p == "border"))(m, p),
            x4,
            R(1, 5, 6, 2) * 1.2,
        )
add("grid3d", lambda x, g: F.grid_sample(x, g, align_corners=False), R(1, 2, 4, 5, 6), R(1, 3, 3, 3, 3))
add("affine3d", lambda t: F.affine_grid(t, (1, 2, 3, 4, 5), align_corners=True), R(1, 3, 4))
add("max_unpool", lambda x: (lambda y, i: F.max_unpool2d(y, i, 2))(*F.max_pool2d(x, 2, return_indices=True)), x4)
add("frac_pool", lambda x: F.lp_pool2d(x, 2.0, 3, 2), x4)
add("adaptive_uneven", nn.AdaptiveAvgPool2d((5, 3)), x4)
add("adaptive_none", nn.AdaptiveMaxPool2d((None, 3)), x4)
add("pool_ceil", nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), x4)
add("pool_div", nn.AvgPool2d(3, 2, 1, divisor_override=5), x4)
add("maxpool_dil", nn.MaxPool2d(3, 2, 1, dilation=2, ceil_mode=True), x4)
add("maxpool_idx", nn.MaxPool2d(2, return_indices=True), x4)
add(
    "pad_modes",
    lambda x: (
        F.pad(F.pad(x, (1, 2, 3, 1), mode="reflect"), (2, 1), mode="replicate")
        if False
        else F.pad(x, (1, 2, 3, 1), mode="circular")
    ),
    x4,
)
add("pad_neg", lambda x: F.pad(x, (-1, 2, 1, -2), value=1.5), x4)
add("conv_circ", nn.Conv2d(8, 4, 3, padding=1, padding_mode="circular"), x4)
add("conv_refl", nn.Conv2d(8, 4, 3, padding=(2, 1), padding_mode="reflect"), x4)
add("conv_same", nn.Conv2d(8, 4, (4, 3), padding="same", dilation=2), x4)
add("convT_grp", nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2), x4)
add("conv_dynw", lambda x, w: F.conv2d(x, w, padding=1), x4, R(4, 8, 3, 3))
add("weightnorm", nn.utils.parametrizations.weight_norm(nn.Conv2d(8, 4, 3)), x4)
add("lazy_embed", nn.EmbeddingBag(10, 4, mode="mean"), torch.randint(0, 10, (3, 5)))
add("embed_pad", nn.Embedding(10, 4, padding_idx=0), torch.randint(0, 10, (3, 5)))
add("bilinear_m", nn.Bilinear(4, 5, 3), R(6, 4), R(6, 5))
add("unflatten", nn.Sequential(nn.Flatten(), nn.Unflatten(1, (4, 2, -1))), x4)
add("instnorm_aff", nn.InstanceNorm2d(8, affine=True, track_running_stats=True), x4)
add("gn_noaff", nn.GroupNorm(2, 8, affine=False), x4)
add("ln_nobias", nn.LayerNorm(10, bias=False), x3)
add("bn_noaff", nn.BatchNorm2d(8, affine=False), x4)
add("softmax2d", nn.Softmax2d(), x4)
add("crossentropy", lambda x, t: F.cross_entropy(x, t), R(4, 5), torch.tensor([0, 2, 1, 4]))
add("mse", lambda x, y: F.mse_loss(x, y) + F.l1_loss(x, y) + F.smooth_l1_loss(x, y), x2, R(5, 7))
add("bce", lambda x, y: F.binary_cross_entropy_with_logits(x, y), x2, R(5, 7).sigmoid())
