"""Writes a program for each operator of the Core ATen set, and what PyTorch 2.13 computes with it: `python make.py`.

Operators are called as they are, several in a program, one result or list of results after another. NAME.pt2 is packed
again, with compression; NAME.npz has `inI` and `outI` by place; `core_aten.txt` lists all operators that PyTorch tags
as core. `python make.py FOLDER one` makes a program of each operator alone.
"""

# ruff: noqa: PLW0108, T201
# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportCallIssue=false

import inspect
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

A = torch.ops.aten
HERE = Path(__file__).parent
G = torch.Generator().manual_seed(14)


def normal(*shape):
    return torch.randn(*shape, generator=G)


def between(low, high, *shape):
    return torch.rand(*shape, generator=G) * (high - low) + low


def whole(low, high, *shape):
    return torch.randint(low, high, shape, generator=G)


POOL = {
    "x": normal(3, 4, 5),
    "y": normal(3, 4, 5) + 0.05,
    "p": between(0.1, 0.9, 3, 4, 5),
    "q": between(1.1, 3.0, 3, 4, 5),
    "b": whole(0, 2, 3, 4, 5).bool(),
    "c": whole(0, 2, 3, 4, 5).bool(),
    "i": whole(-9, 9, 3, 4, 5),
    "j": whole(1, 5, 3, 4, 5),
    "g": whole(0, 4, 3, 2, 5),
    "m": normal(4, 5),
    "n": normal(5, 3),
    "v": normal(3),
    "w": normal(4),
    "rows": whole(0, 4, 2, 3),
    "image": normal(2, 4, 7, 6),
    "volume": normal(1, 2, 5, 6, 4),
    "kernel": normal(6, 2, 3, 3),
    "windows": normal(2, 16, 8),
    "grid": between(-1.2, 1.2, 2, 3, 5, 2),
    "pair": normal(2, 4, 8, 2),
    "small": normal(2, 4, 3, 3),
    "nothing": torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1.0]),
    "one": torch.tensor(2.5),
}


def first(found):
    """Values that are sorted, not the places of equal ones."""
    return found[0]


def both(op):
    return lambda x, y: op(x, y)


def alone(op):
    return lambda x: op(x)


def inside(op):
    return lambda p: op(p)


CALLS = {
    "_adaptive_avg_pool2d.default": lambda image: A._adaptive_avg_pool2d.default(image, [3, 4]),
    "_adaptive_avg_pool2d_backward.default": lambda image, small: A._adaptive_avg_pool2d_backward.default(small, image),
    "_adaptive_avg_pool3d.default": lambda volume: A._adaptive_avg_pool3d.default(volume, [2, 3, 2]),
    "_cdist_forward.default": lambda x, y: A._cdist_forward.default(x, y, 2.0, None),
    "_embedding_bag.default": lambda m, rows: A._embedding_bag.default(m, rows.flatten(), torch.tensor([0, 2, 4]))[0],
    "_fft_c2r.default": lambda pair: A._fft_c2r.default(torch.view_as_complex(pair), [1, 2], 0, 14),
    "_fft_r2c.default": lambda x: torch.view_as_real(A._fft_r2c.default(x, [1, 2], 0, True)),
    "_local_scalar_dense.default": lambda x, j: x * A._local_scalar_dense.default(j[0, 0, 0]),
    "_log_softmax.default": lambda x: A._log_softmax.default(x, 1, False),
    "_native_batch_norm_legit.default": lambda image, w: A._native_batch_norm_legit.default(
        image, w, w, w * 1, w * w + 1, False, 0.1, 1e-5
    )[0],
    "_native_batch_norm_legit.no_stats": lambda image, w: A._native_batch_norm_legit.no_stats(
        image, w, w, True, 0.1, 1e-5
    ),
    "_native_batch_norm_legit_no_training.default": lambda image, w: A._native_batch_norm_legit_no_training.default(
        image, w, w, w, w * w + 1, 0.1, 1e-5
    )[0],
    "_pdist_forward.default": lambda m: A._pdist_forward.default(m, 2.0),
    "_softmax.default": lambda x: A._softmax.default(x, -1, False),
    "_to_copy.default": lambda x, i: (
        A._to_copy.default(x, dtype=torch.float64),
        A._to_copy.default(i, dtype=torch.bool),
    ),
    "abs.default": lambda x, i: (A.abs.default(x), A.abs.default(i)),
    "acos.default": inside(A.acos.default),
    "acosh.default": lambda q: A.acosh.default(q),
    "add.Scalar": lambda x, i: (A.add.Scalar(x, 2, 3), A.add.Scalar(i, 1.5)),
    "add.Tensor": lambda x, y, i: (A.add.Tensor(x, y, alpha=2), A.add.Tensor(i, x), A.add.Tensor(i, 2.5)),
    "addmm.default": lambda m, n, v: A.addmm.default(v, m, n, beta=0.5, alpha=2),
    "alias.default": alone(A.alias.default),
    "amax.default": lambda x: (A.amax.default(x, [0, 2]), A.amax.default(x)),
    "amin.default": lambda x: A.amin.default(x, [1], True),
    "any.default": lambda b: A.any.default(b),
    "any.dim": lambda b: A.any.dim(b, 1, True),
    "any.dims": lambda b: A.any.dims(b, [0, 2]),
    "arange.start_step": lambda one: (A.arange.start_step(1, 9, 2), A.arange.start_step(0.0, 1.0, 0.3) * one),
    "argmax.default": lambda x: (A.argmax.default(x), A.argmax.default(x, 1, True)),
    "argmin.default": lambda x: A.argmin.default(x, -1),
    "as_strided.default": lambda m: A.as_strided.default(m, [2, 3], [5, 2], 1),
    "asin.default": inside(A.asin.default),
    "asinh.default": alone(A.asinh.default),
    "atan.default": alone(A.atan.default),
    "atan2.default": both(A.atan2.default),
    "atanh.default": inside(A.atanh.default),
    "avg_pool2d.default": lambda image: A.avg_pool2d.default(image, [3, 2], [2, 1], [1, 1], True, False),
    "avg_pool2d_backward.default": lambda image: A.avg_pool2d_backward.default(
        A.avg_pool2d.default(image, [3, 2], [2, 1], [1, 0]), image, [3, 2], [2, 1], [1, 0], False, True, None
    ),
    "avg_pool3d.default": lambda volume: A.avg_pool3d.default(volume, [2, 2, 2], [2, 2, 1], [0, 1, 0]),
    "bitwise_and.Scalar": lambda i: A.bitwise_and.Scalar(i, 6),
    "bitwise_and.Tensor": lambda i, j, b, c: (A.bitwise_and.Tensor(i, j), A.bitwise_and.Tensor(b, c)),
    "bitwise_not.default": lambda i, b: (A.bitwise_not.default(i), A.bitwise_not.default(b)),
    "bitwise_or.Scalar": lambda i: A.bitwise_or.Scalar(i, 6),
    "bitwise_or.Tensor": lambda i, j: A.bitwise_or.Tensor(i, j),
    "bitwise_xor.Scalar": lambda i: A.bitwise_xor.Scalar(i, 6),
    "bitwise_xor.Tensor": lambda i, j: A.bitwise_xor.Tensor(i, j),
    "bmm.default": lambda x, y: A.bmm.default(x, A.permute.default(y, [0, 2, 1])),
    "cat.default": lambda x, y, i: (A.cat.default([x, y], 1), A.cat.default([x, i], -1)),
    "ceil.default": alone(A.ceil.default),
    "clamp.Tensor": lambda x, y, p: (A.clamp.Tensor(x, y, p), A.clamp.Tensor(x, None, y)),
    "clamp.default": lambda x, i: (A.clamp.default(x, -0.5, 0.5), A.clamp.default(i, 2), A.clamp.default(x, None, 0)),
    "clone.default": lambda image: A.clone.default(image, memory_format=torch.channels_last),
    "col2im.default": lambda windows: A.col2im.default(windows, [5, 6], [2, 2], [1, 1], [0, 1], [2, 2]),
    "constant_pad_nd.default": lambda x: (
        A.constant_pad_nd.default(x, [1, -2, 0, 1], 2.5),
        A.constant_pad_nd.default(x, [1, 1]),
    ),
    "convolution.default": lambda image, kernel, small: (
        A.convolution.default(image, kernel, None, [2, 1], [1, 0], [1, 2], False, [0, 0], 2),
        A.convolution.default(small, kernel[:4, :, :, :], None, [2, 2], [1, 1], [1, 1], True, [1, 0], 2),
    ),
    "convolution_backward.default": lambda image, kernel: (
        A.convolution_backward.default(
            A.convolution.default(image, kernel, None, [2, 1], [1, 0], [1, 2], False, [0, 0], 2),
            *(image, kernel, [6], [2, 1], [1, 0], [1, 2], False, [0, 0], 2, [True, True, True]),
        )
        + A.convolution_backward.default(
            A.convolution.default(image, kernel[:4], None, [2, 2], [1, 1], [1, 1], True, [1, 0], 2),
            *(image, kernel[:4], [4], [2, 2], [1, 1], [1, 1], True, [1, 0], 2, [True, True, True]),
        )
    ),
    "copy.default": lambda x, i, w: (A.copy.default(x, i), A.copy.default(i, x), A.copy.default(x[:, :, 0], w)),
    "cos.default": alone(A.cos.default),
    "cosh.default": alone(A.cosh.default),
    "cumsum.default": lambda x, i, b: (A.cumsum.default(x, 1), A.cumsum.default(i, -1), A.cumsum.default(b, 0)),
    "diagonal.default": lambda x: (A.diagonal.default(x, 1, 1, 2), A.diagonal.default(x, -1)),
    "div.Scalar": lambda x, i: (A.div.Scalar(x, 3), A.div.Scalar(i, 3)),
    "div.Scalar_mode": lambda x, i: (
        A.div.Scalar_mode(x, 0.3, rounding_mode="floor"),
        A.div.Scalar_mode(i, 4, rounding_mode="trunc"),
        A.div.Scalar_mode(i, 4, rounding_mode="floor"),
    ),
    "div.Tensor": lambda x, y, i, j: (A.div.Tensor(x, y), A.div.Tensor(i, j)),
    "div.Tensor_mode": lambda x, p, i, j: (
        A.div.Tensor_mode(x, p, rounding_mode="trunc"),
        A.div.Tensor_mode(i, j, rounding_mode="floor"),
        A.div.Tensor_mode(i, j, rounding_mode=None),
    ),
    "elu.default": lambda x: A.elu.default(x, 0.7, 1.2, 1.5),
    "embedding.default": lambda m, rows: A.embedding.default(m, rows, 1),
    "embedding_dense_backward.default": lambda rows, volume: A.embedding_dense_backward.default(
        volume[0, :, :3, :5, 0], rows, 4, 1, False
    ),
    "empty.memory_format": lambda x: A.fill.Scalar(A.empty.memory_format([2, 3]), 2.0),
    "empty_strided.default": lambda x: A.fill.Scalar(A.empty_strided.default([2, 3], [1, 2]), 2.0),
    "eq.Scalar": lambda i: A.eq.Scalar(i, 3),
    "eq.Tensor": lambda i, j: A.eq.Tensor(i, j),
    "erf.default": alone(A.erf.default),
    "exp.default": alone(A.exp.default),
    "expand.default": lambda m: A.expand.default(m, [2, -1, 5]),
    "expm1.default": alone(A.expm1.default),
    "fill.Scalar": lambda x, i: (A.fill.Scalar(x, 3), A.fill.Scalar(i, 2.7)),
    "flip.default": lambda x: A.flip.default(x, [0, -1]),
    "floor.default": alone(A.floor.default),
    "fmod.Scalar": lambda x, i: (A.fmod.Scalar(x, 0.7), A.fmod.Scalar(i, 4)),
    "fmod.Tensor": lambda x, p, i, j: (A.fmod.Tensor(x, p), A.fmod.Tensor(i, j)),
    "full.default": lambda x: (A.full.default([2, 3], 1.5), A.full.default([2], 3, dtype=torch.int32)),
    "full_like.default": lambda x, i: (A.full_like.default(x, 2), A.full_like.default(i, 2.5, dtype=torch.float64)),
    "gather.default": lambda x, g: A.gather.default(x, 1, g),
    "ge.Scalar": lambda x: A.ge.Scalar(x, 0),
    "ge.Tensor": both(A.ge.Tensor),
    "gelu.default": lambda x: (A.gelu.default(x), A.gelu.default(x, approximate="tanh")),
    "grid_sampler_2d.default": lambda image, grid: (
        A.grid_sampler_2d.default(image, grid, 0, 0, False),
        A.grid_sampler_2d.default(image, grid, 1, 1, True),
        A.grid_sampler_2d.default(image, grid, 2, 2, False),
    ),
    "gt.Scalar": lambda i: A.gt.Scalar(i, 2.5),
    "gt.Tensor": both(A.gt.Tensor),
    "hardtanh.default": lambda x: A.hardtanh.default(x, -0.5, 0.8),
    "index.Tensor": lambda x, rows, b: (
        A.index.Tensor(x, [None, rows]),
        A.index.Tensor(x, [rows[0] % 3, None, rows[1]]),
    ),
    "index_put.default": lambda x, rows: (
        A.index_put.default(x, [rows[:, 0] % 3, rows[:, 1]], x[0, :2] * 0 + 1.5),
        A.index_put.default(x, [None, rows[0]], x[:, :3], True),
    ),
    "index_select.default": lambda x, rows: A.index_select.default(x, 1, rows[0]),
    "isinf.default": lambda nothing: A.isinf.default(nothing),
    "isnan.default": lambda nothing: A.isnan.default(nothing),
    "le.Scalar": lambda i: A.le.Scalar(i, 2.5),
    "le.Tensor": both(A.le.Tensor),
    "leaky_relu.default": lambda x: A.leaky_relu.default(x, 0.2),
    "log.default": inside(A.log.default),
    "log10.default": inside(A.log10.default),
    "log1p.default": inside(A.log1p.default),
    "log2.default": inside(A.log2.default),
    "logical_and.default": lambda i, b: A.logical_and.default(i, b),
    "logical_not.default": lambda i, x: (A.logical_not.default(i), A.logical_not.default(x)),
    "logical_or.default": lambda i, b: A.logical_or.default(i, b),
    "logical_xor.default": lambda i, b: A.logical_xor.default(i, b),
    "lt.Scalar": lambda i: A.lt.Scalar(i, 3),
    "lt.Tensor": both(A.lt.Tensor),
    "masked_scatter.default": lambda x, b, y: A.masked_scatter.default(x, b, y),
    "max.dim": lambda x: A.max.dim(x, 1),
    "max_pool2d_with_indices.default": lambda image: A.max_pool2d_with_indices.default(
        image, [3, 2], [2, 1], [1, 0], [1, 2], True
    ),
    "max_pool2d_with_indices_backward.default": lambda image: A.max_pool2d_with_indices_backward.default(
        A.max_pool2d_with_indices.default(image, [3, 2], [2, 1], [1, 0])[0],
        *(image, [3, 2], [2, 1], [1, 0], [1, 1], False),
        A.max_pool2d_with_indices.default(image, [3, 2], [2, 1], [1, 0])[1],
    ),
    "max_pool3d_with_indices.default": lambda volume: A.max_pool3d_with_indices.default(volume, [2, 3, 2], [1, 2, 2]),
    "maximum.default": both(A.maximum.default),
    "mean.default": alone(A.mean.default),
    "mean.dim": lambda x, i: (A.mean.dim(x, [0, 2]), A.mean.dim(i, [1], True, dtype=torch.float32)),
    "min.dim": lambda x: A.min.dim(x, 2, True),
    "minimum.default": both(A.minimum.default),
    "mm.default": lambda m, n: A.mm.default(m, n),
    "mul.Scalar": lambda x, i: (A.mul.Scalar(x, 2), A.mul.Scalar(i, 2.5)),
    "mul.Tensor": lambda x, y, i, b: (A.mul.Tensor(x, y), A.mul.Tensor(i, x), A.mul.Tensor(b, b)),
    "native_dropout.default": lambda x: A.native_dropout.default(x, 0.5, False)[0],
    "native_group_norm.default": lambda image, w: A.native_group_norm.default(image, w, w, 2, 4, 42, 2, 1e-5),
    "native_group_norm_backward.default": lambda image, w: A.native_group_norm_backward.default(
        image * image,
        image,
        *A.native_group_norm.default(image, w, w, 2, 4, 42, 2, 1e-5)[1:],
        w,
        2,
        4,
        42,
        2,
        [True] * 3,
    ),
    "native_layer_norm.default": lambda x, m: A.native_layer_norm.default(x, [4, 5], m, m, 1e-5),
    "native_layer_norm_backward.default": lambda x, m: A.native_layer_norm_backward.default(
        x * x, x, [4, 5], *A.native_layer_norm.default(x, [4, 5], m, m, 1e-5)[1:], m, m, [True] * 3
    ),
    "ne.Scalar": lambda i: A.ne.Scalar(i, 3),
    "ne.Tensor": lambda i, j: A.ne.Tensor(i, j),
    "neg.default": lambda x, i: (A.neg.default(x), A.neg.default(i)),
    "nonzero.default": lambda b: A.nonzero.default(b),
    "permute.default": lambda x: A.permute.default(x, [2, 0, 1]),
    "pow.Scalar": lambda x: A.pow.Scalar(2.0, x),
    "pow.Tensor_Scalar": lambda x, i: (A.pow.Tensor_Scalar(x, 3), A.pow.Tensor_Scalar(i, 2), A.pow.Tensor_Scalar(x, 0)),
    "pow.Tensor_Tensor": lambda q, x, i, j: (A.pow.Tensor_Tensor(q, x), A.pow.Tensor_Tensor(i, j)),
    "prod.default": lambda x, j: (A.prod.default(x), A.prod.default(j[:, :1, :2])),
    "prod.dim_int": lambda x: A.prod.dim_int(x, 1, True),
    "rand.default": lambda x: A.ge.Scalar(A.rand.default([2, 3]), 0),
    "randn.default": lambda x: A.isnan.default(A.randn.default([2, 3])),
    "randperm.default": lambda x: first(A.sort.default(A.randperm.default(7))),
    "reciprocal.default": lambda q, j: (A.reciprocal.default(q), A.reciprocal.default(j)),
    "reflection_pad1d.default": lambda x: A.reflection_pad1d.default(x, [2, 1]),
    "reflection_pad2d.default": lambda image: A.reflection_pad2d.default(image, [2, 1, 0, 3]),
    "reflection_pad3d.default": lambda volume: A.reflection_pad3d.default(volume, [1, 2, 0, 1, 2, 0]),
    "relu.default": alone(A.relu.default),
    "remainder.Scalar": lambda x, i: (A.remainder.Scalar(x, -0.7), A.remainder.Scalar(i, 4)),
    "remainder.Tensor": lambda x, y, i, j: (A.remainder.Tensor(x, y), A.remainder.Tensor(i, j)),
    "repeat.default": lambda m: A.repeat.default(m, [2, 1, 3]),
    "replication_pad2d.default": lambda image: A.replication_pad2d.default(image, [2, 1, 0, 3]),
    "replication_pad3d.default": lambda volume: A.replication_pad3d.default(volume, [1, 2, 0, 1, 2, 0]),
    "round.default": alone(A.round.default),
    "rsqrt.default": inside(A.rsqrt.default),
    "scalar_tensor.default": lambda x: x * A.scalar_tensor.default(3.5),
    "scatter.src": lambda x, g, y: A.scatter.src(x, 1, g[:, :1], y),
    "scatter.value": lambda x, g: A.scatter.value(x, 1, g, 1.5),
    "scatter_add.default": lambda x, g, y: A.scatter_add.default(x, 1, g, y),
    "scatter_reduce.two": lambda x, g, y: tuple(
        A.scatter_reduce.two(x, 1, g, y, how, include_self=own)
        for how, own in (("sum", True), ("mean", True), ("amax", False), ("amin", True), ("prod", False))
    ),
    "select.int": lambda x: A.select.int(x, 1, -2),
    "select_scatter.default": lambda x, m: A.select_scatter.default(x, m, 0, 1),
    "sigmoid.default": alone(A.sigmoid.default),
    "sign.default": lambda x, i: (A.sign.default(x), A.sign.default(i)),
    "sin.default": alone(A.sin.default),
    "sinh.default": alone(A.sinh.default),
    "slice.Tensor": lambda x: (A.slice.Tensor(x, 1, 1, -1), A.slice.Tensor(x, 2, 0, 9223372036854775807, 2)),
    "slice_scatter.default": lambda x, y: A.slice_scatter.default(x, y[:, :2], 1, 0, 4, 2),
    "sort.default": lambda x: (A.sort.default(x, 1), A.sort.default(x, -1, True)),
    "split_with_sizes.default": lambda x: A.split_with_sizes.default(x, [1, 3], 1),
    "sqrt.default": inside(A.sqrt.default),
    "squeeze.dim": lambda x: (A.squeeze.dim(x[:, :1], 1), A.squeeze.dim(x, 1)),
    "squeeze.dims": lambda x: A.squeeze.dims(x[:1, :1], [0, 1, 2]),
    "sub.Scalar": lambda x, i: (A.sub.Scalar(x, 2, 3), A.sub.Scalar(i, 1)),
    "sub.Tensor": lambda x, y, i: (A.sub.Tensor(x, y, alpha=2), A.sub.Tensor(i, x)),
    "sum.dim_IntList": lambda x, i, b: (A.sum.dim_IntList(x, [0, 2], True), A.sum.dim_IntList(b, [1])),
    "sym_numel.default": lambda x: x + A.sym_numel.default(x),
    "sym_size.int": lambda x: x + A.sym_size.int(x, 1),
    "sym_storage_offset.default": lambda x: x + A.sym_storage_offset.default(x),
    "sym_stride.int": lambda x: x + A.sym_stride.int(x, 0),
    "tan.default": inside(A.tan.default),
    "tanh.default": alone(A.tanh.default),
    "topk.default": lambda x: (A.topk.default(x, 2, 1), A.topk.default(x, 3, -1, False)),
    "trunc.default": alone(A.trunc.default),
    "unsqueeze.default": lambda x: A.unsqueeze.default(x, -2),
    "upsample_bilinear2d.vec": lambda image: (
        A.upsample_bilinear2d.vec(image, [11, 5], True, None),
        A.upsample_bilinear2d.vec(image, None, False, [1.5, 2.0]),
    ),
    "upsample_nearest2d.vec": lambda image: (
        A.upsample_nearest2d.vec(image, [11, 5], None),
        A.upsample_nearest2d.vec(image, None, [1.5, 2.0]),
    ),
    "var.correction": lambda x: (A.var.correction(x, [0, 2], correction=0), A.var.correction(x, [1], keepdim=True)),
    "var.dim": lambda x: A.var.dim(x, [1], False, True),
    "view.default": lambda x: A.view.default(x, [4, -1]),
    "where.self": lambda b, x, i: (A.where.self(b, x, i), A.where.self(b, i, i + 1)),
}


class Sizes(nn.Module):
    """Numbers that are computed from open extents, which are constants elsewhere."""

    def forward(self, x, j):
        y = x * A.sym_numel.default(x) + A.sym_stride.int(x, 0) - A.sym_size.int(x, 2)
        return y, y * A._local_scalar_dense.default(j[0, 0, 0]), y + A.sym_storage_offset.default(x)


class Calls(nn.Module):
    """Operators one after another; operands come from the pool, by name."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls
        self.operands = sorted({key for call in self.calls for key in inspect.signature(call).parameters})

    def forward(self, *pool):
        given = dict(zip(self.operands, pool, strict=True))
        return [call(*(given[key] for key in inspect.signature(call).parameters)) for call in self.calls]


def without_places(program):
    for node in program.graph.nodes:
        for key in ("stack_trace", "nn_module_stack", "from_node", "source_fn_stack"):
            node.meta.pop(key, None)


def write(folder, name, calls, pool):
    module = Calls(calls)
    args = tuple(pool[key] for key in module.operands)
    pack(folder, name, module, args, torch.export.export(module, args))


def pack(folder, name, module, args, program):
    """Write a program without traces and sample inputs, and what PyTorch computes with it."""
    without_places(program)
    whole_archive = io.BytesIO()
    torch.export.save(program, whole_archive)
    with (
        zipfile.ZipFile(whole_archive) as archive,
        zipfile.ZipFile(folder / f"{name}.pt2", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed,
    ):
        for member in archive.namelist():
            if "sample_inputs" not in member:
                packed.writestr(member, archive.read(member))
    with torch.no_grad():
        results = pytree.tree_flatten(module(*args))[0]
    arrays = {f"in{k}": a.numpy() for k, a in enumerate(args)} | {
        f"out{k}": r.resolve_neg().numpy() for k, r in enumerate(results)
    }
    np.savez_compressed(folder / f"{name}.npz", **arrays)


def core():
    """All overloads that PyTorch tags as core and that make new tensors."""
    packets = {name: getattr(A, name) for name in dir(A) if hasattr(getattr(A, name), "overloads")}
    every = [(name, overload, packet) for name, packet in packets.items() for overload in packet.overloads()]
    tagged = [(name, overload) for name, overload, packet in every if torch.Tag.core in getattr(packet, overload).tags]
    return sorted(f"{name}.{overload}" for name, overload in tagged if overload != "out")


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    (folder / "core_aten.txt").write_text("".join(f"{name}\n" for name in core()))
    print("without a call:", *sorted(set(core()) - set(CALLS)))
    if "one" in sys.argv:
        for name in sys.argv[3:] or CALLS:
            write(folder, name, [CALLS[name]], POOL)
    else:
        args, dynamic = (POOL["x"], POOL["j"]), torch.export.Dim.DYNAMIC
        shapes = ({0: dynamic, 1: dynamic, 2: dynamic}, None)
        pack(folder, "sizes", Sizes(), args, torch.export.export(Sizes(), args, dynamic_shapes=shapes))
        names, width = sorted(CALLS), 24
        for start in range(0, len(names), width):
            write(folder, f"part{start // width}", [CALLS[name] for name in names[start : start + width]], POOL)
