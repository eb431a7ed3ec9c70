"""The section `pre-process` of old IR files: means that are subtracted from an input before anything reads it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.openvino.container.notes import KEY, MEAN_VALUES
from graphport.formats.openvino.container.xml import Element

if TYPE_CHECKING:
    from graphport.core.storage import MappedFile
    from graphport.formats.openvino.container.findings import Findings
    from graphport.ir.graph import Graph, Value

_PICTURE = 4
_REMEDY = "remove the section, and subtract the means before you pass the input"


class UnreadableError(ValueError):
    """The section cannot be applied; the message contains the reason."""


def note(graph: Graph, net: Element, weights: MappedFile | None, findings: Findings) -> None:
    """Record the mean values of the `pre-process` section on its input: a number or an image per channel."""
    section = net.child("pre-process")
    channels = () if section is None else [child for child in section.children if child.tag == "channel"]
    mean_values = {index: mean for index, each in enumerate(channels) if (mean := each.child("mean")) is not None}
    if section is None or not mean_values:
        return
    try:
        value = _input(graph, section.attributes.get("reference-layer-name", "").strip())
        numbers = {_position(channels[index], index): mean for index, mean in mean_values.items()}
        value.notes[MEAN_VALUES] = ArrayStorage(_array(value, numbers, weights, count=len(mean_values)))
    except UnreadableError as error:
        findings.error("OV0007", f"cannot apply the section pre-process: {error}", None, _REMEDY)


def _input(graph: Graph, name: str) -> Value:
    for value in graph.inputs:
        layer = value.notes.get(KEY) if value.has_notes else None
        fact = value.fact
        rank = len(fact.shape) if isinstance(fact, TensorFact) and fact.shape is not None else None
        stated = layer.attributes.get("name") if isinstance(layer, Element) else value.name
        if name == stated or (not name and rank == _PICTURE):
            return value
    message = f"unknown input {name[:60]!r}" if name else "no input is named, and no input has rank 4"
    raise UnreadableError(message)


def _position(channel: Element, index: int) -> int:
    text = channel.attributes.get("id", str(index)).strip()
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        message = f"channel id {text[:60]!r} is not an integer"
        raise UnreadableError(message)
    return int(text)


def _array(
    value: Value, elements: dict[int, Element], weights: MappedFile | None, *, count: int
) -> np.ndarray[Any, Any]:
    """Return the mean values in the dtype of the input, broadcastable to its shape."""
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.dtype is None or not fact.shape:
        message = f"{value.name} is {fact}"
        raise UnreadableError(message)
    # The channel axis is 0 for a single image and 1 for a batch.
    axis = 0 if len(fact.shape) in (1, 3) else 1
    if count != fact.shape[axis] or sorted(elements) != list(range(count)):
        message = f"means for {count} channels, but {value.name} is {fact}"
        raise UnreadableError(message)
    plane = tuple(dim if isinstance(dim, int) else -1 for dim in fact.shape[axis + 1 :])
    rows = [_mean(elements[channel], plane, weights) for channel in range(len(elements))]
    if len({row.shape for row in rows}) > 1:
        message = "some channels have a scalar mean and some an image"
        raise UnreadableError(message)
    flat = np.stack(rows).astype(fact.dtype.numpy)
    return flat.reshape((1,) * axis + flat.shape[:1] + (plane if flat.ndim > 1 else (1,) * len(plane)))


def _mean(element: Element, plane: tuple[int, ...], weights: MappedFile | None) -> np.ndarray[Any, Any]:
    """Return the mean of a channel: one number, or one number per pixel from the `.bin` file."""
    stated = element.attributes
    if "value" in stated:
        try:
            return np.array(stated["value"].strip().replace("_", "!")).astype(np.float32)
        except ValueError as error:
            message = f"{stated['value'][:60]!r} is not a number"
            raise UnreadableError(message) from error
    start, size = (_parse_int(stated.get(name, "")) for name in ("offset", "size"))
    if start is None or size is None or -1 in plane or size != 4 * math.prod(plane):
        message = "a mean has neither a value nor data of the size of a channel"
        raise UnreadableError(message)
    if weights is None or start + size > weights.size:
        message = f"bytes {start} to {start + size} are outside of the .bin"
        raise UnreadableError(message)
    return np.frombuffer(weights.view(start, size), "<f4").reshape(-1)


def _parse_int(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
