"""Models generated from operator signatures: one operator, some of its operands, results or attributes wrong.

A base is either a node test of the `onnx` package, also converted to another format, or an operator of a dialect's
table with random operands. One to three mutations are applied to the graph, and the format's writer writes it
unchecked: an operand is absent, additional, constant or not, of another rank, element type or dim; a result is
additional or absent; an attribute is missing, of another type, or at the limit of its range.
"""

from __future__ import annotations

import inspect
import random
import re
import struct
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx

from graphport import DiagnosticError, Model, formats, load, save
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, OptionalFact, SequenceFact, TensorFact
from graphport.core.storage import ArrayStorage
from graphport.ir.graph import Graph, Node, Value, walk
from graphport.ir.rewrite import copy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.core.facts import Fact

KINDS = {
    "signatures": ("onnx", "m.onnx"),
    "signatures.com.microsoft": ("com.microsoft", "m.onnx"),
    "signatures.openvino": ("openvino", "m.xml"),
    "signatures.tflite": ("tflite", "m.tflite"),
    "signatures.nnef": ("nnef", "m.nnef"),
}
"""Kind of seed: the dialect of its nodes and the name of its file."""
MAX_BASE_BYTES = 20_000
MAX_BASE_NODES = 4
MAX_CONSTANT = 1 << 12
NEWEST_CONTRIB = 1
SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (1,),
    (4,),
    (2, 4),
    (1, 4, 4),
    (1, 4, 4, 4),
    (1, 4, 2, 2, 2),
    (0,),
    (1, 0, 4, 4),
)
DTYPES = (*[DType.FLOAT32] * 8, *[DType.INT64] * 4, DType.INT32, DType.BOOL, DType.FLOAT16, DType.UINT8, DType.INT8)
NUMBERS = (0, 1, -1, 2, 3, 4, 7, -2, 127, 255, -128, 2**31 - 1, -(2**31), 2**62, -(2**63))
OTHER_ATTRIBUTES = (
    *NUMBERS,
    0.0,
    1.5,
    -0.5,
    1e30,
    "",
    "x",
    "NOTSET",
    "SAME_UPPER",
    (),
    (0,),
    (1, 1),
    (-1, 0),
    (1.5,),
    ("a",),
    (2,) * 4,
    (3,) * 8,
)


class Base(NamedTuple):
    """A graph in a dialect, and arrays for its inputs."""

    graph: Graph
    arrays: Mapping[str, Any]


def signature_case(kind: str, number: int, every: int = 1) -> dict[str, bytes] | None:
    """Return the files of case `number` (reproducible); `None` if the writer refuses the mutated graph.

    Bases are each `every`-th node test.
    """
    dialect, name = KINDS[kind]
    chance = random.Random(f"{kind}/{number}")  # noqa: S311  cases must be reproducible
    if dialect == "nnef":
        return {name: nnef_text(chance).encode()}
    bases = known_bases(dialect, every)
    base = chance.choice(bases) if bases and chance.random() < 0.6 else _from_table(chance, dialect)
    graph = copy(base.graph)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        _mutate(chance, graph, base.arrays)
    for value in graph.outputs:
        if value.fact == UNKNOWN:
            value.fact = TensorFact(DType.FLOAT32, None)
    # Readers never create an attribute of a type that the format lacks, so writers need not support it.
    with TemporaryDirectory() as folder, suppress(DiagnosticError, TypeError, ValueError, LookupError, struct.error):
        save(Model(graph, format=_format(dialect)), Path(folder) / name)
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        return {name: _without_types(files[name])} if name.endswith(".onnx") else files
    return None


def _without_types(model: bytes) -> bytes:
    """Remove the declared result types of an ONNX model: mutations change them."""
    proto = onnx.ModelProto.FromString(model)
    for output in proto.graph.output:
        output.ClearField("type")
    del proto.graph.value_info[:]
    return proto.SerializeToString()


def _format(dialect: str) -> str:
    return dialect if dialect in formats.FORMATS else "onnx"


# Bases


@cache
def known_bases(dialect: str, every: int = 1) -> Sequence[Base]:
    """Return each `every`-th node test of the `onnx` package, in a dialect."""
    if dialect not in formats.FORMATS or dialect == "nnef":
        return ()
    found: list[Base] = []
    for model, arrays in _node_tests()[:: every if dialect == "onnx" else 5 * every]:
        with TemporaryDirectory() as folder, suppress(DiagnosticError):
            path = Path(folder) / "m.onnx"
            path.write_bytes(model)
            if dialect != "onnx":
                ending = formats.FORMATS[dialect].endings[0]
                save(load(path), Path(folder) / f"o{ending}")
                path = Path(folder) / f"o{ending}"
            graph = load(path, raw=True).graph
            # Files are removed: read elements now.
            for inner in walk(graph):
                for value in inner.values():
                    if value.storage is not None:
                        value.storage = ArrayStorage(value.storage.numpy().copy(), value.storage.dtype)
            found.append(Base(graph, arrays))
    return found


@cache
def _node_tests() -> list[tuple[bytes, dict[str, Any]]]:
    from onnx.backend.test.loader import load_node_model_tests

    found: list[tuple[bytes, dict[str, Any]]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in load_node_model_tests():
            model, tests = case.model, case.data_sets
            if model is None or not tests or len(model.graph.node) > MAX_BASE_NODES:
                continue
            names = [value.name for value in model.graph.input]
            given: Sequence[Any] = tests[0][0]
            arrays = {k: v for k, v in zip(names, given, strict=False) if isinstance(v, np.ndarray)}
            data = model.SerializeToString()
            if len(data) <= MAX_BASE_BYTES:
                found.append((data, arrays))
    return found


# Operators of tables


class Signature(NamedTuple):
    """An operator: its name, opset version, range of operand counts, number of results, attributes."""

    op_type: str
    version: int | None
    least: int
    most: int
    results: int
    attributes: Mapping[str, Callable[[random.Random], Any]]
    dialect: str


def _from_table(chance: random.Random, dialect: str) -> Base:
    signature = chance.choice(signatures(dialect))
    opsets = {signature.dialect: signature.version} if signature.version is not None else {}
    graph = Graph("g", opsets=opsets)
    shape = chance.choice(SHAPES)
    operands: list[Value | None] = []
    count = chance.randint(signature.least, max(signature.least, min(signature.most, signature.least + 3)))
    for index in range(count):
        dtype = chance.choice(DTYPES)
        fact = TensorFact(dtype, shape if chance.random() < 0.5 else chance.choice(SHAPES))
        if index and chance.random() < 0.5:
            operands.append(_constant(chance, graph, fact))
        else:
            operands.append(graph.add_input(f"x{index}", fact))
    attributes = {name: draw(chance) for name, draw in signature.attributes.items() if chance.random() < 0.7}
    results = [Value(graph.fresh(f"y{index}"), UNKNOWN) for index in range(signature.results)]
    graph.append(Node(signature.op_type, operands, results, attributes, dialect=signature.dialect))
    for value in results:
        graph.add_output(value)
    if dialect in ("openvino", "tflite"):
        for value in results:
            value.fact = TensorFact(chance.choice(DTYPES), chance.choice(SHAPES))
    return Base(graph, {})


@cache
def signatures(dialect: str) -> list[Signature]:
    """Return all operators of a dialect's table."""
    match dialect:
        case "onnx":
            return list(_of_onnx())
        case "openvino":
            return _of_openvino()
        case "tflite":
            return _of_tflite()
        case _:
            return _of_rules(dialect)


def _of_onnx() -> list[Signature]:
    from onnx import defs

    schemas = defs.get_all_schemas_with_history()
    found: list[Signature] = []
    for schema in schemas:
        dialect = schema.domain or "onnx"
        drawn = {
            name: _of_type(str(attribute.type).rpartition(".")[2])
            for name, attribute in schema.attributes.items()
            if "GRAPH" not in str(attribute.type)
        }
        results = min(max(schema.min_output, 1), 3)
        found.append(
            Signature(schema.name, schema.since_version, schema.min_input, schema.max_input, results, drawn, dialect)
        )
    return found


def _of_type(name: str) -> Callable[[random.Random], Any]:
    def draw(chance: random.Random) -> Any:
        one: Callable[[], Any] = {
            "INT": lambda: chance.choice(NUMBERS),
            "FLOAT": lambda: chance.choice((0.0, 1.0, 0.5, -1.0, 1e-5, float("inf"), float("nan"))),
            "STRING": lambda: chance.choice(("", "NOTSET", "SAME_UPPER", "VALID", "linear", "constant", "none", "add")),
        }.get(name.removesuffix("S"), lambda: chance.choice(NUMBERS))
        return tuple(one() for _ in range(chance.randint(0, 8))) if name.endswith("S") else one()

    return draw


def _of_openvino() -> list[Signature]:
    from graphport.formats.openvino.container.operators import table

    kinds = {
        "int": "INT",
        "float": "FLOAT",
        "bool": "INT",
        "ints": "INTS",
        "floats": "FLOATS",
        "strs": "STRINGS",
        "shape": "INTS",
    }
    found: list[Signature] = []
    for each in (version for versions in table().values() for version in versions):
        drawn = {k.name: _of_type(kinds.get(k.kind, "STRING")) for k in each.keywords}
        low, high = _counts("openvino", each.op_type)
        found.append(Signature(each.op_type, None, low, high, 1, drawn, "openvino"))
    return found


def _of_tflite() -> list[Signature]:
    from graphport.formats.tflite.container.schema import OPERATORS, TABLES

    kinds = {"i": "INT", "b": "INT", "B": "INT", "q": "INT", "I": "INT", "f": "FLOAT", "?": "INT", "s": "STRING"}
    found: list[Signature] = []
    for each in OPERATORS:
        fields = TABLES.get(each.options, ())
        drawn = {f.name: _of_type("INTS" if f.is_vector else kinds.get(f.kind, "INT")) for f in fields}
        low, high = _counts("tflite", each.name)
        found.append(Signature(each.name, None, low, high, 1, drawn, "tflite"))
    return found


def _of_rules(dialect: str) -> list[Signature]:
    from graphport.ops import registry
    from graphport.ops.declare import IMPORT_RULES

    registry.load(dialect)
    names = {op_type for each, op_type in IMPORT_RULES if each == dialect} | set(registry.patterns(dialect))
    found: list[Signature] = []
    for name in sorted(names):
        parameters = _parameters(dialect, name)
        drawn = {p.name: _of_default(p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}
        low, high = _counts(dialect, name)
        version = NEWEST_CONTRIB if dialect.startswith("com.") else None
        found.append(Signature(name, version, low, high, 1, drawn, dialect))
    return found


def _of_default(default: object) -> Callable[[random.Random], Any]:
    match default:
        case float():
            return _of_type("FLOAT")
        case str():
            return _of_type("STRING")
        case tuple() | list():
            return _of_type("INTS")
        case _:
            return _of_type("INT")


def _parameters(dialect: str, op_type: str) -> list[inspect.Parameter]:
    from graphport.ops import registry

    rule = registry.lowering(dialect, op_type)
    try:
        return [] if rule is None else list(inspect.signature(registry.row(rule)).parameters.values())[1:]
    except (TypeError, ValueError):
        return []


def _counts(dialect: str, op_type: str) -> tuple[int, int]:
    """Return the range of operand counts according to the signature of its import rule; (1, 4) if unknown."""
    parameters = [p for p in _parameters(dialect, op_type) if p.kind is not p.KEYWORD_ONLY]
    if not parameters or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 1, 4
    return sum(p.default is p.empty for p in parameters), len(parameters)


# Mutations


def _mutate(chance: random.Random, graph: Graph, arrays: Mapping[str, Any]) -> None:
    nodes = [node for inner in walk(graph) for node in inner if node.op_type != "Constant"]
    if not nodes:
        return
    node = chance.choice(nodes)
    roll = chance.random()
    if roll < 0.2:
        _mutate_count(chance, graph, node)
    elif roll < 0.75 and node.inputs:
        _mutate_operand(chance, graph, node, arrays)
    elif roll < 0.82:
        _mutate_results(chance, graph, node)
    else:
        _mutate_attribute(chance, node)


def _mutate_count(chance: random.Random, graph: Graph, node: Node) -> None:
    inputs = list(node.inputs)
    match chance.randrange(4):
        case 0 if inputs:
            inputs.pop()
        case 1:
            inputs += [chance.choice(inputs) if inputs else None, graph.inputs[0] if graph.inputs else None]
        case 2:
            inputs = [None] * len(inputs)
        case _ if inputs:
            inputs[chance.randrange(len(inputs))] = None
        case _:
            return
    node.inputs = inputs


def _mutate_operand(chance: random.Random, graph: Graph, node: Node, arrays: Mapping[str, Any]) -> None:
    index = chance.randrange(len(node.inputs))
    value = node.inputs[index]
    fact = value.fact if value is not None else TensorFact(DType.FLOAT32, (1,))
    dtype, shape = (fact.dtype, fact.shape) if isinstance(fact, TensorFact) else (DType.FLOAT32, (2,))
    is_constant = value is not None and (value.is_constant or value.producer is not None)
    match chance.randrange(10):
        case 0 | 1:
            shape = chance.choice(SHAPES)
        case 2:
            shape = (*(shape or ()), 1) if chance.random() < 0.5 else (shape or ())[1:]
        case 3:
            dtype = chance.choice(
                (
                    DType.FLOAT32,
                    DType.INT64,
                    DType.INT32,
                    DType.BOOL,
                    DType.FLOAT16,
                    DType.STRING,
                    DType.UINT8,
                    DType.INT8,
                    DType.FLOAT64,
                    DType.COMPLEX64,
                )
            )
        case 4 if shape:
            place = chance.randrange(len(shape))
            shape = (*shape[:place], chance.choice((0, 1, 5, 1 << 40)), *shape[place + 1 :])
        case 5 if shape:
            place = chance.randrange(len(shape))
            shape = (*shape[:place], Symbol("n"), *shape[place + 1 :])
        case 6:
            is_constant, shape = False, None
        case 7:
            is_constant = True
        case 8:
            is_constant = False
        case _:
            node.set_input(
                index, graph.add_input("other", chance.choice((SequenceFact(fact), OptionalFact(fact), UNKNOWN)))
            )
            return
    new: Fact = TensorFact(dtype, shape)
    known = None if value is None else arrays.get(value.name)
    if is_constant and shape is not None and all(isinstance(dim, int) for dim in shape) and dtype is not None:
        if known is not None and chance.random() < 0.5:
            with suppress(ValueError, TypeError):
                made = np.asarray(known)
                storage = ArrayStorage(made, DType.of(str(made.dtype)) if made.dtype.kind != "O" else DType.STRING)
                node.set_input(index, graph.root.add_constant("c", TensorFact.of(storage), storage))
                return
        node.set_input(index, _constant(chance, graph.root, replace(new, elements=None)))
    else:
        node.set_input(index, graph.root.add_input("other", new))


def _constant(chance: random.Random, graph: Graph, fact: TensorFact) -> Value:
    shape = tuple(int(dim) for dim in fact.shape or ())  # type: ignore[arg-type]
    dtype = fact.dtype or DType.FLOAT32
    count = int(np.prod(shape, dtype=object))
    if not 0 <= count <= MAX_CONSTANT:
        return graph.add_input("other", fact)
    numbers = [chance.choice(NUMBERS[:6]) if chance.random() < 0.95 else chance.choice(NUMBERS) for _ in range(count)]
    if dtype is DType.STRING:
        array: Any = np.array([str(n) for n in numbers], object).reshape(shape)
    else:
        with np.errstate(all="ignore"):
            array = np.array(numbers, np.float64).astype(dtype.numpy).reshape(shape)
    storage = ArrayStorage(array, dtype)
    return graph.add_constant("c", TensorFact.of(storage), storage)


def _mutate_results(chance: random.Random, graph: Graph, node: Node) -> None:
    outputs = list(node.outputs)
    home = node.graph or graph
    if chance.random() < 0.6 or len(outputs) < 2:
        made = Node(
            node.op_type,
            node.inputs,
            [Value(home.fresh(v.name if v else "y"), v.fact if v else UNKNOWN) for v in (*outputs, None)],
            {},
            dialect=node.dialect,
        )
        if node.has_bodies:
            return
        made.attributes = dict(node.attributes)
        home.insert_before(node, made)
        for old, new in zip(node.outputs, made.outputs, strict=False):
            if old is not None and new is not None:
                old.replace_uses(new)
        home.remove(node)
        if chance.random() < 0.5 and home is graph:
            graph.add_output(made.results[-1])
        return
    place = chance.randrange(len(outputs))
    value = outputs[place]
    if value is not None and not value.uses:
        node.drop_output(place)


def _mutate_attribute(chance: random.Random, node: Node) -> None:
    plain = [name for name, value in node.attributes.items() if not isinstance(value, Graph)]
    if not plain or chance.random() < 0.1:
        node.set_attribute(chance.choice(("axis", "alpha", "pads", "group", "bogus")), chance.choice(OTHER_ATTRIBUTES))
        return
    name = chance.choice(plain)
    old = node.attributes[name]
    match chance.randrange(4):
        case 0:
            node.remove_attribute(name)
        case 1:
            node.set_attribute(name, chance.choice(OTHER_ATTRIBUTES))
        case 2 if isinstance(old, tuple):
            node.set_attribute(name, old[1:] if chance.random() < 0.5 else (*old, *old[:1]))
        case _:
            node.set_attribute(name, _edge(chance, old))


def _edge(chance: random.Random, old: Any) -> Any:
    """Return another value of the type of `old`, at the limit of its range."""
    match old:
        case bool():
            return not old
        case int():
            return chance.choice(NUMBERS)
        case float():
            return chance.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
        case str():
            return chance.choice(("", "x", old.lower(), old.upper()))
        case tuple() if old and not isinstance(old[0], Graph):
            place = chance.randrange(len(old))
            return (*old[:place], _edge(chance, old[place]), *old[place + 1 :])
        case _:
            return chance.choice(OTHER_ATTRIBUTES)


# NNEF: calls as text


class _Parameter(NamedTuple):
    name: str
    type: str
    default: str


@cache
def _fragments() -> list[tuple[str, list[_Parameter], int]]:
    """Return name, parameters and number of results of each fragment of the NNEF standard and of tract's registries."""
    folder = Path(formats.__file__).parent / "nnef" / "container"
    text = "".join(path.read_text() for name in ("stdlib.nnef", "registries.nnef") for path in folder.rglob(name))
    found: list[tuple[str, list[_Parameter], int]] = []
    for name, stated, results in _FRAGMENT.findall(re.sub("#.*", "", text)):
        parameters: list[_Parameter] = []
        for parameter in _COMMA.split(stated):
            key, _, rest = parameter.partition(":")
            kind, _, default = rest.partition("=")
            parameters.append(_Parameter(key.strip(), kind.strip(), default.strip()))
        if name not in ("external", "variable"):
            found.append((name, parameters, results.count(":")))
    return found


_FRAGMENT = re.compile(r"fragment\s+(\w+)(?:<[^>]*>)?\s*\((.*?)\)\s*->\s*\((.*?)\)\s*;", re.DOTALL)
_COMMA = re.compile(r",(?![^(]*\))")
_LITERALS = ("0", "1", "-1", "2", "4", "0.0", "1.5", "-2.5", "true", "false", "''", "'constant'", "[]", "[1]", "(1,2)")
_STRINGS = ("constant", "ignore", "reflect", "replicate", "aligned", "symmetric", "add", "i64", "f32", "bogus", "")


def nnef_text(chance: random.Random) -> str:
    """Return the text of a graph with one call, most of whose arguments have their declared types."""
    name, parameters, results = chance.choice(_fragments())
    shape = chance.choice(SHAPES)
    lines: list[str] = []
    arguments: list[str] = []
    for parameter in parameters:
        if (parameter.default and chance.random() < 0.5) or chance.random() < 0.02:
            continue
        arguments.append(f"{parameter.name} = {_nnef_argument(chance, parameter.type, shape, lines)}")
    if chance.random() < 0.03:
        arguments.append("bogus = 1")
    made = [f"y{index}" for index in range(results if chance.random() < 0.97 else results + 1)]
    left = made[0] if len(made) == 1 else f"({', '.join(made)})"
    inputs = [line.split(" =")[0].strip() for line in lines if "external" in line]
    body = "\n".join([*lines, f"    {left} = {name}({', '.join(arguments)});"])
    flavour = "extension tract_registry tract_core;\n" if name.startswith("tract") or chance.random() < 0.2 else ""
    return f"version 1.0;\n{flavour}\ngraph g({', '.join(inputs)}) -> ({', '.join(made)})\n{{\n{body}\n}}\n"


def _nnef_argument(chance: random.Random, kind: str, shape: Sequence[int], lines: list[str]) -> str:
    if chance.random() < 0.04:
        return chance.choice(_LITERALS)
    if kind.endswith("[]"):
        items = [_nnef_argument(chance, kind[:-2], shape, lines) for _ in range(chance.choice((0, 1, 2, 2, 4, 4, 5)))]
        return f"[{', '.join(items)}]"
    if kind.startswith("("):
        return f"({', '.join(_nnef_argument(chance, each.strip(), shape, lines) for each in kind[1:-1].split(','))})"
    match kind:
        case "integer":
            return str(chance.choice((0, 0, 1, 1, 1, 2, 2, 3, 4, -1, *NUMBERS)))
        case "logical":
            return chance.choice(("true", "false"))
        case "string":
            return f"'{chance.choice(_STRINGS)}'"
        case "scalar" | "?":
            return chance.choice(("0.0", "1.0", "0.5", "-1.0", "1e30", "1e-30"))
        case _:
            return _nnef_tensor(chance, kind, shape, lines)


def _nnef_tensor(chance: random.Random, kind: str, shape: Sequence[int], lines: list[str]) -> str:
    element = kind.removeprefix("tensor<").removesuffix(">").replace("?", "scalar")
    if chance.random() < 0.05:
        element = chance.choice(("integer", "logical", "scalar"))
    dims = list(shape if chance.random() < 0.6 else chance.choice(SHAPES))
    literal = {"integer": "1", "logical": "true"}.get(element, "1.0")
    roll = chance.random()
    if roll < 0.1:
        return literal
    label = f"x{len(lines)}"
    if roll < 0.25:
        lines.append(f"    {label} = constant<{element}>(shape = {dims}, value = [{literal}]);")
    else:
        lines.append(f"    {label} = external<{element}>(shape = {dims});")
    return label
