"""Modules whose operators are written step by step, for `make.py`."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  registers the ops of quantized tensors

torch.manual_seed(1)


def normal(*shape):
    return torch.randn(*shape)


class Factors(nn.Module):
    """Matrix factorizations that decompose into elementary steps."""

    def forward(self, x, y):
        spread = x @ x.mT + 3 * torch.eye(5)
        lower = torch.linalg.cholesky(spread)
        return (
            *torch.linalg.qr(x),
            torch.linalg.qr(x[:, :3], mode="complete")[0],
            torch.linalg.cholesky(spread, upper=True),
            torch.cholesky_solve(y, lower),
            torch.cholesky_inverse(lower),
            torch.linalg.solve_triangular(spread.triu(), y, upper=True),
            torch.linalg.solve_triangular(spread.tril(), y.mT, upper=False, left=False),
            torch.triangular_solve(y, spread, unitriangular=True)[0],
            torch.linalg.inv(x),
            torch.linalg.solve(x, y),
            torch.linalg.solve(x[0], y[0, :, 0]),
            torch.linalg.matrix_power(x, -2),
            torch.linalg.cond(x, "fro"),
            torch.linalg.matrix_norm(x),
            torch.linalg.vecdot(x, x),
            torch.linalg.diagonal(x),
            torch.linalg.vander(x[0]),
        )


class Runs(nn.Module):
    """Lengths and counts that are computed, runs of equal entries, and integers that are convolved."""

    def forward(self, x, first, times, numbers, kernel):
        start = first.item()
        torch._check(start >= 0)
        torch._check(start <= 3)
        filled = x.clone()
        filled.fill_diagonal_(7.0)
        tall = x.new_zeros(7, 2).fill_diagonal_(1.0, wrap=True)
        image = numbers[None, None, :6].reshape(1, 1, 2, 3)
        return (
            x.narrow(0, start, 2),
            x.narrow(1, -2, 2),
            torch.repeat_interleave(x, times, dim=1),
            torch.repeat_interleave(times),
            *torch.unique_consecutive(numbers, return_inverse=True, return_counts=True),
            torch.unique_consecutive(numbers[:4].reshape(2, 2).expand(3, 2, 2), dim=0),
            filled,
            tall,
            nn.functional.conv2d(image, kernel, numbers[:2], padding=1),
            nn.functional.conv2d(image.to(torch.uint8) + 90, kernel.to(torch.uint8) + 3),
            nn.functional.conv1d(numbers[None, None], kernel[:, 0, :1], stride=2),
            x.to(torch.float8_e4m3fn).float(),
            (x * 1e5).to(torch.float8_e5m2).float(),
        )


class Strides(nn.Module):
    """`as_strided` refers to the storage, not to the view."""

    def forward(self, x):
        y = x.clone()
        z = y.view(2, 6)
        u = z.as_strided((2, 2), (5, 1), 1)
        v = y[1:].as_strided((2,), (3,), 0)
        return (
            x[1:].as_strided((2, 2), (1, 2), 1),
            x.view(-1)[2:].as_strided((3,), (2,)),
            x.t().as_strided((2, 2), (1, 3)),
            x[:, 1:3].as_strided((2, 2), (4, 1), 2),
            u + 0,
            v + 0,
        )


class Overwritten(nn.Module):
    """Writes to a view of `as_strided`."""

    def forward(self, x):
        y = x.clone()
        u = y.view(2, 6).as_strided((2, 2), (5, 1), 1)
        u += 10
        y[1:].as_strided((2,), (3,), 0).zero_()
        y.t().as_strided((4,), (1,)).mul_(3)
        return y, u


class Sampled(nn.Module):
    """Windows, differences, and floats multiplied by booleans and complex numbers."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(10, 4, max_norm=1.0)

    def forward(self, x, y, i):
        z = torch.complex(x, y)
        return (
            x * torch.kaiser_window(5),
            x * torch.bartlett_window(5),
            x * torch.bartlett_window(5, periodic=False),
            x * torch.hamming_window(5, True, 0.6, 0.4),
            torch.cumulative_trapezoid(x, dim=1),
            torch.cumulative_trapezoid(y, x, dim=0),
            torch.trapezoid(y, x),
            *torch.gradient(x, spacing=2.0),
            *torch.frexp(x * torch.tensor([1e30, 1.0, 1e-30, 0.0, -8.0])),
            torch.view_as_real(z * (x > 0)),
            torch.view_as_real(z + torch.arange(5)),
            nn.functional.dropout(x, 0.0, training=True),
            self.rows(i),
        )


class Instances(nn.Module):
    """Running statistics of entries that are normalized by themselves."""

    def __init__(self):
        super().__init__()
        self.norm = nn.InstanceNorm2d(3, affine=True, track_running_stats=True, momentum=0.3)

    def train(self, mode=True):
        return super().train(True)

    def forward(self, x):
        y = self.norm(x)
        return y, self.norm.running_mean * 2, self.norm.running_var + x.sum()


class Words(nn.Module):
    """Ops that no other program here has: complex numbers, statistics, scatter and index ops."""

    def forward(self, x, v, c):
        x64, rows = x.flatten(1), torch.tensor([2, 0])
        waves = (torch.fft.fft2(c), torch.fft.fftshift(c), torch.fft.fftshift(v), torch.polar(v.abs(), v))
        waves += (torch.conj(c) * c, c.imag, torch.angle(c), c + c, torch.index_select(c, 0, rows), v.to(c.dtype) * c)
        spread = (torch.std(v, 1), *torch.var_mean(v, 1), *torch.std_mean(v, 1), *torch.std_mean(v, 1, correction=2))
        most = (torch.nansum(v), *torch.cummax(v, 1), v.max(1).values, torch.linalg.vector_norm(v, float("inf"), 1))
        whole, parts = F.adaptive_avg_pool2d(x, 1).flatten(1), F.adaptive_avg_pool2d(x, (3, 5))
        images = F.interpolate(x, (4, 4), mode="bilinear", antialias=True), whole, parts
        places = torch.tensor([[1, 0, 3], [2, 2, 0], [0, 1, 1]])
        moved = (
            torch.scatter(v, 1, places, v[:, :3]),
            torch.scatter(v, 1, torch.tensor([[1, 0], [2, 3], [0, 1]]), v[:, :2], reduce="add"),
            torch.scatter_add(v, 1, places, v[:, :3].exp()),
            torch.scatter_reduce(v, 1, places, v[:, :3], "amax"),
            torch.take_along_dim(v, torch.argsort(v, 1), 1),
        )
        mask = (v > 0) & (v < 1) | (v.ne(0) & v.isfinite())
        keys = v[None, None]
        plain = (
            F.scaled_dot_product_attention(keys, keys, keys, v @ v.mT > 0),
            v.mean(dtype=torch.float64),
            v.new_ones(2, 3) + torch.ones(2, 3) + v.mean(),
            torch.clamp(v, min=v[:1]),
            mask,
            rows.ne(2.5),
            rows.eq(2),
            F.group_norm(x, 3, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 0.0, -0.5])),
        )
        return waves, spread, most, images, moved, plain, x64


class Images(nn.Module):
    """Image resizing, which decomposes into much arithmetic."""

    def forward(self, x):
        return (
            F.interpolate(x, scale_factor=2, mode="bicubic"),
            F.interpolate(x, (6, 5), mode="nearest-exact"),
            F.interpolate(x[0], 12, mode="linear"),
            F.interpolate(x[None], (4, 6, 6), mode="trilinear"),
        )


class Quantized(nn.Module):
    """Quantized and back, as PyTorch's own quantizer writes it; and zeros of as open a shape."""

    def forward(self, x):
        ops = torch.ops.quantized_decomposed
        whole = ops.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
        scales, zeros = torch.tensor([0.02, 0.05, 0.1]), torch.zeros(3, dtype=torch.int64)
        rows = ops.dequantize_per_channel(whole, scales, zeros, 0, -128, 127, torch.int8)
        return ops.dequantize_per_tensor(whole, 0.05, 3, -128, 127, torch.int8), rows, torch.zeros_like(x)


CASES = {
    "factors": (Factors(), (normal(2, 5, 5), normal(2, 5, 2)), {}, (-normal(2, 5, 5), normal(2, 5, 2)), None, 1),
    "runs": (
        Runs(),
        (
            normal(5, 3),
            torch.tensor(1),
            torch.tensor([2, 0, 3]),
            torch.tensor([4, 4, 1, 2**40, 2**40, 2**40, 4]),
            torch.tensor([[[[1, -2], [3, 0]]], [[[5, 1], [1, 2**20]]]]),
        ),
        {},
        None,
        None,
        1,
    ),
    "strides": (Strides(), (normal(3, 4),), {}, None, None, 1),
    "overwritten": (Overwritten(), (normal(3, 4),), {}, None, None, 1),
    "sampled": (Sampled(), (normal(3, 5), -normal(3, 5), torch.arange(6)), {}, None, None, 1),
    "instances": (Instances(), (normal(2, 3, 4, 4) + 2,), {}, None, None, 3),
    "words": (
        Words(),
        (normal(2, 3, 8, 8), normal(3, 4), torch.complex(normal(3, 4), normal(3, 4))),
        {},
        None,
        None,
        1,
    ),
    "images": (Images(), (normal(2, 3, 8, 8),), {}, None, None, 1),
    "quantized": (Quantized(), (normal(3, 4),), {}, (normal(3, 6),), ({1: torch.export.Dim.DYNAMIC},), 1),
}
