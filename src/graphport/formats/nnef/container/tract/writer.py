"""Write graphs of the dialects `tract` and `nnef` to models in tract's flavour."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import Symbol, Symbolic, bounds, substitute, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.build import DTYPE
from graphport.formats.nnef.container.declarations import standard
from graphport.formats.nnef.container.files import Files
from graphport.formats.nnef.container.lexer import string_literal
from graphport.formats.nnef.container.literals import Unspellable, default_of
from graphport.formats.nnef.container.naming import Labels, Names
from graphport.formats.nnef.container.packaging import DATA
from graphport.formats.nnef.container.quant import quantization_text
from graphport.formats.nnef.container.quantized import quantization_of
from graphport.formats.nnef.container.syntax import Edition
from graphport.formats.nnef.container.tensors import Payload
from graphport.formats.nnef.container.tract.blocks import blocked_file
from graphport.formats.nnef.container.tract.evaluate import registry
from graphport.formats.nnef.container.tract.tract_replacements import to_tract_form
from graphport.formats.nnef.container.tract.tract_support import overhangs
from graphport.formats.nnef.container.types import ArrayOf, TensorOf, TupleOf
from graphport.formats.nnef.rules.tract.blocks import InBlocks
from graphport.formats.nnef.rules.tract.types import datum_name
from graphport.ir.graph import Graph, Node, Value, walk

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.formats.nnef.container.declarations import Declaration

_REGISTRY = re.compile(r"tract_(core|onnx|pulse|extra|transformers)_")
_UNSUPPORTED = re.compile(r"[~%]")


def files_of(graph: Graph, path: Path) -> dict[str, Payload]:
    """Return the files of a model in tract's flavour.

    Raises:
        DiagnosticError: everything that tract does not support.
    """
    return TractFiles(to_tract_form(graph), path).files()


class TractFiles(Files):
    """A graph as a text in tract's flavour."""

    def __init__(self, graph: Graph, path: Path) -> None:
        super().__init__(graph, path, Edition.FINAL)
        self._labels = Labels()
        self._lines: list[str] = []
        self._fragments: list[str] = []
        self._defined: set[Value] = set()
        self._symbols: dict[str, str] = {}
        self._registries: dict[str, None] = {"core": None}
        self._bound = _symbols_of(graph)
        self._scans = 0
        self._inline = {value: text for inner in walk(graph) for value in inner.constants if (text := _literal(value))}
        self._names = Names(graph, Edition.FINAL, self._inline, strict=True)
        self._inner: dict[Value, str] = {}
        for inner in walk(graph):
            if inner is not graph:
                self._inner |= {value: self._names.another(value) for value in inner.values()}

    def files(self) -> dict[str, Payload]:
        """Return all files of the model.

        Raises:
            DiagnosticError: everything that the text cannot represent.
        """
        graph = self.graph
        self.check_ends()
        for value in graph.inputs:
            self._external(value)
        for node in graph:
            for value in node.operands:
                self._constant(value)
            self._operation(node, self._lines)
        outputs = [self._output(value) for value in graph.outputs]
        inputs = ", ".join(self._names[value] for value in graph.inputs)
        head = ["version 1.0;"]
        head += [f"extension tract_registry tract_{name};" for name in self._registries]
        head += [f"extension tract_symbol {name};" for name in self._symbols.values()]
        body = "".join(f"    {line}\n" for line in self._lines)
        text = "\n".join([*head, "", *self._fragments, f"graph network( {inputs} ) -> ( {', '.join(outputs)} )"])
        return self.complete(f"{text}\n{{\n{body}}}\n", self._quantization())

    def _quantization(self) -> str | None:
        found = {
            self._names[value]: stated
            for value in self.graph.values()
            if (stated := quantization_of(value)) is not None and value not in self._inline
        }
        return quantization_text(found) if found else None

    def _output(self, value: Value) -> str:
        self._constant(value)
        if value not in self._inline:
            return self._names[value]
        name = self._names.unused()
        self._lines.append(f"{name} = {self._inline[value]};")
        return name

    # ── sources ──

    def _external(self, value: Value) -> None:
        self._defined.add(value)
        fact = value.fact
        shape = fact.shape if isinstance(fact, TensorFact) else None
        datum = datum_name(fact.dtype) if isinstance(fact, TensorFact) and fact.dtype is not None else None
        if shape is None or datum is None:
            message = f"the rank or element type of the input '{value.name}' is unknown, but tract requires both"
            self.error("NNEF0761", message, value.origin, "set its shape with --input")
            return
        try:
            extents = ", ".join(self._value(dim) for dim in shape)
        except Unspellable as reason:
            self.error("NNEF0766", f"'{value.name}': {reason}", value.origin, reason.remedy)
            return
        line = f"{self._names[value]} = tract_core_external(shape = [{extents}], datum_type = '{datum}');"
        self._lines.append(line)

    def _constant(self, value: Value) -> None:
        if value in self._defined or value in self._inline or value.producer is not None or value.is_input:
            return
        if not value.is_constant:
            return
        self._defined.add(value)
        fact = value.fact
        shape = fact.shape if isinstance(fact, TensorFact) else None
        extents = [dim for dim in shape or () if isinstance(dim, int)]
        if shape is None or len(extents) < len(shape):
            self.error("NNEF0761", f"the shape of '{value.name}' is unknown", value.origin)
            return
        label = self._labels.of(value, self._name(value))
        kind = "scalar" if value.storage is None or value.storage.dtype.is_floating else "integer"
        kind = "logical" if value.storage is not None and value.storage.dtype is DType.BOOL else kind
        text = f"variable<{kind}>(label = {string_literal(label)}, shape = {extents})"
        if value.storage is not None and value.storage.count == 0:
            self.error(
                "NNEF0763",
                f"'{value.name}' has no elements",
                value.origin,
                "choose another format: NNEF does not support empty tensors",
            )
        if isinstance(value.storage, InBlocks) and self._is_filter(value):
            for user, _ in value.uses:
                if isinstance(user, Node) and user.op_type == "tract_core_gather":
                    user.set_attribute("datum_type", "f32")
            content = blocked_file(value.storage.codes(), value.storage.scales(), value.storage.shape)
            self.data[label + DATA] = Payload(len(content), lambda: iter([content]))
        else:
            self.add(value, label, is_plain=True)
        self._lines.append(f"{self._name(value)} = {text};")

    def _is_filter(self, value: Value) -> bool:
        """Whether all users of `value` accept blocked weights."""
        return not value.is_output and all(
            isinstance(user, Node) and user.graph is self.graph and self._takes_blocks(user, index)
            for user, index in value.uses
        )

    def _takes_blocks(self, node: Node, index: int) -> bool:
        match node.op_type:
            case "linear":
                return index == 1
            case "matmul":
                return index == 1 and node.attributes.get("transposeB") is True
            case "unsqueeze":
                return self._is_filter(node.results[0])
            case "tract_core_gather":
                return index == 0 and node.attributes.get("axis") == 0
            case _:
                return False

    # ── operations ──

    def _operation(self, node: Node, lines: list[str]) -> None:
        try:
            if node.op_type == "tract_core_scan":
                lines.append(self._scan(node))
                return
            if node.dialect not in ("tract", "nnef"):
                message = f"tract has no equivalent of {node.op}"
                self.error("NNEF0765", message, node.origin, "choose another format")
                return
            lines.append(self._call(node))
        except Unspellable as reason:
            self.error("NNEF0766", f"{node.op_type}: {reason}", node.origin, reason.remedy)

    def _declaration(self, node: Node) -> Declaration:
        found = registry().get(node.op_type) or standard(Edition.FINAL).get(node.op_type)
        if found is None:
            raise Unspellable("unknown operation")
        if match := _REGISTRY.match(node.op_type):
            self._registries[match[1]] = None
        return found

    def _call(self, node: Node) -> str:
        declaration = self._declaration(node)
        formals = [formal for formal in declaration.formals if formal.takes_tensors]
        # Arguments after an attribute are passed by name.
        kinds = [formal.takes_tensors for formal in declaration.formals]
        behind = {formal.name for at, formal in enumerate(declaration.formals) if not all(kinds[:at])}
        operands = list(node.inputs)
        texts: list[str] = []
        for place, formal in enumerate(formals):
            if not isinstance(formal.type, TensorOf):
                count = len(operands) - (len(formals) - place - 1)
                texts.append(f"[{', '.join(self._text(value) for value in operands[:count])}]")
                del operands[:count]
            elif operands:
                value = operands.pop(0)
                if value is not None:
                    is_behind = len(texts) < place or formal.name in behind
                    texts.append(f"{formal.name} = {self._text(value)}" if is_behind else self._text(value))
        given = {name: value for name, value in node.attributes.items() if name != DTYPE}
        if (
            node.dialect == "nnef"
            and node.op_type == "max_pool_with_index"
            and (place := node.outputs[1])
            and place.uses
        ):
            raise Unspellable("indices are relative to the plane in tract, and to the window in the standard")
        if node.attributes.get("border") == "ignore" and overhangs(node):
            raise Unspellable("a window contains only ignored padding")
        # What depends on symbols alone is written in the place of a tensor.
        stated = [formal.name for formal in formals if formal.name in given]
        texts += [f"{name} = {self._value(given.pop(name))}" for name in stated]
        for formal in declaration.formals:
            if formal.name in given and not formal.takes_tensors:
                value = given.pop(formal.name)
                default = None if formal.default is None else default_of(formal.default)
                if formal.default is None or value != default or _REGISTRY.match(node.op_type):
                    texts.append(f"{formal.name} = {self._value(value, formal.type)}")
        if given:
            raise Unspellable(f"unknown attribute '{next(iter(given))}'")
        names = [self._names.unused() if value is None else self._name(value) for value in node.outputs]
        names += [self._names.unused() for _ in range(len(declaration.results) - len(names))]
        is_list = any(isinstance(kind, ArrayOf) for _, kind in declaration.results)
        target = f"[{', '.join(names)}]" if is_list else f"( {', '.join(names)} )" if len(names) > 1 else names[0]
        self._defined.update(node.results)
        return f"{target} = {node.op_type}({', '.join(texts)});"

    def _name(self, value: Value) -> str:
        return self._inner.get(value) or self._names[value]

    def _text(self, value: Value | None) -> str:
        if value is None:
            raise Unspellable("missing operand")
        return self._inline.get(value) or self._inner.get(value) or self._names[value]

    def _value(self, value: Any, kind: Any = None) -> str:
        if isinstance(value, Symbolic):
            text = str(value)
            if _UNSUPPORTED.search(text) or not self._bound.issuperset(symbols(value)):
                raise Unspellable(f"tract cannot express the extent {text}", "set the shapes of inputs with --input")
            named = substitute(value, {name: self._symbol(name, each) for name, each in symbols(value).items()})
            return f"({str(named).replace('//', '/')})"
        if isinstance(value, tuple):
            inner = kind.item if isinstance(kind, ArrayOf) else None
            items = ", ".join(self._value(item, inner) for item in value)  # pyright: ignore[reportUnknownVariableType]
            return f"({items})" if isinstance(kind, TupleOf) else f"[{items}]"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return string_literal(value)
        if isinstance(value, float):
            return _format_number(value)
        return str(value)

    def _symbol(self, name: str, symbol: Symbolic) -> Symbolic:
        """Rename a symbol to an identifier that no tensor has."""
        if name not in self._symbols:
            self._symbols[name] = self._names.symbol(name)
        return Symbol(self._symbols[name], *bounds(symbol))

    # ── scans ──

    def _scan(self, node: Node) -> str:
        """Write a scan; its body becomes a fragment, with captured values as additional parameters."""
        self._registries["core"] = None
        given: dict[str, Any] = dict(node.attributes)
        body: Graph = given["body"]
        states = list(node.inputs)[: len(node.inputs) - given["num_scan_inputs"]]
        scans = list(node.inputs)[len(states) :]
        name = f"scan_body_{self._scans}"
        self._scans += 1
        outer = dict.fromkeys(v for inner in body for v in inner.operands if self._is_outside(v, body))
        for value in outer:
            self._constant(value)
        lines: list[str] = []
        own = body.inputs
        parameters = [self._name(value) for value in own]
        for value, axis in zip(own[len(states) :], given["scan_input_axes"], strict=True):
            entry = self._names.unused()
            lines.append(f"{entry} = squeeze({self._name(value)}, axes = [{axis}]);")
            self._inner[value] = entry
        for inner in body:
            self._operation(inner, lines)
        results: list[str] = []
        for place, value in enumerate(body.outputs):
            result = self._names.unused()
            if place < len(states):
                lines.append(f"{result} = copy({self._text(value)});")
            else:
                axis = given["scan_output_axes"][place - len(states)]
                lines.append(f"{result} = unsqueeze({self._text(value)}, axes = [{axis}]);")
            results.append(result)
        captured = [self._name(value) for value in outer if value not in self._inline]
        formals = ", ".join(f"{each}: tensor<scalar>" for each in [*parameters, *captured])
        returned = ", ".join(f"{each}: tensor<scalar>" for each in results)
        text = "".join(f"    {line}\n" for line in lines)
        self._fragments.append(f"fragment {name}( {formals} ) -> ( {returned} )\n{{\n{text}}}\n")
        count = len(states)
        scan = [
            f'("{parameter}", {self._text(value)}, {axis}, {-1 if back else 1})'
            for parameter, value, axis, back in zip(
                parameters[count:], scans, given["scan_input_axes"], given["scan_input_directions"], strict=True
            )
        ]
        state = [
            f'("{parameter}", {self._text(value)}, "{result}")'
            for parameter, value, result in zip(parameters, states, results, strict=False)
        ]
        full = [f'("{each}", {each})' for each in captured]
        output = [f'("{result}", "last", 0, 1)' for result in results[:count]]
        output += [
            f'("{result}", "full", {axis}, {-1 if back else 1})'
            for result, axis, back in zip(
                results[count:], given["scan_output_axes"], given["scan_output_directions"], strict=True
            )
        ]
        names = [self._names.unused() if value is None else self._name(value) for value in node.outputs]
        self._defined.update(node.results)
        parts = [("scan", scan), ("full", full), ("state", state), ("output", output)]
        listed = ", ".join(f"{part} = [{', '.join(items)}]" for part, items in parts)
        return f'( {", ".join(names)} ) = tract_core_scan(body = "{name}", {listed}, skip = 0);'

    def _is_outside(self, value: Value, body: Graph) -> bool:
        return value.graph is not body or value.is_constant


def _symbols_of(graph: Graph) -> frozenset[str]:
    """Return the symbols in the shapes of inputs, the only ones known before a run."""
    facts = [value.fact for value in graph.inputs if isinstance(value.fact, TensorFact)]
    dims = [dim for fact in facts for dim in fact.shape or () if isinstance(dim, Symbolic)]
    kept = [
        node.attributes.get("past_sequence_shape")
        for node in graph
        if node.op_type == "tract_transformers_dyn_kv_cache"
    ]
    dims += [dim for shape in kept if isinstance(shape, tuple) for dim in shape if isinstance(dim, Symbolic)]
    return frozenset(name for dim in dims for name in symbols(dim))


def _literal(value: Value) -> str | None:
    """Format a float32 scalar as a literal at its uses; other types need a constant."""
    storage = value.storage
    if (
        storage is None
        or storage.shape
        or storage.dtype is not DType.FLOAT32
        or value.is_output
        or not value.is_constant
    ):
        return None
    number = float(str(storage.numpy().reshape(-1)[0].astype(np.float32)))
    return _format_number(number) if math.isfinite(number) else None


def _format_number(number: float) -> str:
    if not math.isfinite(number):
        raise Unspellable(f"{number} has no NNEF literal")
    text = repr(number).replace("e+", "e")
    return text if "." in text or "e" in text else f"{text}.0"
