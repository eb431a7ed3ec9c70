"""Detect known errors of pnnx in a `.param` text."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.dtypes import DType
from graphport.expression.syntax import Call, Literal, Reference, postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from graphport.core.diagnostics import Span
    from graphport.expression.syntax import Node as Tree
    from graphport.ir.graph import Attribute, Value

_CUT = -1_000_000_000
_LEAST = -(2**31)
_CASTS = ("torch.float", "torch.long", "torch.bool", "int", "size")
_ATTENTION = "nn.MultiheadAttention"
_STATES = {"nn.LSTM": 3, "nn.GRU": 2, "nn.RNN": 2}
"""Recurrent layers and the count of their results."""
RESHAPES = frozenset({"Tensor.reshape", "Tensor.view"})
LOOKED_AT = frozenset({_ATTENTION, *_STATES, *RESHAPES})
"""Op types whose shapes are checked."""


def doubts_of_expression(
    tree: Tree, operands: Sequence[Value], results: Sequence[Value], place: Callable[[], Span]
) -> Iterator[Diagnostic]:
    """Yield warnings about an expression that may differ from the traced model."""
    nodes = list(postorder(tree))
    names = {node.text for node in nodes if isinstance(node, Call)}
    given = [dtype for value in operands if (dtype := value.dtype) is not None]
    made = results[0].dtype if len(results) == 1 else None
    if any(dtype.is_floating for dtype in given) and any(_divides(node) for node in nodes):
        message = "floor_divide of floats is ambiguous: pnnx writes it for div(rounding_mode='trunc'), too"
        help_ = "check the original model: floor_divide rounds negative quotients down, trunc toward 0"
        yield Diagnostic("PNNX0201", message, place(), help_, Severity.WARNING)
    if "div" in names and made is not None and made.is_integer:
        message = f"the result is declared as {made}, but div returns floats: pnnx dropped a rounding_mode"
        help_ = "write floor_divide, or trunc of the quotient"
        yield Diagnostic("PNNX0201", message, place(), help_, Severity.WARNING)
    if given and made is not None and made.is_floating and not names & {*_CASTS}:
        wide = {dtype for dtype in given if dtype.is_floating}
        if wide and len(wide) == len(set(given)) and made not in wide:
            message = f"the result is {made}, the operands are {_listed(wide)}: pnnx dropped a cast"
            help_ = "check the original model: values are not rounded to the dropped type"
            yield Diagnostic("PNNX0202", message, place(), help_, Severity.WARNING)
    for node in nodes:
        value = node.value if isinstance(node, Literal) else None
        if isinstance(value, int) and not isinstance(value, bool) and _LEAST < value < _CUT:
            message = f"{value} may be {value + 2**32} truncated to 32 bits"
            yield Diagnostic("PNNX0203", message, place(), "replace it by the intended integer", Severity.WARNING)


def doubts_of_operator(
    line: str, op_type: str, keys: Sequence[str], operands: Sequence[Value], place: Callable[[], Span]
) -> Iterator[Diagnostic]:
    """Yield warnings about attention operators whose meaning may differ from the traced model."""
    if op_type != _ATTENTION:
        return
    if not any(keys) and len(operands) > 1 and operands[0].dtype is DType.BOOL:
        message = f"{line} has the boolean tensor {operands[0].name} as first operand, where attention has its query"
        yield Diagnostic("PNNX0204", message, place(), "the reader treats it as the mask", Severity.WARNING)
    if "attn_mask" not in keys:
        return
    at = keys.index("attn_mask")
    mask = operands[at]
    query = next((value for index, value in enumerate(operands) if index != at), None)
    if query is not None and query.dtype is DType.BOOL and mask.dtype is not DType.BOOL:
        message = f"{line} has the mask {mask.name} and the boolean query {query.name}: they seem to be swapped"
        yield Diagnostic("PNNX0204", message, place(), "the reader swaps them", Severity.WARNING)
        mask, query = query, mask
    dims, own = mask.shape, None if query is None else query.shape
    if dims is not None and own is not None and len(dims) == 2 and len(own) == 3 and dims[0] != own[1]:
        message = f"{line}: the mask {mask.name} has one row per sample, not per query: it seems to be key_padding_mask"
        yield Diagnostic("PNNX0204", message, place(), "the reader treats it as key_padding_mask", Severity.WARNING)


def declared_shape(
    attributes: Mapping[str, Attribute], given: Sequence[Value], results: Sequence[Value], place: Callable[[], Span]
) -> tuple[tuple[int, ...] | None, Diagnostic | None]:
    """Return the declared shape of a reshape whose shape list has another rank, and a warning.

    If the list is a product of sizes, pnnx keeps factors of it: `(4,mul(4,4),-1)` turns into `(4,16,16,-1)`. The
    declaration is PyTorch's result.
    """
    param_shape = attributes.get("shape")
    if not isinstance(param_shape, tuple) or len(given) != 1 or len(results) != 1:
        return None, None
    before, after = _static_sizes(given[0].shape), _static_sizes(results[0].shape)
    if before is None or not after or len(after) == len(param_shape) or prod(before) != prod(after):
        return None, None
    declared = ",".join(map(str, after))
    message = (
        f"the shape ({','.join(map(str, param_shape))}) and the declared result shape ({declared}) have different ranks"
    )
    return after, Diagnostic("PNNX0205", message, place(), "the reader uses the declared shape", Severity.WARNING)


def read_results(
    op_type: str,
    attributes: Mapping[str, Attribute],
    given: Sequence[Value],
    results: Sequence[Value],
    place: Callable[[], Span],
) -> tuple[list[int] | None, Diagnostic | None]:
    """Return the result indices of a recurrent layer's line and a warning, if the shapes show omitted results.

    pnnx drops unused results, so the only result may be a final state; for LSTM, either of the two.
    """
    if op_type not in _STATES:
        return None, None
    dims = _static_sizes(given[0].shape) if given else None
    sizes = [attributes.get(key, 0) for key in ("hidden_size", "num_layers", "proj_size")]
    if dims is None or len(dims) != 3 or not all(type(n) is int for n in sizes):
        return None, None
    hidden, layers, projected = (int(n) for n in sizes if isinstance(n, int))
    ways = 2 if attributes.get("bidirectional") is True else 1
    batch = dims[0] if attributes.get("batch_first") is True else dims[1]
    shapes = [(*dims[:2], ways * (projected or hidden)), (layers * ways, batch, projected or hidden)]
    shapes += [(layers * ways, batch, hidden)] * (_STATES[op_type] - 2)
    slots: list[int] = []
    for value in results:
        own = _static_sizes(value.shape)
        slot = next((n for n in range(slots[-1] + 1 if slots else 0, len(shapes)) if shapes[n] == own), None)
        if slot is None:
            return None, None
        slots.append(slot)
    is_either = op_type == "nn.LSTM" and len([slot for slot in slots if slot]) == 1
    if slots == list(range(len(slots))) and not is_either:
        return None, None
    names = ", ".join(value.name for value in results)
    message = f"unused results of {op_type} are missing in the file: by its shape, {names} is a final state"
    help_ = "check the original model: the reader uses the first state" if is_either else None
    return slots, Diagnostic("PNNX0206", message, place(), help_, Severity.WARNING)


def _static_sizes(dims: Sequence[object] | None) -> tuple[int, ...] | None:
    """Return the sizes if all are static."""
    numbers = tuple(dim for dim in dims or () if isinstance(dim, int))
    return None if dims is None or len(numbers) < len(dims) else numbers


def _divides(node: Tree) -> bool:
    """Whether the expression divides tensors, not only sizes."""
    if not isinstance(node, Call) or node.text != "floor_divide":
        return False
    pending = list(node.arguments)
    while pending:
        part = pending.pop()
        if isinstance(part, Reference):
            return True
        if not (isinstance(part, Call) and part.text == "size"):
            pending += part.arguments
    return False


def _listed(dtypes: set[DType]) -> str:
    return ", ".join(sorted(map(str, dtypes)))
