"""Write the programs of this folder and PyTorch 2.13's results: `python make.py` in an environment with torch.

`found` also needs torchvision, `blocks` torchao.

NAME.pt2 is as exported, NAME.core.pt2 decomposed; NAME.npz has `inI` and `outI` by index, with `_b` for a second size
and `_callN` for further calls of the module.
"""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportCallIssue=false

import copy
import os
import sys
from pathlib import Path

import numpy as np
import steps
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree

HERE = Path(__file__).parent
SITE = str(Path(torch.__file__).parent.parent) + os.sep
OPEN = torch.export.Dim.DYNAMIC
torch.manual_seed(0)


class Writes(nn.Module):
    """Writes in place, through views of views."""

    def forward(self, x, v):
        y = x.clone()
        y[:, 1:3] = v
        y[..., -1] = 0.5
        z = y.view(2, 24)
        z[:, ::2].mul_(2)
        y.transpose(1, 2)[0, 1] += 3
        a, b = y.chunk(2, 1)
        a.add_(b)
        return y, z, a.relu_()


class Seen(nn.Module):
    """Writes of other element types that all views of the storage observe."""

    def forward(self, x, y):
        z = x.clone()
        rows, flat, turned = z[1:], z.view(-1), z.t()
        z[z > 1] = 1.0
        z[0] = y[0]
        z.index_put_((torch.tensor([0, 2]), torch.tensor([1, 3])), torch.tensor([7.0, 8.0]), accumulate=True)
        rows.clamp_(max=5)
        turned[4].copy_(y[:, 0] > 0)
        z.masked_fill_(y > 1.5, -1)
        flat[::7] += torch.arange(3)
        return z, rows, flat, turned


class Mixed(nn.Module):
    """What puts tensors of several element types together, in the type that arithmetic on them has."""

    def forward(self, x, i, b, j, d):
        products = torch.outer(i[0], x[0]), torch.outer(j[0], d[0]), torch.outer(b[0], x[0]), torch.outer(b[0], b[1])
        products += torch.kron(i, x), torch.kron(b, i), torch.addr(d, i[:, 0].double(), x[0].double())
        together = torch.cat([x, i]), torch.stack([b, j]), torch.hstack([i, j]), torch.vstack([x[0], d])
        together += torch.dstack([x, d]), torch.column_stack([i[:, 0], x])
        shares = x.quantile(torch.tensor([0.25, 0.5]), 1), x.quantile(torch.tensor([0.1, 0.9]), 0, keepdim=True)
        return products, together, shares, x.quantile(0.3), i.relu(), j.relu()


class Layouts(nn.Module):
    """Writes to a view or a copy, depending on the layout."""

    def forward(self, x):
        x = x + 0
        y = x.reshape(-1)
        y.add_(1)
        z = x.t().contiguous()
        z.mul_(2)
        w = x.contiguous()
        w.sub_(1)
        v = x.t().reshape(-1)[:3]
        return x, y, z, w, v


class Cache(nn.Module):
    """A cache of keys that every call adds to, and a counter."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 6, 4))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.project = nn.Linear(4, 4)

    def forward(self, x, place):
        self.keys.index_copy_(1, place, self.project(x))
        self.count += 1
        return self.keys.sum(1) * self.count


class Training(nn.Module):
    """Normalization by the batch, whose running statistics every call moves, and a result that shows them."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.norm.running_mean.normal_()

    def forward(self, x):
        y = F.batch_norm(x, self.norm.running_mean, self.norm.running_var, self.norm.weight, self.norm.bias, True, 0.3)
        return y, self.norm.running_mean * 2, self.norm.running_var + 1


class Loops(nn.Module):
    """A branch, a loop and a scan."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, n):
        from torch._higher_order_ops.scan import scan
        from torch._higher_order_ops.while_loop import while_loop

        x = torch.cond(x.sum() > 0, lambda x: self.layer(x) + 1, lambda x: x.sin(), (x,))
        _, x = while_loop(lambda i, _: i < n, lambda i, x: (i + 1, torch.tanh(self.layer(x)) + x), (n - n, x))
        last, rows = scan(lambda carry, row: (carry + row, carry * row), x[0] * 1, x * 1)
        return x, last, rows


class Sizes(nn.Module):
    """Dims computed from each other."""

    def forward(self, x, y):
        half = x.view(x.shape[0] // 2, -1)
        both = torch.cat([x, y]), torch.arange(x.shape[0] + 1)
        return {"half": half, "both": both, "sum": x[:-1] + y[: x.shape[0] - 1]}


class Names(nn.Module):
    """Results in dictionaries, also integers, and one value as two results."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.layer.weight
        self.register_buffer("table", torch.arange(24.0).view(4, 6).t()[1:3], persistent=False)

    def forward(self, inputs, *, scale):
        y = self.tied(self.layer(inputs["x"])) * scale
        return {"logits": y, "parts": [y @ self.table.t(), 7, None, y], "deep": {"again": inputs["x"]}}


class Network(nn.Module):
    """Convolution, normalization, attention."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.norm.running_mean.normal_()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.last = nn.LayerNorm(4)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.norm(self.conv(x)), inplace=True), 2)
        y = y.flatten(2).transpose(1, 2)
        y = self.last(y + self.attention(y, y, y, need_weights=False)[0])
        return F.gelu(y)


class Recurrent(nn.Module):
    """Layers of two directions."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 3, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.lstm(x)


class Attending(nn.Module):
    """Two layers of a language model with symbolic lengths in Core ATen ops, for fusion passes."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(8), nn.RMSNorm(8)])
        self.heads = nn.Linear(8, 24)
        self.last = nn.Linear(8, 8)

    def forward(self, x):
        for norm in self.norms:
            batch, length, _ = x.shape
            parts = self.heads(norm(x)).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
            x = x + F.hardswish(self.last(y.transpose(1, 2).reshape(batch, length, 8)))
        return x


class Odd(nn.Module):
    """Rare forms of ops."""

    def forward(self, x, n):
        hidden = x.masked_fill(x[:, :1] < 0, -torch.inf)
        first = x.argmax(1, keepdim=True)
        return (
            torch.ops.aten._safe_softmax.default(hidden, 1),
            x.take_along_dim(first[:1], 1),
            torch.ops.aten.transpose_copy.int(x, 0, 1) + torch.ops.aten.expand_copy.default(x[0, 0], [6, 3]),
            torch.isin(n, torch.tensor([2, 3])),
            torch.lcm(n, n.flip(0)),
            torch.linalg.vector_norm(x[0, 1]),
            torch.linalg.norm(x, 1),
            torch.linalg.norm(x, -torch.inf, (0, 1), keepdim=True),
            torch.cumsum(x[0, 1], 0),
        )


class Mapped(nn.Module):
    """Slices of `vmap`."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3))

    def forward(self, x):
        return torch.vmap(lambda row: (row @ self.weight).softmax(-1), in_dims=1)(x)


class Scanned(nn.Module):
    """A scan that is unrolled into slices of `vmap`."""

    def forward(self, x, y):
        from torch._higher_order_ops.associative_scan import associative_scan

        def combined(a, b):
            return a[0] * b[0], b[0] * a[1] + b[1]

        return associative_scan(combined, (torch.sigmoid(x), y), dim=1, combine_mode="generic")[1]


class Waves(nn.Module):
    """Complex numbers as inputs and outputs."""

    def forward(self, x, y):
        z = torch.complex(y, y.flip(0))
        parts = x.sqrt(), (x * z).tanh(), torch.einsum("ij,kj->ik", x, z), x**0.5, z.pow(3), x.log(), torch.sgn(x)
        return *parts, (x == z).sum(), torch.fft.irfft(torch.fft.rfft(y, 11) * 2, 11)


class Open(nn.Module):
    """Computed padding, parts of open extents that are written into, folds."""

    def forward(self, x):
        n, (h, w) = x.shape[2], x.shape[2:]
        padded = F.pad(x, (0, n % 3, 1, n // 2))
        y = x * 1
        y.narrow(2, 1, 2).sigmoid_()
        folded = F.fold(F.unfold(x, 2, stride=2), (h, w), 2, stride=2)
        return padded, y, F.pixel_unshuffle(x, 2), folded, torch.full_like(x, 0.5)


class Special(nn.Module):
    """Special functions over all their ranges."""

    def forward(self, x, p, matrix):
        f, positive = torch.special, x.abs() + 0.1
        gamma = (
            f.digamma(x),
            f.polygamma(1, x + 0.25),
            f.polygamma(3, positive),
            f.zeta(positive + 1.2, p[: len(x)] + 0.1),
        )
        gamma += torch.lgamma(x), f.multigammaln(positive + 2, 3), f.xlog1py(x, p[: len(x)]), f.xlog1py(2.0, p)
        normal = f.erfcx(x), f.ndtri(p), f.log_ndtr(x * 3), f.ndtr(x), torch.erfinv(p * 2 - 1), f.entr(p)
        bessel = f.i0(x), f.i0e(x), f.i1(x), f.i1e(x), f.bessel_j0(x * 3), f.bessel_j1(x * 3)
        linear = torch.linalg.inv(matrix), torch.linalg.solve(matrix, matrix[..., :2] * 2), torch.linalg.det(matrix)
        linear += (
            torch.linalg.solve(matrix, matrix[..., 0]),
            matrix[:, :3, :3].inverse(),
            torch.logdet(matrix @ matrix.mT),
        )
        return gamma, normal, bessel, linear


class Computed(nn.Module):
    """Pads, diagonals, argmax indices, and image sizes that are computed from symbolic dims."""

    def forward(self, x, theta):
        rows, columns = x.shape[2], x.shape[3]
        seen = torch.ones(rows, rows + columns).tril(columns)
        padded = F.pad(x, (0, rows - 2, 1, 0))
        small, places = F.max_pool2d(x, 2, return_indices=True)
        again = F.max_unpool2d(small, places, 2, output_size=(rows, columns))
        larger = F.interpolate(small, size=(rows, columns), mode="bilinear", align_corners=False)
        grid = F.affine_grid(theta, [theta.shape[0], 2, 5, 4], align_corners=False)
        return seen, padded, places, again, larger, grid, x.unfold(3, 3, 2)


class Found(nn.Module):
    """Boxes of torchvision."""

    def forward(self, boxes, scores, x):
        from torchvision import ops

        kept = ops.nms(boxes, scores, 0.4)
        regions = torch.cat([torch.zeros(boxes.shape[0], 1), boxes], 1)
        return boxes[kept], ops.roi_align(x, regions, (2, 3), 0.5, 2, True)


def quantized():
    """Weights in blocks of four bits, activations by row."""
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, PerGroup, quantize_
    from torchao.utils import unwrap_tensor_subclass

    module = nn.Sequential(nn.Linear(64, 8))
    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))
    quantize_(module, config)
    return unwrap_tensor_subclass(module)


def corners(count):
    first = torch.rand(count, 2) * 8
    return torch.cat([first, first + 1 + torch.rand(count, 2) * 6], 1)


def counted():
    return torch.randint(-3, 4, (3, 4))


def sizes(*shape):
    return torch.randn(*shape)


CASES = {
    "writes": (Writes(), (sizes(2, 4, 6), sizes(2, 2, 6)), {}, None, None, 1),
    "seen": (Seen(), (sizes(4, 5), sizes(4, 5)), {}, None, None, 1),
    "layouts": (Layouts(), (sizes(3, 4),), {}, None, None, 1),
    "cache": (Cache(), (sizes(2, 2, 4), torch.tensor([1, 3])), {}, None, None, 3),
    "training": (Training(), (sizes(2, 3, 4, 5),), {}, None, None, 3),
    "loops": (Loops(), (sizes(3, 4), torch.tensor(4)), {}, (-sizes(3, 4).abs(), torch.tensor(0)), None, 1),
    "sizes": (Sizes(), (sizes(4, 3), sizes(5, 3)), {}, (sizes(6, 3), sizes(9, 3)), "even", 1),
    "names": (Names(), ({"x": sizes(2, 4)},), {"scale": sizes(1)}, None, None, 1),
    "network": (Network(), (sizes(2, 2, 8, 6),), {}, (sizes(1, 2, 12, 8),), ({0: OPEN, 2: OPEN, 3: OPEN},), 1),
    "attending": (Attending(), (sizes(2, 3, 8),), {}, (sizes(3, 5, 8),), ({0: OPEN, 1: OPEN},), 1),
    "odd": (
        Odd(),
        (sizes(3, 6), torch.tensor([0, 2, 3, 4, 6])),
        {},
        (-sizes(3, 6), torch.tensor([5, 2, 1, 8, 0])),
        None,
        1,
    ),
    "mapped": (Mapped(), (sizes(2, 5, 4),), {}, None, None, 1),
    "scanned": (Scanned(), (sizes(2, 5, 4), sizes(2, 5, 4)), {}, None, None, 1),
    "waves": (
        Waves(),
        (torch.complex(sizes(3, 4), sizes(3, 4)), sizes(3, 4)),
        {},
        (torch.complex(-sizes(3, 4).abs(), sizes(3, 4)), sizes(3, 4)),
        None,
        1,
    ),
    "open": (Open(), (sizes(2, 3, 4, 6),), {}, (sizes(2, 3, 8, 6),), ({2: torch.export.Dim("h", min=2) * 2},), 1),
    "special": (
        Special(),
        (
            torch.cat([torch.linspace(-9.3, 9.1, 57), torch.tensor([0.0, 0.5, 1.0, 2.0, -1.0, -3.0])]),
            torch.cat([torch.linspace(0, 1, 41), torch.logspace(-7, -1, 11), 1 - torch.logspace(-6, -1, 11)]),
            sizes(2, 4, 4) + 2 * torch.eye(4),
        ),
        {},
        None,
        None,
        1,
    ),
    "computed": (
        Computed(),
        (sizes(2, 2, 6, 5), sizes(2, 2, 3)),
        {},
        (sizes(3, 2, 7, 8), sizes(3, 2, 3)),
        ({0: OPEN, 2: OPEN, 3: OPEN}, {0: OPEN}),
        1,
    ),
    "mixed": (
        Mixed(),
        (sizes(3, 4), counted(), counted() > 0, counted().int(), sizes(3, 4).double()),
        {},
        None,
        None,
        1,
    ),
    "found": (Found(), (corners(9), torch.rand(9), sizes(1, 2, 8, 9)), {}, None, None, 1),
    "blocks": (quantized(), (sizes(3, 64),), {}, (sizes(3, 64) * 3,), None, 1),
    "recurrent": (Recurrent(), (sizes(2, 3, 4),), {}, (sizes(3, 3, 4),), ({0: OPEN},), 1),
    **steps.CASES,
}


def even():
    half = torch.export.Dim("half", min=2, max=32)
    return {0: 2 * half}, {0: torch.export.Dim.DYNAMIC}


def leaves(tree):
    return pytree.tree_flatten(tree)[0]


def scrubbed(program):
    """The same without paths of this machine."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                trace = node.meta.get("stack_trace")
                if trace:
                    node.meta["stack_trace"] = trace.replace(SITE, "").replace(str(HERE) + os.sep, "")
    return program


def main(names):
    for name, (module, args, kwargs, second, dynamic, calls) in CASES.items():
        if names and name not in names:
            continue
        module.eval()
        data = {}
        for tag, given in (("", args), ("_b", second)):
            if given is None:
                continue
            twin = copy.deepcopy(module)
            data |= {f"in{i}{tag}": x.numpy().copy() for i, x in enumerate(leaves((given, kwargs)))}
            for call in range(calls):
                with torch.no_grad():
                    found = twin(*copy.deepcopy(given), **copy.deepcopy(kwargs))
                results = [x for x in leaves(found) if isinstance(x, torch.Tensor)]
                end = tag + (f"_call{call}" if call else "")
                data |= {f"out{i}{end}": x.detach().numpy().copy() for i, x in enumerate(results)}
        np.savez_compressed(HERE / f"{name}.npz", **data)
        shapes = even() if dynamic == "even" else dynamic
        program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
        torch.export.save(scrubbed(program), HERE / f"{name}.pt2")
        if name in ("recurrent", "overwritten", "images"):
            continue  # the decomposition has nodes for each time step and pixel; PyTorch does not decompose these writes
        torch.export.save(scrubbed(program.run_decompositions()), HERE / f"{name}.core.pt2")


if __name__ == "__main__":
    main(sys.argv[1:])
