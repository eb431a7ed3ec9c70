"""What writers can be told, with types: a format takes those of its `choices`, and refuses the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from graphport.formats.archive.container.documents import Documents


class FileOptions(TypedDict, total=False):
    """Options of every writer whose source has no edition of its own."""

    allow_fragments: bool
    """NNEF: operators that it has no word for become fragments without a body."""
    batch: int | None
    """ncnn: items of the inputs, along their first axis."""
    code: bool | None
    """PNNX: the model as a module of PyTorch beside it."""
    documents: Documents | None
    """Archive: what is known of the model besides the graph."""
    external_data: bool | str | None
    """ONNX: whether weights stand in a file beside, or its name."""
    flatten: bool
    """NNEF: compound operations are written as what they are made of."""
    flavour: str | None
    """NNEF: `khronos`, `tract` or `both`: whose reader takes it."""
    ir_opset: int | None
    """OpenVINO: the newest operation set that the reader has."""
    ir_version: int | None
    """OpenVINO: 10 or 11."""
    opset: int | None
    """ONNX: version of the default domain."""
    optimize: bool | None
    """ncnn: operators are put together as its own tool does it."""
    precision: list[str] | tuple[str, ...] | None
    """ncnn: `LAYER=TYPE`, layers by name or pattern: what each may be computed in."""
    strict: bool
    """NNEF: nothing that a careful reader would refuse."""
    weights: str | None
    """How weights are stored: `f32`, `f16`, in OpenVINO IR `int8`, in ncnn `bf16`."""


class WriteOptions(FileOptions, total=False):
    """Options of every writer."""

    edition: str | None
    """NNEF: `provisional` or `final`."""
