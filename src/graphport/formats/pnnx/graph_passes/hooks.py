"""Convert list, tuple and scalar operands of PNNX to several operands, results or attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import storage_of
from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.expression.syntax import Call, List, Literal, Reference, postorder
from graphport.formats.pytorch.graph_passes.pairs import REALS, pair_value
from graphport.formats.pytorch.rules.binding import COMPLEX, ITEM, KEYS, PLACE, literal_of
from graphport.ir.graph import Node, Value
from graphport.ops import registry
from graphport.ops.constant_folding import folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.expression.syntax import Node as Tree
    from graphport.ir.graph import Attribute, Graph

_DIALECT = "pnnx"
_DICTIONARY = "prim::DictConstruct"
"""Alternating keys and values; a graph that returns the dictionary returns its values."""
_PACKS = frozenset({"prim::TupleConstruct", "prim::ListConstruct", _DICTIONARY})
_UNPACKS = frozenset({"prim::TupleUnpack", "prim::ListUnpack"})

Item = Value | None
"""An element of a list: a tensor or `None`."""


def before(graph: Graph) -> None:
    """Remove list, tuple and scalar operands, and unused results."""
    numbers: dict[Value, Any] = {}
    lists: dict[Value, list[Item]] = {}
    trees: dict[str, Tree | None] = {}
    for node in graph:
        if node.dialect != _DIALECT:
            continue
        if node.op_type in _UNPACKS:
            _unpack(graph, node, lists)
            continue
        _record_elements(node, numbers, lists, trees)
        _expand(node, numbers, lists)
    _open_outputs(graph, lists)
    for node in reversed(graph):
        if node.dialect == _DIALECT:
            _drop_unused_results(graph, node)
    _pair(graph)


def _pair(graph: Graph) -> None:
    """Represent complex tensors as real ones with a last axis of 2, if all operators on them have a rule for that."""
    known = {value for value in graph.values() if value.dtype in REALS}
    if not known or any(value.is_output or value.is_input for value in known):
        return
    nodes = [node for node in graph if known & {*node.operands, *node.results}]
    if any(registry.lowering(_DIALECT, f"{COMPLEX}{node.op_type}") is None for node in nodes):
        return
    for node in nodes:
        node.op_type = f"{COMPLEX}{node.op_type}"
        node.set_attribute(COMPLEX, tuple(value in known for value in node.inputs))
    for value in known:
        pair_value(value)


def _record_elements(
    node: Node, numbers: dict[Value, Any], lists: dict[Value, list[Item]], trees: dict[str, Tree | None]
) -> None:
    """Record a node that creates a scalar or a list."""
    if len(node.results) != 1:
        return
    if node.op_type == _DICTIONARY:
        lists[node.output] = [_to_tensor_element(node, value, numbers) for value in _flat(node.inputs[1::2], lists)]
    elif node.op_type in _PACKS and node.inputs and all(value in numbers for value in node.inputs):
        numbers[node.output] = tuple(numbers[value] for value in node.inputs if value is not None)
    elif node.op_type in _PACKS:
        lists[node.output] = [_to_tensor_element(node, value, numbers) for value in _flat(node.inputs, lists)]
    elif node.op_type == "prim::Constant":
        numbers[node.output] = node.attributes.get("value")
    elif node.op_type == "Expression":
        text = str(node.attributes.get("expr", ""))
        if text not in trees:
            trees[text] = _parsed(text)
        _note_expression(node, trees[text], numbers, lists)


def _to_tensor_element(node: Node, item: Item, numbers: Mapping[Value, Any]) -> Item:
    """Return an element of a list with tensors as a tensor; scalars are converted."""
    if item is None or item not in numbers or node.graph is None:
        return item
    number = numbers[item]
    if not isinstance(number, bool | int | float):
        return None
    storage = storage_of(number, DType.INT64 if isinstance(number, int) else DType.FLOAT32)
    return node.graph.add_constant(item.name, TensorFact.of(storage), storage, origin=node.origin)


def _flat(items: tuple[Item, ...], lists: Mapping[Value, list[Item]]) -> list[Item]:
    known = [[item] if item is None else lists.get(item, [item]) for item in items]
    return [leaf for leaves in known for leaf in leaves]


def _parsed(text: str) -> Tree | None:
    """Parse an expression; return `None` if the text is not one."""
    try:
        return parse(text, ARITIES, lenient=True).tree
    except DiagnosticError:
        return None


def _note_expression(node: Node, tree: Tree | None, numbers: dict[Value, Any], lists: dict[Value, list[Item]]) -> None:
    if tree is None:
        if not node.inputs:
            # A string: PyTorch's name of a mode.
            numbers[node.output] = node.attributes.get("expr")
        return
    if not node.inputs:
        numbers[node.output] = _literal_value(tree, node.attributes.get("expr"))
    elif isinstance(tree, List) and all(_is_tensor_element(part, node) for part in tree.arguments):
        lists[node.output] = [_to_list_element(part, node) for part in tree.arguments]


def _to_list_element(part: Tree, node: Node) -> Item:
    """Return a list element as an operand, `None`, or an expression, for which a node is created."""
    if isinstance(part, Reference):
        return node.inputs[part.index]
    if isinstance(part, Literal) or node.graph is None:
        return None
    result = Value(node.graph.fresh(node.output.name), UNKNOWN)
    made = Node("Expression", node.inputs, [result], {"expr": str(part)}, dialect=_DIALECT, origin=node.origin)
    return node.graph.insert_before(node, made).output


def _literal_value(tree: Tree, text: Any) -> Any:
    if isinstance(tree, Literal):
        return tree.value
    if isinstance(tree, List) and all(isinstance(part, Literal) for part in tree.arguments):
        return tuple(part.value for part in tree.arguments if isinstance(part, Literal))
    return text


def _is_tensor_element(part: Tree, node: Node) -> bool:
    """Whether a list element is `None` or a tensor of rank 1 or more; scalars would be the sizes of a shape."""
    if isinstance(part, Call):
        references = [each for each in postorder(part) if isinstance(each, Reference)]
        is_length = any(isinstance(each, Call) and each.text == "size" for each in postorder(part))
        return bool(references) and not is_length and any(_is_tensor_element(each, node) for each in references)
    if isinstance(part, Literal):
        return part.value is None
    if not isinstance(part, Reference) or part.index >= len(node.inputs):
        return False
    value = node.inputs[part.index]
    fact = UNKNOWN if value is None else value.fact
    return isinstance(fact, TensorFact) and (bool(fact.shape) or fact.dtype is DType.BOOL)


def _expand(node: Node, numbers: Mapping[Value, Any], lists: Mapping[Value, list[Item]]) -> None:
    """Replace list operands by their elements, and scalar operands by attributes with their name or index."""
    known = [value for value in node.inputs if value is not None and (value in numbers or value in lists)]
    if not known or node.op_type in _PACKS or node.op_type in ("Expression", "SliceIndexes"):
        return
    names = node.attributes.get(KEYS)
    keys = [str(name) for name in names] if isinstance(names, tuple) else []
    operands: list[Item] = []
    found: list[str] = []
    attributes: dict[str, Attribute] = {}
    for place, value in enumerate(node.inputs):
        name = keys[place] if place < len(keys) and keys[place] else f"{PLACE}{place}"
        if value is not None and value in numbers:
            attributes[name] = numbers[value]
        elif value is not None and value in lists:
            operands += lists[value]
            found += [f"{name}{ITEM}"] * len(lists[value])
        else:
            operands.append(value)
            found.append(name)
    node.inputs = operands
    node.set_attribute(KEYS, tuple(found))
    for name, attribute in attributes.items():
        node.set_attribute(name, attribute)


def _unpack(graph: Graph, node: Node, lists: Mapping[Value, list[Item]]) -> None:
    """Replace the results of an unpack node by the list's elements, or by the results of the list's producer."""
    packed = node.operand(0)
    if packed is None:
        return
    items = lists.get(packed)
    if items is not None:
        for result, item in zip(node.results, items, strict=False):
            if item is not None:
                result.replace_uses(item)
        return
    maker = packed.producer
    if maker is None or len(maker.outputs) != 1 or len(packed.uses) != 1 or packed.is_output:
        return
    node.inputs = ()
    maker.drop_output(0)
    maker.take_outputs(node)
    graph.remove(node)


def _open_outputs(graph: Graph, lists: Mapping[Value, list[Item]]) -> None:
    """Return the elements of a tuple instead of the tuple."""
    outputs = graph.outputs
    if any(value in lists for value in outputs):
        items = _flat(tuple(outputs), lists)
        graph.set_outputs([value for value in items if value is not None])


def _drop_unused_results(graph: Graph, node: Node) -> None:
    """Drop unused trailing results, and nodes without used results."""
    if not node.results or any(value.uses for value in node.results):
        while len(node.outputs) > 1 and (last := node.outputs[-1]) is not None and not last.uses:
            node.drop_output(len(node.outputs) - 1)
        return
    if (
        node.op_type in _PACKS
        or node.op_type in ("Expression", "prim::Constant", "SliceIndexes")
        or node.op_type in _UNPACKS
    ):
        graph.remove(node)


def before_export(graph: Graph) -> None:
    """Fold weights computed from constants by several canonical nodes.

    A single node is not folded: the export rule of its consumer may support it as a flag.
    """
    op_defs, is_changed = registry.op_defs(), False
    for node in list(graph):
        op_def = None if node.dialect else op_defs.get(node.op_type)
        if op_def is None or op_def.role != "weighted":
            continue
        for index, value in enumerate(node.inputs):
            made = None if value is None else value.producer
            if value is None or made is None or all(x is None or x.is_constant for x in made.inputs):
                continue
            storage = folded(value)
            if storage is not None:
                node.set_input(index, graph.add_constant(graph.fresh(value.name), value.fact, storage))
                is_changed = True
    if is_changed:
        _drop_unread(graph)


def _drop_unread(graph: Graph) -> None:
    """Remove unused nodes."""
    for node in reversed(list(graph)):
        if not node.dialect and not any(value.uses for value in node.results):
            graph.remove(node)


def after_export(graph: Graph) -> None:
    """Replace constants of rank 0 by expressions, because weights have axes; return several outputs as one tuple."""
    for value in list(graph.constants):
        text = literal_of(value)
        if text is not None and value.uses:
            _format_scalar(graph, value, text)
    outputs = graph.outputs
    if len(outputs) < 2:
        return
    packed = Value(graph.fresh("outputs"), UNKNOWN)
    graph.append(Node("prim::TupleConstruct", outputs, [packed], dialect=_DIALECT))
    graph.set_outputs([packed])


def _format_scalar(graph: Graph, value: Value, text: str) -> None:
    """Write a scalar as an expression; consumers other than expressions need a tensor, so a conversion is inserted."""
    uses = list(value.uses)
    numeric = [use for use in uses if isinstance(use.user, Node) and use.user.op_type == "Expression"]
    if numeric:
        node = Node("Expression", [], [Value(graph.fresh(value.name), UNKNOWN)], {"expr": text}, dialect=_DIALECT)
        made = graph.insert_after(None, node).output
        for use in numeric:
            use.read(made)
    if len(numeric) < len(uses) and value.storage is not None:
        storage = value.storage.reshaped((1,))
        weight = graph.add_constant(graph.fresh(value.name), TensorFact.of(storage), storage, origin=value.origin)
        node = Node("torch.squeeze", [weight], [Value(graph.fresh(value.name), UNKNOWN)], dialect=_DIALECT)
        made = graph.insert_after(None, node).output
        value.replace_uses(made)
