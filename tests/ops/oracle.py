"""ONNX Runtime as the judge of pages: one-node models, and pages held against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from graphport.conversion.export import export_graph
from graphport.conversion.legalize import legalize
from graphport.core.dims import Symbol, Symbolic, evaluate, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage, storage_of
from graphport.ir.graph import Graph, Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import OPSET, OpDef
from graphport.ops.infer import Inference

Array = np.ndarray[Any, Any]

_TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-9}
_PLAIN = frozenset(
    {"float", "double", "float16", "bool", "string", *(f"{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64))}
)


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of all parts; of those named twice, the last."""
    return {name: value for part in parts for name, value in part.items()}


def run_ort(
    op: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    opset: int = OPSET,
    outputs: int = 1,
    domain: str = "",
) -> list[Array]:
    """The first `outputs` results of one node in ONNX Runtime; types that NumPy lacks come back as float32 or int8."""
    model, feeds = one_node(op, inputs, attributes, opset=opset, outputs=outputs, domain=domain)
    session = _session(model)
    exotic = {o.name: _element(o.type) for o in session.get_outputs() if _element(o.type) not in _PLAIN}
    if exotic:
        session = _session(_widened(model, exotic))
    return [np.asarray(result) for result in session.run(None, feeds)]


def one_node(
    op: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    opset: int = OPSET,
    outputs: int = 1,
    domain: str = "",
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of one node, and what to feed it with; what NumPy has no type for is an initializer."""
    names = ["" if x is None else f"i{number}" for number, x in enumerate(inputs)]
    # ONNX Runtime 1.31 dies of a trailing empty name where it expects a bias.
    while names and not names[-1]:
        names.pop()
    given = {name: x for name, x in zip(names, inputs, strict=False) if x is not None}
    said = {key: _attribute(value) for key, value in (attributes or {}).items() if value is not None}
    results = [f"o{number}" for number in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **said)
    feeds = {name: x for name, x in given.items() if str(x.dtype) in _NUMPY}
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(name, _onnx_type(x), x.shape) for name, x in feeds.items()],
        [onnx.ValueInfoProto(name=name) for name in results],
        [numpy_helper.from_array(x, name) for name, x in given.items() if name not in feeds],
    )
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(
        graph, opset_imports=imports, ir_version=min(11, helper.OP_SET_ID_VERSION_MAP.get(("", opset), 11))
    ), feeds


_NUMPY = frozenset(
    {"float32", "float64", "float16", "bool", "object", *(f"{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64))}
)


def _onnx_type(x: Array) -> int:
    return TensorProto.STRING if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype)


def _attribute(value: Any) -> Any:
    if isinstance(value, DType):
        return helper.np_dtype_to_tensor_dtype(value.numpy)
    if isinstance(value, Storage):
        return numpy_helper.from_array(value.numpy())
    return list(value) if isinstance(value, tuple) else value


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _element(text: str) -> str:
    return text.removeprefix("tensor(").removesuffix(")")


def _widened(model: onnx.ModelProto, exotic: Mapping[str, str]) -> onnx.ModelProto:
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for output in wide.graph.output:
        if output.name in exotic:
            to = TensorProto.INT8 if "int" in exotic[output.name] else TensorProto.FLOAT
            wide.graph.node.append(helper.make_node("Cast", [output.name], [f"{output.name}.wide"], to=to))
            output.name = f"{output.name}.wide"
    return wide


def check_operator(
    op_def: OpDef,
    inputs: Sequence[Array | None],
    *,
    outputs: int = 1,
    tolerance: float | None = None,
    opset: int = OPSET,
    **attributes: Any,
) -> list[Array]:
    """Hold a page's first results against ONNX Runtime, and its shape rule against them; return them.

    Where ONNX Runtime has no kernel for the newest form of the operator, `opset` names an older one of equal meaning.
    """
    found = run_operator(op_def, inputs, **attributes)[:outputs]
    expected = run_ort(op_def.name, inputs, attributes, opset=opset, outputs=outputs, domain=op_def.domain)
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        compare(a, b, tolerance=tolerance, what=f"{op_def.name}: result {number}")
    check_shapes(op_def, inputs, found, **attributes)
    return found


def compare(found: Array, expected: Array, *, tolerance: float | None = None, what: str = "") -> None:
    """Assert equal type (unless ONNX Runtime's result was widened), equal shape, and values within the tolerance."""
    dtype = str(found.dtype)
    assert dtype == str(expected.dtype) or dtype not in _NUMPY, f"{what}: {dtype}, {expected.dtype} expected"
    assert found.shape == expected.shape, f"{what}: {found.shape}, {expected.shape} expected"
    if found.dtype == object or found.dtype.kind in "iub":
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    limit = _TOLERANCES.get(dtype, 0.0) if tolerance is None else tolerance
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(found.astype(wide), expected.astype(wide), rtol=limit, atol=limit, err_msg=what)


def run_operator(op_def: OpDef, inputs: Sequence[Array | None], **attributes: Any) -> list[Array]:
    """All results of a page on arrays."""
    with np.errstate(all="ignore"):
        answer = op_def(*inputs, **attributes)
    return [np.asarray(x) for x in (answer if isinstance(answer, tuple) else (answer,))]


def check_shapes(op_def: OpDef, inputs: Sequence[Array | None], results: Sequence[Array], **attributes: Any) -> None:
    """Hold a shape rule against arrays: with the true dims, with symbols for them, and with unknown ranks."""
    inference = Inference()
    stored = {name: storage_of(a) if isinstance(a, np.ndarray) else a for name, a in attributes.items()}
    given = {name: a for name, a in stored.items() if a is not None}
    facts = [None if x is None else TensorFact.of(storage_of(x)) for x in inputs]
    for fact, result in zip(inference.infer_operator(op_def, facts, given, len(results)), results, strict=True):
        assert isinstance(fact, TensorFact)
        assert fact.dtype is DType.of(result.dtype)
        assert _may_be(fact, result.shape, {}), f"{op_def.name}: {fact}, computed {result.shape}"
    bindings: dict[str, int] = {}
    named: list[TensorFact | None] = []
    for number, fact in enumerate(facts):
        if fact is None:
            named.append(None)
            continue
        sizes = [n for n in fact.dims if isinstance(n, int)]
        bindings |= {f"d{number}_{axis}": n for axis, n in enumerate(sizes)}
        shape = tuple(Symbol(f"d{number}_{axis}", min(n, 1)) for axis, n in enumerate(sizes))
        named.append(TensorFact(fact.dtype, shape) if fact.elements is None else fact)
    for fact, result in zip(inference.infer_operator(op_def, named, given, len(results)), results, strict=True):
        assert isinstance(fact, TensorFact)
        assert _may_be(fact, result.shape, bindings), f"{op_def.name}: {fact} with {bindings}, computed {result.shape}"
    unknown = [None if fact is None else TensorFact(fact.dtype, None) for fact in facts]
    for fact, result in zip(inference.infer_operator(op_def, unknown, given, len(results)), results, strict=True):
        assert isinstance(fact, TensorFact)
        assert fact.dtype in (None, DType.of(result.dtype))
        assert _may_be(fact, result.shape, {}), f"{op_def.name}: {fact} from unknown ranks, computed {result.shape}"


def _may_be(fact: TensorFact, shape: Sequence[int], bindings: Mapping[str, int]) -> bool:
    if fact.shape is None:
        return True
    return len(fact.shape) == len(shape) and all(
        _fits(dim, n, bindings) for dim, n in zip(fact.shape, shape, strict=True)
    )


def _fits(dim: int | Symbolic, n: int, bindings: Mapping[str, int]) -> bool:
    if isinstance(dim, int):
        return dim == n
    return not all(name in bindings for name in symbols(dim)) or evaluate(dim, bindings) == n


def old_opset(
    op: str,
    opset: int,
    inputs: Sequence[Array | None],
    *,
    outputs: int = 1,
    tolerance: float | None = None,
    constants: Sequence[int] = (),
    **attributes: Any,
) -> list[Array]:
    """Run an operator of an old opset through its rule and the pages, hold it against ONNX Runtime; return ours."""
    found = run_word("onnx", op, inputs, opset=opset, outputs=outputs, constants=constants, **attributes)
    expected = run_ort(op, inputs, attributes, opset=opset, outputs=outputs)
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        compare(a, b, tolerance=tolerance, what=f"{op}-{opset}: result {number}")
    return found


def run_word(
    dialect: str,
    op_type: str,
    inputs: Sequence[Array | None],
    *,
    opset: int | None = None,
    outputs: int = 1,
    constants: Sequence[int] = (),
    literals: Sequence[int] = (),
    symbolic: bool = False,
    **attributes: Any,
) -> list[Array]:
    """Return the results of a dialect's op type, computed by its import rule and the operator definitions.

    Operands whose indices are in `constants` are constants, in `literals` literals; all others are inputs, with
    `symbolic` of unknown dims.
    """
    rule = registry.lowering(dialect, op_type, opset)
    assert rule is not None, f"{dialect}.{op_type} has no rule for opset {opset}"
    graph = Graph("one")
    values: list[Value | None] = []
    arrays: dict[Value, Array] = {}
    for number, x in enumerate(inputs):
        if x is None:
            values.append(None)
            continue
        constant = number in constants or number in literals
        value = _operand(graph, number, x, constant, symbolic=symbolic)
        value.is_literal = number in literals
        if not constant:
            arrays[value] = x
        values.append(value)
    builder = Builder(Inference(), graph, count=outputs, version=opset)
    results = registry.results(rule(builder, *values, **attributes))[:outputs]
    computed = evaluate_graph(graph, arrays)
    bindings = {
        f"i{n}_{axis}": size for n, x in enumerate(inputs) if x is not None for axis, size in enumerate(x.shape)
    }
    found: list[Array] = []
    for value in results:
        assert value is not None
        fact = value.fact
        assert isinstance(fact, TensorFact)
        assert _may_be(fact, computed[value].shape, bindings), (
            f"{dialect}.{op_type}: {fact}, not {computed[value].shape}"
        )
        found.append(computed[value])
    return found


def lowered_nodes(
    dialect: str, op_type: str, shapes: Sequence[Sequence[int]], **attributes: Any
) -> list[tuple[str, dict[str, Any]]]:
    """Return the canonical operators with attributes of an op type, for float32 operands of these shapes."""
    graph = Graph("one")
    facts = [TensorFact(DType.FLOAT32, tuple(shape)) for shape in shapes]
    values = [graph.add_input(f"i{number}", fact) for number, fact in enumerate(facts)]
    rule = registry.lowering(dialect, op_type)
    assert rule is not None, f"{dialect}.{op_type} has no rule"
    rule(Builder(Inference(), graph), *values, **attributes)
    return [(node.op, dict(node.attributes)) for node in graph]


def evaluate_graph(graph: Graph, inputs: Mapping[Value, Array]) -> dict[Value, Array]:
    """Every value of a canonical graph, by the pages."""
    arrays = dict(inputs) | {value: value.storage.numpy() for value in graph.constants if value.storage is not None}
    for node in graph:
        given = {name: a.numpy() if isinstance(a, Storage) else a for name, a in node.attributes.items()}
        operands = [None if value is None else arrays[value] for value in node.inputs]
        answer = run_operator(registry.op_defs()[node.op_type], operands, **given)
        for value, array in zip(node.outputs, answer, strict=False):
            if value is not None:
                arrays[value] = array
    return arrays


def there_and_back(
    op_def: OpDef,
    inputs: Sequence[Array | None],
    *,
    dialect: str = "nnef",
    constants: Sequence[int] = (),
    outputs: int = 1,
    tolerance: float | None = None,
    symbolic: bool = False,
    **attributes: Any,
) -> list[str] | None:
    """Export a node of `op_def` to `dialect`, legalize the result, and assert equal results.

    Return the exported op types, or `None` if the dialect has no equivalent. Operands whose indices are in `constants`
    are constants; with `symbolic`, the others have unknown dims.
    """
    graph = Graph("one")
    values: list[Value | None] = []
    arrays: dict[str, Array] = {}
    for number, x in enumerate(inputs):
        values.append(None if x is None else _operand(graph, number, x, number in constants, symbolic=symbolic))
        if x is not None and number not in constants:
            arrays[f"i{number}"] = x
    stored = {name: storage_of(a) if isinstance(a, np.ndarray) else a for name, a in attributes.items()}
    for result in Builder(Inference(), graph, count=outputs).results(op_def, outputs, *values, **stored):
        graph.add_output(result)
    said, findings = export_graph(graph, dialect)
    if findings:
        return None
    words = [node.op_type for node in said]
    back, findings = legalize(said)
    assert not findings, [finding.message for finding in findings]
    expected = run_operator(op_def, inputs, **attributes)[:outputs]
    computed = evaluate_graph(back, {value: arrays[value.name] for value in back.inputs})
    for value, array in zip(back.outputs, expected, strict=True):
        compare(computed[value], array, tolerance=tolerance, what=f"{op_def.name} as {words}")
    return words


def _operand(graph: Graph, number: int, x: Array, constant: bool, *, symbolic: bool) -> Value:
    storage = storage_of(x)
    if constant:
        return graph.add_constant(f"i{number}", TensorFact.of(storage), storage)
    shape = tuple(Symbol(f"i{number}_{axis}", min(n, 1)) for axis, n in enumerate(x.shape)) if symbolic else x.shape
    return graph.add_input(f"i{number}", TensorFact(storage.dtype, shape))
