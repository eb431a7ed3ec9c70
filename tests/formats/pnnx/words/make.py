"""Write PNNX texts of one operator each and PyTorch 2.13's results: `python make.py` in an environment with torch.

pnnx writes some of the operators for few modules or in other versions: each text is written here, and the function of
the operator's name is called. `words.json` has the lines of each text and the names of its arrays (in `words.npz`, with
the weights), `words.npz` also the results, as NAME.0, NAME.1. Complex numbers are pairs in a last axis.

Operators of torchvision are computed according to its documentation.
"""

# ruff: noqa: S307
# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportCallIssue=false

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree

HERE = Path(__file__).parent
G = torch.Generator().manual_seed(5)


def normal(*shape):
    return torch.randn(*shape, generator=G)


def whole(low, high, *shape):
    return torch.randint(low, high, shape, generator=G)


POOL = {
    "x": normal(3, 4),
    "y": normal(3, 4),
    "i": whole(-9, 9, 3, 4),
    "j": whole(0, 5, 3, 4),
    "v": normal(5),
    "n": whole(-3, 4, 4),
    "places": torch.tensor([3, 0, 1]),
    "count": torch.tensor(6),
    "one": torch.tensor(2.5),
    "far": torch.tensor([300.7, -2.2, 0.0, 255.5, -129.0, 1e-3]),
    "square": normal(2, 3, 3),
    "share": torch.softmax(normal(3, 4), -1),
    "signs": torch.tensor([[1.0, -1.0, 1.0, 1.0]]),
    "z": torch.view_as_complex(normal(3, 4, 2)),
    "w": torch.view_as_complex(normal(3, 4, 2)),
    "m": torch.view_as_complex(normal(4, 5, 2)),
    "batch": torch.view_as_complex(normal(2, 3, 4, 2)),
    "other": torch.view_as_complex(normal(2, 4, 3, 2)),
    "frames": torch.stft(normal(2, 32), 8, 4, window=torch.ones(8), return_complex=True),
    "line": normal(2, 3, 7),
    "image": normal(2, 4, 6, 7),
    "volume": normal(1, 2, 4, 5, 3),
    "state": normal(3, 6),
    "cell": normal(3, 6),
    "w_ih": normal(24, 4),
    "w_hh": normal(24, 6),
    "bias": normal(24),
    "bias2": normal(24),
    "kernel": normal(6, 2, 3, 2),
    "six": normal(6),
    "offset": normal(2, 24, 3, 4) * 1.5,
    "mask": torch.rand(2, 12, 3, 4, generator=G),
    "boxes": torch.tensor([[0.0, 0, 0, 9, 8], [1, 3.2, 1.7, 12.5, 11], [0, 5, 5, 6, 6], [1, -3, -2, 30, 40]]),
}


@dataclass
class At:
    """An array of the pool."""

    name: str


class Pool:
    def __getattr__(self, name):
        return At(name)


at = Pool()
TEXTS, RESULTS = {}, {}


KINDS = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.complex64: "c64",
    torch.bool: "bool",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
}


def text_of(value):
    if isinstance(value, tuple | list):
        return "(" + ",".join(map(str, value)) + ")"
    return str(value)


def shaped(tensor):
    return f"({','.join(map(str, tensor.shape))}){KINDS[tensor.dtype]}"


def real(tensor):
    return torch.view_as_real(tensor.resolve_conj().resolve_neg()) if tensor.is_complex() else tensor


def called(word):
    """The function of PyTorch that is called so."""
    if word.startswith("aten::"):
        return getattr(torch.ops.aten, word.removeprefix("aten::"))
    if word.startswith("Tensor."):
        return getattr(torch.Tensor, word.removeprefix("Tensor."))
    return eval(word)


def case(word, *operands, compute=None, results=None, **arguments):
    """Add a text of one operator; operands and arguments are arrays of the pool, or numbers."""
    lines, given, weights = [], [], {}

    def operand(value):
        """Return the name of an operand in the text."""
        if not isinstance(value, At):
            name = f"n{len(lines)}"
            lines.append(f"pnnx.Expression {name} 0 1 {name} expr={text_of(value).replace('(', '[').replace(')', ']')}")
            return name
        if value.name not in given:
            given.append(value.name)
            lines.append(f"pnnx.Input {value.name} 0 1 {value.name} #{value.name}={shaped(real(POOL[value.name]))}")
            if POOL[value.name].is_complex():
                shape = shaped(POOL[value.name])
                lines.append(
                    f"torch.view_as_complex c{value.name} 1 1 {value.name} c{value.name} #c{value.name}={shape}"
                )
        return f"c{value.name}" if POOL[value.name].is_complex() else value.name

    names, keys, attributes = [operand(value) for value in operands], [], []
    for key, value in arguments.items():
        if isinstance(value, At) and key.startswith("_"):
            weights[key[1:]] = value.name
            attributes.append(f"@{key[1:]}={shaped(POOL[value.name])}")
        elif isinstance(value, At):
            names.append(operand(value))
            keys.append(f"${key}={names[-1]}")
        else:
            attributes.append(f"{key}={text_of(value)}")

    def number(value):
        if isinstance(value, At):
            return POOL[value.name].clone()
        return eval(value) if isinstance(value, str) and value.startswith("torch.") else value

    function = compute or called(word)
    with torch.no_grad():
        named = {key: number(value) for key, value in arguments.items()}
        try:
            found = function(*map(number, operands), **named)
        except TypeError:
            # Some functions have no names for tensors.
            found = function(*map(number, [*operands, *arguments.values()]))
    found = pytree.tree_flatten(found)[0]
    outputs = [f"r{place}" for place in range(len(found))]
    shapes = [f"#{name}={shaped(tensor)}" for name, tensor in zip(outputs, found, strict=True)]
    lines.append(
        " ".join([word, "word", str(len(names)), str(len(outputs)), *names, *outputs, *attributes, *keys, *shapes])
    )
    shown = []
    for name, tensor in zip(outputs, found, strict=True):
        shown.append(f"p{name}" if tensor.is_complex() else name)
        if tensor.is_complex():
            lines.append(f"torch.view_as_real p{name} 1 1 {name} p{name} #p{name}={shaped(real(tensor))}")
    if len(shown) > 1:
        lines.append(f"prim::TupleConstruct tuple {len(shown)} 1 {' '.join(shown)} tuple")
    lines.append(f"pnnx.Output out 1 0 {'tuple' if len(shown) > 1 else shown[0]}")
    add(word, lines, given, weights, found)


def add(word, lines, given, weights, found):
    name = next(name for name in (f"{word}{'' if not k else f' {k + 1}'}" for k in range(99)) if name not in TEXTS)
    TEXTS[name] = {"lines": lines, "given": given, "weights": weights}
    RESULTS.update({f"{name}.{place}": real(tensor).numpy() for place, tensor in enumerate(found)})


# ── element types, and factory functions ─────────────────────────────────────────────────────────────────────────────

for kind in ("bool", "byte", "double", "float", "half", "int", "long", "short"):
    case(f"Tensor.{kind}", at.n if kind in ("byte", "bool") else at.far)
case("Tensor.bfloat16", at.x, compute=lambda x: x.bfloat16().float())
lines = TEXTS["Tensor.bfloat16"]["lines"]
lines[-2] = lines[-2].replace("f32", "bf16")
lines[-1:] = ["Tensor.float f 1 1 r0 f", "pnnx.Output out 1 0 f"]
for left, right in (("lshift", "rshift"), ("bitwise_left_shift", "bitwise_right_shift"), ("__lshift__", "__rshift__")):
    for word in (left, right):
        shift = torch.bitwise_left_shift if word == left else torch.bitwise_right_shift
        case(f"torch.{word}", compute=lambda input, other, shift=shift: shift(input, other), input=at.i, other=at.j)
        case(f"torch.{word}", compute=lambda input, other, shift=shift: shift(input, other), input=at.i, other=3)
        case(f"aten::{word}", at.i, at.j, compute=shift)
case("aten::arange", 7, "None", "None", "None", "None", compute=lambda *_: torch.arange(7))
case("aten::arange", 2, 9, "None", "None", "None", "None", compute=lambda *_: torch.arange(2, 9))
case("aten::arange", 9.5, 2, -2, "None", "None", "None", "None", compute=lambda *_: torch.arange(9.5, 2, -2))
case("aten::arange", 4, 6, "None", "None", "None", compute=lambda *_: torch.arange(4, dtype=torch.float32))
case("aten::arange", 1, at.count, 5, "None", "None", "None", compute=lambda *_: torch.arange(1, 6, dtype=torch.float16))
case("aten::arange", 1, at.count, 2, "None", "None", "None", "None", compute=lambda *_: torch.arange(1, 6, 2))
for name in ("one", "v"):
    case("aten::atleast_1d", At(name))
    case("torch.atleast_1d", input=At(name))
case("torch.full_like", input=at.x, fill_value=2)
case("torch.full_like", input=at.i, fill_value=1.75, dtype="torch.double")
case("torch.full_like", input=at.i, fill_value=True)
case("aten::full_like", at.x, 3, "None", "None", "None", "None", "None", compute=lambda x, n, *_: torch.full_like(x, n))
case("torch.ones_like", input=at.i)
case("torch.ones_like", input=at.x, dtype="torch.int")
case("aten::ones_like", at.x, "None", "None", "None", "None", "None", compute=lambda x, *_: torch.ones_like(x))
case("aten::softmax", at.x, -1, 7, compute=lambda x, *_: torch.softmax(x, -1, torch.float64))
case("aten::full_like", at.x, 3, 11, "None", "None", "None", "None", compute=lambda x, *_: x > -99)
for word in ("torch.zero_", "aten::zero_", "aten::zero"):
    case(word, at.i, compute=torch.zeros_like)
case("torch.eye", n=3)
case("torch.eye", n=3, m=4, dtype="torch.long")
for x, y in ((at.x, at.y), (at.x, at.one)):
    case("torch.logaddexp", input=x, other=y)
    case("aten::logaddexp", x, y)
for x in (at.x, at.i):
    case("torch.square", input=x)
    case("aten::square", x)
case("torch.vander", x=at.v)
case("torch.vander", x=at.n, N=3, increasing=True)
case("aten::vander", at.v, 4, True)
case("aten::vander", at.v, "None", False, compute=lambda v, *_: torch.vander(v))

# ── layers ───────────────────────────────────────────────────────────────────────────────────────────────────────────

case("nn.CircularPad1d", at.line, compute=lambda x, padding: nn.CircularPad1d(padding)(x), padding=(2, 3))
case("nn.CircularPad2d", at.image, compute=lambda x, padding: nn.CircularPad2d(padding)(x), padding=(1, 2, 3, 0))
case("nn.CircularPad2d", at.image, compute=lambda x, padding: nn.CircularPad2d(padding)(x), padding=(2, -1, 0, 3))
case("nn.CircularPad3d", at.volume, compute=lambda x, padding: nn.CircularPad3d(padding)(x), padding=(1, 2, 0, 3, 1, 1))


def cell(kind, gates, states, *, bias, **more):
    """A cell with the first rows of the weights, and none, some or all of its states."""
    module = getattr(nn, kind)(4, 6, bias=bias, **more)
    with torch.no_grad():
        module.weight_ih.copy_(POOL["w_ih"][: 6 * gates])
        module.weight_hh.copy_(POOL["w_hh"][: 6 * gates])
        if bias:
            module.bias_ih.copy_(POOL["bias"][: 6 * gates])
            module.bias_hh.copy_(POOL["bias2"][: 6 * gates])
    weights = {
        f"_{key}": At(f"{key}{gates}") for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")[: 4 if bias else 2]
    }
    POOL.update({f"{key}{gates}": value.detach() for key, value in module.named_parameters()})

    def compute(x, *state, **_):
        return module(x, (state if len(state) > 1 else state[0]) if state else None)

    case(f"nn.{kind}", at.x, *states, compute=compute, input_size=4, hidden_size=6, bias=bias, **more, **weights)


cell("GRUCell", 3, [at.state], bias=True)
cell("GRUCell", 3, [], bias=False)
cell("LSTMCell", 4, [at.state, at.cell], bias=True)
cell("LSTMCell", 4, [], bias=False)
cell("RNNCell", 1, [at.state], bias=True, nonlinearity="tanh")
cell("RNNCell", 1, [at.state], bias=False, nonlinearity="relu")


def deformed(input, offset, mask=None, *, _weight, _bias=None, stride, padding, dilation, groups, **_):
    """Deformable convolution: bilinear samples at offset positions for each kernel element, zeros outside the image."""
    n, channels, height, width = input.shape
    outputs, _, kh, kw = _weight.shape
    _, taps, oh, ow = offset.shape
    parts = taps // (2 * kh * kw)
    offset = offset.reshape(n, parts, kh * kw, 2, oh, ow)
    rows = torch.arange(oh)[:, None] * stride[0] - padding[0]
    columns = torch.arange(ow)[None] * stride[1] - padding[1]
    found = torch.zeros(n, channels, kh * kw, oh, ow)
    for part in range(parts):
        own = slice(part * channels // parts, (part + 1) * channels // parts)
        for tap in range(kh * kw):
            y = rows + tap // kw * dilation[0] + offset[:, part, tap, 0]
            x = columns + tap % kw * dilation[1] + offset[:, part, tap, 1]
            places = torch.stack([2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1], -1)
            seen = F.grid_sample(input[:, own], places, align_corners=True)
            if mask is not None:
                seen = seen * mask.reshape(n, parts, kh * kw, 1, oh, ow)[:, part, tap]
            found[:, own, tap] = seen
    grouped = found.reshape(n, groups, channels // groups * kh * kw, oh * ow)
    y = torch.einsum("ngkp,gok->ngop", grouped, _weight.reshape(groups, outputs // groups, -1)).reshape(
        n, outputs, oh, ow
    )
    return y if _bias is None else y + _bias[:, None, None]


WINDOWS = {"stride": (2, 2), "padding": (1, 1), "dilation": (1, 2), "groups": 2}
case(
    *("torchvision.ops.deform_conv2d", at.image, at.offset, at.mask),
    compute=deformed,
    _weight=at.kernel,
    _bias=at.six,
    **WINDOWS,
)
case(
    *("torchvision.ops.DeformConv2d", at.image, at.offset),
    compute=deformed,
    _weight=at.kernel,
    in_channels=4,
    out_channels=6,
    kernel_size=(3, 2),
    bias=False,
    **WINDOWS,
)


def pooled(input, boxes, *, output_size, spatial_scale):
    """RoI pooling: the maximum of each cell; corners are rounded to pixels, and cells include partial pixels."""
    found = torch.zeros(len(boxes), input.shape[1], *output_size)
    for k, (image, *box) in enumerate(boxes.tolist()):
        x0, y0, x1, y1 = (int(np.floor(abs(c * spatial_scale) + 0.5) * np.sign(c)) for c in box)
        rows = cells(y0, y1, output_size[0], input.shape[2])
        columns = cells(x0, x1, output_size[1], input.shape[3])
        for i, (top, low) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                if low > top and right > left:
                    found[k, :, i, j] = input[int(image), :, top:low, left:right].amax((1, 2))
    return found


def cells(first, last, count, extent):
    """Where cells begin and end."""
    size = max(last - first + 1, 1) / count
    ends = [(int(np.floor(place * size)), int(np.ceil((place + 1) * size))) for place in range(count)]
    return [(min(max(begin + first, 0), extent), min(max(end + first, 0), extent)) for begin, end in ends]


for word in ("roi_pool", "RoIPool"):
    case(f"torchvision.ops.{word}", at.image, at.boxes, compute=pooled, output_size=(2, 3), spatial_scale=0.5)

# ── complex numbers ──────────────────────────────────────────────────────────────────────────────────────────────────

for name in ("add", "sub", "mul", "div"):
    case(f"torch.{name}", input=at.z, other=at.w)
    case(f"torch.{name}", input=at.z, other=at.x)
    case(f"torch.{name}", input=at.x, other=at.z)
    case(f"torch.{name}", input=at.z, other=2.5)
    case(f"torch.{name}", input=2, other=at.z)
    case(f"aten::{name}", at.z, at.w)
for name in ("add", "sub"):
    case(f"torch.{name}", input=at.z, other=at.w, alpha=2)
    case(f"aten::{name}", at.z, at.w, 0.5, compute=lambda z, w, n, name=name: getattr(torch, name)(z, w, alpha=n))
for name in ("neg", "reciprocal", "square"):
    case(f"torch.{name}", input=at.z)
    case(f"aten::{name}", at.z)
for norm in ("backward", "ortho", "forward"):
    for name in ("fft", "ifft", "hfft"):
        case(f"torch.fft.{name}", input=at.z, norm=norm)
    case("torch.fft.ihfft", input=at.x, norm=norm)
    for name in ("irfft2", "irfftn"):
        case(f"torch.fft.{name}", input=at.z, norm=norm)
case("torch.fft.hfft", input=at.x)
case("torch.fft.hfft", input=at.z, n=5, dim=0)
case("torch.fft.ihfft", input=at.x, n=3, dim=0)
case("torch.fft.ifft", input=at.x, n=7, dim=0)
case("torch.fft.irfftn", input=at.batch, s=(4, 5), dim=(0, 2))
case("torch.fft.irfft2", input=at.batch, s=(5, 6))
for name in ("fft", "ifft", "hfft"):
    case(f"aten::fft_{name}", at.z, "None", -1, "None", compute=lambda z, *_, name=name: getattr(torch.fft, name)(z))
    case(
        f"aten::fft_{name}",
        at.z,
        6,
        0,
        "ortho",
        compute=lambda z, *_, name=name: getattr(torch.fft, name)(z, 6, 0, "ortho"),
    )
case("aten::fft_hfft", at.x, "None", -1, "None", compute=lambda x, *_: torch.fft.hfft(x))
case("aten::fft_ihfft", at.x, "None", -1, "None", compute=lambda x, *_: torch.fft.ihfft(x))
for name in ("fftn", "ifftn", "irfftn"):
    case(
        f"aten::fft_{name}",
        at.batch,
        "None",
        (0, 2),
        "None",
        compute=lambda z, *_, name=name: getattr(torch.fft, name)(z, dim=(0, 2)),
    )
case("aten::fft_rfftn", at.line, (4, 5), (2, 1), "None", compute=lambda x, *_: torch.fft.rfftn(x, (4, 5), (2, 1)))
case("aten::fft_rfft2", at.line, "None", (-2, -1), "None", compute=lambda x, *_: torch.fft.rfft2(x))
for name in ("ifft2", "irfft2"):
    case(
        f"aten::fft_{name}",
        at.batch,
        "None",
        (-2, -1),
        "None",
        compute=lambda z, *_, name=name: getattr(torch.fft, name)(z),
    )
for name in ("fftshift", "ifftshift"):
    for values in (at.z, at.v):
        case(f"torch.fft.{name}", input=values)
        case(f"aten::fft_{name}", values, (0,))
case(
    *("aten::istft", at.frames, 8, 4, "None", "None", True, False, "None", "None", False),
    compute=lambda z, *_: torch.istft(z, 8, 4, window=torch.ones(8)),
)
for word in ("torch.bmm", "aten::bmm", "aten::matmul"):
    case(word, at.batch, at.other)
for word in ("torch.mm", "aten::mm"):
    case(word, at.z, at.m)
case("aten::movedim", at.batch, 0, -1)

MOVES = {
    "Tensor.contiguous": {"memory_format": "torch.contiguous_format"},
    "Tensor.expand": {"sizes": (2, 3, -1)},
    "Tensor.permute": {"dims": (1, 0)},
    "Tensor.repeat": {"sizes": (2, 1, 3)},
    "Tensor.reshape": {"shape": (2, 6)},
    "Tensor.select": {"dim": -1, "index": 2},
    "Tensor.slice": {"dim": -1, "start": 1, "end": 4, "step": 2},
    "Tensor.unflatten": {"dim": -1, "sizes": (2, 2)},
    "Tensor.view": {"shape": (6, 2)},
    "torch.chunk": {"chunks": 2, "dim": -1},
    "torch.cumsum": {"dim": -1},
    "torch.diff": {"n": 1, "dim": -1},
    "torch.flatten": {"start_dim": 0, "end_dim": -1},
    "torch.flip": {"dims": (-1,)},
    "torch.mean": {"dim": (-1,), "keepdim": False},
    "torch.movedim": {"source": 0, "destination": -1},
    "torch.narrow": {"dim": -1, "start": 1, "length": 2},
    "torch.permute": {"dims": (1, 0)},
    "torch.roll": {"shifts": (1,), "dims": (-1,)},
    "torch.select": {"dim": -1, "index": 2},
    "torch.split": {"split_size_or_sections": (1, 3), "dim": -1},
    "torch.squeeze": {"dim": 0},
    "torch.sum": {"dim": (-1,), "keepdim": True},
    "torch.t": {},
    "torch.tile": {"dims": (2, 3)},
    "torch.transpose": {"dim0": 0, "dim1": -1},
    "torch.unbind": {"dim": -1},
    "torch.unsqueeze": {"dim": -1},
}
COMPUTED = {
    "Tensor.contiguous": lambda z, **_: z,
    "Tensor.expand": lambda z, sizes: z.expand(*sizes),
    "Tensor.permute": lambda z, dims: z.permute(*dims),
    "Tensor.repeat": lambda z, sizes: z.repeat(*sizes),
    "Tensor.reshape": lambda z, shape: z.reshape(*shape),
    "Tensor.select": lambda z, dim, index: z.select(dim, index),
    "Tensor.slice": lambda z, **_: z[:, 1:4:2],
    "Tensor.unflatten": lambda z, dim, sizes: z.unflatten(dim, sizes),
    "Tensor.view": lambda z, shape: z.view(*shape),
}
for word, arguments in MOVES.items():
    case(word, at.z, compute=COMPUTED.get(word), **arguments)
case("torch.cat", at.z, at.w, compute=lambda z, w, dim: torch.cat([z, w], dim), dim=-1)
case("torch.stack", at.z, at.w, compute=lambda z, w, dim: torch.stack([z, w], dim), dim=-1)
case("torch.index_select", input=at.z, dim=-1, index=at.places)

# ── others ───────────────────────────────────────────────────────────────────────────────────────────────────────────

for name in ("det", "fliplr", "flipud"):
    case(f"torch.{name}", input=at.square)
    case(f"aten::{name}", at.square)
case("torch.linalg.det", at.square)
case("aten::linalg_det", at.square)
for name in ("adjoint", "mH", "mT"):
    case(f"aten::{name}", at.square)
for name, bound in (("clamp_max", 0.3), ("clamp_min", -0.2)):
    case(f"torch.{name}", input=at.x, **{name.removeprefix("clamp_"): bound})
    case(f"aten::{name}", at.i, 2)
for p in (2, 1, 3):
    case("torch.dist", input=at.x, other=at.y, p=p)
    case("aten::dist", at.x, at.y, p)
case("aten::silu", at.x)
case("torch.silu", at.x, compute=F.silu)
case("aten::mish", at.x)
case("torch.std_mean", input=at.x, dim=(1,), unbiased=True, keepdim=False)
case("aten::std_mean", at.x, (0,), False, True)
case("F.huber_loss", at.x, at.y, delta=0.7, reduction="sum")
case("aten::huber_loss", at.x, at.y, 0, 0.7)
case("F.kl_div", at.x, at.share, log_target=False, reduction="batchmean")
case("F.kl_div", at.x, at.y, log_target=True, reduction="none")
case("aten::kl_div", at.x, at.share, 1, False, compute=lambda x, y, *_: F.kl_div(x, y))
case("F.soft_margin_loss", at.x, at.signs, reduction="mean")
case("aten::soft_margin_loss", at.x, at.signs, 2)
case("F.hinge_embedding_loss", at.x, at.signs, margin=0.8, reduction="mean")
case("aten::hinge_embedding_loss", at.x, at.signs, 0.8, 0)
case("F.margin_ranking_loss", at.x, at.y, at.signs, margin=0.3, reduction="none")
case("aten::margin_ranking_loss", at.x, at.y, at.signs, 0.3, 1)
case("F.binary_cross_entropy", at.share, at.share, reduction="sum")
case(
    "aten::binary_cross_entropy",
    at.share,
    at.share,
    "None",
    0,
    compute=lambda x, y, *_: F.binary_cross_entropy(x, y, reduction="none"),
)

# ── bounds that are computed ─────────────────────────────────────────────────────────────────────────────────────────

x = POOL["image"]
add(
    "SliceIndexes",
    [
        f"pnnx.Input image 0 1 image #image={shaped(x)}",
        "Tensor.size h 1 1 image h dim=2",
        "pnnx.Expression half 1 1 h half expr=floor_divide(@0,2)",
        "pnnx.SliceIndexes first 1 1 half first indexes=(@0,1)",
        "pnnx.SliceIndexes last 1 1 h last indexes=(@0,-1)",
        "Tensor.slice s 3 1 image first last r0 dims=(2,3) steps=(1,2) selects=(2147483647,2147483647) $input=image $start=first $end=last",
        "pnnx.Output out 1 0 r0",
    ],
    *(["image"], {}, [x[:, :, 3:6, 1:-1:2]]),
)

if __name__ == "__main__":
    used = {name for text in TEXTS.values() for name in (*text["given"], *text["weights"].values())}
    arrays = {name: real(POOL[name]).numpy() for name in sorted(used)} | RESULTS
    (HERE / "words.json").write_text(json.dumps(TEXTS, indent=1) + "\n")
    np.savez_compressed(HERE / "words.npz", **arrays)
