"""Create nodes for operators of PyTorch and infer their facts; in-place writes are functionalized."""

from __future__ import annotations

from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core import budget
from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact, Unknown
from graphport.core.storage import ArrayStorage, storage_of
from graphport.core.storage import Storage as StoredNumbers
from graphport.formats.pytorch.graph_passes.functionalization import STRIDED, Functionalizer, RefusedWriteError
from graphport.formats.pytorch.rules.binding import COMPLEX, ITEM, KEYS
from graphport.formats.pytorch.rules.overloads import VIEWS, base_of, writes_first_operand
from graphport.formats.pytorch.torchscript.refusal import RefusedError, refuse
from graphport.formats.pytorch.torchscript.values import Kind, RuntimeScalar, Tensor
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import UncomputedError, folded
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.infer import Inference

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from graphport.core.diagnostics import Span
    from graphport.core.storage import Storage
    from graphport.ir.graph import Attribute

DIALECT = "pytorch"
MAX_FOLDED = 4096
"""Maximum elements of a tensor that is folded because a size or a condition depends on it."""
MAX_NODES = 12_000
"""Maximum nodes of one model, after unrolling loops and inlining calls."""
MAX_FOLD_STEPS = 2000
CAST = "aten.to.dtype"
_KINDS = {DType.INT64: "int", DType.BOOL: "bool"}
_DENSE_RESULTS = frozenset(
    f"aten.{name}"
    for name in (
        *("contiguous", "reshape", "flatten", "cat", "stack", "linear", "matmul", "bmm", "mm", "addmm", "layer_norm"),
        *(
            "zeros",
            "ones",
            "full",
            "empty",
            "arange",
            "embedding",
            "index",
            "gather",
            "upsample_nearest2d",
            "new_zeros",
        ),
    )
)
_LEADING_VIEWS = frozenset({"aten.slice", "aten.select", "aten.narrow", "aten.split", "aten.chunk", "aten.unbind"})
_DENSE_VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        *("alias", "detach", "view", "view_as", "unsqueeze", "squeeze", "unflatten", "reshape", "flatten", "to"),
        *("contiguous", "dropout", "type_as", "lift_fresh", "ravel", "reshape_as"),
    )
)


class Emitter:
    """Builder that appends nodes to the current graph."""

    def __init__(self, graph: Graph) -> None:
        self.root = graph
        self.graph = graph
        self.writes = Functionalizer(graph)
        self.inference = Inference()
        self.inference.meet(graph)
        self.origin: Span | None = None
        self.scope = ""
        self.shared: set[Value] = set()
        """Weights of which another weight shows the same bytes."""
        self.changing: set[str] = set()
        """Names of attributes that are states: their numbers are not those of every run."""
        self._nodes = 0
        self._most_nodes = budget.limit("torchscript.nodes", MAX_NODES)
        self._folded: dict[Value, Storage | None] = {}

    @contextmanager
    def inside(self, body: Graph) -> Generator[None]:
        """Append nodes to `body` inside the `with` block."""
        outer = self.graph
        self.graph.share_names(body)
        self.graph = self.writes.graph = body
        try:
            yield
        finally:
            self.graph = self.writes.graph = outer

    # Values

    def name(self, stem: str) -> str:
        """Return an unused name prefixed by the current module."""
        return self.graph.fresh(f"{self.scope}.{stem}" if self.scope else stem)

    def constant(self, data: Any, dtype: DType | None = None, name: str = "constant") -> Value:
        """Create a constant from a scalar, an array or a storage."""
        storage: Storage = data if isinstance(data, StoredNumbers) else storage_of(data, dtype)
        return self.root.adopt_constant(Value(self.name(name), TensorFact.of(storage), storage=storage))

    def now(self, value: Value) -> Value:
        """Return the value of a tensor after all writes so far."""
        last = self.graph.last_node
        found = self._run_write(lambda: self.writes.current(value))
        if self.graph.last_node is not last:
            self._infer_from(last)
        return found

    def fact(self, tensor: Tensor | RuntimeScalar) -> TensorFact:
        """Return the current fact of a tensor."""
        found = self.now(tensor.value).fact
        return found if isinstance(found, TensorFact) else UNKNOWN

    def shape(self, tensor: Tensor) -> tuple[Any, ...]:
        """Return the shape of a tensor.

        Raises:
            RefusedError: TS0009 the rank is unknown.
        """
        found = self.fact(tensor).shape
        if found is None:
            refuse("TS0009", f"unknown rank of %{tensor.value.name}")
        return found

    def dtype(self, tensor: Tensor | RuntimeScalar) -> DType:
        """Return the element type of a tensor.

        Raises:
            RefusedError: TS0009 the element type is unknown.
        """
        found = self.fact(tensor).dtype
        if found is None:
            refuse("TS0009", f"unknown element type of %{tensor.value.name}")
        return found

    def as_scalar(self, value: Value, kind: Kind | None = None) -> Any:
        """Return a scalar: a Python number if the fact has its element, else a graph value."""
        fact = value.fact
        if isinstance(fact, TensorFact) and fact.elements and isinstance(fact.elements[0], int):
            return bool(fact.elements[0]) if fact.dtype is DType.BOOL else fact.elements[0]
        known = kind or _KINDS.get(
            fact.dtype if isinstance(fact, TensorFact) and fact.dtype else DType.FLOAT64, "float"
        )
        return RuntimeScalar(value, known)  # pyright: ignore[reportArgumentType]  one of the kinds

    def operand(self, number: Any) -> Value:
        """Return a scalar as a graph value."""
        return number.value if isinstance(number, RuntimeScalar) else self.constant(number, name="number")

    # Nodes

    def node(
        self,
        op_type: str,
        operands: Sequence[tuple[str, Value | None, bool]],
        attributes: dict[str, Attribute] | None = None,
        count: int = 1,
    ) -> list[Value]:
        """Append an operator and return its results; operands are tuples of name, value, and whether it is a scalar.

        Results that the import rule does not compute are omitted.

        Raises:
            RefusedError: TS0006 the operator has no import rule, TS0011 the rule does not support the operands.
        """
        self._nodes += 1
        if self._nodes > self._most_nodes:
            help = (
                "check for endless loops or recursion, or set GRAPHPORT_LIMITS=torchscript.nodes=N to allow N operators"
            )
            refuse("TS0008", f"the code expands to more than {self._most_nodes} operators for these inputs", help=help)
        stem = op_type.split(".")[1] if "." in op_type else op_type
        results = [Value(self.name(stem)) for _ in range(count)]
        given = [value for _, value, _ in operands]
        stated: dict[str, Attribute] = dict(attributes or {})
        if given:
            stated[KEYS] = tuple(name for name, _, _ in operands)
        node = Node(
            op_type,
            given,
            results,
            stated,
            dialect=DIALECT,
            origin=self.origin,
            name=results[0].name if results else "",
        )
        self._cast_scalars_to_float32(node, [index for index, (_, _, is_scalar) in enumerate(operands) if is_scalar])
        last = self.graph.last_node
        self.graph.append(node)
        if writes_first_operand(op_type) and given and given[0] is not None:
            self._check_shared(given[0])
        self._run_write(lambda: self.writes.append(node))
        self._infer_from(last)
        self._note_strides(node)
        return [value for value in results if value.producer is not None]

    def _cast_scalars_to_float32(self, node: Node, numbers: Sequence[int]) -> None:
        """Cast run-time Python floats to float32 before operators on tensors, like PyTorch."""
        tensors = [v for i, v in enumerate(node.inputs) if v is not None and i not in numbers]
        dtypes = {v.fact.dtype for v in tensors if isinstance(v.fact, TensorFact)}
        if not tensors or DType.FLOAT64 in dtypes:
            return
        for index in numbers:
            value = node.inputs[index]
            if value is not None and value.dtype is DType.FLOAT64:
                node.set_input(index, self.node(CAST, [("self", value, False)], {"dtype": "torch.float32"})[0])

    def _check_shared(self, value: Value) -> None:
        if self.writes.root_of(value) in self.shared:
            refuse(
                "TS0009", f"an in-place write to the weight %{value.name}, which shares its storage with another weight"
            )

    def _run_write(self, act: Any) -> Any:
        try:
            return act()
        except RefusedWriteError as refused:
            refuse(
                "TS0009",
                f"unsupported in-place write: {refused}",
                help="write the module without in-place operators",
            )

    def _infer_from(self, last: Node | None) -> None:
        """Infer the facts of the nodes after `last`."""
        node = self.graph.first_node if last is None else last.next
        while node is not None:
            self._infer(node)
            node = node.next

    def _infer(self, node: Node) -> None:
        for value in node.results:
            if node.op_type != "aten.alias.default":
                value.fact = UNKNOWN
        if registry.lowering(DIALECT, node.op_type) is None and not self._is_complex(node):
            name = node.op_type.removeprefix("aten.").partition(".")[0]
            refuse("TS0006", f"unsupported operator aten::{name} ({node.op_type})", help="see `graphport ops`")
        if self._is_complex(node):
            self._infer_complex(node)
            return
        self._record_results(node)
        if self._is_unknown(node) and self._fold_operands(node):
            self._record_results(node)
        if self._is_unknown(node) and not (len(node.outputs) > 1 and self._infer_first(node)):
            self._explain(node)

    def _record_results(self, node: Node) -> None:
        before = len(self.inference.findings)
        self.inference.settle(node)
        found = self.inference.findings[before:]
        if any(finding.is_error for finding in found):
            refuse("TS0011", found[0].message, help=found[0].help)

    def _is_unknown(self, node: Node) -> bool:
        return bool(node.results) and all(value.fact == UNKNOWN for value in node.results)

    def _fold_operands(self, node: Node) -> bool:
        """Replace small operands that depend only on constants by constants; return whether any was replaced."""
        folded_any = False
        for index, value in enumerate(node.inputs):
            if value is not None and not value.is_constant and (storage := self._fold_constant(value)) is not None:
                node.set_input(index, self.constant(storage))
                folded_any = True
        return folded_any

    def _infer_first(self, node: Node) -> bool:
        """Infer the first result only; if that succeeds, drop the remaining results."""
        rest = node.outputs[1:]
        for place in range(len(node.outputs) - 1, 0, -1):
            node.drop_output(place)
        self.inference.settle(node)
        return node.output.fact != UNKNOWN or not rest

    def _explain(self, node: Node) -> None:
        """Refuse an operator with the reason that its import rule reports."""
        rule = registry.lowering(DIALECT, node.op_type)
        if rule is None:
            return
        builder = Builder(self.inference, count=len(node.outputs), dialect=DIALECT)
        try:
            registry.lowered(rule, builder, list(node.inputs), node.attributes)
        except (UnsupportedError, ShapeError) as error:
            refuse("TS0006", f"{node.op}: {error}")
        except Unknown:
            refuse("TS0009", f"{node.op}: the types or shapes of its operands are unknown")
        finally:
            self.inference.required.clear()

    # Complex tensors: facts are derived from their representation as real tensors

    def _is_complex(self, node: Node) -> bool:
        if registry.lowering(DIALECT, f"{COMPLEX}{node.op_type}") is None:
            return False
        given = any(
            isinstance(v.fact, TensorFact) and v.fact.dtype is not None and v.fact.dtype.kind == "c"
            for v in node.operands
        )
        return given or registry.lowering(DIALECT, node.op_type) is None or node.op_type in _MAKE_COMPLEX

    def _infer_complex(self, node: Node) -> None:
        self._fold_operands(node)
        is_complex = tuple(_is_complex_fact(v) for v in node.inputs)
        rule = registry.lowering(DIALECT, f"{COMPLEX}{node.op_type}")
        operands = [None if v is None else Value(v.name, _paired(v.fact), storage=v.storage) for v in node.inputs]
        builder = Builder(self.inference, count=len(node.outputs), dialect=DIALECT)
        if rule is None:
            return
        try:
            results = registry.lowered(rule, builder, operands, {**node.attributes, COMPLEX: is_complex})
        except (UnsupportedError, ShapeError, Unknown) as error:
            refuse("TS0006", f"{node.op}: {error or 'its operands are unknown'}")
        wide = any(v is not None and v.dtype in (DType.FLOAT64, DType.COMPLEX128) for v in node.inputs)
        gives_pairs = base_of(node.op_type) not in _MAKE_REAL
        for value, result in zip(node.outputs, results, strict=False):
            if value is None or result is None:
                continue
            fact = result.fact
            if gives_pairs and isinstance(fact, TensorFact) and fact.shape and fact.shape[-1] == 2:
                fact = TensorFact(DType.COMPLEX128 if wide else DType.COMPLEX64, fact.shape[:-1])
            value.fact = fact

    # Strides

    def _note_strides(self, node: Node) -> None:
        """Mark results that may not be contiguous: writes through their reshapes, views or copies, are ambiguous."""
        base = base_of(node.op_type)
        first = node.operand(0)
        if first is None or base in _DENSE_RESULTS:
            return
        own = any(v.has_notes and STRIDED in v.notes for v in node.operands)
        if base in VIEWS and base not in _DENSE_VIEWS:
            own = own or not (
                base in _LEADING_VIEWS and node.attributes.get("dim", 0) == 0 and node.attributes.get("step", 1) == 1
            )
        if own:
            for value in node.results:
                value.notes[STRIDED] = True

    # Constants

    def array(self, tensor: Tensor | RuntimeScalar) -> np.ndarray[Any, Any] | None:
        """Return the elements of a small tensor that depends only on constants; `None` for other tensors."""
        storage = self._fold_constant(self.now(tensor.value))
        return None if storage is None else storage.numpy()

    def _fold_constant(self, value: Value) -> Storage | None:
        """Compute a value that depends only on constants, in topological order."""
        pending, steps = [value], 0
        while pending:
            current = pending[-1]
            steps += 1
            if current in self._folded or steps > MAX_FOLD_STEPS:
                pending.pop()
                continue
            direct = self._direct(current)
            node = current.producer
            if direct is not None or node is None or not _is_small(current.fact) or node.dialect != DIALECT:
                self._folded[current] = direct
                pending.pop()
                continue
            waiting = [v for v in node.operands if v not in self._folded]
            if waiting:
                pending.append(waiting[0])
                continue
            self._folded[current] = self._computed(node, current)
            pending.pop()
        return self._folded.get(value)

    def _direct(self, value: Value) -> Storage | None:
        fact = value.fact
        if value.storage is not None and value.is_constant:
            return value.storage if _is_small(fact) and value.name.rpartition(".")[2] not in self.changing else None
        if not isinstance(fact, TensorFact) or fact.elements is None or fact.dtype is None or not fact.is_static:
            return None
        if not all(isinstance(x, int) for x in fact.elements):
            return None
        shape = tuple(int(x) for x in fact.dims if isinstance(x, int))
        return storage_of(np.array(fact.elements).reshape(shape), fact.dtype)

    def _computed(self, node: Node, value: Value) -> Storage | None:
        sources = [None if v is None else self._folded.get(v) for v in node.inputs]
        if any(v is not None and s is None for v, s in zip(node.inputs, sources, strict=True)):
            return None
        rule = registry.lowering(DIALECT, node.op_type)
        page = Graph("folded")
        operands = [None if s is None else page.add_constant("x", TensorFact.of(s), s) for s in sources]
        builder = Builder(self.inference, page, dialect=DIALECT, count=len(node.outputs))
        try:
            results: Sequence[Value | None] = (
                () if rule is None else registry.lowered(rule, builder, operands, node.attributes)
            )
            result = results[value.index] if value.index < len(results) else None
            found = None if result is None else folded(result)
            return None if found is None else ArrayStorage(found.numpy(), found.dtype)
        except (UnsupportedError, ShapeError, Unknown, UncomputedError, RefusedError):
            return None
        finally:
            self.inference.meet(self.root)
            self.inference.required.clear()

    def scalar(self, tensor: Tensor) -> Any:
        """Return the only element of a tensor as a Python number; `None` if it is not static."""
        found = self.array(tensor)
        return None if found is None or found.size != 1 else found.reshape(()).item()


_MAKE_COMPLEX = frozenset({"aten.stft.default", "aten.view_as_complex.default"})
_MAKE_REAL = frozenset(
    {
        "aten.real",
        "aten.imag",
        "aten.abs",
        "aten.angle",
        "aten.view_as_real",
        "aten.istft",
        "aten.fft_irfft",
        "aten.fft_irfft2",
    }
)


def _is_complex_fact(value: Value | None) -> bool:
    return value is not None and value.dtype is not None and value.dtype.kind == "c"


def _paired(fact: Any) -> Any:
    if isinstance(fact, TensorFact) and fact.dtype is not None and fact.dtype.kind == "c" and fact.shape is not None:
        return TensorFact(DType.FLOAT64 if fact.dtype is DType.COMPLEX128 else DType.FLOAT32, (*fact.shape, 2))
    return fact


def _is_small(fact: Any) -> bool:
    return (
        isinstance(fact, TensorFact)
        and fact.is_static
        and prod(int(x) for x in fact.dims if not isinstance(x, Symbolic)) <= MAX_FOLDED
    )


def item_key(name: str) -> str:
    """Return the operand key of an item of the list argument `name`."""
    return f"{name}{ITEM}"
