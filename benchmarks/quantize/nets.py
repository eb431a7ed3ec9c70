"""Train twelve small nets to quantize, two of each kind, on data that is not part of any calibration sample set.

python nets.py FOLDER [KIND-VARIANT…]

Writes `calibration.npz` and `test.npz` (gray patches of 48 x 48 pixels from the photographs in scikit-image and
scikit-learn, with the index of the photograph) and a net `KIND-VARIANT.onnx` for each name; the denoisers have separate
data with noise: `noisy-calibration.npz`, `noisy-test.npz`. Needs torch, scikit-image and scikit-learn, which no other
benchmark needs.
"""

# torch has no type stubs.

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import skimage.data as photographs  # pyright: ignore[reportMissingImports]
import torch  # pyright: ignore[reportMissingImports]
from skimage.color import rgb2gray  # pyright: ignore[reportMissingImports]
from skimage.transform import resize  # pyright: ignore[reportMissingImports]
from sklearn.datasets import load_sample_images  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIZE = 48
NAMES = (
    "astronaut", "brick", "camera", "cell", "chelsea", "clock", "coffee", "coins", "grass", "gravel",
    "hubble_deep_field", "immunohistochemistry", "moon", "page", "retina", "rocket", "text", "microaneurysms",
)  # fmt: skip
NOISE = 0.4
"""Standard deviation of the noise of denoiser inputs; patches have a deviation of about 1."""


def images() -> list[Any]:
    """Return gray photographs, 0 to 1."""
    found = [getattr(photographs, name)() for name in NAMES] + list(load_sample_images().images)
    return [rgb2gray(x[..., :3]) if x.ndim == 3 else x / 255 for x in found]


def patches(count: int, seed: int) -> tuple[Any, Any]:
    """Return uint8 patches [count, 1, 48, 48] and the indices of their photographs."""
    random = np.random.default_rng(seed)
    sources, labels = images(), random.integers(0, len(NAMES) + 2, count)
    made: list[Any] = []
    for label in labels:
        image = sources[label]
        side = int(random.integers(SIZE, 2 * SIZE))
        y, x = (int(random.integers(0, length - side + 1)) for length in image.shape)
        made.append(resize(image[y : y + side, x : x + side], (SIZE, SIZE), anti_aliasing=True))
    return np.rint(np.stack(made)[:, None] * 255).astype(np.uint8), labels


def normal(pixels: Any) -> Any:
    """Return normalized float32 pixels, the input of the nets."""
    return ((pixels.astype(np.float32) / 255 - 0.45) / 0.25).astype(np.float32)


# Nets


def convolved(i: int, o: int, kernel: int = 3, *, stride: int = 1, groups: int = 1, dilation: int = 1) -> list[Any]:
    """Return a convolution and its batch normalization."""
    pad = dilation * (kernel // 2)
    return [nn.Conv2d(i, o, kernel, stride, pad, dilation, groups, bias=False), nn.BatchNorm2d(o)]


class Residual(nn.Module):
    """`act(x + body(x))`, or `x + body(x)` if `act` is the identity."""

    def __init__(self, body: Any, way: Any, act: Any) -> None:
        super().__init__()
        self.body, self.way, self.act = body, way, act

    def forward(self, x: Any) -> Any:
        return self.act(self.way(x) + self.body(x))


class Squeezed(nn.Module):
    """Squeeze-and-excitation: scale channels by a small net of their means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        few = max(channels // 8, 4)
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, few, 1), nn.SiLU(), nn.Conv2d(few, channels, 1), nn.Sigmoid()
        )

    def forward(self, x: Any) -> Any:
        return x * self.weigh(x)


def head(channels: int) -> list[Any]:
    """Return global average pooling and a classifier."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, len(NAMES) + 2)]


def residual(widths: Sequence[int], act: Callable[[], Any]) -> Any:
    """Return a residual net with two blocks of each width."""
    layers = [*convolved(1, widths[0]), act()]
    before = widths[0]
    for width in widths:
        for stride in (2, 1):
            body = nn.Sequential(*convolved(before, width, stride=stride), act(), *convolved(width, width))
            same = before == width and stride == 1
            way = nn.Identity() if same else nn.Sequential(*convolved(before, width, 1, stride=stride))
            layers.append(Residual(body, way, act()))
            before = width
    return nn.Sequential(*layers, *head(before))


def inverted(
    stages: Sequence[tuple[int, int, int]],
    act: Callable[[], Any],
    kernels: Sequence[int] = (3,),
    *,
    squeezes: bool = False,
    dilation: int = 1,
) -> Any:
    """Return a net of inverted residuals: stages of width, blocks and stride."""
    layers = [*convolved(1, 16, stride=2), act()]
    before, number = 16, 0
    for width, blocks, stride in stages:
        for block in range(blocks):
            step, wide, kernel = stride if block == 0 else 1, 4 * before, kernels[number % len(kernels)]
            spread = dilation if step == 1 else 1
            body = [*convolved(before, wide, 1), act()]
            body += [*convolved(wide, wide, kernel, stride=step, groups=wide, dilation=spread), act()]
            body += [Squeezed(wide)] if squeezes else []
            made = nn.Sequential(*body, *convolved(wide, width, 1))
            same = step == 1 and before == width
            layers.append(Residual(made, nn.Identity(), nn.Identity()) if same else made)
            before, number = width, number + 1
    return nn.Sequential(*layers, *convolved(before, 160, 1), act(), *head(160))


def separable(widths: Sequence[int], *, dilation: int = 1) -> Any:
    """Return depthwise separable convolutions."""
    layers = [*convolved(1, widths[0], stride=2), nn.ReLU()]
    for number, (before, width) in enumerate(itertools.pairwise(widths)):
        stride = 2 if number % 2 else 1
        layers += [*convolved(before, before, stride=stride, groups=before, dilation=1 if stride == 2 else dilation)]
        layers += [nn.ReLU(), *convolved(before, width, 1), nn.ReLU()]
    return nn.Sequential(*layers, *head(widths[-1]))


class Denoiser(nn.Module):
    """A U-Net; `transposes` selects transposed convolutions for upsampling, `bounds` an output from 0 to 1."""

    def __init__(self, width: int, *, transposes: bool, bounds: bool) -> None:
        super().__init__()

        def twice(i: int, o: int) -> Any:
            return nn.Sequential(*convolved(i, o), nn.ReLU(), *convolved(o, o), nn.ReLU())

        def larger(i: int, o: int) -> Any:
            if transposes:
                return nn.ConvTranspose2d(i, o, 2, 2)
            return nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(i, o, 3, 1, 1))

        self.bounds = bounds
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList([twice(1, width), twice(width, 2 * width), twice(2 * width, 4 * width)])
        self.grow = nn.ModuleList([larger(4 * width, 2 * width), larger(2 * width, width)])
        self.up = nn.ModuleList([twice(4 * width, 2 * width), twice(2 * width, width)])
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, x: Any) -> Any:
        first = self.down[0](x)
        second = self.down[1](self.pool(first))
        h = self.down[2](self.pool(second))
        h = self.up[0](torch.cat([self.grow[0](h), second], 1))
        h = self.up[1](torch.cat([self.grow[1](h), first], 1))
        return torch.sigmoid(self.last(h)) if self.bounds else x - self.last(h)


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.three, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        count, width = x.shape[1], x.shape[2]
        split = self.three(x).reshape(-1, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = split.unbind(0)
        seen = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(-1) @ v
        return self.out(seen.transpose(1, 2).reshape(-1, count, width))


class Transformer(nn.Module):
    """A vision transformer."""

    def __init__(self, width: int, depth: int, act: Callable[[], Any], heads: int = 4, piece: int = 8) -> None:
        super().__init__()
        self.cut = nn.Conv2d(1, width, piece, piece)
        self.places = nn.Parameter(torch.randn(1, (SIZE // piece) ** 2, width) * 0.02)
        self.blocks = nn.Sequential()
        for _ in range(depth):
            mixed = nn.Sequential(nn.LayerNorm(width), Attention(width, heads))
            made = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3 * width), act(), nn.Linear(3 * width, width))
            self.blocks.extend([Residual(body, nn.Identity(), nn.Identity()) for body in (mixed, made)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(NAMES) + 2)

    def forward(self, x: Any) -> Any:
        x = self.cut(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.blocks(x)).mean(1))


STAGES = ((16, 1, 1), (24, 2, 2), (32, 2, 2), (64, 2, 2))
OTHER_STAGES = ((24, 2, 2), (40, 2, 2), (56, 3, 1), (80, 1, 2))
NETS: dict[str, Callable[[], Any]] = {
    "residual-a": lambda: residual((16, 32, 64), nn.ReLU),
    "residual-b": lambda: residual((24, 32, 48, 64), nn.SiLU),
    "inverted-a": lambda: inverted(STAGES, nn.ReLU6),
    "inverted-b": lambda: inverted(OTHER_STAGES, nn.ReLU6, (3, 5), dilation=2),
    "rescaled-a": lambda: separable((16, 32, 48, 64, 96, 128)),
    "rescaled-b": lambda: separable((24, 32, 64, 64, 96), dilation=2),
    "denoiser-a": lambda: Denoiser(12, transposes=True, bounds=False),
    "denoiser-b": lambda: Denoiser(16, transposes=False, bounds=True),
    "squeezed-a": lambda: inverted(STAGES, nn.SiLU, (3, 5), squeezes=True),
    "squeezed-b": lambda: inverted(OTHER_STAGES, nn.Hardswish, (5, 3), squeezes=True),
    "transformer-a": lambda: Transformer(64, 2, nn.GELU),
    "transformer-b": lambda: Transformer(96, 3, nn.ReLU, heads=6),
}


def rescaled(net: Any, seed: int) -> None:
    """Multiply channels before a ReLU by 2^U(-5, 5), and divide the next weights by it: the function is unchanged."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for normalization, _, reader in zip(net, net[1:], net[2:], strict=False):
            if not isinstance(normalization, nn.BatchNorm2d) or not isinstance(reader, nn.Conv2d):
                continue
            factor = 2 ** (10 * torch.rand(normalization.num_features, generator=random) - 5)
            normalization.weight *= factor
            normalization.bias *= factor
            reader.weight /= factor.reshape(*((-1, 1, 1, 1) if reader.groups > 1 else (1, -1, 1, 1)))


def varied(x: Any) -> Any:
    """Augment patches: random flips, contrast and brightness."""
    for axis in (2, 3):
        if torch.rand(1) < 0.5:
            x = x.flip(axis)
    return x * (0.8 + 0.4 * torch.rand(len(x), 1, 1, 1)) + 0.2 * torch.randn(len(x), 1, 1, 1)


def loss(net: Any, x: Any, labels: Any, *, is_denoiser: bool) -> Any:
    """Return the loss of a batch."""
    x = varied(x)
    if not is_denoiser:
        return functional.cross_entropy(net(x), labels, label_smoothing=0.05)
    aim = 0.45 + 0.25 * x if net.bounds else x
    return functional.mse_loss(net(x + NOISE * torch.randn_like(x)), aim)


def train(net: Any, x: Any, labels: Any, seconds: float, *, is_denoiser: bool) -> None:
    """Train for `seconds` of processor time."""
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), 3e-3, weight_decay=1e-3)
    started = time.process_time()
    while (part := (time.process_time() - started) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(part / 0.1, (1 - part) / 0.9)
        chosen = torch.randint(0, len(x), (48,))
        optimizer.zero_grad()
        loss(net, x[chosen], labels[chosen], is_denoiser=is_denoiser).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    net.eval()


def save(net: Any, path: Path) -> None:
    """Export to ONNX with a symbolic batch and unfused batch normalizations."""
    with torch.no_grad():
        torch.onnx.export(
            net, (torch.zeros(1, 1, SIZE, SIZE),), str(path), input_names=["x"], output_names=["y"],
            dynamic_axes={"x": {0: "N"}, "y": {0: "N"}}, opset_version=17, dynamo=False, do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE,
        )  # fmt: skip


def data(folder: Path) -> tuple[Any, Any, Any, Any]:
    """Write the samples. Return training patches and labels, test patches and labels."""
    for name, count, seed in (("calibration", 256, 1), ("test", 1000, 2)):
        x, labels = patches(count, seed)
        real = normal(x)
        said = {} if name == "calibration" else {"labels": labels}
        np.savez(folder / f"{name}.npz", x=real, **said)
        noise = NOISE * np.random.default_rng(seed).normal(size=real.shape)
        np.savez(folder / f"noisy-{name}.npz", x=(real + noise).astype(np.float32))
    test, seen = np.load(folder / "test.npz"), patches(4000, 3)
    return *(torch.tensor(x) for x in (normal(seen[0]), seen[1])), torch.tensor(test["x"]), torch.tensor(test["labels"])


def main() -> None:
    """Write samples and nets."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("nets", nargs="*", default=[*NETS])
    parser.add_argument("--seconds", type=float, default=90, help="processor time to train each net")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.folder.mkdir(parents=True, exist_ok=True)
    x, labels, test, right = data(given.folder)
    for name in given.nets:
        kind, variant = name.split("-")
        torch.manual_seed(ord(variant))
        net = NETS[name]()
        train(net, x, labels, given.seconds, is_denoiser=kind == "denoiser")
        if kind == "rescaled":
            rescaled(net, ord(variant))
        save(net, given.folder / f"{name}.onnx")
        with torch.no_grad():
            found = net(test).argmax(1) == right if kind != "denoiser" else None
        top = "" if found is None else f" top-1 {float(found.float().mean()):.3f}"
        sys.stdout.write(f"{name}{top}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
