"""A graph in the words of PNNX as a module of PyTorch: plain code that reads its weights from the archive beside it."""

from __future__ import annotations

import keyword
import re
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.sequences import is_sequence
from graphport.core.storage import Storage
from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.formats.pnnx.code_expressions import CodeError, Number, expression_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.ir.graph import Graph, Node, Value

_KEYS = "$"
_UNNAMED = re.compile(r"\W", re.ASCII)
_DTYPE = re.compile(r"torch\.[a-z]\w*", re.ASCII)
_END = 2**31 - 1
_TAKEN = frozenset(
    {*("self", "torch", "nn", "F", "weight", "Path", "zipfile", "WEIGHTS", "Model", "forward"), *dir(object)}
)
"""Names that the code has for other things."""
_LISTED = frozenset({"torch.cat", "torch.stack", "torch.einsum"})
"""Functions that take a list of tensors, or any number of them."""
_PARTS = frozenset({"torch.split", "torch.unbind", "torch.chunk", "torch.tensor_split"})
"""Functions with as many results as the tensor has parts."""
_STATES = {"nn.LSTM": 2, "nn.GRU": 1, "nn.RNN": 1}
"""Layers that keep a state: how many tensors that is."""
_FUNCTIONS = {"aten::one_hot": "F.one_hot"}
_OPERANDS = {"aten::one_hot": "input"}
_TYPES = {
    DType.FLOAT32: "float32",
    DType.FLOAT64: "float64",
    DType.FLOAT16: "float16",
    DType.BFLOAT16: "bfloat16",
    DType.INT64: "int64",
    DType.INT32: "int32",
    DType.INT16: "int16",
    DType.INT8: "int8",
    DType.UINT8: "uint8",
    DType.BOOL: "bool",
    DType.COMPLEX64: "complex64",
    DType.COMPLEX128: "complex128",
}

_HEAD = '''"""{title}, written by graphport: a module of PyTorch, with its weights in the archive beside it."""

import zipfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

WEIGHTS = Path(__file__).with_name({archive!r})


def weight(archive, name, dtype, *shape):
    """A tensor that is stored in the archive as its bytes."""
    data = bytearray(archive.read(name))
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if data else torch.zeros(shape, dtype=dtype)


class Model(nn.Module):
    """{results} of {inputs}."""

    def __init__(self):
        super().__init__()
'''
_TAIL = """

if __name__ == "__main__":
    torch.manual_seed(0)
    model = Model().eval()
    with torch.no_grad():
        results = model({samples})
    for result in results if isinstance(results, tuple) else (results,):
        print(tuple(result.shape), result.dtype)
"""


class _Layer(NamedTuple):
    """A module or a tensor that the model owns."""

    name: str
    lines: list[str]


def code_of(graph: Graph, archive: str, names: Mapping[Value, str]) -> str:
    """The text of a Python file; `names` has those of operators in the archive called `archive`, by their first result.

    What stands in it comes from us, or is checked to be a name, a number or the literal of a text: a model cannot say
    what is run.

    Raises:
        CodeError: a word has no form in Python.
    """
    return _Coder(graph, archive, names).text()


class _Coder:
    def __init__(self, graph: Graph, archive: str, names: Mapping[Value, str]) -> None:
        self.graph = graph
        self.archive = archive
        self.names = names
        self.variables: dict[Value, str] = {}
        self.numbers: set[Value] = set()
        self.lists: set[Value] = set()
        self.modules: dict[Node, str] = {}
        self.taken = set(_TAKEN)

    def text(self) -> str:
        inputs = [self._variable(value) for value in self.graph.inputs]
        layers = [self._constant(value) for value in self.graph.constants if value.uses]
        lines: list[str] = []
        for node in self.graph:
            if node.word.startswith("nn.") and node.word != "nn.Identity":
                layers.append(self._module(node))
            lines += self._node(node)
        outputs = self._results()
        made = [line for layer in layers for line in layer.lines]
        head = _HEAD.format(
            title=_UNNAMED.sub("_", self.graph.name) or "A model",
            archive=self.archive,
            results=_counted(len(outputs), "result"),
            inputs=_counted(len(inputs), "input"),
        )
        body = ["        with zipfile.ZipFile(WEIGHTS) as archive:"] if any("archive" in line for line in made) else []
        indent = "    " if body else ""
        body += [f"        {indent}{line}" for line in made] or ["        pass"]
        forward = ["", f"    def forward(self, {', '.join(inputs)}):" if inputs else "    def forward(self):"]
        forward += [f"        {line}" for line in [*lines, f"return {', '.join(outputs)}"]]
        samples = ", ".join(_sample(value) for value in self.graph.inputs)
        return head + "\n".join([*body, *forward]) + "\n" + _TAIL.format(samples=samples)

    def _results(self) -> list[str]:
        found: list[str] = []
        for value in self.graph.outputs:
            made = value.producer
            packed = made is not None and made.word == "prim::TupleConstruct"
            found += [self._read(each) for each in (made.operands if packed and made is not None else [value])]
        return found

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _fresh(self, name: str, start: str) -> str:
        found = base = f"{start}{_UNNAMED.sub('_', name)}" if not name[:1].isalpha() else _UNNAMED.sub("_", name)
        count = 1
        while found in self.taken or keyword.iskeyword(found):
            count += 1
            found = f"{base}_{count}"
        self.taken.add(found)
        return found

    def _variable(self, value: Value) -> str:
        if value not in self.variables:
            self.variables[value] = self._fresh(value.name, "v")
        return self.variables[value]

    def _read(self, value: Value) -> str:
        return self._variable(value)

    # ── what the model owns ──────────────────────────────────────────────────────────────────────────────────────────

    def _constant(self, value: Value) -> _Layer:
        name = self._fresh(value.name, "c")
        self.variables[value] = f"self.{name}"
        storage = value.storage
        if storage is None:
            raise CodeError(f"the numbers of {value.name} are not there")
        return _Layer(name, [f"self.register_buffer({name!r}, {self._weight(f'{self.names[value]}.data', storage)})"])

    def _weight(self, name: str, storage: Storage) -> str:
        if storage.dtype not in _TYPES:
            raise CodeError(f"{name} is {storage.dtype}")
        shape = "".join(f", {length}" for length in storage.shape)
        return f"weight(archive, {name!r}, torch.{_TYPES[storage.dtype]}{shape})"

    def _module(self, node: Node) -> _Layer:
        name = self._fresh(node.name or node.word, "m")
        owner = self.names[node.results[0]]
        given = {key: value for key, value in node.attributes.items() if not key.startswith(("@", _KEYS))}
        lines = [f"self.{name} = {_dotted(node.word)}({_arguments(given)})"]
        for key, storage in node.attributes.items():
            if key.startswith("@") and isinstance(storage, Storage):
                part = _dotted(key[1:])
                lines.append(f"self.{name}.{part}.data = {self._weight(f'{owner}.{part}', storage)}")
        self.modules[node] = name
        return _Layer(name, lines)

    # ── what it does ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _node(self, node: Node) -> list[str]:
        word = node.word
        if word == "prim::TupleConstruct":
            return []
        operands = [self._read(value) for value in node.operands]
        attributes = {key: value for key, value in node.attributes.items() if not key.startswith(("@", _KEYS))}
        keys = node.attributes.get(_KEYS)
        named = [str(key) for key in keys] if isinstance(keys, tuple) else []
        if word == "nn.Identity":
            return self._assigned(node, operands[0])
        if word in _STATES:
            return self._recurrent(node, operands)
        if word.startswith("nn."):
            return self._assigned(node, f"self.{self.modules[node]}({', '.join(operands)})")
        if word == "Expression":
            return self._expression(node, operands)
        if word.startswith("Tensor."):
            is_tensor = node.operands[0] not in self.numbers
            method = self._method(word.removeprefix("Tensor."), operands, named, attributes, is_tensor=is_tensor)
            return self._assigned(node, method)
        if word in _LISTED:
            listed = f"[{', '.join(operands)}]" if word != "torch.einsum" else ", ".join(operands)
            first = [repr(attributes.pop("equation"))] if "equation" in attributes else []
            return self._assigned(node, f"{word}({', '.join([*first, listed, *_pairs(attributes)])})")
        if not word.startswith(("torch.", "F.")) and word not in _FUNCTIONS:
            raise CodeError(f"{node.name or word} is {word}")
        if word in _OPERANDS:
            named = [_OPERANDS[word]]
        if word == "torch.arange":
            return self._assigned(node, _range({**attributes, **dict(zip(named or ["end"], operands, strict=False))}))
        given = [f"{_dotted(key)}={operand}" for key, operand in zip(named, operands, strict=False)]
        text = ", ".join([*(given or operands), *_pairs(attributes)])
        return self._assigned(node, f"{_FUNCTIONS.get(word) or _dotted(word)}({text})")

    def _assigned(self, node: Node, text: str) -> list[str]:
        names = [self._variable(value) for value in node.results]
        comma = "," if node.word in _PARTS and len(names) == 1 else ""
        return [f"{', '.join(names)}{comma} = {text}"] if names else []

    def _recurrent(self, node: Node, operands: Sequence[str]) -> list[str]:
        count = _STATES[node.word]
        states = operands[1:]
        given = [operands[0], *([f"({', '.join(states)})" if count > 1 else states[0]] if states else [])]
        names = [self._variable(value) for value in node.results]
        names += [f"_{place}" for place in range(len(names), count + 1)]
        last = f"({', '.join(names[1:])})" if count > 1 else names[1]
        return [f"{names[0]}, {last} = self.{self.modules[node]}({', '.join(given)})"]

    def _expression(self, node: Node, operands: Sequence[str]) -> list[str]:
        text = str(node.attributes.get("expr", ""))
        try:
            tree = parse(text, ARITIES, lenient=True).tree
        except DiagnosticError as error:
            raise CodeError(f"the expression {text}") from error
        numbers = [value in self.numbers for value in node.operands]
        found = expression_code(tree, operands, numbers)
        if found.kind is Number.NUMBER:
            self.numbers.update(node.results)
        return self._assigned(node, found.text)

    def _method(
        self, word: str, operands: list[str], named: list[str], attributes: dict[str, Any], *, is_tensor: bool
    ) -> str:
        x = operands[0] if is_tensor else f"torch.as_tensor({operands[0]})"
        given = {**attributes, **{key: _Code(code) for key, code in zip(named[1:], operands[1:], strict=False)}}
        match word:
            case "reshape" | "view":
                return f"{x}.{word}({_stated(given['shape'])})"
            case "permute":
                return f"{x}.permute({_stated(given['dims'])})"
            case "expand" | "repeat":
                return f"{x}.{word}({_stated(given['sizes'])})"
            case "select":
                return f"{x}.select({_stated(given['dim'])}, {_stated(given['index'])})"
            case "to":
                return f"{x}.to(dtype={given['dtype']})"
            case "slice":
                return _slice(x, given)
            case "index":
                return f"{x}[tuple({_stated(given['expr'])})]"
            case "index_put":
                accumulate = _stated(given.get("accumulate", False))
                return f"{x}.index_put(tuple({_stated(given['indices'])}), {_stated(given['values'])}, {accumulate})"
            case _:
                raise CodeError(f"the method {word}")


class _Code(str):
    """A piece of code, not a text."""

    __slots__ = ()


def _range(given: Mapping[str, Any]) -> str:
    """Its bounds have no names of their own."""
    bounds = [
        _stated(_Code(given[key]) if isinstance(given.get(key), str) else given.get(key, default))
        for key, default in (("start", 0), ("end", 0), ("step", 1))
    ]
    dtype = given.get("dtype")
    return f"torch.arange({', '.join(bounds)}{'' if dtype is None else f', dtype={_stated(dtype)}'})"


def _dotted(name: str) -> str:
    """A name that comes from a file, where code has a name."""
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split(".")):
        message = f"{name!r} is no name"
        raise CodeError(message)
    return name


def _slice(x: str, given: Mapping[str, Any]) -> str:
    """One axis; what it is cut to is a slice of Python."""
    if "dim" not in given:
        raise CodeError("a slice of several axes")
    start, end, step = (given.get(key) for key in ("start", "end", "step"))
    bounds = ["" if bound is None or bound in (0, _END) else _stated(bound) for bound in (start, end)]
    bounds[1] = "0" if end == 0 else bounds[1]
    by = "" if step in (None, 1) else f":{_stated(step)}"
    axes = ":, " * int(given["dim"])
    return f"{x}[{axes}{bounds[0]}:{bounds[1]}{by}]"


def _stated(value: Any) -> str:
    """A value of a parameter as Python has it."""
    if isinstance(value, _Code):
        return str(value)
    if is_sequence(value):
        items = [_stated(item) for item in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, str):
        return value if _DTYPE.fullmatch(value) else repr(value)
    if isinstance(value, float) and not isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _pairs(attributes: Mapping[str, Any]) -> list[str]:
    return [f"{_dotted(key)}={_stated(value)}" for key, value in attributes.items()]


def _arguments(attributes: Mapping[str, Any]) -> str:
    return ", ".join(_pairs(attributes))


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def _sample(value: Value) -> str:
    """Numbers for an input; open lengths are some."""
    fact = value.fact
    dims = fact.shape or () if isinstance(fact, TensorFact) else ()
    shape = ", ".join(str(dim) if isinstance(dim, int) else "4" for dim in dims)
    dtype = fact.dtype if isinstance(fact, TensorFact) else None
    if dtype is None or dtype.is_floating:
        cast = "" if dtype in (None, DType.FLOAT32) else f".to(torch.{_TYPES.get(dtype, 'float32')})"
        return f"torch.rand({shape or '()'}){cast}"
    return f"torch.zeros({shape or '()'}, dtype=torch.{_TYPES.get(dtype, 'int64')})"
