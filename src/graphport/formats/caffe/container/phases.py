"""Select the layers of inference by their rules on phase, level and stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphport.formats.caffe.container.findings import Findings
    from graphport.formats.caffe.container.message import Message

_INFERENCE = "TEST"
_TRAINING = "TRAIN"


def included(net: Message, layers: list[Message], findings: Findings) -> list[Message]:
    """Return the layers of `layers` that inference runs.

    A network with its own state is used in that state, but never in training.
    """
    state = net.message("state")
    level = 0 if state is None else state.integer("level")
    stages: frozenset[str] = frozenset() if state is None else frozenset(state.texts("stage"))
    if state is not None and state.text("phase", _INFERENCE) == _TRAINING:
        message = "the network declares the phase TRAIN; the reader uses the phase TEST"
        findings.warn("CAFFE0205", message, state.span, "phase: TEST")
    return [layer for layer in layers if _is_included(layer, level, stages, findings)]


def _is_included(layer: Message, level: int, stages: frozenset[str], findings: Findings) -> bool:
    include, exclude = layer.messages("include"), layer.messages("exclude")
    if include and exclude:
        message = f"the layer {layer.text('name')!r} has both include and exclude"
        findings.error("CAFFE0206", message, exclude[0].span, "remove include or exclude")
        return False
    if include:
        return any(_is_met(rule, level, stages) for rule in include)
    return not any(_is_met(rule, level, stages) for rule in exclude)


def _is_met(rule: Message, level: int, stages: frozenset[str]) -> bool:
    if rule.has("phase") and rule.text("phase") != _INFERENCE:
        return False
    if rule.has("min_level") and level < rule.integer("min_level"):
        return False
    if rule.has("max_level") and level > rule.integer("max_level"):
        return False
    return stages.issuperset(rule.texts("stage")) and stages.isdisjoint(rule.texts("not_stage"))
