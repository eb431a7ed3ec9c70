"""Write the TorchScript files of this folder and what PyTorch computes with them.

Needs torch and torchvision: `python make_cases.py`. Each case is `cases/NAME.pt`, and `cases/NAME.npz` with the arrays `in_NAME` of the
inputs and `out_INDEX` of the outputs; a second set of both has the suffix `_b`. Modules and weights are made up here (MIT).
"""

from __future__ import annotations

import enum
import io
import json
import math
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
import torch.ao.quantization as tq
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = Path(__file__).parent / "cases"
CASES: dict[str, tuple] = {}


def case(name: str, module, first: dict, second: dict | None = None, *, how: str = "script") -> None:
    CASES[name] = module, first, second, how


def ones(*shape: int) -> Tensor:
    return torch.arange(float(np.prod(shape))).reshape(shape) / 7 - 1


class Branches(nn.Module):
    """A condition on values, with writes in place in both branches."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        if bool(x.sum() > 0):
            y[0] = 1.0
            y.add_(1)
        else:
            y[:, 1] = 2.0
        return y


class Steps(nn.Module):
    """A loop whose count is an input, with carried tensors and a list that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 5)

    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        h, c = torch.zeros(x.size(1), 5), torch.zeros(x.size(1), 5)
        outs: list[Tensor] = []
        for i in range(int(n)):
            h, c = self.cell(x[i], (h, c))
            outs.append(h)
        return torch.stack(outs), h


class WritesInLoop(nn.Module):
    """A loop that writes into rows of a tensor from outside."""

    def forward(self, x: Tensor, k: Tensor) -> Tensor:
        y = torch.zeros(5, 4)
        for i in range(int(k)):
            y[i] = x * i
        return y


class BreaksAndContinues(nn.Module):
    """Conditions on elements inside of a loop, with `break` and `continue`."""

    def forward(self, x: Tensor) -> Tensor:
        n = 0
        for i in range(x.size(0)):
            if x[i] > 0:
                n += 1
            else:
                continue
            if n > 2:
                break
        return torch.tensor(n)


class Containers(nn.Module):
    """Dictionaries, named functions, optional arguments, strings and assertions."""

    def __init__(self) -> None:
        super().__init__()
        self.mode = "mean"
        self.sizes = [1, 2, 3]
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)])

    def forward(self, x: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        assert x.dim() == 2, f"expected 2 dims, got {x.dim()}"
        out: dict[str, Tensor] = {}
        for i, layer in enumerate(self.layers):
            x = layer(x)
            out["layer" + str(i)] = x
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        if self.mode in ["mean", "sum"]:
            out["all"] = x.mean() * sum(self.sizes)
        else:
            out["all"] = x.max()
        out["%s %d" % ("sum", 2)] = x.sum()  # noqa: UP031
        return out


class Hooked(nn.Module):
    """Hooks of a submodule, and a list that another list is added to in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

        def before(module, given: tuple[Tensor]) -> tuple[Tensor]:
            return (given[0] * 2.0,)

        def after(module, given: tuple[Tensor], result: Tensor) -> Tensor:
            return result + given[0]

        self.layer.register_forward_pre_hook(before)
        self.layer.register_forward_hook(after)

    def forward(self, x: Tensor) -> Tensor:
        found = [self.layer(x)]
        found += [x, x * 3.0]
        return torch.cat(found)


def double_first(module, given: tuple[Tensor]) -> tuple[Tensor]:
    return (given[0] * 2.0,)


def add_first(module, given: tuple[Tensor], result: Tensor) -> Tensor:
    return result + given[0]


def hooked_root() -> nn.Module:
    """A module whose own hooks run around `forward`."""
    module = Scores()
    module.register_forward_pre_hook(double_first)
    module.register_forward_hook(add_first)
    return module


class Scores(nn.Module):
    """A linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Statistics(nn.Module):
    """Statistics of elements, also of types that ONNX's operators lack."""

    def forward(self, x: Tensor, i: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        gaps = torch.where(x > 1, torch.nan, x)
        quantiles = torch.nanquantile(gaps, torch.tensor([0.1, 0.5]), 1), torch.nanquantile(gaps, 0.3)
        rounded = [x.quantile(0.3, 1, interpolation=m) for m in ("lower", "higher", "nearest", "midpoint")]
        counts = torch.bincount(i[0].abs().long(), w), torch.unique(i, dim=0, return_counts=True)
        spreads = torch.cov(x, fweights=i[0].abs().long(), aweights=w), torch.cov(x[0]), torch.corrcoef(x)
        extremes = i.max(), i.min(1), i.amax(0), i.cummax(1), (i > 0).max(1), i.argmin(1)
        chosen = torch.combinations(w), torch.combinations(w, 3, with_replacement=True)
        tables = torch.range(1, 4, 1.5), x.nextafter(x.flip(0)), gaps.quantile(0.5, 0, keepdim=True)
        return (*leaves([quantiles, rounded, counts, spreads, extremes, chosen, tables]),)


class PackedRelu(nn.Module):
    """An RNN with Relu over a packed sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(3, 4, nonlinearity="relu", batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[0].data


class Packed(nn.Module):
    """Recurrent layers over packed sequences, whose rows are in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(3, 4, batch_first=True)
        self.rnn = nn.RNN(3, 4, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, (_, c) = self.lstm(packed)
        wide, counts = pad_packed_sequence(y, batch_first=True)
        z, h = self.gru(packed)
        long, _ = pad_packed_sequence(z, padding_value=-1.0, total_length=7)
        return wide, counts, c, long, h, self.rnn(packed)[0].data


class ListOfInputs(nn.Module):
    """A list of tensors and a grid made from their sizes, as detection heads have it."""

    def forward(self, xs: list[Tensor]) -> Tensor:
        found: list[Tensor] = []
        for x in xs:
            h, w = x.shape[2:]
            gy, gx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack([gx, gy], 0).float()
            found.append((x[:, :2].sigmoid() + grid).flatten(2))
        return torch.cat(found, 2)


class Views(nn.Module):
    """Writes in place through slices, transposes and reshapes of one tensor."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        y[:, 1:3] *= 2
        y[0].zero_()
        y.T[1].add_(5)
        v = y.view(-1)
        v[::2] = 7.0
        y[y > 6.5] = 0
        return y, v


class Sizes(nn.Module):
    """Sizes of the input in reshapes and interpolations; a trace records them as tensors."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n, c, h, w = x.shape
        y = x.view(n, c, h // 2, 2, w).permute(0, 1, 3, 2, 4).reshape(n, c * 2, h // 2, w)
        return y, F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)


class Promotion(nn.Module):
    """Numbers, tensors of rank 0 and tensors of other types."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("factor", torch.tensor(0.5, dtype=torch.float64))

    def forward(self, i: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        return i / 2, i // 2, i * 1.5, i * self.factor, a + self.factor


class Network(nn.Module):
    """A small classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(self.head(F.max_pool2d(F.relu6(self.norm(self.conv(x))), 2).flatten(1)), 1)


class Counter(nn.Module):
    """A buffer that the module sets in each run."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.count + 1
        return x + self.count


class Attention(nn.Module):
    """Attention on the fast path of eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.mha = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, w = self.mha(x, x, x)
        return self.layer(y), w


class Encoder(nn.Module):
    """An encoder that packs the rows of a left-aligned padding mask into a nested tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.layers(x, src_key_padding_mask=mask)


class Scaled(nn.Module):
    """A number argument without a default."""

    def forward(self, x: Tensor, n: int, scale: float = 2.0) -> Tensor:
        return x[:, :n] * scale


class Quantizable(nn.Module):
    """Convolutions that are quantized statically."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.conv = nn.Conv2d(3, 4, 3, 2, 1)
        self.relu = nn.ReLU()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.conv(self.quant(x)))
        return self.dequant(self.head(F.adaptive_avg_pool2d(y, 1).flatten(1)))


class Recurrent(nn.Module):
    """A recurrent layer that is quantized dynamically."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(6, 5, batch_first=True)
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.rnn(x)
        return self.head(y)


def static() -> nn.Module:
    torch.backends.quantized.engine = "x86"
    module = tq.fuse_modules(Quantizable().eval(), [["conv", "relu"]])
    module.qconfig = tq.get_default_qconfig("x86")
    tq.prepare(module, inplace=True)
    module(ones(2, 3, 8, 8))
    return tq.convert(module)


def dynamic() -> nn.Module:
    return tq.quantize_dynamic(Recurrent().eval(), {nn.LSTM, nn.Linear})


class Paddings(nn.Module):
    """Convolutions whose padding is a mode."""

    def __init__(self) -> None:
        super().__init__()
        self.same = nn.Conv2d(4, 6, 3, padding="same", dilation=2, groups=2)
        self.valid = nn.Conv1d(3, 2, 3, stride=2, padding="valid", bias=False)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.same(x), self.valid(y)


class Regions(nn.Module):
    """Maxima of regions of an image."""

    def forward(self, x: Tensor, boxes: Tensor) -> Tensor:
        return torchvision.ops.roi_pool(x, boxes, (2, 3), 0.5)


class LazyState(nn.Module):
    """A state that the first run creates."""

    def __init__(self) -> None:
        super().__init__()
        self.state: Tensor = torch.zeros(0)

    def forward(self, x: Tensor) -> Tensor:
        if len(self.state) == 0:
            self.state = torch.zeros(x.shape)
        self.state = self.state * 0.5 + x
        return self.state


class Detections(nn.Module):
    """Boxes above a threshold, maybe none, and a pasted mask for each; numbers are converted from tensors implicitly."""

    def forward(self, scores: Tensor, deltas: Tensor) -> tuple[Tensor, Tensor]:
        boxes = deltas[torch.where(scores > 0.5)[0]]
        count = boxes.size(0)
        if count > 0:
            boxes = boxes.reshape(count, -1, 4)
        boxes = boxes.reshape(-1, 4)
        corners = boxes.to(torch.int64)
        masks: list[Tensor] = []
        for i in range(corners.size(0)):
            mask = torch.zeros(6, 6)
            left = max(corners[i, 0], 0)
            right = min(corners[i, 2] + 1, 6)
            mask[:, left:right] = boxes[i, 3]
            masks.append(mask)
        pasted = torch.stack(masks) if len(masks) > 0 else torch.zeros(0, 6, 6)
        return boxes, pasted


class Layout(enum.Enum):
    """An order of axes."""

    ROWS = "rows"
    COLUMNS = "columns"


class Enumeration(nn.Module):
    """An attribute that is a member of an enumeration, and a boolean that is returned."""

    def __init__(self) -> None:
        super().__init__()
        self.layout = Layout.COLUMNS

    def forward(self, x: Tensor) -> tuple[Tensor, bool]:
        y = x.t() if self.layout == Layout.COLUMNS else x
        return y * len(self.layout.value), self.layout == Layout.ROWS


class Numbers(nn.Module):
    """Powers of integers are floats, as the least of an integer and a float; logarithms of 0 are infinite."""

    def forward(self, x: Tensor, i: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
        n = x.size(0)
        listed = [k**2 for k in [n, 3]]
        listed.sort(reverse=True)
        names = sorted(["b", "a"])
        least, power = min(n, 2.5), n**2
        return i * power, torch.tensor(listed), i * least, x * len(names[0]) * math.log(n - n), divmod(n, 2)[1] / 2


class SizesOfValues(nn.Module):
    """Sizes that are elements of tensors."""

    def forward(self, x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        n = int(counts.sum())
        mask = torch.arange(int(counts.max()))[None, :] < counts[:, None]
        return torch.ones(n, 2), x[: int(counts[0])], mask, torch.repeat_interleave(x, counts, dim=0)


class WritesAfterBranches(nn.Module):
    """Writes into tensors that one of two branches made anew."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        if bool(x[0, 0] > 0):
            y = y + 1
        y.mul_(2)
        y[:, 0] = 0
        if bool(x[0, 1] > 0):
            y[0].add_(1)
        for _ in range(int(x.abs().max()) + 1):
            y = torch.relu(y)
            y.add_(1)
        return y


class ComplexQuotient(nn.Module):
    """A complex tensor divided by a complex number."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.view_as_real(torch.view_as_complex(x) / (1 + 2j))


BOXES = torch.tensor([[0.0, 1, 1, 9, 11], [1, 0, 3, 15, 8], [0, 4, 4, 5, 5]])
DELTAS = torch.tensor([[0.0, 1, 2, 3, 1, 1, 5, 4], [3, 0, 4, 2, -2, 0, 1, 7], [1, 1, 1, 1, 2, 2, 9, 5]]).repeat(3, 1)
case("branches", Branches, {"x": ones(3, 4) + 1}, {"x": -torch.ones(3, 4)})
case("steps", Steps, {"x": ones(6, 2, 4), "n": torch.tensor(4)}, {"x": ones(6, 2, 4), "n": torch.tensor(2)})
case("writes_in_loop", WritesInLoop, {"x": ones(4), "k": torch.tensor(3)}, {"x": ones(4), "k": torch.tensor(0)})
case("breaks", BreaksAndContinues, {"x": torch.tensor([1.0, -1, 2, 3, 4, -2])}, {"x": -torch.ones(6)})
case("containers", Containers, {"x": ones(2, 4)})
case("hooks", Hooked, {"x": ones(2, 4)})
case("hooked_root", hooked_root, {"x": ones(2, 4)})
SHORTS = torch.tensor([[300, -3, 2, 2], [-9, 2, 2, 7], [-9, 2, 2, 7]], dtype=torch.int16)
case("statistics", Statistics, {"x": ones(3, 4).exp().sin() * 2, "i": SHORTS, "w": ones(4).exp()}, how="trace")
LENGTHS = torch.tensor([2, 5, 3]), torch.tensor([4, 1, 6])
case("packed", Packed, *({"x": ones(3, 6, 3), "lengths": lengths} for lengths in LENGTHS))
case("packed_relu", PackedRelu, *({"x": ones(3, 6, 3), "lengths": lengths} for lengths in LENGTHS))
case("packed_traced", Packed, {"x": ones(3, 6, 3), "lengths": LENGTHS[0]}, how="trace")
case("list_of_inputs", ListOfInputs, {"xs": [ones(1, 4, 2, 3), ones(1, 4, 1, 2)]})
case("views", Views, {"x": ones(3, 4)})
case("views_traced", Views, {"x": ones(3, 4)}, how="trace")
case("sizes", Sizes, {"x": ones(1, 2, 4, 3)}, {"x": ones(2, 2, 6, 5)})
case("sizes_traced", Sizes, {"x": ones(1, 2, 4, 3)}, {"x": ones(2, 2, 6, 5)}, how="trace")
case("promotion_frozen", Promotion, {"i": torch.tensor([[3, -5]]), "a": ones(1, 2)}, how="trace+freeze")
case("promotion", Promotion, {"i": torch.tensor([[3, -5]]), "a": ones(1, 2)}, how="trace")
case("network", Network, {"x": ones(1, 3, 8, 8)}, how="trace")
case("network_frozen", Network, {"x": ones(1, 3, 8, 8)}, how="script+freeze")
case("network_lite", Network, {"x": ones(1, 3, 8, 8)}, how="script+lite")
case("network_lite_frozen", Network, {"x": ones(1, 3, 8, 8)}, how="script+freeze+lite")
case("counter", Counter, {"x": ones(2)})
case("attention", Attention, {"x": ones(2, 3, 8)}, how="trace")
ALIGNED, RAGGED = torch.tensor([[0, 0, 1], [0, 0, 0]]).bool(), torch.tensor([[0, 1, 0], [0, 0, 1]]).bool()
case("encoder", Encoder, *({"x": ones(2, 3, 8), "mask": mask} for mask in (ALIGNED, RAGGED)))
case("encoder_traced", Encoder, {"x": ones(2, 3, 8), "mask": ALIGNED}, how="trace")
case("scaled", Scaled, {"x": ones(2, 4), "n": 3})
case("paddings", Paddings, {"x": ones(2, 4, 7, 6), "y": ones(2, 3, 8)}, how="trace")
case("paddings_scripted", Paddings, {"x": ones(2, 4, 7, 6), "y": ones(2, 3, 8)})
case("regions", Regions, {"x": ones(2, 3, 8, 8).sin(), "boxes": BOXES}, how="trace")
case("detections", Detections, {"scores": ones(9), "deltas": DELTAS}, {"scores": -ones(9).abs(), "deltas": DELTAS})
case("enumeration", Enumeration, {"x": ones(2, 3)}, {"x": ones(3, 1)})
case("numbers", Numbers, {"x": ones(3, 2), "i": torch.tensor([2])}, {"x": ones(2, 2), "i": torch.tensor([5])})
COUNTS = torch.tensor([2, 1, 3]), torch.tensor([1, 4, 0])
case("sizes_of_values", SizesOfValues, *({"x": ones(3, 2), "counts": counts} for counts in COUNTS))
case("writes_after_branches", WritesAfterBranches, {"x": ones(3, 3)}, {"x": -ones(3, 3)})
case("complex_quotient", ComplexQuotient, {"x": ones(3, 2)}, how="trace")
case("quantized_frozen", static, {"x": ones(2, 3, 8, 8)}, how="script+freeze")
case("lazy_state", LazyState, {"x": ones(2, 3)})
case("quantized_static", static, {"x": ones(2, 3, 8, 8)})
case("quantized_dynamic", dynamic, {"x": ones(2, 4, 6)})


def stripped(data: bytes) -> bytes:
    """The archive without source ranges."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for item in old.infolist():
            if not item.filename.endswith(".debug_pkl"):
                kind = zipfile.ZIP_DEFLATED if "/code/" in item.filename else zipfile.ZIP_STORED
                stamp = zipfile.ZipInfo(item.filename)
                stamp.compress_type = kind
                new.writestr(stamp, old.read(item))
    return out.getvalue()


def leaves(value) -> list:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def named(inputs: dict) -> dict[str, Tensor]:
    found = {}
    for name, value in inputs.items():
        items = {f"{name}.{i}": x for i, x in enumerate(value)} if isinstance(value, list) else {name: value}
        found |= {key: x for key, x in items.items() if isinstance(x, Tensor)}
    return found


def main() -> None:
    """Write all cases, or those that are named."""
    HERE.mkdir(exist_ok=True)
    facts = json.loads((HERE / "cases.json").read_text()) if sys.argv[1:] else {}
    for name, (make, first, second, how) in CASES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.manual_seed(3)
        module = make().eval()
        steps = how.split("+")
        with torch.no_grad():
            made = torch.jit.trace(module, tuple(first.values())) if steps[0] == "trace" else torch.jit.script(module)
            made = torch.jit.freeze(made.eval()) if "freeze" in steps else made
            data = made._save_to_buffer_for_lite_interpreter() if "lite" in steps else None
            if data is None:
                torch.jit.save(made, buffer := io.BytesIO())
                data = buffer.getvalue()
            data = stripped(data)
            (HERE / f"{name}.pt").write_bytes(data)
            arrays = {}
            for suffix, inputs in (("", first), ("_b", second)):
                if inputs is None:
                    continue
                again = torch.jit.load(io.BytesIO(data))
                arrays |= {f"in_{key}{suffix}": x.numpy() for key, x in named(inputs).items()}
                outputs = [x for x in leaves(again(*inputs.values())) if not isinstance(x, bool)]
                arrays |= {f"out_{i}{suffix}": np.asarray(x) for i, x in enumerate(outputs)}
            np.savez_compressed(HERE / f"{name}.npz", **arrays)
        facts[name] = {"torch": torch.__version__, "how": how}
    (HERE / "cases.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
