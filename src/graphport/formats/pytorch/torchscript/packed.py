"""Packed weights of quantized modules: objects of C++ classes (`torch.classes.quantized`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from graphport.formats.pytorch.torchscript.refusal import refuse
from graphport.formats.pytorch.torchscript.values import List, Packed, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.formats.pytorch.torchscript.context import Context

LINEAR = "quantized.LinearPackedParamsBase"
EMBEDDING = "quantized.EmbeddingPackedParamsBase"
CELL = "rnn.CellParamsBase"
_CONVOLUTION = "quantized.Conv{}dPackedParamsBase"


def convolution_class(rank: int) -> str:
    """Return the C++ class of packed convolution weights."""
    return _CONVOLUTION.format(rank)


def packed(name: str, state: Any) -> Packed:
    """Create a C++ object from its pickled state.

    Raises:
        RefusedError: TS0006 the class is unknown.
    """
    items: Any = state.items if isinstance(state, List) else state
    count = len(cast("tuple[Any, ...]", items)) if isinstance(items, tuple) else 0
    if name == LINEAR and count >= 2:
        return Packed(name, {"weight": items[0], "bias": items[1]})
    if name in (convolution_class(2), convolution_class(3)) and count == 3:
        return Packed(name, {"raw": items})
    if name == EMBEDDING and count >= 2:
        return Packed(name, {"weight": cast("Any", items)[1].items[0], "bias": None})
    if name == CELL and count == 5:
        return Packed(name, _cell(*items))
    refuse(
        "TS0006",
        f"unsupported C++ class torch.classes.{name}",
        help="save the module before you prepare it for a backend",
    )
    return None


def _cell(kind: Any, tensors: Any, numbers: Any, flags: Any, layers: Any) -> dict[str, Any]:
    """Return the two linear layers of a recurrent cell, and whether inputs are quantized to 7 bits."""
    del tensors, numbers
    if kind not in ("quantized_dynamic", "quantized_fp16"):
        refuse("TS0006", f"unsupported recurrent weights of the kind {kind}")
    linear = [layer for layer in layers.items if isinstance(layer, Packed)]
    if len(linear) != 2:
        refuse("TS0003", "a recurrent cell requires two packed layers")
    return {"kind": kind, "input": linear[0], "hidden": linear[1], "reduce_range": bool(flags.items and flags.items[0])}


def weights_of(evaluator: Context, owner: Packed) -> dict[str, Any]:
    """Return the weights and arguments of a packed convolution or linear layer by name."""
    if "raw" in owner.state and owner.name.startswith("quantized.Conv"):
        owner.state = _convolution(evaluator, owner)
    return owner.state


def _convolution(evaluator: Context, owner: Packed) -> dict[str, Any]:
    """Return the arguments and weights of a packed convolution.

    State of version 2: a list of an argument tensor and the weight, and a list of the optional bias. Version 3: a list
    of integer arguments, and a list of an absent tensor, the weight and the optional bias.
    """
    version, required, optional = owner.state["raw"]
    match str(version), required.items, optional.items:
        case "2", [Tensor() as arguments, weight], [bias, *_]:
            array = evaluator.emitter.array(arguments)
            numbers = [] if array is None else [int(x) for x in array.reshape(-1)]
        case "3", [*numbers], [_, weight, bias]:
            pass
        case _:
            refuse("TS0006", f"unsupported packed weights of {owner.name}, version {version}")
    rank = numbers[0] if numbers else 0
    if len(numbers) < 4 * rank + 3:
        refuse("TS0003", "truncated arguments of a packed convolution")
    stride, padding, dilation, output_padding = (tuple(numbers[1 + i * rank : 1 + (i + 1) * rank]) for i in range(4))
    groups, flags = numbers[1 + 4 * rank], numbers[2 + 4 * rank]
    return {
        "weight": weight,
        "bias": bias,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "output_padding": output_padding,
        "groups": groups,
        "transposed": bool(flags & 1),
    }


def packed_method(evaluator: Context, owner: Packed, name: str, given: Sequence[Any]) -> Any:
    """Evaluate a method of a packed object."""
    del given
    state = weights_of(evaluator, owner)
    match name:
        case "unpack":
            return state["weight"], state["bias"]
        case "stride" | "padding" | "dilation" | "groups" | "bias":
            return state[name]
        case _:
            refuse("TS0006", f"unsupported method {name!r} of {owner.name}")
    return None
