"""Upgrade of networks in older versions of Caffe's format.

Version 0 has `layers { layer { type: "conv" … } }`, version 1 `layers { type: CONVOLUTION … }`, version 2
`layer { type: "Convolution" … }`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.caffe.container import schema
from graphport.formats.caffe.container.message import Message
from graphport.formats.caffe.container.sources import SOURCES
from graphport.formats.caffe.rules.binding import DIALECT, LAYERS
from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.core.diagnostics import Span
    from graphport.formats.caffe.container.findings import Findings

_ABBREVIATIONS = {"conv": "convolution", "pool": "pooling", "images": "imagedata", "softmaxloss": "softmaxwithloss"}
"""Types of which an older version has another name, not another spelling."""

_RENAMED = {
    "biasterm": "bias_term",
    "kernelsize": "kernel_size",
    "meanfile": "mean_file",
    "batchsize": "batch_size",
    "cropsize": "crop_size",
    "shuffle_images": "shuffle",
}
_CARRIED = ("name", "bottom", "top", "blobs", "include", "exclude", "loss_weight", "transform_param", "loss_param")
_PADDING = "padding"
"""A layer of version 0 that later ones have inside of the window that follows it."""


def upgraded(net: Message, findings: Findings) -> list[Message]:
    """Return the layers of `net`, converted to version 2."""
    old, new = net.messages("layers"), net.messages("layer")
    if old and new:
        message = f"the file has both 'layer' ({len(new)}) and 'layers' ({len(old)}); the reader ignores 'layers'"
        findings.warn("CAFFE0202", message, old[0].span, "rewrite all layers as 'layer'")
        return new
    if new:
        return new
    return [_from_v1(layer, findings) for layer in _without_paddings(old, findings)]


def _from_v1(old: Message, findings: Findings) -> Message:
    inner = old.message("layer")
    layer = Message(schema.LAYER, old.span, comments=old.comments)
    if inner is not None:
        _from_v0(old, inner, layer, findings)
        return layer
    for name, entries in old.entries.items():
        if (
            name in _CARRIED
            or (name.endswith("_param") and name in schema.fields(schema.LAYER))
            or name not in schema.fields(schema.V1_LAYER)
        ):
            layer.entries[name] = list(entries)
    layer.add("type", _type_of(old.text("type", "NONE")), _span(old, "type"))
    _add_specs(layer, old)
    return layer


def _add_specs(layer: Message, old: Message) -> None:
    """Add a ParamSpec for each blob from the separate lists of names, learning rates and weight decays in version 1."""
    columns = {"name": old.all("param"), "lr_mult": old.all("blobs_lr"), "decay_mult": old.all("weight_decay")}
    for index in range(max(map(len, columns.values()))):
        spec = Message("ParamSpec", old.span)
        for name, entries in columns.items():
            if index < len(entries):
                spec.add(name, entries[index].content, entries[index].span)
        layer.add("param", spec, old.span)


def _from_v0(old: Message, inner: Message, layer: Message, findings: Findings) -> None:
    for name in ("bottom", "top"):
        if old.has(name):
            layer.entries[name] = list(old.all(name))
    for name in ("name", "blobs", "hdf5_output_param"):
        if inner.has(name):
            layer.entries[name] = list(inner.all(name))
    type = _type_of(inner.text("type"))
    layer.add("type", type, _span(inner, "type"))
    parameter = _parameter_of(type)
    field = schema.fields(schema.LAYER).get(parameter)
    parameters = Message(field.type if field else "", inner.span)
    transform = Message("TransformationParameter", inner.span)
    for name, entries in inner.entries.items():
        if name in ("name", "type", "blobs", "blobs_lr", "weight_decay", "hdf5_output_param"):
            continue
        renamed = _RENAMED.get(name, name.removeprefix("det_"))
        homes = (parameters, transform) if type in SOURCES else (parameters,)
        home = next((home for home in homes if renamed in schema.fields(home.kind)), None)
        if home is None:
            findings.warn("CAFFE0203", f"{name} has no effect on a layer of type {type}", entries[0].span)
            continue
        home.entries[renamed] = list(entries)
    if parameters.entries:
        layer.add(parameter, parameters, inner.span)
    if transform.entries:
        layer.add("transform_param", transform, inner.span)
    _add_specs(layer, inner)


def _without_paddings(layers: list[Message], findings: Findings) -> list[Message]:
    """Fuse padding layers of version 0 into the layers that use them."""
    padded: dict[str, tuple[str, Message]] = {}
    kept: list[Message] = []
    for layer in layers:
        inner = layer.message("layer")
        bottoms, tops = layer.texts("bottom"), layer.texts("top")
        if inner is not None and inner.text("type") == _PADDING and len(bottoms) == len(tops) == 1:
            padded[tops[0]] = (bottoms[0], inner)
            continue
        kept.append(layer)
        found = padded.get(bottoms[0]) if len(bottoms) == 1 else None
        if found is None or inner is None:
            if any(bottom in padded for bottom in bottoms):
                message = "a padding layer before a layer that does not support padding"
                findings.error("CAFFE0204", message, layer.span, "place a convolution or pooling layer after it")
            continue
        bottom, padding = found
        span = _span(layer, "bottom")
        del layer.entries["bottom"]
        layer.add("bottom", bottom, span)
        inner.entries["pad"] = list(padding.all("pad"))
    return kept


def _type_of(old: str) -> str:
    """Return the layer type of version 2 for one of version 0 or 1."""
    folded = old.replace("_", "").lower()
    folded = _ABBREVIATIONS.get(folded, folded)
    registry.load(DIALECT)
    known = {name.lower(): name for name in (*LAYERS, *SOURCES)}
    if folded in known:
        return known[folded]
    return "".join(part.capitalize() for part in old.split("_"))


def _parameter_of(type: str) -> str:
    if type in LAYERS and LAYERS[type].parameters:
        return LAYERS[type].parameters[0]
    return SOURCES.get(type, "")


def _span(message: Message, name: str) -> Span | None:
    found = message.all(name)
    return found[0].span if found else message.span
