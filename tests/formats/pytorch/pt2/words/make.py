"""Write programs of ops outside `core_aten` and PyTorch 2.13's results.

Run `python -m tests.formats.pytorch.pt2.words.make`. Ops are called directly, so that `torch.export` preserves them.
Calls of one group are one program: NAME.pt2 is repacked with compression, and NAME.npz has `inI` and `outI` by index.
`python -m tests.formats.pytorch.pt2.words.make FOLDER one` makes a program of each op.

Without torchvision, its ops are computed according to its documentation.
"""

# ruff: noqa: PLW0108
# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportCallIssue=false

import math
import operator
import sys
import zipfile
from pathlib import Path

import torch
import torch.ao.quantization.fx._decomposed
import torch.nn.functional as F
from torch import nn
from torch._export.serde import serialize

from tests.formats.pytorch.pt2.core_aten import make as core

A, Q, P = torch.ops.aten, torch.ops.quantized_decomposed, torch.ops.prims
HERE = Path(__file__).parent
normal, between, whole = core.normal, core.between, core.whole

POOL = {
    **core.POOL,
    "pairs": normal(3, 4, 2),
    "other": normal(4, 5, 2),
    "square": normal(4, 4),
    "classes": whole(0, 4, 3),
    "signs": torch.tensor([1, -1, 1]),
    "gates": normal(12, 5),
    "inner": normal(12, 3),
    "bias": normal(12),
    "four": normal(16, 5),
    "hidden": normal(16, 3),
    "less": normal(16),
    "eighths": whole(-128, 128, 18, 8).to(torch.int8),
    "columns": whole(-128, 128, 8, 24).to(torch.int8),
    "steps": torch.tensor([0.02, 0.05, 0.3, 0.011]),
    "zeros": torch.tensor([0, 3, -7, 120]),
    "wave": normal(2, 40),
    "ties": whole(-2, 3, 3, 4, 5).float(),
    "series": normal(2, 3, 7),
    "holes": torch.where(whole(0, 3, 3, 4, 5) == 0, torch.nan, normal(3, 4, 5)),
    "ordered": torch.tensor([-1.0, -0.5, 0.0, 0.0, 0.5, 1.5]),
    "table": torch.sort(normal(3, 6), 1)[0],
    "zero_d": torch.tensor(0.7),
    "at": torch.tensor(2),
    "first": torch.tensor([0]),
    "none": torch.zeros(2, 0),
    "rows": torch.arange(3 * 3 * 5).reshape(3, 3, 5) / 20 - 1,
    "off": torch.tensor([0]),
    "on": torch.tensor([1]),
    "factor": torch.tensor([0.05]),
    "point": torch.tensor([3], dtype=torch.int32),
    "positive": between(0.1, 3.0, 3, 4, 5),
    "counts": whole(0, 4, 3, 4, 5).float(),
    "offsets": normal(2, 36, 5, 2),
    "offset_masks": between(0.0, 1.0, 2, 18, 5, 2),
    "taps": normal(6),
    "regions": torch.tensor([[0.0, 1, 2, 9, 11], [1, 0, 0, 4, 3.5], [1, 3, 3, 3.2, 3.1]]),
}


def complex_(x):
    return torch.view_as_complex(x)


def real(x):
    return torch.view_as_real(x)


def pooled(volume):
    return A.max_pool3d_with_indices.default(volume, [2, 2, 2], [2, 2, 2])


def gradient_free(x, *wanted):
    """Return properties of a random tensor that hold for each draw."""
    return tuple(each(x) for each in wanted)


def deform_conv2d(input, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, parts, use_mask):
    """Deformable convolution: bilinear samples at offset positions for each kernel element, zeros outside the image."""
    n, channels, height, width = input.shape
    outputs, _, kh, kw = weight.shape
    oh, ow = offset.shape[2:]
    moved = offset.reshape(n, parts, kh * kw, 2, oh, ow)
    rows, columns = torch.arange(oh)[:, None] * sh - ph, torch.arange(ow)[None] * sw - pw
    seen = []
    for part, own in enumerate(input.chunk(parts, 1)):
        for tap in range(kh * kw):
            y = rows + tap // kw * dh + moved[:, part, tap, 0]
            x = columns + tap % kw * dw + moved[:, part, tap, 1]
            places = torch.stack([2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1], -1)
            found = F.grid_sample(own, places, align_corners=True)
            factor = mask.reshape(n, parts, kh * kw, 1, oh, ow)[:, part, tap] if use_mask else 1
            seen.append(found * factor)
    taps = torch.cat([torch.stack(seen[k * kh * kw : (k + 1) * kh * kw], 2) for k in range(parts)], 1)
    grouped = taps.reshape(n, groups, channels // groups * kh * kw, oh * ow)
    y = torch.einsum("ngkp,gok->ngop", grouped, weight.reshape(groups, outputs // groups, -1))
    return y.reshape(n, outputs, oh, ow) + bias[:, None, None]


def roi_align(input, rois, scale, rows, columns, ratio, aligned):
    """Return the mean of samples in each cell, with torchvision's Python implementation."""
    from torchvision.ops.roi_align import _roi_align

    return _roi_align(input, rois, scale, rows, columns, ratio, aligned)


def declare_torchvision():
    """Declare torchvision's ops if the library is missing."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define(
        "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
        "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
        "SymInt offset_groups, bool use_mask) -> Tensor"
    )
    library.define(
        "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
        "int sampling_ratio, bool aligned) -> Tensor"
    )
    for function in (deform_conv2d, roi_align):
        library.impl(function.__name__, function, "CPU")
    torch.library.register_fake("torchvision::deform_conv2d")(
        lambda x, weight, offset, *_: x.new_empty(x.shape[0], weight.shape[0], *offset.shape[2:])
    )
    torch.library.register_fake("torchvision::roi_align")(
        lambda x, rois, _, rows, columns, *__: x.new_empty(rois.shape[0], x.shape[1], rows, columns)
    )
    return library


TORCHVISION = declare_torchvision()
V = torch.ops.torchvision

CALLS = {
    # Tensors of rank 0, of extent 0 and of extent 1, and indices of rank 0.
    "scalars": {
        "places": lambda zero_d, at, first, v, x: (
            A.index_select.default(x, 1, at),
            A.index_select.default(zero_d, 0, first),
            A.index_select.default(zero_d, 0, first[0]),
            A.gather.default(v, 0, at),
            A.gather.default(zero_d, 0, first[0]),
            A.gather.default(zero_d, 0, first),
            A.index_fill.int_Scalar(v, 0, at, 2.0),
            A.index_fill.int_Scalar(zero_d, 0, first[0], 2.0),
            A.index_copy.default(v, 0, at, zero_d),
            A.index_copy.default(zero_d, 0, first[0], zero_d * 2),
        ),
        "scatter": lambda zero_d, at, first, v: (
            A.scatter.src(zero_d, 0, first[0], zero_d * 3),
            A.scatter.src(v, 0, at, zero_d * 3),
            A.scatter.value(v, 0, at, 2.5),
            A.scatter_add.default(zero_d, 0, first[0], zero_d * 3),
            A.scatter_reduce.two(zero_d, 0, first[0], zero_d * 3, "amax"),
            A.scatter_reduce.two(zero_d, 0, first[0], zero_d * 3, "mean", include_self=False),
        ),
        "index_reduce": lambda x, rows: tuple(
            A.index_reduce.default(x, 1, torch.tensor([1, 3, 1]), rows, mode, include_self=own)
            for mode in ("prod", "mean", "amax", "amin")
            for own in (True, False)
        ),
        "extremes": lambda zero_d: (
            A.argmax.default(zero_d, 0),
            A.argmax.default(zero_d, 0, True),
            A.argmin.default(zero_d, -1),
            *A.max.dim(zero_d, 0),
            *A.min.dim(zero_d, 0, True),
            *A.median.dim(zero_d, 0),
            *A.nanmedian.dim(zero_d, 0, True),
            *A.kthvalue.default(zero_d, 1, 0),
            *A.mode.default(zero_d, 0),
            *A.cummax.default(zero_d, 0),
            *A.cummin.default(zero_d, 0),
        ),
        "order": lambda zero_d: (
            *A.sort.default(zero_d, 0),
            A.argsort.default(zero_d, 0),
            *A.topk.default(zero_d, 1),
            A.quantile.scalar(zero_d, 0.3, 0),
            A.flip.default(zero_d, [0]),
            A.flip.default(zero_d, []),
        ),
        "statistics": lambda zero_d: (
            A.var.correction(zero_d, [0], correction=0),
            A.std.correction(zero_d, [0], correction=0, keepdim=True),
            *A.var_mean.correction(zero_d, [0], correction=0),
            A.nansum.default(zero_d, [0]),
            A.logcumsumexp.default(zero_d, 0),
            A.softmax.int(zero_d, 0),
            A.log_softmax.int(zero_d, -1),
            A.cosine_similarity.default(zero_d, -zero_d, 0),
            A.prelu.default(zero_d, zero_d.reshape(1)),
        ),
        "moves": lambda zero_d: (
            A.transpose.int(zero_d, 0, 0) + 1,
            A.transpose.int(zero_d, -1, 0) + 1,
            A.unfold.default(zero_d, 0, 1, 1) + 1,
            A.column_stack.default([zero_d, zero_d]),
            A.nonzero.default(zero_d),
            A.argwhere.default(zero_d * 0),
        ),
        "empty": lambda none: (
            A.any.dim(none, 1),
            A.all.dim(none, 1),
            A.sum.dim_IntList(none, [1]),
            A.prod.dim_int(none, 1),
            A.repeat_interleave.self_int(none, 2, 0),
            A.repeat_interleave.self_int(none, 2, 1),
            A.logsumexp.default(none, [1]),
        ),
    },
    "numbers": {
        "atleast_3d": lambda x, m, v, one: tuple(A.atleast_3d.default(each) for each in (x, m, v, one)),
        "blackman_window": lambda x: (
            A.blackman_window.default(7),
            A.blackman_window.periodic(8, False),
            A.blackman_window.default(1),
            A.blackman_window.periodic(1, False),
            A.blackman_window.default(5, dtype=torch.float64),
        ),
        "hann_window": lambda x: (
            A.hann_window.default(7),
            A.hann_window.periodic(8, False),
            A.hann_window.default(1),
            A.hann_window.periodic(1, False),
            A.hann_window.default(6, dtype=torch.float64),
        ),
        "block_diag": lambda m, n, v, one: (A.block_diag.default([m, n]), A.block_diag.default([v, m, one])),
        "broadcast_tensors": lambda m, w, one: A.broadcast_tensors.default([m, w[:, None], one]),
        "bucketize": lambda x, ordered, i: (
            A.bucketize.Tensor(x, ordered),
            A.bucketize.Tensor(x * 0 + 0.0, ordered, right=True, out_int32=True),
            A.bucketize.Tensor(i, ordered),
            A.bucketize.Scalar(0.5, ordered),
        ),
        "searchsorted": lambda table, v, x, ordered, holes: (
            A.searchsorted.Tensor(table, table - 0.0),
            A.searchsorted.Tensor(table, table, right=True),
            A.searchsorted.Tensor(ordered, holes),
            A.searchsorted.Tensor(ordered, holes, right=True),
            A.searchsorted.Tensor(table, v[:, None], side="left", out_int32=True),
            A.searchsorted.Tensor(ordered, x, side="right"),
            A.searchsorted.Scalar(ordered, 0),
            A.searchsorted.Tensor(-ordered, x, sorter=torch.arange(5, -1, -1)),
        ),
        "cartesian_prod": lambda v, w: (A.cartesian_prod.default([v, w, v]), A.cartesian_prod.default([v])),
        "meshgrid": lambda v, w, one: (
            A.meshgrid.default([v, w]),
            A.meshgrid.indexing([v, w], indexing="xy"),
            A.meshgrid.indexing([v, w, v], indexing="xy"),
            A.meshgrid.indexing([v, one, w], indexing="ij"),
        ),
        "cummin": lambda x, ties, i: (A.cummin.default(x, 1), A.cummin.default(ties, -1), A.cummin.default(i, 0)),
        "cummax": lambda x, ties, i: (A.cummax.default(x, 1), A.cummax.default(ties, -1), A.cummax.default(i, 0)),
        "fft_fftfreq": lambda x: (
            A.fft_fftfreq.default(7),
            A.fft_fftfreq.default(8, 0.25),
            A.fft_fftfreq.default(1, 2.0, dtype=torch.float64),
        ),
        "fft_rfftfreq": lambda x: (A.fft_rfftfreq.default(7), A.fft_rfftfreq.default(8, 0.25)),
        "gcd": lambda i, j: (
            A.gcd.default(i, j),
            A.gcd.default(i * 12, i * 0),
            A.gcd.default((i * 6).int(), (j * -4).int()),
        ),
        "linspace": lambda one: (
            A.linspace.default(-1, 2, 7),
            A.linspace.default(3, 3, 1),
            A.linspace.default(3.5, 1, 1),
            A.linspace.default(0, 9, 4, dtype=torch.int64),
            A.linspace.default(-5, 5, 4, dtype=torch.int32),
            A.linspace.Tensor_Scalar(one, 4, 5),
            A.linspace.Scalar_Tensor(0, one, 4),
            A.linspace.Tensor_Tensor(one, one * 2, 3, dtype=torch.float64),
            A.linspace.default(0, 1, 0),
        ),
        "logspace": lambda one: (
            A.logspace.default(-1, 2, 7),
            A.logspace.default(0.5, 1, 1),
            A.logspace.default(0, 4, 5, 2.0, dtype=torch.int64),
            A.logspace.Tensor_Scalar(one, 1, 4, 2.0),
        ),
        "new_full": lambda x, i, b: (
            A.new_full.default(x, [2, 3], 1.5),
            A.new_full.default(i, [2], 7),
            A.new_full.default(b, [2], True),
            A.new_full.default(i, [2], 1.75, dtype=torch.float64),
            A.new_full.default(x, [], 2),
        ),
        "tril_indices": lambda x: (A.tril_indices.default(3, 4), A.tril_indices.default(4, 3, 1, dtype=torch.int32)),
        "triu_indices": lambda x: (A.triu_indices.default(3, 4), A.triu_indices.default(4, 3, -1, dtype=torch.int32)),
        "prims.convert_element_type": lambda x, b: (
            P.convert_element_type.default(x * 3, torch.int32),
            P.convert_element_type.default(b, torch.float64),
        ),
        "prims.iota": lambda x: (
            P.iota.default(5, start=1, step=2, dtype=torch.int64, device="cpu", requires_grad=False),
            P.iota.default(4, start=0, step=-3, dtype=torch.int32, device="cpu", requires_grad=False),
        ),
        "round.decimals": lambda x: (
            A.round.decimals(x, decimals=2),
            A.round.decimals(x * 100, decimals=-1),
            A.round.decimals(x, decimals=0),
        ),
        "to.other": lambda x, i: (A.to.other(x * 3, i), A.to.other(i, x, False, True)),
        "trace": lambda m, i: (A.trace.default(m), A.trace.default(i[0])),
        "view.dtype": lambda x, i: (A.view.dtype(x, torch.int32), A.view.dtype(x.int(), torch.float32)),
        "where.default": lambda b, x: (A.where.default(b), A.where.default(x > 0)),
        "nonzero_numpy": lambda b: A.nonzero_numpy.default(b),
        "median": lambda x, ties: (
            A.median.default(x),
            A.median.dim(x, 1),
            A.median.dim(x, -1, True),
            A.median.dim(ties, 2)[0],
        ),
        "median of none": lambda holes: (A.median.default(holes), A.median.dim(holes, 1)[0]),
        "nanmedian": lambda holes, x: (
            A.nanmedian.default(holes),
            A.nanmedian.dim(holes, 1)[0],
            A.nanmedian.dim(holes, 2, True)[0],
            A.nanmedian.dim(x, 0),
        ),
    },
    "moves": {
        "diagonal_scatter": lambda x, m, v: (
            A.diagonal_scatter.default(m, v.repeat(2)[:4], 1),
            A.diagonal_scatter.default(m, v, -1),
            A.diagonal_scatter.default(x, x[:, :, 1] * 2, 0, 2, 1),
        ),
        "index_fill": lambda x, rows, one: (
            A.index_fill.int_Scalar(x, 1, rows[0], -2),
            A.index_fill.int_Tensor(x, -2, rows[1], one),
            A.index_fill.int_Scalar(x, 2, rows[0] - 4, 0.5),
        ),
        "masked_select": lambda x, b, w: (
            A.masked_select.default(x, b),
            A.masked_select.default(w, b[:, 0, :4]),
            A.masked_select.default(x, b[0, :, 0][:, None]),
        ),
        "one_hot": lambda rows, i: (A.one_hot.default(rows, 6), A.one_hot.default(i.abs(), 12)),
        "put": lambda x, rows, v: (
            A.put.default(x, rows * 7 - 20, x[0, :2, :3]),
            A.put.default(x, rows.flatten()[:3], v, True),
            A.put.default(x, rows * 0, x[1, :2, :3], True),
        ),
        "repeat_interleave.self_int": lambda x: (
            A.repeat_interleave.self_int(x, 2, 1),
            A.repeat_interleave.self_int(x, 3),
            A.repeat_interleave.self_int(x, 2, -1, output_size=10),
        ),
        "tensor_split.sections": lambda x: (
            A.tensor_split.sections(x, 3, 1),
            A.tensor_split.sections(x, 2, -1),
            A.tensor_split.sections(x, 5, 0),
        ),
        "tensor_split.indices": lambda x: (
            A.tensor_split.indices(x, [1, 3], 2),
            A.tensor_split.indices(x, [-2, 7], 1),
            A.tensor_split.indices(x, [3, 1], 1),
        ),
        "_upsample_bicubic2d_aa": lambda image: (
            A._upsample_bicubic2d_aa.default(image, [4, 9], False),
            A._upsample_bicubic2d_aa.default(image, [9, 3], False),
            A._upsample_bicubic2d_aa.vec(image, None, False, [0.5, 1.5]),
        ),
        "_upsample_nearest_exact1d": lambda series: (
            A._upsample_nearest_exact1d.default(series, [10]),
            A._upsample_nearest_exact1d.vec(series, None, [0.6]),
        ),
        "_upsample_nearest_exact3d": lambda volume: (
            A._upsample_nearest_exact3d.default(volume, [7, 4, 9]),
            A._upsample_nearest_exact3d.vec(volume, None, [1.5, 0.7, 2.0]),
        ),
        "upsample_nearest1d": lambda series: (
            A.upsample_nearest1d.default(series, [10]),
            A.upsample_nearest1d.default(series, [4], 0.6),
            A.upsample_nearest1d.vec(series, None, [0.6]),
        ),
        "upsample_nearest3d": lambda volume: (
            A.upsample_nearest3d.default(volume, [7, 4, 9]),
            A.upsample_nearest3d.vec(volume, None, [1.5, 0.7, 2.0]),
        ),
        "max_unpool3d": lambda volume: (
            A.max_unpool3d.default(*pooled(volume), [4, 6, 4], [2, 2, 2], [0, 0, 0]),
            A.max_unpool3d.default(*pooled(volume), [5, 7, 5], [2, 2, 2], [0, 0, 0]),
        ),
    },
    "layers": {
        "_fused_rms_norm": lambda x, m: (
            A._fused_rms_norm.default(x, [5], m[0], 1e-5),
            A._fused_rms_norm.default(x, [4, 5], m, None),
            A._fused_rms_norm.default(x, [5], None, 1e-3)[0],
        ),
        "_int_mm": lambda eighths, columns: A._int_mm.default(eighths, columns),
        "_trilinear": lambda x, y, m, square: (
            A._trilinear.default(x, y, x, [], [], [], [1]),
            A._trilinear.default(square, x, m, [1, 3], [0], [1, 2], [2, 3]),
        ),
        "_weight_norm": lambda x, m, v, w, one: (
            A._weight_norm.default(x, v[:, None, None], 0),
            A._weight_norm.default(m, m[:1], 1),
            A._weight_norm.default(x, one, -1),
        ),
        "_weight_norm_interface": lambda x, v: A._weight_norm_interface.default(x, v[:, None, None], 0),
        "gru_cell": lambda m, n, gates, inner, bias: (
            A.gru_cell.default(m, m[:, :3], gates[:9], inner[:9], bias[:9], bias[3:]),
            A.gru_cell.default(m, m[:, 1:4], gates[:9], inner[:9]),
        ),
        "lstm_cell": lambda m, gates, inner, bias: (
            A.lstm_cell.default(m, [m[:, :3], m[:, 1:4]], gates, inner, bias, bias * 2),
            A.lstm_cell.default(m, [m[:, :3], m[:, 1:4]], gates, inner),
        ),
        "rnn_relu_cell": lambda m, gates, inner, bias: (
            A.rnn_relu_cell.default(m, m[:, :3], gates[:3], inner[:3], bias[:3], bias[3:6]),
            A.rnn_relu_cell.default(m, m[:, :3], gates[:3], inner[:3]),
        ),
        "rnn_tanh_cell": lambda m, gates, inner, bias: (
            A.rnn_tanh_cell.default(m, m[:, :3], gates[:3], inner[:3], bias[:3], bias[3:6]),
            A.rnn_tanh_cell.default(m, m[:, :3], gates[:3], inner[:3]),
        ),
        "inner": lambda x, y, m, one: (
            A.inner.default(x, m),
            A.inner.default(x[0, 0], y[0, 0]),
            A.inner.default(x, y),
            A.inner.default(x, one),
        ),
        "cosine_embedding_loss": lambda m, x, signs: tuple(
            A.cosine_embedding_loss.default(m[:3], x[0, :3], signs, margin, reduction)
            for margin, reduction in ((0.0, 1), (0.3, 0), (-0.2, 2))
        ),
        "cross_entropy_loss": lambda m, classes, w, image, p: (
            *(A.cross_entropy_loss.default(m[:3], classes, None, how) for how in (0, 1, 2)),
            *(A.cross_entropy_loss.default(m[:3, :4], classes, w.abs(), how, 1, 0.2) for how in (0, 1, 2)),
            A.cross_entropy_loss.default(image, image[:, 0].abs().long() % 4, w.abs(), 1, 2),
            A.cross_entropy_loss.default(p, p, w.abs(), 1, -100, 0.1),
            A.cross_entropy_loss.default(m[0], classes[0]),
        ),
        "poisson_nll_loss": lambda positive, counts: tuple(
            A.poisson_nll_loss.default(positive, counts, log, full, 1e-8, how)
            for log, full, how in ((True, False, 1), (False, True, 0), (True, True, 2))
        ),
        "bernoulli": lambda b, x: (
            A.bernoulli.default(b.float()),
            A.bernoulli.p(x, 1.0),
            A.bernoulli.p(x, 0.0),
            A.bernoulli.Tensor(x, b.float()),
        ),
        "rand_like": lambda x: (
            A.rand_like.default(x).floor(),
            A.rand_like.default(x, dtype=torch.float64) < 1,
        ),
        "randn_like": lambda x: A.isfinite.default(A.randn_like.default(x)),
        "randint": lambda x: (
            A.randint.default(1, [2, 3]),
            A.randint.default(4, [100], dtype=torch.int32) < 4,
        ),
        "randint.low": lambda x: (
            A.randint.low(-3, -2, [2, 3]),
            A.randint.low(5, 9, [100]).clamp(5, 8) - 5 < 4,
        ),
        "torchvision.deform_conv2d": lambda image, kernel, offsets, offset_masks, taps: (
            V.deform_conv2d.default(
                image,
                kernel,
                offsets,
                offset_masks,
                taps,
                *(1, 2, 1, 0, 2, 1),
                groups=2,
                offset_groups=2,
                use_mask=True,
            ),
            V.deform_conv2d.default(
                image,
                kernel,
                offsets,
                offset_masks[:, :0],
                taps,
                *(1, 2, 1, 0, 2, 1),
                groups=2,
                offset_groups=2,
                use_mask=False,
            ),
        ),
        "torchvision.roi_align": lambda image, regions: (
            V.roi_align.default(image, regions, 0.5, 2, 3, 2, True),
            V.roi_align.default(image, regions, 0.5, 3, 2, 1, False),
            V.roi_align.default(image, regions, 0.5, 2, 2, -1, False),
        ),
        "stft.default": lambda wave: (
            real(A.stft.default(wave, 8, 4, None, None, False, True, True)),
            A.stft.default(wave[0], 8, 3, 6, torch.hann_window(6), True, False, False),
        ),
        "stft.center": lambda wave: real(A.stft.center(wave, 8, 4, None, None, True, "reflect", False, True, True)),
    },
    "aliases": {
        "conj": lambda x: (A.conj.default(x), A.conj_physical.default(x)),
        "_neg_view": lambda x: A._neg_view.default(x),
        "real": lambda x: (A.real.default(x), A.resolve_neg.default(x), A.resolve_conj.default(x)),
        "_prelu_kernel": lambda x, v: A._prelu_kernel.default(x, v[:, None, None]),
        "adaptive_avg_pool1d": lambda series: (
            A.adaptive_avg_pool1d.default(series, [3]),
            A.adaptive_avg_pool1d.default(series[0], [9]),
        ),
        "adaptive_max_pool1d": lambda series: A.adaptive_max_pool1d.default(series, [3]),
        "adaptive_max_pool2d": lambda image: A.adaptive_max_pool2d.default(image, [3, 4]),
        "adaptive_max_pool3d": lambda volume: A.adaptive_max_pool3d.default(volume, [2, 4, 3]),
        "avg_pool1d": lambda series: (
            A.avg_pool1d.default(series, [3], [2], [1], True, False),
            A.avg_pool1d.default(series[0], [2]),
        ),
        "max_pool1d": lambda series: (
            A.max_pool1d.default(series, [3], [2], [1], [1], True),
            A.max_pool1d.default(series[0], [2], [1], [0], [3]),
        ),
        "max_pool1d_with_indices": lambda series: A.max_pool1d_with_indices.default(series, [3], [2], [1], [1], True),
        "absolute": lambda x, i: (A.absolute.default(x), A.absolute.default(i), A.negative.default(i)),
        "angle": lambda x, i: (A.angle.default(x), A.angle.default(i)),
        "arccos": lambda p, q: (
            *(each.default(p) for each in (A.arccos, A.arcsin, A.arctan, A.arctanh)),
            *(each.default(q) for each in (A.arccosh, A.arcsinh)),
        ),
        "arctan2": lambda x, y: A.arctan2.default(x, y),
        "dist": lambda x, y: tuple(A.dist.default(x, y, p) for p in (2, 1, 3, 0, float("inf"), -float("inf"))),
        "dot": lambda v, i: (A.dot.default(v, v * 2), A.vdot.default(v, v + 1), A.dot.default(i[0, 0], i[0, 1])),
        "ger": lambda v, w: A.ger.default(v, w),
        "hsplit": lambda x, v: (A.hsplit.int(x, 2), A.hsplit.array(x, [1, 3]), A.hsplit.int(v, 3)),
        "vsplit": lambda image: (A.vsplit.int(image, 2), A.vsplit.array(image, [1])),
        "dsplit": lambda x: (A.dsplit.int(x, 5), A.dsplit.array(x, [-1])),
        "fix": lambda x, i: (A.fix.default(x * 3), A.fix.default(i)),
        "greater": lambda x, y, i: (
            *(each.Tensor(x, y) for each in (A.greater, A.greater_equal, A.less, A.less_equal, A.not_equal)),
            *(each.Scalar(i, 2) for each in (A.greater, A.greater_equal, A.less, A.less_equal, A.not_equal)),
        ),
        "log_sigmoid_forward": lambda x: A.log_sigmoid_forward.default(x)[0],
        "moveaxis": lambda x: (
            A.moveaxis.int(x, 0, -1),
            A.moveaxis.intlist(x, [0, 2], [1, 0]),
            A.swapaxes.default(x, 0, -1),
            A.swapdims.default(x, -2, 0),
        ),
        "multiply": lambda x, i: (A.multiply.Tensor(x, i), A.multiply.Scalar(i, 2)),
        "subtract": lambda x, i: (A.subtract.Tensor(x, i, alpha=2), A.subtract.Scalar(i, 2, 3)),
        "new_empty": lambda x: A.fill.Scalar(A.new_empty.default(x, [2, 3], dtype=torch.int64), 2),
        "ravel": lambda x: A.ravel.default(x),
        "row_stack": lambda v, m, n: (A.row_stack.default([v, v + 1]), A.row_stack.default([n, v[None]])),
        "rrelu": lambda x: (
            A.rrelu.default(x, 0.1, 0.4),
            A.rrelu_with_noise.default(x, x * 0, 0.1, 0.4),
            A.rrelu_with_noise_functional.default(x, x * 0, 0.2, 0.2)[0],
        ),
        "special_erf": lambda x: tuple(
            each.default(x)
            for each in (
                A.special_erf,
                A.special_erfc,
                A.special_exp2,
                A.special_expit,
                A.special_expm1,
                A.special_sinc,
            )
        ),
        "special_log1p": lambda p: A.special_log1p.default(p),
        "special_log_softmax": lambda x: (
            A.special_log_softmax.default(x, 1),
            A.special_softmax.default(x, -1),
            A.special_softmax.default(x, 0, torch.float64),
            A.special_logsumexp.default(x, [0, 2]),
        ),
        "special_logit": lambda p: (A.special_logit.default(p), A.special_logit.default(p, 0.3)),
        "special_round": lambda x: (A.special_round.default(x), A.special_round.default(x, decimals=1)),
        "special_xlogy": lambda positive, counts: (
            A.special_xlogy.default(counts, positive),
            A.special_xlogy.self_scalar(0, positive),
            A.special_xlogy.other_scalar(counts, 2.5),
        ),
        "triplet_margin_loss": lambda x, y, positive: tuple(
            A.triplet_margin_loss.default(x, y, positive, margin, p, 1e-6, swap, how)
            for margin, p, swap, how in ((1.0, 2.0, False, 1), (0.5, 1.0, True, 0), (2.0, 3.0, True, 2))
        ),
        "prims.device_put": lambda x: P.device_put.default(x, "cpu"),
    },
    "integers": {
        "fake_quantize_per_tensor_affine": lambda x, factor, point: (
            A.fake_quantize_per_tensor_affine.default(x, 0.03, 5, -20, 40),
            A.fake_quantize_per_tensor_affine.tensor_qparams(x, factor, point, 0, 255),
        ),
        "fake_quantize_per_tensor_affine_cachemask": lambda x: A.fake_quantize_per_tensor_affine_cachemask.default(
            x, 0.03, 5, -20, 40
        ),
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": lambda x, factor, point, on, off: (
            A._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default(x, factor, point, on, -20, 20),
            A._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default(x, factor, point, off, -20, 20),
        ),
        "fake_quantize_per_channel_affine": lambda x, steps, zeros: A.fake_quantize_per_channel_affine.default(
            x, steps, zeros.int(), 1, -30, 127
        ),
        "fake_quantize_per_channel_affine_cachemask": lambda x, steps, zeros: (
            A.fake_quantize_per_channel_affine_cachemask.default(x, steps, zeros.float(), 1, -30, 127)
        ),
        "choose_qparams.tensor": lambda x, positive: (
            Q.choose_qparams.tensor(x, -128, 127, 1.2e-7, torch.int8),
            Q.choose_qparams.tensor(positive, 0, 255, 1.2e-7, torch.uint8),
            Q.choose_qparams.tensor(positive * 0, 0, 255, 1e-3, torch.uint8),
        ),
        "choose_qparams_symmetric.tensor": lambda x, positive: (
            Q.choose_qparams_symmetric.tensor(x, -127, 127, 1.2e-7, torch.int8),
            Q.choose_qparams_symmetric.tensor(positive, 0, 255, 1.2e-7, torch.uint8),
            Q.choose_qparams_symmetric.tensor(x, -128, 127, 1.2e-7, torch.int8),
        ),
        "choose_qparams_per_token_asymmetric": lambda x, positive: (
            Q.choose_qparams_per_token_asymmetric.default(x, torch.int8),
            Q.choose_qparams_per_token_asymmetric.default(positive, torch.int8),
            Q._choose_qparams_per_token_asymmetric_impl.default(-positive, torch.int8),
        ),
        "quantize_per_channel": lambda x, steps, zeros: (
            Q.quantize_per_channel.default(x, steps, zeros, 1, -128, 127, torch.int8),
            Q.quantize_per_channel.default(x, steps, zeros.abs(), -2, 0, 100, torch.uint8),
            Q.quantize_per_channel.default(x, steps, zeros, 1, -9999, 99999, torch.int32),
        ),
        "dequantize_per_channel": lambda x, steps, zeros: (
            Q.dequantize_per_channel.default((x * 50).to(torch.int8), steps, zeros, 1, -128, 127, torch.int8),
            Q.dequantize_per_channel.default((x * 50).to(torch.int8), steps, None, 1, -128, 127, torch.int8),
        ),
        "quantize_per_token": lambda x, positive, i: (
            Q.quantize_per_token.default(x, positive[:, :, :1].double() / 20, i[:, :, :1], -128, 127, torch.int8),
        ),
        "dequantize_per_token": lambda x, positive, i: (
            Q.dequantize_per_token.default(
                (x * 50).to(torch.int8), positive[:, :, :1].double(), i[:, :, :1], -128, 127, torch.int8, torch.float32
            ),
        ),
    },
    "pairs": {
        "_neg_view": lambda pairs: real(A._neg_view.default(complex_(pairs))),
        "addbmm": lambda pairs, other: real(
            A.addbmm.default(
                complex_(pairs)[:, :3], complex_(pairs).expand(2, 3, 4), complex_(other)[:, :3].expand(2, 4, 3)
            )
        ),
        "addmm": lambda pairs, other: real(A.addmm.default(complex_(other)[0], complex_(pairs), complex_(other))),
        "baddbmm": lambda pairs, other: real(
            A.baddbmm.default(complex_(other)[:1], complex_(pairs).expand(2, 3, 4), complex_(other).expand(2, 4, 5))
        ),
        "dot": lambda pairs: real(A.dot.default(complex_(pairs)[0], complex_(pairs)[1])),
        "vdot": lambda pairs: real(A.vdot.default(complex_(pairs)[0], complex_(pairs)[1])),
        "empty": lambda pairs: (
            real(A.mul.Scalar(A.empty.memory_format([2], dtype=torch.complex64), 0)).isnan().shape[0] * pairs
        ),
        "empty_like": lambda pairs: real(A.copy.default(A.empty_like.default(complex_(pairs)), complex_(pairs))),
        "fft_ifftshift": lambda pairs: (
            real(A.fft_ifftshift.default(complex_(pairs))),
            real(A.fft_ifftshift.default(complex_(pairs), [0])),
        ),
        "full": lambda pairs: real(complex_(pairs) + A.full.default([3, 4], 2 - 1j)),
        "full_like": lambda pairs: (
            real(A.full_like.default(complex_(pairs), 1 + 2j)),
            real(A.full_like.default(complex_(pairs), 3)),
        ),
        "ones": lambda pairs: real(complex_(pairs) + A.ones.default([3, 4], dtype=torch.complex64)),
        "ones_like": lambda pairs: real(A.ones_like.default(complex_(pairs))),
        "zeros": lambda pairs: real(complex_(pairs) + A.zeros.default([3, 4], dtype=torch.complex64)),
        "zeros_like": lambda pairs: real(A.zeros_like.default(complex_(pairs))),
        "ger": lambda pairs, other: real(A.ger.default(complex_(pairs)[0], complex_(other)[0])),
        "outer": lambda pairs, other: real(A.outer.default(complex_(pairs)[0], complex_(other)[0])),
        "inner": lambda pairs, other: real(A.inner.default(complex_(pairs), complex_(pairs))),
        "kron": lambda pairs, other: real(A.kron.default(complex_(pairs), complex_(other))),
        "linear": lambda pairs: (
            real(A.linear.default(complex_(pairs), complex_(pairs), complex_(pairs)[:, 0])),
            real(A.linear.default(complex_(pairs), complex_(pairs))),
        ),
        "log10": lambda pairs: real(A.log10.default(complex_(pairs))),
        "log2": lambda pairs: real(A.log2.default(complex_(pairs))),
        "matmul": lambda pairs, other: (
            real(A.matmul.default(complex_(pairs), complex_(other))),
            real(A.matmul.default(complex_(pairs)[0], complex_(other))),
        ),
        "mm": lambda pairs, other: real(A.mm.default(complex_(pairs), complex_(other))),
        "mv": lambda pairs: real(A.mv.default(complex_(pairs), complex_(pairs)[0])),
        "rsqrt": lambda pairs: real(A.rsqrt.default(complex_(pairs))),
        "rsub": lambda pairs: (
            real(A.rsub.Tensor(complex_(pairs), complex_(pairs)[0], alpha=2)),
            real(A.rsub.Scalar(complex_(pairs), 3)),
        ),
        "sigmoid": lambda pairs: real(A.sigmoid.default(complex_(pairs))),
        "stft.default": lambda other: real(
            A.stft.default(complex_(other).flatten(), 8, 3, None, None, False, False, True)
        ),
        "sub": lambda pairs, square: (
            real(A.sub.Tensor(complex_(pairs), square[:3], alpha=2)),
            real(A.sub.Tensor(square[:3], complex_(pairs))),
        ),
        "tan": lambda pairs: real(A.tan.default(complex_(pairs))),
        "cos": lambda pairs: tuple(
            real(each.default(complex_(pairs))) for each in (A.cos, A.cosh, A.sin, A.sinh, A.tanh, A.exp, A.sqrt, A.log)
        ),
        "isfinite": lambda pairs, nothing: tuple(
            each.default(complex_(torch.stack([nothing, nothing.flip(0)], -1)))
            for each in (A.isfinite, A.isinf, A.isnan, A.isreal)
        ),
        "ne": lambda pairs: (
            A.ne.Tensor(complex_(pairs), complex_(pairs).conj()),
            A.eq.Tensor(complex_(pairs), complex_(pairs).flip(0)),
            A.ne.Scalar(complex_(pairs), 0),
        ),
    },
    "moved": {
        "views": lambda pairs: tuple(
            real(each(complex_(pairs)))
            for each in (
                lambda z: A._unsafe_view.default(z, [2, 6]),
                A.alias.default,
                A.detach.default,
                A.contiguous.default,
                A.mT.default,
                A.numpy_T.default,
                A.t.default,
                A.ravel.default,
                lambda z: A.flatten.using_ints(z),
                lambda z: A.swapaxes.default(z, 0, 1),
                lambda z: A.transpose.int(z, 0, -1),
                lambda z: A.movedim.int(z, 0, 1),
                lambda z: A.unflatten.int(z, -1, [2, -1]),
                lambda z: A.reshape.default(z, [-1, 3]),
                lambda z: A.reshape_as.default(z, z.T),
                lambda z: A.view_as.default(z, torch.zeros(4, 3)),
                lambda z: A.squeeze.dim(A.unsqueeze.default(z, 0), 0),
                lambda z: A.expand.default(z, [2, -1, -1]),
                lambda z: A.expand_as.default(z[:1], z),
                lambda z: A.select.int(z, -1, -2),
                lambda z: A.slice.Tensor(z, -1, 1, -1),
                lambda z: A.narrow.default(z, 1, 1, 2),
                lambda z: A.diagonal.default(z, 1),
            )
        ),
        "parts": lambda pairs: tuple(
            real(each)
            for each in (
                *A.chunk.default(complex_(pairs), 2, -1),
                *A.split.Tensor(complex_(pairs), 3, 1),
                *A.split_with_sizes.default(complex_(pairs), [1, 3], -1),
                *A.unbind.int(complex_(pairs), -1),
            )
        ),
        "others": lambda pairs: tuple(
            real(each(complex_(pairs)))
            for each in (
                lambda z: A.cat.default([z, z * 2], -1),
                lambda z: A.stack.default([z, z * 2], -1),
                lambda z: A.constant_pad_nd.default(z, [1, 2, 0, 1]),
                lambda z: A.pad.default(z, [1, 0]),
                lambda z: A.copy.default(z, z[0]),
                lambda z: A.cumsum.default(z, -1),
                lambda z: A.diff.default(z, 1, -1),
                lambda z: A.flip.default(z, [-1]),
                lambda z: A.roll.default(z, [1], [-1]),
                lambda z: A.roll.default(z, [2]),
                lambda z: A.gather.default(z, -1, torch.tensor([[0, 2], [1, 1], [3, 0]])),
                lambda z: A.index.Tensor(z, [None, torch.tensor([1, 3])]),
                lambda z: A.index_select.default(z, -1, torch.tensor([1, 3])),
                lambda z: A.repeat.default(z, [2, 1, 2]),
                lambda z: A.tile.default(z, [2]),
                lambda z: A.tril.default(z, 1),
                lambda z: A.triu.default(z),
                lambda z: A.sum.default(z),
                lambda z: A.sum.dim_IntList(z, [-1], True),
                lambda z: A.mean.default(z),
                lambda z: A.mean.dim(z, [-1]),
                lambda z: A.select_scatter.default(z, z[:, 0], -1, 2),
                lambda z: A.slice_scatter.default(z, z[:, :2] * 2, -1, 1, 3),
            )
        ),
        "lift_fresh_copy": lambda pairs: real(
            A.lift_fresh_copy.default(complex_(pairs)) + A.lift_fresh.default(complex_(pairs))
        ),
    },
}


def sizes(x, n, m, k):
    """Integers computed from symbolic dims, and their uses."""
    real_n = torch.sym_float(n)
    numbers = (
        *(real_n, n / 2, n**2, real_n**0.5, 2**m, n << 1, m >> 1, -n, n - k, abs(n - k), n // 3, (n - k) // 3),
        *(
            n % 3,
            (n - k) % 3,
            math.trunc(real_n * 0.3),
            math.trunc((n - k) / 2.5),
            math.floor(m / 4),
            math.ceil(m / 4),
        ),
        *(round(m / 4), round(real_n * 0.37, 1), torch._sym_sqrt(real_n), torch.sym_max(n, k), torch.sym_min(n, m)),
        *(torch.sym_ite(n > k, n, k), torch.sym_ite(torch.sym_not(n == k), 1, 2)),
        *(torch.sym_ite((n >= 2) & (k <= 9), 1, 2), torch.sym_ite((n < 2) | (k != 9), 1, 2)),
    )
    return tuple(x[0, :2] * each for each in numbers)


class Sizes(nn.Module):
    def forward(self, x, y):
        return sizes(x, x.shape[0], x.shape[1], y.shape[0])


def reals(x, n):
    """float64 numbers computed from symbolic dims, and their uses."""
    part, third, whole = n * 0.29, n / 3, torch.arange(40)
    lengths = (
        *(torch.sym_int(part), torch.sym_int(n * 0.57), torch.sym_int(n / 0.7), math.floor(n * 0.07)),
        *(math.ceil(n * 0.07), round(n * 0.145), torch.sym_int(torch.sym_max(part, 3))),
        *(torch.sym_int(part * 100 % 7), torch.sym_int((n * 0.01) ** 2 * 100)),
    )
    single = x * part, whole * third, x.half()[:2] * third, whole.sum() * third, torch.where(x > 0, x, third)
    bounds = x.clamp(max=n / 300), x > n / 300, whole > third, x.masked_fill(x > 0, part)
    made = torch.full((2,), part), torch.full((2,), part, dtype=torch.int64), torch.linspace(0, part, 4)
    turned = x * (3 / n), x * (1 - n * 0.5), x * 1.01 ** (n * 0.5)
    double = x.double() * third, x.double() > third / 100, torch.full((2,), third, dtype=torch.float64)
    items = x[:2] * x.sum().item(), x.double()[:2] * x.double().sum().item()
    scaled = F.interpolate(x[None, None], (torch.sym_int(n * 0.57), 5), mode="nearest")
    return (
        *(x[:2] * each for each in lengths),
        *single,
        *bounds,
        *made,
        *turned,
        *double,
        *items,
        scaled,
        x[: lengths[0]],
    )


class Reals(nn.Module):
    def forward(self, x):
        return reals(x, x.shape[0])


def write_reals(folder):
    """Write a program with symbolic dims, and its results at two sizes."""
    args, others = (normal(100, 3),), (normal(57, 3),)
    program = torch.export.export(Reals(), args, dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    core.pack(folder, "reals", Reals(), args, program)
    core.pack(folder, "fewer", Reals(), others, program)
    (folder / "fewer.pt2").unlink()


class Empties(nn.Module):
    """Shapes of sizes that are computed, and may be 0."""

    def forward(self, x, n, one):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= 3)
        y = x[:, :k]
        reshaped = [A.reshape.default(y, [k * 2, 4]), A.reshape.default(y, [2, 2, k, 2])]
        flat = [
            A.flatten.using_ints(y, 0, 1),
            A.flatten.using_ints(y, 1, 2),
            A.flatten.using_ints(y.transpose(1, 2), 0, 1),
        ]
        parts = [A.unflatten.int(y, 0, [2, 2]), A.unflatten.int(flat[0], 0, [4, k])]
        return (*reshaped, *flat, *parts, A.expand.default(one, [3, k]))


def write_empties(folder):
    """Write a program with data-dependent sizes and its results for size 2; `none` has the results for size 0."""
    args, others = (normal(4, 3, 2), torch.tensor(2), normal(1)), (normal(4, 3, 2), torch.tensor(0), normal(1))
    program = torch.export.export(Empties(), args)
    core.pack(folder, "empties", Empties(), args, program)
    core.pack(folder, "none", Empties(), others, program)
    (folder / "none.pt2").unlink()


# Equivalent ops that other versions of PyTorch write.
OTHER = {
    "math.trunc": "torch.sym_int",
    "torch._sym_sqrt": "torch.sym_sqrt",
    "_operator.pow": "torch.sym_pow",
    "builtins.round": "math.round",
}


def write_sizes(folder):
    """Write a program with symbolic dims; `older` uses other ops for it, `larger` has the results at a second size."""
    args, others = (normal(4, 6), normal(5, 1)), (normal(100, 3), normal(9, 1))
    dynamic = torch.export.Dim.DYNAMIC
    shapes = ({0: dynamic, 1: dynamic}, {0: dynamic})
    program = torch.export.export(Sizes(), args, dynamic_shapes=shapes)
    # Functions that 2.13 exports, and does not write.
    serialize._SYM_OPS |= {operator.abs, math.floor, math.ceil, round, torch._sym_sqrt}
    core.pack(folder, "sizes", Sizes(), args, program)
    core.pack(folder, "larger", Sizes(), others, program)
    (folder / "larger.pt2").unlink()
    with zipfile.ZipFile(folder / "sizes.pt2") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(folder / "older.pt2", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name, data in content.items():
            packed.writestr(name, in_other_words(data) if name.endswith("model.json") else data)


def in_other_words(data):
    for op_type, other in OTHER.items():
        data = data.replace(f'"target": "{op_type}"'.encode(), f'"target": "{other}"'.encode())
    return data


def main(arguments):
    folder = Path(arguments[0]) if arguments else HERE
    write_sizes(folder)
    write_reals(folder)
    write_empties(folder)
    for group, calls in CALLS.items():
        if "one" not in arguments:
            core.write(folder, group, list(calls.values()), POOL)
            continue
        for name, call in calls.items():
            if arguments[2:] and name not in arguments[2:]:
                continue
            try:
                core.write(folder, f"{group}.{name}", [call], POOL)
            except Exception as error:  # noqa: BLE001  continue with the other programs
                print(name, type(error), str(error)[:600])  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
