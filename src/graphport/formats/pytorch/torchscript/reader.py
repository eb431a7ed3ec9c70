"""Read TorchScript files as dialect graphs of `pytorch`."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span
from graphport.core.garbage_collection import paused_collection
from graphport.core.storage import Bytes, MappedFile
from graphport.formats.pytorch.pt2.container import Container
from graphport.formats.pytorch.rules.binding import KEYS
from graphport.formats.pytorch.torchscript import other_files
from graphport.formats.pytorch.torchscript.emit import DIALECT, Emitter
from graphport.formats.pytorch.torchscript.evaluator import Evaluator
from graphport.formats.pytorch.torchscript.inputs import InputReader
from graphport.formats.pytorch.torchscript.quantized import dequantized
from graphport.formats.pytorch.torchscript.refusal import RaisedError, RefusedError, refuse
from graphport.formats.pytorch.torchscript.state import State
from graphport.formats.pytorch.torchscript.syntax import Texts
from graphport.formats.pytorch.torchscript.values import (
    Dict,
    List,
    NamedTuple,
    Object,
    Quantized,
    RuntimeScalar,
    Tensor,
    type_name,
)
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

VERSION = "torchscript.version"
"""Note of a graph: the version record."""
MUTATED, STATES = "pt2.mutated", "pt2.states"
FIXED = "inputs.fixed"
"""Note of a graph: the arguments that the user fixed to a value, which are not graph inputs."""
_ALIAS = "aten.alias.default"


def versions(graph: Graph) -> dict[str, str]:
    """Return the version record of the file."""
    found = graph.notes.get(VERSION) if graph.has_notes else None
    return dict(cast("dict[str, str]", found)) if isinstance(found, dict) else {}


class _Archive(Container):
    """A zip container whose errors recommend `torch.jit.save`."""

    def fault(self, code: str, message: str, help: str | None = None) -> DiagnosticError:
        return super().fault(code, message, help or "save the model with torch.jit.save")


def read(
    path: str | Path, *, shapes: Mapping[str, Sequence[float | str]] | None = None, states: bool = False
) -> tuple[Graph, list[Diagnostic]]:
    """Read the dialect graph of a scripted or traced module, and warnings.

    Args:
        path: the file.
        shapes: element types and shapes of inputs by name; they override the examples of a trace.
        states: convert attributes that the module mutates to inputs and outputs.

    Raises:
        DiagnosticError: PT0001 to PT0005 errors of the archive, TS0001 another kind of PyTorch file, TS0002 to TS0011
            errors of the module, and features that a graph cannot represent.
    """
    source = Source(str(path))
    try:
        file = MappedFile(Path(path))
        other_files.refuse_other_kinds(file, source)
        return _read(_Archive(file, source), Path(path).stem, shapes or {}, states=states)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("IO0006", message, Span(source), "check the path")) from error


def read_bytes(data: bytes, *, states: bool = False) -> tuple[Graph, list[Diagnostic]]:
    """Read the dialect graph of a file in memory, with the diagnostics of `read`."""
    return _read(_Archive(Bytes(data), Source("TorchScript module")), "main", {}, states=states)


@paused_collection()
def _read(
    container: Container, stem: str, shapes: Mapping[str, Sequence[float | str]], *, states: bool
) -> tuple[Graph, list[Diagnostic]]:
    reader: _ModuleReader | None = None
    origin = Span(container.source)
    try:
        registry.load(DIALECT)
        other_files.refuse_other_archives(container)
        reader = _ModuleReader(container, stem, shapes, states=states)
        return reader.graph(), reader.findings
    except RefusedError as refused:
        at = origin if reader is None else reader.origin or origin
        raise DiagnosticError(Diagnostic(refused.code, refused.message, at, refused.help)) from refused
    except RaisedError as raised:
        at = origin if reader is None else reader.origin or origin
        message = f"the code raises an exception for the declared types and shapes: {raised}"
        raise DiagnosticError(Diagnostic("TS0010", message, at, "declare other inputs with --input")) from raised
    except RecursionError as error:
        message = "the code is nested too deeply"
        raise DiagnosticError(Diagnostic("TS0008", message, origin, "flatten the code")) from error


class _ModuleReader:
    """Reader of one module."""

    def __init__(
        self,
        container: Container,
        stem: str,
        shapes: Mapping[str, Sequence[float | str]],
        *,
        states: bool,
    ) -> None:
        self.findings: list[Diagnostic] = []
        self._container = container
        self._made = Graph(stem or "main")
        self._texts = Texts(container)
        self._state = State(container, self._texts)
        self._emitter = Emitter(self._made)
        self._evaluator = Evaluator(self._texts, self._emitter, self._state, container.source)
        self._state.evaluator = self._evaluator
        self._shapes = shapes
        self._keeps_states = states

    @property
    def origin(self) -> Span | None:
        """Return the location of the current statement."""
        return self._evaluator.last_origin

    def graph(self) -> Graph:
        """Build the graph of `forward`."""
        module = self._state.module
        forward = module.type.methods.get("forward")
        if forward is None:
            refuse(
                "TS0005",
                f"{module.type.name} has no method 'forward'",
                help="methods: " + ", ".join(module.type.methods),
            )
        if self._keeps_states:
            self._emitter.changing = self._state.set_names()
        inputs = InputReader(self._evaluator, self._made, self._container, self._shapes)
        arguments = inputs.arguments(forward)
        self._note_defaults(inputs.taken)
        self._made.notes[FIXED] = tuple(inputs.fixed)
        result = self._call(module, arguments)
        self._outputs(result)
        self._report_assumptions()
        self._note_states()
        self._made.opsets[DIALECT] = 1
        self._made.notes[VERSION] = {"version": str(self._state.version)}
        self._forget_unused()
        return self._made

    def _call(self, module: Object, arguments: Sequence[Any]) -> Any:
        """Call `forward` with the hooks of the root module, like `Module::operator()` of PyTorch."""
        call, constants = self._evaluator.call_method, module.type.constants
        given = tuple(arguments)
        for hook in _names(constants.get("__forward_pre_hooks__")):
            changed = call(module, hook, [given], {})
            if changed is not None:
                given = cast("tuple[Any, ...]", changed) if isinstance(changed, tuple) else (changed,)
        result = call(module, "forward", given, {})
        for hook in _names(constants.get("__forward_hooks__")):
            changed = call(module, hook, [given, result], {})
            result = result if changed is None else changed
        return result

    def _note_defaults(self, taken: Mapping[str, Any]) -> None:
        if not taken:
            return
        listed = ", ".join(f"{name} = {value}" for name, value in taken.items())
        message = f"the model is specialized for the default argument{'s' if len(taken) > 1 else ''} {listed}"
        help = "use --input NAME=NUMBER to set another value, or --input NAME=int64: to make it an input"
        self.findings.append(Diagnostic("TS0012", message, Span(self._container.source), help, Severity.WARNING))

    def _report_assumptions(self) -> None:
        for condition, origin in self._evaluator.assumptions.items():
            message = f"the converted model is valid only for inputs for which {condition}"
            help = "do not pass empty tensors: PyTorch returns another rank for them"
            self.findings.append(Diagnostic("TS0013", message, origin, help, Severity.WARNING))

    # Outputs

    def _outputs(self, result: Any) -> None:
        named: set[Value] = set()
        found = list(_flattened(result, "output" if not isinstance(result, Dict | NamedTuple) else ""))
        for name, value in found:
            self._return(self._emitter.now(self._as_value(value)), name, named)
        if not self._made.outputs:
            refuse("TS0009", f"forward returns {type_name(result)} without a tensor")

    def _as_value(self, leaf: Any) -> Value:
        """Return a tensor or scalar of the result as a graph value; quantized tensors are dequantized."""
        operators = self._evaluator.operators
        found = dequantized(operators, leaf)
        return (found if isinstance(found, Tensor | RuntimeScalar) else operators.tensor_of(found)).value

    def _return(self, value: Value, name: str, named: set[Value]) -> None:
        made = self._made
        if value in named or value.producer is None or value.graph is not made:
            result = Value(made.fresh(value.name), value.fact)
            made.append(Node(_ALIAS, [value], [result], {KEYS: ("self",)}, dialect=DIALECT))
            value = result
        named.add(value)
        made.rename(value, made.fresh(name))
        made.add_output(value)

    # States

    def _note_states(self) -> None:
        emitter = self._emitter
        emitter.writes.note()
        found = [(before, emitter.now(after.value)) for before, after in self._state.changed()]
        if self._keeps_states:
            _refuse_changed_shapes(found)
        if found:
            self._made.notes[MUTATED] = tuple((before.name, after.name, True) for before, after in found)
        self._kept = {before for before, _ in found}
        if self._keeps_states:
            self._made.notes[STATES] = True

    def _forget_unused(self) -> None:
        """Remove unused constants."""
        for value in list(self._made.constants):
            if not value.uses and value not in self._kept:
                self._made.remove_constant(value)


def _names(literal: ast.expr | None) -> list[str]:
    """Return the strings of a list literal."""
    items = literal.elts if isinstance(literal, ast.List) else ()
    return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def _refuse_changed_shapes(states: Sequence[tuple[Value, Value]]) -> None:
    """Refuse states whose shape changes between runs, because the next run would need another input shape.

    Raises:
        RefusedError: TS0009.
    """
    for before, after in states:
        if before.shape is not None and after.shape is not None and before.shape != after.shape:
            sizes = " and ".join(str(list(each.shape or ())) for each in (before, after))
            message = f"the state {before.name} has different shapes before and after a run: {sizes}"
            help = "run the module once in PyTorch and save it again, so that the stored state has its final shape"
            refuse("TS0009", message, help=help)


def _flattened(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the tensors and scalars of a nested result in order, with names."""
    below = f"{name}." if name else ""
    match value:
        case None | str() | bool():
            return  # booleans and strings do not depend on the inputs
        case Tensor() | RuntimeScalar() | Quantized() | int() | float():
            yield name or "output", value
        case List() if value.stacked is not None:
            refuse("TS0009", "forward returns a list whose length depends on run-time values")
        case List():
            for index, item in enumerate(value.items):
                yield from _flattened(item, f"{below}{index}")
        case tuple():
            for index, item in enumerate(cast("tuple[Any, ...]", value)):
                yield from _flattened(item, f"{below}{index}")
        case NamedTuple():
            for key, item in zip(value.fields, value.items, strict=True):
                yield from _flattened(item, f"{below}{key}")
        case Dict():
            for key, item in value.items.items():
                yield from _flattened(item, f"{below}{key}")
        case _:
            refuse("TS0009", f"forward returns {type_name(value)}, expected a tensor")
