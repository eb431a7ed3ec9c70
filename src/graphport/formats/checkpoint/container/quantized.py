"""Quantized folders: codes and scales of GPTQ, AWQ, compressed-tensors, FP8 and MXFP4 as float32 tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.checkpoint.container.blocks import E2M1
from graphport.formats.checkpoint.container.faults import fault
from graphport.formats.checkpoint.container.tensors import Derived, ExpertStack, leading, widen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.core.diagnostics import DiagnosticError
    from graphport.core.storage import Storage
    from graphport.formats.checkpoint.container.config import Config
    from graphport.formats.checkpoint.container.tensors import Array

METHODS = ("awq", "compressed-tensors", "fp8", "gptq", "mxfp4")
_WORD_BITS = 32
_AWQ_ORDER = np.array([0, 4, 1, 5, 2, 6, 3, 7])
"""Index in a word of the code of each of eight columns."""
_MX_BLOCK = 32
_FLOAT8 = {DType.FLOAT8E4M3FN, DType.FLOAT8E5M2}


def read_method(config: Config) -> Config | None:
    """Return the section of a configuration that describes a quantization, or None.

    Raises:
        DiagnosticError: CKPT0005 the method is not read.
    """
    name = "quantization_config" if config.has("quantization_config") else "compression_config"
    section = config.section(name)
    if section is None:
        return None
    method = section.text("quant_method", default="unnamed")
    if method not in METHODS:
        message = f"checkpoints quantized with {method[:60]!r}"
        help_ = "use the checkpoint in float16 or bfloat16, and quantize it with graphport quantize"
        raise config.unsupported(name, message, help_)
    return section


def dequantized_tensors(tensors: Mapping[str, Storage], section: Config) -> dict[str, Storage]:
    """Replace the codes and scales of each matrix by the matrix, which is computed while it is read.

    Raises:
        DiagnosticError: CKPT0005 a variant that is not read; CKPT0006 a value of the configuration; CKPT0007 a tensor
            that is missing or has another shape.
    """
    reader = _QuantizedTensors(dict(tensors), section)
    method = section.text("quant_method")
    if method == "mxfp4":
        reader.replace("_blocks", ("_scales",), reader.mxfp4)
    elif method == "fp8":
        reader.replace(".weight", (".weight_scale_inv", ".input_scale", ".activation_scale"), reader.scaled)
    elif method == "gptq":
        reader.check_bits()
        reader.replace(".qweight", (".qzeros", ".scales", ".g_idx"), reader.gptq)
    elif method == "awq":
        reader.check_awq()
        reader.replace(".qweight", (".qzeros", ".scales"), reader.awq)
    elif section.text("format", default="pack-quantized") == "pack-quantized":
        reader.read_groups()
        reader.replace(".weight_packed", (".weight_scale", ".weight_shape", ".weight_zero_point"), reader.packed)
    elif section.text("format") in {"float-quantized", "int-quantized", "naive-quantized"}:
        reader.replace(".weight", (".weight_scale", ".input_scale"), reader.scaled)
    else:
        raise section.unsupported("format", f"the format {section.text('format')[:60]!r} of compressed-tensors")
    return reader.tensors


class _QuantizedTensors:
    """The tensors of a folder while matrices replace codes and scales."""

    def __init__(self, tensors: dict[str, Storage], section: Config) -> None:
        self.tensors = tensors
        self.section = section
        self.bits = section.integer("bits", "w_bit", default=4)
        self.group = section.integer("group_size", "q_group_size", default=-1, low=-1)
        self.is_symmetric = True

    def replace(self, suffix: str, others: Sequence[str], compute: Callable[[str], Storage]) -> None:
        """Replace each tensor whose name ends with `suffix`, and the tensors with other suffixes."""
        method = self.section.text("quant_method")
        names = [name for name in self.tensors if name.endswith(suffix)]
        if suffix == ".weight":
            names = [name for name in names if self.tensors[name].dtype.bits == 8]
        if not names:
            message = f"the configuration declares quantization by {method}, but no tensor is quantized"
            raise self.fault(f"*{suffix}", message)
        for name in names:
            stem = name.removesuffix(suffix)
            target = stem if method == "mxfp4" else f"{stem}.weight"
            matrix = compute(stem)
            for each in (suffix, *others):
                self.tensors.pop(stem + each, None)
            self.tensors[target] = matrix

    def fault(self, name: str, message: str) -> DiagnosticError:
        return fault("CKPT0007", message, self.section.source, name[:200], "use the configuration of this model")

    def require(self, name: str, *shape: int | None, dtypes: set[DType] | None = None) -> Storage:
        """Return a tensor; `None` permits every size of an axis."""
        found = self.tensors.get(name)
        if found is None:
            raise self.fault(name, f"the tensor {name[:200]} is missing")
        sizes = zip(found.shape, shape, strict=False)
        if len(found.shape) != len(shape) or any(expected not in {None, size} for size, expected in sizes):
            expected = ["any" if size is None else size for size in shape]
            raise self.fault(name, f"{name[:200]} has the shape {list(found.shape)}, expected {expected}")
        if dtypes is not None and found.dtype not in dtypes:
            raise self.fault(name, f"{name[:200]} has the element type {found.dtype}")
        return found

    def check_bits(self) -> None:
        if self.bits not in {2, 4, 8}:
            raise self.section.unsupported("bits", f"{self.bits}-bit quantization", "use 2, 4 or 8 bits")

    def check_awq(self) -> None:
        version = self.section.text("version", default="gemm").lower()
        if self.bits != 4 or version != "gemm":
            message = f"AWQ with {self.bits} bits and the layout {version[:40]!r}"
            raise self.section.unsupported("version", message, "use 4 bits in the layout gemm")

    def read_groups(self) -> None:
        """Read the number of bits and the group size of compressed-tensors.

        Raises:
            DiagnosticError: CKPT0005 several schemes, or another than integers by group or channel.
        """
        groups = self.section.section("config_groups")
        schemes = [] if groups is None else [groups.section(name) for name in groups.values]
        weights = [None if scheme is None else scheme.section("weights") for scheme in schemes]
        if len(weights) != 1 or weights[0] is None:
            raise self.section.unsupported(
                "config_groups", f"{len(weights)} schemes of compressed-tensors", "use one scheme"
            )
        found = weights[0]
        kind, strategy = found.text("type", default="int"), found.text("strategy", default="group")
        if kind != "int" or strategy not in {"group", "channel"} or found.has("actorder"):
            order = found.values.get("actorder")
            message = f"weights of the type {kind[:40]!r}, strategy {strategy[:40]!r}, actorder {str(order)[:40]!r}"
            raise found.unsupported("strategy", message, "use integers quantized per group or per channel")
        self.bits = found.integer("num_bits")
        self.group = found.integer("group_size", default=-1, low=-1) if strategy == "group" else -1
        self.is_symmetric = found.flag("symmetric", default=True)
        self.check_bits()

    def _groups(self, width: int, name: str) -> tuple[int, Array]:
        """Return the number of groups of a matrix and the group of each column."""
        size = width if self.group == -1 else self.group
        if size < 1 or width % size:
            raise self.fault(name, f"{name[:200]} has {width} columns, which cannot be split into groups of {size}")
        return width // size, np.arange(width) // size

    def gptq(self, stem: str) -> Storage:
        """Return (code - zero) * scale with zeros that are stored less one.  Shapes: → [N, K]."""
        each = _WORD_BITS // self.bits
        words = self.require(f"{stem}.qweight", None, None, dtypes={DType.INT32})
        width, count = words.shape[0] * each, words.shape[1]
        groups, index = self._groups(width, stem)
        scales = self.require(f"{stem}.scales", groups, count)
        zeros = self.require(f"{stem}.qzeros", groups, count // each, dtypes={DType.INT32})
        if f"{stem}.g_idx" in self.tensors:
            index = self.require(f"{stem}.g_idx", width, dtypes={DType.INT32}).numpy()
            if width and not 0 <= index.min() <= index.max() < groups:
                raise self.fault(stem, f"{stem[:200]}.g_idx has groups beyond {groups}")
        shift = 0 if self.section.text("checkpoint_format", default="gptq") == "gptq_v2" else 1
        mask = (1 << self.bits) - 1

        def compute() -> Array:
            codes = _unpacked(words.numpy().T, self.bits)
            shifts = (_unpacked(zeros.numpy(), self.bits) + shift & mask).T
            return _scaled(codes, shifts, _floats(scales).T, index)

        return Derived((count, width), compute, words)

    def awq(self, stem: str) -> Storage:
        """Return (code - zero) * scale of codes packed along the outputs.  Shapes: → [N, K]."""
        words = self.require(f"{stem}.qweight", None, None, dtypes={DType.INT32})
        width, count = words.shape[0], words.shape[1] * _WORD_BITS // self.bits
        groups, index = self._groups(width, stem)
        scales = self.require(f"{stem}.scales", groups, count)
        zeros = self.require(f"{stem}.qzeros", groups, words.shape[1], dtypes={DType.INT32})

        def compute() -> Array:
            codes, shifts = (_awq_ordered(_unpacked(each.numpy(), self.bits)).T for each in (words, zeros))
            return _scaled(codes, shifts, _floats(scales).T, index)

        return Derived((count, width), compute, words)

    def packed(self, stem: str) -> Storage:
        """Return (code - zero) * scale of compressed-tensors; codes are stored plus half of their range."""
        each = _WORD_BITS // self.bits
        words = self.require(f"{stem}.weight_packed", None, None, dtypes={DType.INT32})
        stated = self.require(f"{stem}.weight_shape", 2).numpy().tolist()
        count, width = words.shape[0], stated[1]
        if stated[0] != count or not (words.shape[1] - 1) * each < width <= words.shape[1] * each:
            raise self.fault(stem, f"{stem[:200]}.weight_shape is {stated}, the codes are {list(words.shape)} words")
        groups, index = self._groups(width, stem)
        scales = self.require(f"{stem}.weight_scale", count, groups)
        zeros = None
        if not self.is_symmetric:
            rows = -(-count // each)
            zeros = self.require(f"{stem}.weight_zero_point", rows, groups, dtypes={DType.INT32})

        def compute() -> Array:
            codes = _unpacked(words.numpy(), self.bits)[:, :width]
            middle = np.full((count, groups), 1 << (self.bits - 1), np.int32)
            shifts = middle if zeros is None else _unpacked(zeros.numpy().T, self.bits).T[:count]
            return _scaled(codes, shifts, _floats(scales), index)

        return Derived((count, width), compute, words)

    def scaled(self, stem: str) -> Storage:
        """Return 8-bit elements times the scale of their block, row or tensor.  Shapes: → [N, K]."""
        name = f"{stem}.weight"
        codes = self.require(name, None, None, dtypes={*_FLOAT8, DType.INT8})
        suffix = "weight_scale_inv" if f"{stem}.weight_scale_inv" in self.tensors else "weight_scale"
        scales = self.tensors.get(f"{stem}.{suffix}")
        if scales is None:
            raise self.fault(name, f"the tensor {stem[:200]}.{suffix} is missing")
        block = None if suffix == "weight_scale" else self.section.list_value("weight_block_size", 2)
        sizes = [int(size) for size in self.section.positive_floats("weight_block_size", 2)] if block else codes.shape
        if min(sizes) < 1:
            raise self.section.fault("weight_block_size", f"weight_block_size is {block}, expected positive integers")
        shape = tuple(-(-dim // size) for dim, size in zip(codes.shape, sizes, strict=True))
        if not block and scales.count == codes.shape[0]:
            sizes, shape = (1, codes.shape[1]), (codes.shape[0], 1)
        if scales.count != shape[0] * shape[1]:
            message = f"{stem[:200]}.{suffix} has the shape {list(scales.shape)}, expected {list(shape)}"
            raise self.fault(name, message)

        def compute() -> Array:
            factors = _floats(scales).reshape(shape)
            for axis, size in enumerate(sizes):
                factors = np.repeat(factors, size, axis=axis)
            return codes.numpy().astype(np.float32) * factors[: codes.shape[0], : codes.shape[1]]

        return Derived(codes.shape, compute, codes)

    def mxfp4(self, stem: str) -> Storage:
        """Return float4 elements times powers of two, as a stack of experts.  Shapes: → [E, K, rows]."""
        blocks = self.require(f"{stem}_blocks", None, None, None, _MX_BLOCK // 2, dtypes={DType.UINT8})
        scales = self.require(f"{stem}_scales", *blocks.shape[:3], dtypes={DType.UINT8})
        experts, rows, count, _ = blocks.shape

        def compute(expert: int) -> Array:
            codes = leading(blocks, expert).numpy()
            values = E2M1[np.stack([codes & 15, codes >> 4], -1)].reshape(rows, count, _MX_BLOCK)
            # The table contains doubled values, so that it is exact in integers.
            powers = leading(scales, expert).numpy().astype(np.int32) - 128
            return np.ldexp(values, powers[:, :, None]).reshape(rows, -1).T

        return ExpertStack((experts, count * _MX_BLOCK, rows), compute, blocks)


def _unpacked(words: Array, bits: int) -> Array:
    """Unpack the codes of int32 elements, the lowest bits first.  Shapes: [rows, n] → int32 [rows, n * 32 / bits]."""
    shifts = np.arange(0, _WORD_BITS, bits, dtype=np.uint32)
    codes = np.ascontiguousarray(words).view(np.uint32)[:, :, None] >> shifts & np.uint32((1 << bits) - 1)
    return codes.reshape(len(words), -1).astype(np.int32)


def _awq_ordered(codes: Array) -> Array:
    """Order the codes of each int32 by column.  Shapes: [rows, n] → [rows, n]."""
    return codes.reshape(len(codes), -1, len(_AWQ_ORDER))[:, :, _AWQ_ORDER].reshape(len(codes), -1)


def _scaled(codes: Array, zeros: Array, scales: Array, index: Array) -> Array:
    """Return (code - zero) * scale.  Shapes: codes [N, K], zeros and scales [N, G], index [K] → [N, K]."""
    return (codes - zeros[:, index]).astype(np.float32) * scales[:, index]


def _floats(storage: Storage) -> Array:
    return widen(storage.numpy(), storage.dtype)
