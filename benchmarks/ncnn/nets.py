"""Write ten small PyTorch networks with pnnx: `python nets.py FOLDER`; needs torch and pnnx."""

# torch has no type stubs.

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional as F  # pyright: ignore[reportMissingImports]


def conv(i, o, k=3, s=1, g=1, act=nn.ReLU):
    layers = [nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Module):
    def __init__(self, i, o, s):
        super().__init__()
        self.body = nn.Sequential(conv(i, o, 3, s), conv(o, o, 3, 1, act=None))
        self.short = conv(i, o, 1, s, act=None) if s > 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


class Inverted(nn.Module):
    def __init__(self, i, o, s, act=nn.ReLU6, squeeze=False):
        super().__init__()
        self.first = nn.Sequential(conv(i, 4 * i, 1, act=act), conv(4 * i, 4 * i, 3, s, 4 * i, act=act))
        self.squeeze = Squeeze(4 * i) if squeeze else nn.Identity()
        self.last = conv(4 * i, o, 1, act=None)
        self.adds = s == 1 and i == o

    def forward(self, x):
        y = self.last(self.squeeze(self.first(x)))
        return x + y if self.adds else y


class Squeeze(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.down, self.up = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.norm, self.attend = nn.LayerNorm(d), nn.MultiheadAttention(d, heads, batch_first=True)
        self.feed = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        return x + self.feed(x)


class Vision(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 8, 8)
        self.blocks = nn.Sequential(*(Attention(64, 4) for _ in range(2)))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.blocks(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = conv(3, 16), conv(16, 32), conv(32, 48)
        self.up, self.d = nn.ConvTranspose2d(48, 32, 2, 2), conv(64, 32)
        self.e, self.head = conv(48, 16), nn.Conv2d(16, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        d = self.d(torch.cat([b, self.up(self.c(F.max_pool2d(b, 2)))], 1))
        wide = F.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False)
        return torch.sigmoid(self.head(self.e(torch.cat([a, wide], 1))))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = conv(3, 16, 3, 2, act=nn.SiLU), conv(16, 32, 3, 2, act=nn.SiLU), conv(32, 64, 3, 2)
        self.side = nn.Conv2d(96, 32, 1)
        self.boxes, self.classes = nn.Conv2d(32, 8, 1), nn.Conv2d(64, 8, 1)

    def forward(self, x):
        b = self.b(self.a(x))
        c = self.c(b)
        near = self.side(torch.cat([b, F.interpolate(c, scale_factor=2.0, mode="nearest")], 1))
        found = [self.boxes(near).flatten(2), self.classes(c).flatten(2)]
        return torch.cat(found, 2).transpose(1, 2).sigmoid()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(24, 48, 2, batch_first=True, bidirectional=True), nn.Linear(96, 11)

    def forward(self, x):
        return self.head(self.lstm(x)[0]).log_softmax(-1)


class Next(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.deep, self.norm = nn.Conv2d(c, c, 7, 1, 3, groups=c), nn.LayerNorm(c)
        self.feed = nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))

    def forward(self, x):
        return x + self.feed(self.norm(self.deep(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


class Shuffle(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(conv(c, c, 1), conv(c, c, 3, 1, c, act=None), conv(c, c, 1))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        y = torch.cat([a, self.body(b)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def headed(width, *layers):
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


PNNX = Path(sys.executable).with_name("pnnx")
PICTURE = (1, 3, 64, 64)
NETS = {
    "resnet": (lambda: headed(64, conv(3, 16, 3, 2), Residual(16, 32, 1), Residual(32, 64, 2)), PICTURE),
    "mobilenet": (lambda: headed(32, conv(3, 16, 3, 2), Inverted(16, 16, 1), Inverted(16, 32, 2)), PICTURE),
    "vgg": (
        lambda: headed(64, conv(3, 16), nn.MaxPool2d(2), conv(16, 32), nn.MaxPool2d(2), conv(32, 64)),
        PICTURE,
    ),
    "efficientnet": (
        lambda: headed(
            32,
            conv(3, 16, 3, 2, act=nn.SiLU),
            *(Inverted(*each, nn.SiLU, squeeze=True) for each in [(16, 16, 1), (16, 32, 2)]),
        ),
        PICTURE,
    ),
    "vit": (Vision, PICTURE),
    "unet": (UNet, PICTURE),
    "detector": (Detector, PICTURE),
    "lstm": (Recurrent, (1, 20, 24)),
    "convnext": (lambda: headed(32, nn.Conv2d(3, 32, 4, 4), Next(32), Next(32)), PICTURE),
    "shuffle": (lambda: headed(48, conv(3, 48, 3, 2), Shuffle(24), Shuffle(24)), PICTURE),
}


def main(folder: Path) -> None:
    torch.manual_seed(0)
    for name, (make, shape) in NETS.items():
        net = make().eval()
        for layer in net.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.normal_(0, 0.1)
                layer.running_var.uniform_(0.5, 1.5)
        x = torch.randn(shape)
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        with torch.no_grad():
            y = net(x)
            torch.jit.trace(net, x).save(str(place / "net.pt"))
        np.savez(place / "data.npz", x=x.numpy(), y=y.numpy())
        shape_ = f"[{','.join(map(str, x.shape))}]"
        # pnnx's Python module has names that begin with digits, at which `pnnx.export` fails.
        subprocess.run([PNNX, "net.pt", f"inputshape={shape_}", "fp16=0"], cwd=place, check=True, capture_output=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
