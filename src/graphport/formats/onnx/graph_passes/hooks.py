"""Graph passes of ONNX: inline model functions, and avoid operators without kernel in ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.onnx import inline_functions
from graphport.formats.onnx.graph_passes.kernels import compute_as_others
from graphport.ir import implicit_rounding
from graphport.ir.graph import walk
from graphport.ops.declare import OPSET, ShapeError
from graphport.ops.definitions.convolution.window import window
from graphport.ops.products import constant_elements

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node

_COORDINATES, _OF_TENSORFLOW = "coordinate_transformation_mode", "tf_half_pixel_for_nn"
_ROUNDING_OPERATOR = "DynamicQuantizeLSTM"
"""Its import rule leaves out the rounding of activations that the runtime performs in each step."""


def before(graph: Graph) -> None:
    """Inline functions, mark implicit rounding, and replace coordinate modes that were removed from the standard."""
    inline_functions(graph)
    for inner in walk(graph):
        for node in inner:
            if node.op_type == _ROUNDING_OPERATOR:
                implicit_rounding.mark_operators(graph, (node.op_type,))
            if node.op_type == "Resize" and node.attributes.get(_COORDINATES) == _OF_TENSORFLOW:
                _move_half_pixels(node)


def after(graph: Graph) -> None:
    """Rewrite nodes that ONNX Runtime does not support or computes incorrectly."""
    for inner in walk(graph):
        for node in inner:
            # Matched by name first: there are many nodes and few of these.
            match node.op_type:
                case "Conv":
                    _state_pads(node)
                case "Pad":
                    if _pads_a_choice(node):
                        _pad_below_zero(inner, node)
                case _:
                    continue
        compute_as_others(inner, graph.opsets.get("onnx", OPSET))


before_export = after


def _move_half_pixels(node: Node) -> None:
    """Replace TensorFlow's coordinate mode by half pixels.

    Before  Resize(x, …, coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor")
    After   Resize(x, …, coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil")

    The mode was removed in opset 13; tf2onnx still writes it, and ONNX Runtime supports it. floor((x + 0.5) / scale) is
    the nearest index to (x + 0.5) / scale - 0.5, ties upward. Does not apply to other modes, which are refused.
    """
    modes = node.attributes.get("mode", "nearest"), node.attributes.get("nearest_mode")
    if node.dialect == "onnx" and modes == ("nearest", "floor"):
        node.set_attribute(_COORDINATES, "half_pixel")
        node.set_attribute("nearest_mode", "round_prefer_ceil")


def _state_pads(node: Node) -> None:
    """Replace `auto_pad` of dilated convolutions by explicit pads.

    Before  Conv(x, w[…, 3, 3], auto_pad="SAME_UPPER", dilations=[2, 2])
    After   Conv(x, w, pads=[2, 2, 2, 2], dilations=[2, 2])

    PyTorch's exporter writes such nodes for `padding="same"`, and ONNX Runtime has no kernel for them. Does not apply
    to padding that depends on a dynamic dim.
    """
    if pads := _stated_pads(node):
        node.set_attribute("pads", pads)
        node.remove_attribute("auto_pad")


def _pads_a_choice(node: Node) -> bool:
    """Whether a Pad with zeros of positive sign is read by a MaxPool."""
    if node.op != "Pad" or len(node.operands) < 2 or node.attributes.get("mode", "constant") != "constant":
        return False
    filler = constant_elements(node.operand(2))
    if node.operand(2) is not None and (filler is None or filler.size != 1 or filler.any() or np.signbit(filler).any()):
        return False
    return any(user.op == "MaxPool" for user in node.output.users)


def _pad_below_zero(graph: Graph, node: Node) -> None:
    """Pad with negative zeros.

    Before  MaxPool(Pad(x, pads))
    After   MaxPool(Pad(x, pads, -0.0))

    The optimizer of ONNX Runtime 1.31 fuses zero padding into a MaxPool as padding that is never selected, but not
    negative zeros. Does not apply to integers, which have none.
    """
    fact = node.operands[0].fact
    if isinstance(fact, TensorFact) and fact.dtype is not None and fact.dtype.is_floating:
        zero = ArrayStorage(np.array(-0.0, fact.dtype.numpy))
        node.set_input(2, graph.add_constant(f"{node.output.name}.zero", TensorFact.of(zero), zero))


def _stated_pads(node: Node) -> tuple[int, ...]:
    """Return the explicit pads of `auto_pad` with dilations; empty if there are none or they are not static."""
    dilations = node.attributes.get("dilations")
    if node.op != "Conv" or not isinstance(dilations, tuple) or set(dilations) <= {1}:
        return ()
    stated = {name: node.attributes[name] for name in ("auto_pad", "strides") if name in node.attributes}
    if not str(stated.get("auto_pad", "")).startswith("SAME"):
        return ()
    if len(node.operands) < 2:
        return ()  # the signature check reports the absent operand
    x, w = node.operands[0].fact, node.operands[1].fact
    if not (isinstance(x, TensorFact) and isinstance(w, TensorFact)) or x.shape is None or w.shape is None:
        return ()
    try:
        slid = window(x.shape[2:], w.shape[2:], dilations=cast("tuple[int, ...]", dilations), **cast("Any", stated))
    except ShapeError:
        return ()  # shape inference reports it
    pads = [pair[end] for end in (0, 1) for pair in slid.pads]
    known = tuple(pad for pad in pads if isinstance(pad, int))
    return known if len(known) == len(pads) else ()
