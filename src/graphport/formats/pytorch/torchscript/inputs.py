"""Inputs of a TorchScript model: names from `forward`, dtypes and shapes from the user or the trace."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, cast

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.pt2.schema import SchemaError
from graphport.formats.pytorch.torchscript.pickles import Tagged, Tensor, is_tensor, unpickled
from graphport.formats.pytorch.torchscript.refusal import refuse
from graphport.formats.pytorch.torchscript.syntax import ClassText
from graphport.formats.pytorch.torchscript.values import Dict, List, NamedTuple, RuntimeScalar
from graphport.formats.pytorch.torchscript.values import Tensor as TensorValue
from graphport.ops.bind import bind_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.formats.pytorch.pt2.container import Container
    from graphport.formats.pytorch.torchscript.evaluator import Evaluator
    from graphport.formats.pytorch.torchscript.syntax import FunctionText, Parameter
    from graphport.ir.graph import Graph

Shapes = "Mapping[str, Sequence[float | str]]"
_SCALARS = {"int": DType.INT64, "float": DType.FLOAT32, "bool": DType.BOOL, "number": DType.FLOAT32}
_ITEM = re.compile(r"^(?P<name>.+?)\.(?P<item>[^.]+)(?:\.|$)")


def traced_inputs(container: Container) -> list[Any] | None:
    """Return the example inputs of a trace without their elements; `None` if the archive has no readable ones."""
    if "traced_inputs.pkl" not in container:
        return None
    try:
        found = unpickled(container.read("traced_inputs.pkl"))
    except SchemaError:
        return None
    found = _untagged(found)
    return cast("dict[str, Any]", found).get("forward") if isinstance(found, dict) else None


def _untagged(value: Any) -> Any:
    if isinstance(value, Tagged):
        return _untagged(value.value)
    if is_tensor(value):
        return value
    if isinstance(value, dict):
        return {key: _untagged(x) for key, x in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_untagged(x) for x in cast("Sequence[Any]", value)]
    return value


class InputReader:
    """Builder of the graph inputs and the arguments of `forward`."""

    def __init__(
        self,
        evaluator: Evaluator,
        graph: Graph,
        container: Container,
        shapes: Mapping[str, Sequence[float | str]],
    ) -> None:
        self._evaluator = evaluator
        self._graph = graph
        self._shapes = shapes
        self._traced = traced_inputs(container)
        self.taken: dict[str, Any] = {}
        """Arguments that have their default values."""
        self.fixed: list[str] = []
        """Arguments whose numbers the user gives."""
        self._missing: list[str] = []

    def arguments(self, forward: FunctionText) -> list[Any]:
        """Return the arguments of `forward`, without the module.

        Raises:
            RefusedError: TS0007 the shape of an input is unknown, TS0009 an argument's type cannot be a graph input.
            DiagnosticError: SHAPE0003 a shape of the user does not match the model.
        """
        parameters = forward.parameters[1:]
        given = self._traced if self._traced is not None and len(self._traced) <= len(parameters) else None
        found: list[Any] = []
        for index, parameter in enumerate(parameters):
            example = given[index] if given is not None and index < len(given) else None
            found.append(self._argument(parameter, parameter.type, parameter.name, example))
        self._check(forward)
        bind_inputs(self._graph, {name: self._shapes[name] for name in self._shapes if name in self._names()})
        self._check_unknown(forward)
        return found

    def _names(self) -> set[str]:
        return {value.name for value in self._graph.inputs}

    def _check(self, forward: FunctionText) -> None:
        if self._missing:
            listed = ", ".join(f"{p.name}: {p.type}" for p in forward.parameters[1:])
            example = " ".join(f"--input {name}=float32:1x3x224x224" for name in self._missing[:2])
            inputs = f"input{'s' if len(self._missing) > 1 else ''} {', '.join(self._missing)}"
            message = f"missing shapes for the {inputs} of forward({listed})"
            refuse("TS0007", message, help=f"set the element type and shape of each: {example}")

    def _check_unknown(self, forward: FunctionText) -> None:
        """Check that every input has a dtype and a rank, and that every name of the user is an input."""
        for value in self._graph.inputs:
            if value.dtype is None or value.shape is None:
                self._missing.append(value.name)
        self._check(forward)
        unknown = [name for name in self._shapes if name not in self._names() and name not in self.fixed]
        if unknown:
            refuse("TS0007", f"unknown input {unknown[0]!r}", help=f"inputs: {', '.join(self._names()) or 'none'}")

    # Arguments

    def _argument(self, parameter: Parameter | None, type_: str, name: str, example: Any) -> Any:
        base, _, inner = type_.partition("[")
        inner = inner[:-1]
        match base:
            case "Tensor":
                return self._tensor(name, example)
            case "Optional":
                return self._optional(parameter, inner, name, example)
            case "int" | "float" | "bool" | "number":
                return self._scalar_input(parameter, base, name, example)
            case "List":
                return self._list(parameter, inner, name, example)
            case "Tuple":
                return self._tuple(inner, name, example)
            case "Dict":
                return self._dict(parameter, inner, name, example)
            case _:
                return self._special_input(parameter, type_, name, example)

    def _tensor(self, name: str, example: Any) -> TensorValue:
        fact = TensorFact(None, None)
        if isinstance(example, Tensor):
            fact = TensorFact(example.storage.dtype, example.sizes)
        if name in self._shapes:
            # The shape of the trace is an example; a shape of the user takes precedence.
            fact = TensorFact(None if _has_type(self._shapes[name]) else fact.dtype, None)
        elif not isinstance(example, Tensor):
            self._missing.append(name)
        return TensorValue(self._graph.add_input(name, fact))

    def _is_named(self, name: str) -> bool:
        return name in self._shapes or any(key.startswith(f"{name}.") for key in self._shapes)

    def _optional(self, parameter: Parameter | None, inner: str, name: str, example: Any) -> Any:
        if example is None and not self._is_named(name):
            return self._default(parameter) if parameter is not None and parameter.default is not None else None
        return self._argument(parameter, inner, name, example)

    def _default(self, parameter: Parameter) -> Any:
        return None if parameter.default is None else self._evaluator.expression(parameter.default, {})

    def _scalar_input(self, parameter: Parameter | None, type_: str, name: str, example: Any) -> Any:
        """Return a scalar argument: a constant or graph input that the user declares, else the traced or default value.

        Raises:
            RefusedError: TS0007 the argument has none of them.
        """
        if name not in self._shapes:
            if isinstance(example, bool | int | float):
                return example
            if parameter is not None and parameter.default is not None:
                self.taken[name] = self._default(parameter)
                return self.taken[name]
            help = (
                f"set a constant with --input {name}=16000, or make it an input with --input {name}={_SCALARS[type_]}:"
            )
            refuse("TS0007", f"the argument {name} is a number ({type_}) without a default", help=help)
        given = self._shapes[name]
        literal = _literal(given[0]) if len(given) == 1 and not _has_type(given) else None
        if literal is not None:
            self.fixed.append(name)
            return bool(literal) if type_ == "bool" else int(literal) if type_ == "int" else float(literal)
        value = self._graph.add_input(name, TensorFact(_SCALARS[type_], None))
        return RuntimeScalar(value, cast("Any", "float" if type_ == "number" else type_))

    def _container_keys(self, name: str, example: Any) -> list[str]:
        """Return the item names of a list or dictionary input, from the user or the trace."""
        prefix = f"{name}."
        found = [key[len(prefix) :].split(".")[0] for key in self._shapes if key.startswith(prefix)]
        if found:
            return list(dict.fromkeys(found))
        if isinstance(example, dict):
            return [str(key) for key in cast("dict[Any, Any]", example)]
        return [str(i) for i in range(len(cast("list[Any]", example)))] if isinstance(example, list) else []

    def _list(self, parameter: Parameter | None, inner: str, name: str, example: Any) -> Any:
        names = self._container_keys(name, example)
        if not names and parameter is not None and parameter.default is not None:
            return self._default(parameter)
        if not names:
            refuse(
                "TS0007",
                f"{name} is a list of unknown length",
                help=f"set each item: --input {name}.0=float32:3x4 --input {name}.1=…",
            )
        if sorted(names) != sorted(str(i) for i in range(len(names))):
            refuse("TS0007", f"the items of {name} are {', '.join(names)}, expected 0 to {len(names) - 1}")
        items = [self._argument(None, inner, f"{name}.{i}", _at(example, i)) for i in range(len(names))]
        return List(items, inner)

    def _tuple(self, inner: str, name: str, example: Any) -> Any:
        types = _types(inner)
        return tuple([self._argument(None, t, f"{name}.{i}", _at(example, i)) for i, t in enumerate(types)])

    def _dict(self, parameter: Parameter | None, inner: str, name: str, example: Any) -> Any:
        names = self._container_keys(name, example)
        if not names and parameter is not None and parameter.default is not None:
            return self._default(parameter)
        if not names:
            refuse(
                "TS0007",
                f"{name} is a dictionary with unknown keys",
                help=f"set each item: --input {name}.KEY=float32:3x4",
            )
        key_type, value_type = (*_types(inner), "Tensor")[:2]
        examples = cast("dict[Any, Any]", example) if isinstance(example, dict) else {}
        keys = [int(key) if key_type == "int" else key for key in names]
        return Dict({key: self._argument(None, value_type, f"{name}.{key}", examples.get(key)) for key in keys})

    def _special_input(self, parameter: Parameter | None, type_: str, name: str, example: Any) -> Any:
        if parameter is not None and parameter.default is not None:
            return self._default(parameter)
        if type_ in ("str", "Device") and isinstance(example, str):
            return example
        found = self._evaluator.texts.find(type_)
        if isinstance(found, ClassText) and found.base == "NamedTuple":
            pairs = enumerate(found.types.items())
            items = tuple([self._argument(None, t, f"{name}.{key}", _at(example, i)) for i, (key, t) in pairs])
            return NamedTuple(tuple(found.types), items)
        refuse("TS0009", f"the argument {name} is {type_}, which cannot be a graph input, and it has no default")
        return None


def _at(example: Any, index: int) -> Any:
    items = cast("list[Any]", example) if isinstance(example, list) else []
    return items[index] if index < len(items) else None


def _types(inner: str) -> list[str]:
    """Split the types in `Tuple[…]` or `Dict[…]`."""
    parsed = ast.parse(f"X[{inner}]", mode="eval").body
    chosen = parsed.slice if isinstance(parsed, ast.Subscript) else parsed
    items = chosen.elts if isinstance(chosen, ast.Tuple) else [chosen]
    return [ast.unparse(item) for item in items if not (isinstance(item, ast.Tuple) and not item.elts)]


def _literal(text: float | str) -> float | int | None:
    """Parse a scalar that the user states instead of a shape."""
    if not isinstance(text, str):
        return text
    try:
        return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else float(text)
    except ValueError:
        return {"true": 1, "false": 0}.get(text.lower())


def _has_type(shape: Sequence[float | str]) -> bool:
    return bool(shape) and isinstance(shape[0], str) and ":" in shape[0]
