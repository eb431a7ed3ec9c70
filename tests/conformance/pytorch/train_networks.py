"""Ten networks, exported as ONNX and trained after their conversion: `PYTHON train_networks.py export|train FOLDER`.

`export` writes `NAME.onnx`. `train` compares each `NAME.pt2` with the module that it comes from, gradients included, trains
both for 20 steps, and writes `training.json`: the losses of the converted module, and the largest relative differences of
gradients and of losses.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import torch  # pyright: ignore[reportMissingImports]  # in an environment of its own
from torch import nn  # pyright: ignore[reportMissingImports]

STEPS = 20


class Recurrent(nn.Module):
    """A recurrent layer and a classifier of its last step."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


class Residual(nn.Module):
    """The sum of the input and a branch."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x):
        return torch.relu(x + self.branch(x))


def plain(channels: int, inner: int) -> nn.Module:
    """The branch of a residual network."""
    first = [nn.Conv2d(channels, inner, 3, padding=1, bias=False), nn.BatchNorm2d(inner), nn.ReLU()]
    return nn.Sequential(*first, nn.Conv2d(inner, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))


def inverted(channels: int) -> nn.Module:
    """The branch of MobileNet: wide depthwise convolutions."""
    inner = 4 * channels
    first = [nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()]
    depthwise = [nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()]
    return nn.Sequential(*first, *depthwise, nn.Conv2d(inner, channels, 1, bias=False), nn.BatchNorm2d(channels))


def classifier(*layers: nn.Module, channels: int) -> nn.Module:
    """The layers, an average over the image, and a linear layer."""
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 5))


class UNet(nn.Module):
    """Two levels with a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x):
        skip = torch.relu(self.down(x))
        deep = torch.relu(self.middle(torch.max_pool2d(skip, 2)))
        return self.out(torch.cat([self.up(deep), skip], 1))


class Decoder(nn.Module):
    """A decoder of one block: embeddings, causal attention, a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 16), nn.Parameter(torch.randn(8, 16) * 0.1)
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 50)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions
        parts = self.qkv(self.norm(x)).reshape(ids.shape[0], 8, 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(ids.shape[0], 8, 16))
        return self.head(x + self.mlp(x))


class Detector(nn.Module):
    """Class scores and boxes of each cell."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.SiLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.scores, self.boxes = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 4, 1)

    def forward(self, x):
        y = self.body(x)
        return torch.cat([self.scores(y).sigmoid(), self.boxes(y).exp()], 1).flatten(2)


def networks() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """The modules with an input each."""
    torch.manual_seed(7)
    image = torch.randn(2, 3, 32, 32)
    encoder = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return {
        "resnet": (
            classifier(nn.Conv2d(3, 8, 3, 2, 1), Residual(plain(8, 8)), Residual(plain(8, 8)), channels=8),
            image,
        ),
        "mobilenet": (
            classifier(nn.Conv2d(3, 8, 3, 2, 1), Residual(inverted(8)), Residual(inverted(8)), channels=8),
            image,
        ),
        "lstm": (Recurrent(nn.LSTM(6, 16, batch_first=True)), torch.randn(4, 7, 6)),
        "gru": (Recurrent(nn.GRU(6, 16, batch_first=True)), torch.randn(4, 7, 6)),
        "transformer": (nn.Sequential(encoder, nn.Linear(16, 3)), torch.randn(4, 7, 16)),
        "unet": (UNet(), torch.randn(2, 3, 16, 16)),
        "gpt": (Decoder(), torch.randint(0, 50, (4, 8))),
        "conv1d": (
            nn.Sequential(
                nn.Conv1d(2, 8, 5), nn.BatchNorm1d(8), nn.ReLU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(48, 3)
            ),
            torch.randn(4, 2, 16),
        ),
        "detector": (Detector(), torch.randn(2, 3, 16, 16)),
        "autoencoder": (
            nn.Sequential(
                nn.Linear(12, 6), nn.Tanh(), nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 6), nn.ELU(), nn.Linear(6, 12)
            ),
            torch.randn(8, 12),
        ),
    }


def export(folder: Path) -> None:
    """Write the networks as ONNX."""
    for name, (module, x) in networks().items():
        torch.onnx.export(module.eval(), (x,), str(folder / f"{name}.onnx"), dynamo=True, optimize=False, verbose=False)


def loss_of(module: Any, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The mean squared error."""
    found = module(x)
    return ((found if isinstance(found, torch.Tensor) else found[0]) - target).square().mean()


def gradients(module: Any, x: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
    """The gradients of the parameters, and of an input of floats under the empty name."""
    given = x.clone().requires_grad_() if x.is_floating_point() else x
    loss_of(module, given, target).backward()
    found = {name: each.grad.clone() for name, each in module.named_parameters() if each.grad is not None}
    module.zero_grad()
    return found | ({"": given.grad} if given.grad is not None else {})


def train(module: Any, x: torch.Tensor, target: torch.Tensor) -> list[float]:
    """The losses of the steps."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    losses = []
    for _ in range(STEPS + 1):
        optimizer.zero_grad()
        loss = loss_of(module, x, target)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    return losses


def differences(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> dict[str, Any]:
    """The largest relative difference of gradients with the same name; weights may be transposed."""
    largest, compared = 0.0, 0
    for name, wanted in expected.items():
        own = found.get(name)
        if own is None or own.numel() != wanted.numel():
            continue
        if own.shape != wanted.shape:
            own = own.T
        compared += 1
        largest = max(largest, ((own - wanted).abs().max() / wanted.abs().max().clamp_min(1e-6)).item())
    return {"gradients": largest, "compared": compared, "parameters": len(expected)}


def train_all(folder: Path) -> None:
    """Compare and train the converted modules."""
    results: dict[str, Any] = {}
    for name, (module, x) in networks().items():
        module.eval()
        torch.manual_seed(1)
        target = torch.rand_like(module(x).detach())
        converted = torch.export.load(str(folder / f"{name}.pt2")).module()
        result = differences(gradients(converted, x, target), gradients(module, x, target))
        losses, expected = train(converted, x, target), train(module, x, target)
        result["losses"] = losses
        result["training"] = max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(losses, expected, strict=True))
        result["trainable"] = sum(each.numel() for each in converted.parameters())
        result["original"] = sum(each.numel() for each in module.parameters())
        results[name] = result
    (folder / "training.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable()
    torch.set_num_threads(1)
    {"export": export, "train": train_all}[sys.argv[1]](Path(sys.argv[2]))
