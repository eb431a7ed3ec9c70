"""Networks for tests: texts with weights that fit, made up the same way every time."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def length_field(number: int, data: bytes) -> bytes:
    """A field of protobuf with a length: a text, bytes or a message."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def blob_bytes(array: np.ndarray, *, legacy: bool = False) -> bytes:
    """A blob, as Caffe writes it; `legacy` with four extents."""
    data = length_field(5, np.ascontiguousarray(array, "<f4").tobytes())
    if legacy:
        shape = (1,) * (4 - array.ndim) + array.shape
        return b"".join(_varint(n << 3) + _varint(extent) for n, extent in enumerate(shape, 1)) + data
    return data + length_field(7, length_field(1, b"".join(map(_varint, array.shape))))


@dataclass
class Network:
    """A text that grows a layer a call, and its weights."""

    name: str = "net"
    lines: list[str] = field(default_factory=list)
    weights: dict[str, list[np.ndarray]] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.lines.append(f'name: "{self.name}"')

    def input(self, name: str, *shape: int) -> str:
        dims = " ".join(f"dim: {n}" for n in shape)
        self.lines.append(
            f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}'
        )
        return name

    def layer(
        self,
        type: str,
        name: str,
        *bottoms: str,
        top: str | list[str] | None = None,
        blobs: Any = (),
        **parameters: str,
    ) -> str:
        """A layer; its top is called like it, or like its bottom where `top` says so."""
        tops = [name] if top is None else [top] if isinstance(top, str) else top
        said = "".join(f' bottom: "{b}"' for b in bottoms) + "".join(f' top: "{t}"' for t in tops)
        said += "".join(f" {key} {{ {text} }}" for key, text in parameters.items())
        self.lines.append(f'layer {{ name: "{name}" type: "{type}"{said} }}')
        if len(blobs):
            self.weights[name] = [np.asarray(blob, np.float32) for blob in blobs]
        return tops[0] if tops else ""

    def conv(
        self,
        name: str,
        bottom: str,
        c: int,
        n: int,
        k: int = 3,
        *,
        bias: bool = True,
        group: int = 1,
        more: str = "",
        type: str = "Convolution",
    ) -> str:
        shape = (c, n // group, k, k) if type == "Deconvolution" else (n, c // group, k, k)
        blobs = [self.normal(*shape) / np.sqrt(c * k * k / group)]
        if bias:
            blobs.append(self.normal(n))
        grouped = f" group: {group}" if group != 1 else ""
        text = f"num_output: {n} kernel_size: {k}{grouped} {more}" + ("" if bias else " bias_term: false")
        return self.layer(type, name, bottom, blobs=blobs, convolution_param=text)

    def batch_norm(self, name: str, bottom: str, c: int, *, factor: float = 1.0) -> str:
        """Statistics, then scale and shift, in place."""
        blobs = [self.normal(c) * factor, self.random.uniform(0.5, 2, c) * factor, [factor]]
        self.layer(
            "BatchNorm", f"bn_{name}", bottom, top=bottom, blobs=blobs, batch_norm_param="use_global_stats: true"
        )
        scale = [self.random.uniform(0.5, 1.5, c), self.normal(c)]
        return self.layer("Scale", f"scale_{name}", bottom, top=bottom, blobs=scale, scale_param="bias_term: true")

    def relu(self, name: str, bottom: str) -> str:
        return self.layer("ReLU", f"relu_{name}", bottom, top=bottom)

    def normal(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape).astype(np.float32)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def model(self, *, legacy: bool = False) -> bytes:
        """The file of weights."""
        layers = b""
        for name, blobs in self.weights.items():
            data = length_field(1, name.encode()) + length_field(2, b"any")
            data += b"".join(length_field(7, blob_bytes(blob, legacy=legacy)) for blob in blobs)
            layers += length_field(100, data)
        return length_field(1, self.name.encode()) + layers

    def save(self, folder: Path, *, legacy: bool = False) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.prototxt"
        path.write_text(self.text)
        if self.weights:
            path.with_suffix(".caffemodel").write_bytes(self.model(legacy=legacy))
        return path


def double(number: float) -> bytes:
    return struct.pack("<d", number)
