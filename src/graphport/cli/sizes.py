"""Print the statistics of a model, or of two models side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.cli.table import print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphport.conversion.inspection import Inspection
    from graphport.core.dims import Dim

_MOST_TEXT = 36  # sizes in one table line
_UNITS = ((10**12, "T"), (10**9, "G"), (10**6, "M"))


def print_beside(before: Inspection, after: Inspection) -> None:
    """Print a table of both models: changed operators, parameters, bytes and work."""
    rows = [("operators", *(f"{sum(each.operators.values()):,}" for each in (before, after)))]
    rows += [
        (f"  {op}", str(before.operators.get(op, 0)), str(after.operators.get(op, 0))) for op in _moved(before, after)
    ]
    rows += [
        ("parameters", f"{before.parameters:,}", f"{after.parameters:,}"),
        ("bytes of weights", f"{before.weight_bytes:,}", f"{after.weight_bytes:,}"),
        (f"multiply-accumulates{_sizes(before)}", total_macs(before), total_macs(after)),
    ]
    print_table(("", "before", "after"), rows)


def _moved(before: Inspection, after: Inspection) -> Iterator[str]:
    for op in dict.fromkeys([*before.operators, *after.operators]):
        if before.operators.get(op) != after.operators.get(op):
            yield op


def _sizes(found: Inspection) -> str:
    return "" if found.example is None else f" {at(found.example.sizes)}"


def total_macs(found: Inspection) -> str:
    """Return the multiply-accumulates of one run and the number of nodes for which they are unknown."""
    known = format_number(found.macs if found.example is None else found.example.macs, found)
    open_ones = sum(found.macs_unknown.values())
    return f"{known} and {open_ones} unknown" if open_ones else known


def format_number(dim: Dim, found: Inspection) -> str:
    """Format a formula or a number; for example sizes, with a unit prefix."""
    if not isinstance(dim, int):
        return str(dim)
    if found.example is not None:
        for unit, name in _UNITS:
            if dim >= unit:
                return f"{dim / unit:,.1f} {name}"
    return f"{dim:,}"


def at(sizes: Mapping[str, int]) -> str:
    """Format the sizes of an example, shortened to the line."""
    stated: list[str] = []
    for name, size in sizes.items():
        if sum(map(len, stated)) + len(name) > _MOST_TEXT:
            break
        stated.append(f"{name if name.isidentifier() else repr(name)} {size}")
    more = f" and {len(sizes) - len(stated)} more (see --json)" if len(stated) < len(sizes) else ""
    return f"at {', '.join(stated)}{more}" if stated else "at the sizes in --json"
