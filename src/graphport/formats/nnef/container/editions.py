"""Conversion between the operations of the provisional and the final edition.

Graphs use the final edition. Abbreviations of the provisional edition are expanded: arrays that end before the last
axis, axes beyond it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dims import Symbolic
from graphport.formats.nnef.container.declarations import standard
from graphport.formats.nnef.container.literals import default_of, is_default
from graphport.formats.nnef.container.operation import Operation, Tensor
from graphport.formats.nnef.container.syntax import Edition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.dims import Dim
    from graphport.formats.nnef.container.operation import Attribute
    from graphport.ir.graph import Attribute as Stated

Pair: TypeAlias = "tuple[Dim, Dim]"

_WORDS = {
    "idn": "copy",
    "planewise_conv": "conv",
    "planewise_deconv": "deconv",
    # Its values begin at 1 for any maximum and have no sign; the final edition has no equivalent.
    "logarithmic_quantize": "provisional.logarithmic_quantize",
}
_PLANEWISE = {"conv": "planewise_conv", "deconv": "planewise_deconv"}
_STATED_OTHERWISE = frozenset(_PLANEWISE.values())
_PARAMETERS = {"transpose": {"perm": "axes"}, "matmul": {"trA": "transposeA", "trB": "transposeB"}}
_WINDOWS = ("size", "stride", "dilation")


def final_words(operation: Operation) -> tuple[str, dict[str, Attribute]]:
    """Return the op type and attributes of the final edition for a provisional operation.

    Arrays of operations on tensors with unknown facts are not expanded.

    Raises:
        DiagnosticError: NNEF0632, omitted paddings depend on a symbolic dim.
    """
    names = _PARAMETERS.get(operation.name, {})
    attributes = {names.get(name, name): value for name, value in operation.attributes.items()}
    if operation.name in _STATED_OTHERWISE:
        attributes["groups"] = 0
    first = next(iter(operation.operands.values()), None)
    shape = first.fact.shape if isinstance(first, Tensor) and first.fact is not None else None
    if shape is not None:
        if "padding" in attributes:
            attributes["padding"] = _padding(operation, shape)
        for name in _WINDOWS:
            if name in attributes:
                attributes[name] = _with_ones(operation, name, len(shape))
        if "axes" in attributes:
            attributes["axes"] = _axes(operation.name, cast("tuple[Dim, ...]", attributes["axes"]), len(shape))
    return _WORDS.get(operation.name, operation.name), attributes


def final_word(name: str, edition: Edition) -> str:
    """Return the op type of the final edition for operation `name`."""
    return _WORDS.get(name, name) if edition is Edition.PROVISIONAL else name


def provisional_words(op_type: str, attributes: Mapping[str, Stated]) -> tuple[str, dict[str, Stated]]:
    """Return the op type and attributes of the provisional edition for those of a node.

    Attributes added by later editions are omitted if they equal the provisional edition's behaviour.
    """
    names = {final: provisional for provisional, final in _PARAMETERS.get(op_type, {}).items()}
    stated = {names.get(name, name): value for name, value in attributes.items()}
    if op_type in _PLANEWISE and stated.get("groups") == 0:
        del stated["groups"]
        op_type = _PLANEWISE[op_type]
    else:
        op_type = next(
            (ours for ours, final in _WORDS.items() if final == op_type and ours not in _STATED_OTHERWISE), op_type
        )
    ours, final = standard(Edition.PROVISIONAL).get(op_type), standard(Edition.FINAL).get(op_type)
    if ours is not None and final is not None:
        for formal in final.formals:
            has_default = formal.default is not None and is_default(stated.get(formal.name), default_of(formal.default))
            if has_default and ours.index(formal.name) is None:
                del stated[formal.name]
    return op_type, stated


def _axes(op_type: str, axes: tuple[Dim, ...], rank: int) -> tuple[Dim, ...]:
    """Remove axes at or above the rank: the provisional edition treats them as axes of extent 1."""
    if op_type != "transpose":
        return tuple(axis for axis in axes if isinstance(axis, Symbolic) or axis < rank)
    return axes[:rank] if axes[rank:] == (*range(rank, len(axes)),) else axes


def _with_ones(operation: Operation, name: str, rank: int) -> tuple[Dim, ...]:
    """Extend a short array with 1 to all axes; an empty one (except `size`) stays empty."""
    given = cast("tuple[Dim, ...]", operation.attributes[name])
    length = rank - _skipped(operation)
    return given + (1,) * (length - len(given)) if given or name == "size" else ()


def _skipped(operation: Operation) -> int:
    """Return the number of axes before the window axes: filters have batch and channels first."""
    return 0 if "size" in operation.attributes else 2


def _padding(operation: Operation, shape: tuple[Dim, ...]) -> tuple[Pair, ...]:
    """Return paddings for all axes, if there are any: omitted ones are automatic."""
    given = cast("tuple[Pair, ...]", operation.attributes["padding"])
    extents = shape[_skipped(operation) :]
    if not given or len(given) >= len(extents):
        return given
    sizes = _sizes(operation, len(shape))
    steps = [_with_ones(operation, name, len(shape)) or (1,) * len(extents) for name in ("stride", "dilation")]
    found = [*given]
    is_reverse = "debox" in operation.name or "desample" in operation.name or "deconv" in operation.name
    for numbers in [*zip(extents, sizes, *steps, strict=False)][len(given) :]:
        pair = _automatic(*numbers, is_reverse=is_reverse)
        if pair is None:
            message = f"the default padding of '{operation.name}' depends on an unknown extent"
            remedy = "set the input shape with --input, or write a padding for each axis"
            raise DiagnosticError(Diagnostic("NNEF0632", message, operation.span_of("padding"), remedy))
        found.append(pair)
    return tuple(found)


def _sizes(operation: Operation, rank: int) -> tuple[Dim, ...]:
    if "size" in operation.attributes:
        return _with_ones(operation, "size", rank)
    filters = [operand for name, operand in operation.operands.items() if name in ("filter", "plane_filter")]
    found = filters[0] if filters else None
    shape = found.fact.shape if isinstance(found, Tensor) and found.fact is not None else None
    return () if shape is None else shape[2:]


def _automatic(extent: Dim, size: Dim, stride: Dim, dilation: Dim, *, is_reverse: bool) -> Pair | None:
    """Return the padding for `ceil(extent / stride)` positions on an axis; `None` if it is not static."""
    if isinstance(size, Symbolic) or isinstance(stride, Symbolic) or isinstance(dilation, Symbolic):
        return None
    reach = (size - 1) * dilation + 1
    if is_reverse or stride == 1:
        total = max(reach - stride, 0)
    elif isinstance(extent, Symbolic):
        return None
    else:
        total = max((-(-extent // stride) - 1) * stride + reach - extent, 0)
    return total // 2, total - total // 2
