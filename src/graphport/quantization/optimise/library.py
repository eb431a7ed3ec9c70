"""Storage options of each layer's weight, with their cost in bytes, time and noise."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.quantization.choices import Choices
from graphport.quantization.export_form import to_export_form
from graphport.quantization.insert_qdq import insert_qdq
from graphport.quantization.lookup_tables import table_codes, tables
from graphport.quantization.optimise.costs import times_of
from graphport.quantization.precision import sensitivities

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphport.ir.graph import Node
    from graphport.quantization.candidate import Candidate
    from graphport.quantization.insert_qdq import Weight
    from graphport.quantization.layer import Layer
    from graphport.quantization.samples import Run
    from graphport.quantization.session import QuantizationSession

Array: TypeAlias = "np.ndarray[Any, Any]"

_BLOCK = 32
_BITS = (8, 4, 2)
_MAX_MEASURED_LAYERS = 64
"""Maximum number of layers whose noise is measured separately."""
_MARGIN = 64
"""Bytes reserved for names of constants."""


@dataclass(frozen=True, slots=True, eq=False)
class StorageOption:
    """A storage option of a layer's weight: codes, float16, or unchanged.

    `noise` is its noise at the outputs, relative to the signal; `time` is in microseconds per run.
    """

    dtype: DType
    bytes: int
    noise: float
    weight: Weight | None = None
    time: float = 0.0
    is_integer: bool = False
    """Whether the layer computes on integers, as in the base."""


@dataclass(slots=True, eq=False)
class Library:
    """Storage options of each layer and of each lookup table, by result of the node."""

    layers: dict[str, Layer] = field(default_factory=dict[str, "Layer"])
    tables: set[str] = field(default_factory=set[str])
    ways: dict[str, list[StorageOption]] = field(default_factory=dict[str, list[StorageOption]])


def library(session: QuantizationSession, base: Candidate, timed: Run | None = None) -> Library:
    """Return all storage options of all layers of `base` for the target; empty without weight-only support.

    Args:
        session: the session of `base`, which measures others.
        base: the layers.
        timed: a run to be timed in each precision, with its number of samples; `None` if time does not count.
    """
    made = Library()
    uniform = {bits: found for bits in _BITS if (found := _uniform(session, base, bits)) is not None}
    if not uniform:
        return made
    judged = 4 if 4 in uniform else min(uniform)
    reference = uniform[judged]
    errors = {bits: _errors(found) for bits, found in uniform.items()}
    times = {} if timed is None else _times(session, base, uniform, timed)
    shown = {node: _shown_by(node, uniform, errors) for node in reference.quantization.placement.layers}
    noises = _noises(
        session, reference, {node: uniform[bits].quantization.weights[node] for node, bits in shown.items()}
    )
    for node, layer in reference.quantization.placement.layers.items():
        name, numbers = node.output.name, layer.float_weight()
        made.layers[name] = layer
        unit = noises[node] / max(errors[shown[node]][name], 1e-30)
        signal = max(float(np.sum(numbers.astype(np.float64) ** 2)), 1e-30)
        real = times.get(0, {}).get(node.name, 0.0)
        ways = [StorageOption(DType.FLOAT32, 4 * numbers.size, 0.0, time=real)]
        ways += [
            StorageOption(dtype, 2 * numbers.size, _lost(numbers, dtype) / signal * unit, time=real)
            for dtype in (DType.FLOAT16, DType.BFLOAT16)
            if dtype in session.choices.target.stored
        ]
        for bits, found in uniform.items():
            weight = found.quantization.weights.get(node)
            if weight is None or (bits == 2 and layer.kind != "product"):
                continue
            if any(other.weight is not None and other.bytes <= _bytes(weight) for other in ways):
                continue
            spent = times.get(bits, {}).get(node.name, real)
            ways.append(StorageOption(weight.qparams.dtype, _bytes(weight), errors[bits][name] * unit, weight, spent))
        made.ways[name] = ways
    if not session.choices.settings.weights_only:
        _add_integers(session, base, made, timed)
    if session.choices.target.table is not None and session.choices.settings.tables is None:
        _add_tables(session, reference, made)
    return made


def _lost(numbers: Array, dtype: DType) -> float:
    """Return the squared error of `numbers` cast to `dtype` (float16); infinite on overflow."""
    with np.errstate(over="ignore"):
        halves = numbers.astype(dtype.numpy).astype(np.float64)
    return float(np.sum((halves - numbers) ** 2)) if np.isfinite(halves).all() else np.inf


def _add_tables(session: QuantizationSession, of: Candidate, made: Library) -> None:
    """Add options of tables: float, 8-bit and 4-bit blocks, if the target supports them."""
    block, target = session.choices.settings.weight_block or _BLOCK, session.choices.target
    types = [dtype for dtype in (DType.INT8, DType.INT4) if dtype in target.stored]
    zeros, halves = target.has_zeros, target.half_scales
    for node in tables(of.graph, block):
        codes = {dtype: table_codes(node, dtype, block, has_zeros=zeros, half_scales=halves) for dtype in types}
        stored = node.operands[0].storage
        if stored is None:
            continue
        ways = [StorageOption(DType.FLOAT32, 4 * stored.count, 0.0)]
        for weight in codes.values():
            if weight is not None:
                quantization = replace(of.quantization, weights={}, tables={node: weight})
                noise = session.measure(replace(of, quantization=quantization, noise=None)).ratio
                ways.append(StorageOption(weight.qparams.dtype, _bytes(weight), noise, weight))
        made.tables.add(node.output.name)
        made.ways[node.output.name] = ways


def _add_integers(session: QuantizationSession, base: Candidate, made: Library, timed: Run | None) -> None:
    """Add the integer storage of the layers of `base` as their first option."""
    names = [node.name for node in base.graph if node.name]
    times = None if timed is None else times_of(insert_qdq(base.graph, base.quantization), timed[0], names)
    for node, noise in sensitivities(session, base).items():
        weight = base.quantization.weights.get(node)
        if weight is not None and node.output.name in made.ways:
            spent = 0.0 if times is None else times.nodes.get(node.name, 0.0)
            way = StorageOption(weight.qparams.dtype, _bytes(weight), noise, None, spent, is_integer=True)
            made.ways[node.output.name].insert(0, way)


def _uniform(session: QuantizationSession, base: Candidate, bits: int) -> Candidate | None:
    """Return all layers of `base` with that many bits, rounded like the base; `None` if unsupported."""
    settings, target = session.choices.settings, session.choices.target
    dtype = DType.of(f"int{bits}")
    if (target.stored and dtype not in target.stored) or not target.stored:
        return None
    if settings.weights_only and dtype is session.choices.weight:
        return base
    other = copy.copy(session)
    block = settings.weight_block or (_BLOCK if bits < 8 and target.has_blocks else 0)
    asked = replace(settings, weights_only=True, weight_bits=bits, weight_block=block, dynamic=False, weight_type=None)
    try:
        choices = Choices.of(asked)
    except DiagnosticError:
        return None
    other.choices = replace(choices, rounds=session.choices.rounds, corrects=session.choices.corrects)
    found = other.candidate(base.graph, {}, ())
    if bits < 8 and session.followed and (other.choices.rounds or other.choices.corrects):
        other.on_progress = None
        other.adjust_layerwise(found, adjusts=True)
    return found


def _shown_by(node: Node, uniform: Mapping[int, Candidate], errors: Mapping[int, Mapping[str, float]]) -> int:
    """Return the weight bits with the largest error for a layer: that noise is measurable at the outputs.

    Fewer bits with block scales have smaller errors than more bits with channel scales.
    """
    known = [bits for bits, found in uniform.items() if bits > 2 and node in found.quantization.weights]
    return max(known or uniform, key=lambda bits: errors[bits].get(node.output.name, 0.0))


def _noises(session: QuantizationSession, of: Candidate, weights: Mapping[Node, Weight]) -> dict[Node, float]:
    """Return the noise of each layer alone at the outputs; with very many layers the noise of its own result."""
    layers = list(of.quantization.placement.layers)
    if len(layers) > _MAX_MEASURED_LAYERS:
        return {node: 1.0 / len(layers) for node in layers}
    found: dict[Node, float] = {}
    for done, node in enumerate(layers):
        only = {node: weights[node]}
        trial = replace(of, quantization=replace(of.quantization, weights=only, tables={}), noise=None)
        found[node] = max(session.measure(trial).ratio, 1e-12)
        if session.on_progress is not None:
            session.on_progress("sensitivity", done + 1, len(layers))
    return found


def _errors(of: Candidate) -> dict[str, float]:
    """Return the relative error of each layer's results, or of its weight if no samples were followed."""
    found: dict[str, float] = {}
    for node, layer in of.quantization.placement.layers.items():
        weight = of.quantization.weights[node]
        known = None if of.follower is None else of.follower.noise.get(node)
        numbers = layer.float_weight().astype(np.float64)
        lost = np.sum((weight.qparams.values(weight.codes) - numbers) ** 2) / max(np.sum(numbers**2), 1e-30)
        found[node.output.name] = float(lost) if known is None else known.own
    return found


def _bytes(weight: Weight) -> int:
    qparams = weight.qparams
    count = qparams.dtype.size(weight.codes.size) + 4 * qparams.scale.size + _MARGIN
    return count + qparams.dtype.size(qparams.zero_point.size)


def _times(
    session: QuantizationSession, base: Candidate, uniform: Mapping[int, Candidate], timed: Run
) -> dict[int, dict[str, float]]:
    """Return microseconds of each layer by weight bits; 0 for float weights."""
    names: Collection[str] = [node.name for node in base.graph if node.name]
    found: dict[int, dict[str, float]] = {}
    settings = session.choices.settings
    made = {b: to_export_form(insert_qdq(each.graph, each.quantization), settings) for b, each in uniform.items()}
    for bits, graph in ((0, to_export_form(base.graph, settings)), *made.items()):
        times = times_of(graph, timed[0], names)
        if times is not None:
            found[bits] = times.nodes
    return found
