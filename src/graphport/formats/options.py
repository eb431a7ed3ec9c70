"""Options of writers and their types; each format supports its `choices` and refuses other options."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from graphport.ir.documents import Documents


class FileOptions(TypedDict, total=False):
    """Options of all writers, without those of the source's edition."""

    allow_custom: bool | None
    """PyTorch: write unsupported operators as custom operators, with a Python module of stubs."""
    allow_fragments: bool
    """NNEF: write unsupported operators as fragments without a body."""
    batch: int | None
    """ncnn: batch size of the inputs, on their first axis."""
    code: bool | None
    """PNNX, PyTorch: also write a PyTorch module."""
    documents: Documents | None
    """Archive: metadata of the model, such as its findings and proof."""
    external_data: bool | str | None
    """ONNX: store the weights in a separate file; its name, or `True` for the default name."""
    flatten: bool
    """NNEF: expand compound operations."""
    flavour: str | None
    """NNEF: `khronos`, `tract` or `both`, the reader to write for."""
    ir_opset: int | None
    """OpenVINO: the newest supported operation set."""
    ir_version: int | None
    """OpenVINO: 10 or 11."""
    opset: int | None
    """ONNX: version of the default domain."""
    optimize: bool | None
    """ncnn: fuse operators as ncnnoptimize does."""
    precision: list[str] | tuple[str, ...] | None
    """ncnn: `LAYER=TYPE`, computation types of layers by name or pattern."""
    qdq: bool | None
    """PyTorch: write quantization as operators of `quantized_decomposed`, which require an import before loading."""
    strict: bool
    """NNEF: write only what a strict reader accepts."""
    weights: str | None
    """Element type of stored weights: `f32`, `f16`, in OpenVINO IR `int8`, in ncnn `bf16`."""


class WriteOptions(FileOptions, total=False):
    """Options of every writer."""

    edition: str | None
    """NNEF: `provisional` or `final`."""


@cache
def option_types() -> dict[str, str]:
    """Return the annotation of each option."""
    return {name: getattr(each, "__forward_arg__", str(each)) for name, each in WriteOptions.__annotations__.items()}
