"""Data layers of a network: the corresponding inputs and their shapes."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.dims import Dim
    from graphport.formats.caffe.container.message import Message

SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "Input": "input_param",
        "Data": "data_param",
        "AnnotatedData": "data_param",
        "DummyData": "dummy_data_param",
        "HDF5Data": "hdf5_data_param",
        "ImageData": "image_data_param",
        "MemoryData": "memory_data_param",
        "WindowData": "window_data_param",
    }
)
"""Parameter message of each data layer type."""

_EXTENTS = ("num", "channels", "height", "width")


def facts_of_source(layer: Message, names: list[str]) -> list[TensorFact]:
    """Return the facts of the tops `names` of a data layer."""
    type = layer.text("type")
    parameters = layer.message(SOURCES.get(type, ""))
    shapes = [] if parameters is None else _stated_shapes(parameters)
    if len(shapes) == 1:
        shapes *= len(names)
    facts: list[TensorFact] = []
    for index, name in enumerate(names):
        if index < len(shapes):
            facts.append(fact_of_shape(shapes[index], name))
        elif parameters is None or type in ("Input", "DummyData"):
            facts.append(TensorFact(DType.FLOAT32, None))
        else:
            facts.append(_picture(layer, parameters, name) if not index else _labels(parameters, name))
    return facts


def fact_of_shape(shape: list[int], name: str) -> TensorFact:
    """Return a fact with these dims; a dim that is not positive is symbolic."""
    dims: list[Dim] = [extent if extent > 0 else Symbol(f"{name}.{axis}") for axis, extent in enumerate(shape)]
    return TensorFact(DType.FLOAT32, tuple(dims))


def _stated_shapes(parameters: Message) -> list[list[int]]:
    shapes = [shape.integers("dim") for shape in parameters.messages("shape")]
    columns = [parameters.integers(name) for name in _EXTENTS]
    if shapes or parameters.kind != "DummyDataParameter" or not all(columns):
        return shapes
    count = max(map(len, columns))
    return [[column[min(index, len(column) - 1)] for column in columns] for index in range(count)]


def _picture(layer: Message, parameters: Message, name: str) -> TensorFact:
    transform = layer.message("transform_param")
    crop = parameters.integer("crop_size") or (transform.integer("crop_size") if transform else 0)
    height = parameters.integer("height") or crop or parameters.integer("new_height")
    width = parameters.integer("width") or crop or parameters.integer("new_width")
    channels = parameters.integer("channels") or _channels(layer, parameters, transform)
    if layer.text("type") == "HDF5Data":
        return TensorFact(DType.FLOAT32, None)
    return fact_of_shape([parameters.integer("batch_size"), channels, height, width], name)


def _channels(layer: Message, parameters: Message, transform: Message | None) -> int:
    """Return the number of image channels, 0 if unknown."""
    if transform is not None:
        mean_count = len(transform.all("mean_value"))
        if mean_count > 1 or transform.integer("force_color"):
            return max(mean_count, 3)
        if transform.integer("force_gray"):
            return 1
    if layer.text("type") == "ImageData":
        return 3 if parameters.integer("is_color", 1) else 1
    return 3 if parameters.integer("force_encoded_color") else 0


def _labels(parameters: Message, name: str) -> TensorFact:
    if parameters.kind == "HDF5DataParameter":
        return TensorFact(DType.FLOAT32, None)
    return fact_of_shape([parameters.integer("batch_size")], name)
