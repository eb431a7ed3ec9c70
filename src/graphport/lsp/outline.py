"""Document symbols and folding ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from graphport.lsp import layer_lists
from graphport.lsp.nnef_tokens import TokenKind
from graphport.lsp.positions import range_of, utf16_length

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphport.lsp.nnef_tokens import LocatedToken, TokenIndex


def list_layer_symbols(lines: Sequence[str], format: str) -> list[types.DocumentSymbol]:
    """Return a symbol for each layer."""
    found: list[types.DocumentSymbol] = []
    for layer in layer_lists.parse_layers(lines, format):
        whole = _to_range(lines, (layer.first, 0), (layer.last, len(lines[layer.last])))
        name = layer.name or layer.type or "?"
        found.append(types.DocumentSymbol(name, types.SymbolKind.Function, whole, whole, detail=layer.type))
    return found


def list_nnef_symbols(tokens: TokenIndex, facts: Mapping[str, str]) -> list[types.DocumentSymbol]:
    """Return the fragments and the graph, each with its parameters and values; a value's detail is its shape."""
    found: list[types.DocumentSymbol] = []
    for section in tokens.sections():
        children: dict[str, types.DocumentSymbol] = {}
        statements = [section.head, *section.statements()]
        for statement in statements:
            for place in statement:
                name = place.token.text
                if place.token.declares and place.token.kind is TokenKind.VALUE and name not in children:
                    whole = _range_of(tokens, statement if statement is not section.head else (place,))
                    detail = facts.get(name, "") if section.is_graph else ""
                    kind = types.SymbolKind.Variable
                    children[name] = types.DocumentSymbol(name, kind, whole, _range_of(tokens, (place,)), detail=detail)
        place = section.name or section.head[0]
        kind = types.SymbolKind.Module if section.is_graph else types.SymbolKind.Function
        whole = _range_of(tokens, section.tokens)
        found.append(
            types.DocumentSymbol(
                place.token.text, kind, whole, _range_of(tokens, (place,)), children=list(children.values())
            )
        )
    return found


def list_nnef_folds(tokens: TokenIndex) -> list[types.FoldingRange]:
    """Return the ranges of fragments, the graph, statements of several lines and comments of several lines."""
    found: list[types.FoldingRange] = []
    for section in tokens.sections():
        last = section.tokens[-1].line - (section.end is not None)
        found.append(types.FoldingRange(section.head[0].line, last))
        found += [types.FoldingRange(each[0].line, each[-1].line) for each in section.statements()]
    found += [types.FoldingRange(*lines, kind=types.FoldingRangeKind.Comment) for lines in _find_comments(tokens)]
    return [each for each in found if each.end_line > each.start_line]


def list_layer_folds(lines: Sequence[str], format: str) -> list[types.FoldingRange]:
    """Return the ranges of layers of several lines."""
    layers = layer_lists.parse_layers(lines, format)
    return [types.FoldingRange(each.first, each.last - 1) for each in layers if each.last - 1 > each.first]


def _find_comments(tokens: TokenIndex) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each run of lines that contain a comment only."""
    first = None
    for number in range(len(tokens.lines) + 1):
        found = tokens.of_line(number)
        is_comment = bool(found) and all(token.kind is TokenKind.COMMENT for token in found)
        if is_comment and first is None:
            first = number
        elif not is_comment and first is not None:
            yield first, number - 1
            first = None


def _range_of(tokens: TokenIndex, places: Sequence[LocatedToken]) -> types.Range:
    first, last = places[0], places[-1]
    if first is last:
        return range_of(tokens.lines, first.line, first.token.start, first.token.stop)
    return _to_range(tokens.lines, (first.line, first.token.start), (last.line, last.token.stop))


def _to_range(lines: Sequence[str], first: tuple[int, int], last: tuple[int, int]) -> types.Range:
    ends = [types.Position(line, utf16_length(lines[line], column)) for line, column in (first, last)]
    return types.Range(*ends)
