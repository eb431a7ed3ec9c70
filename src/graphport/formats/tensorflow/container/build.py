"""Evaluate the nodes of a GraphDef one by one: each operator is added to the raw graph, functions are inlined."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Never, cast

import numpy as np

from graphport.core import budget
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact, named
from graphport.core.storage import ArrayStorage, Storage
from graphport.formats.tensorflow.container import complex_pairs, control_flow, lists, tables, xla_modules
from graphport.formats.tensorflow.container.findings import EXPORT
from graphport.formats.tensorflow.container.items import DEAD, ComplexPair, Dead, Frame, Table, TensorList, Variable
from graphport.formats.tensorflow.container.records import CALLS, FunctionRef, function_body
from graphport.formats.tensorflow.container.refusals import refusal
from graphport.formats.tensorflow.container.tensors import Constant, fact_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from graphport.formats.tensorflow.container.findings import Findings
    from graphport.formats.tensorflow.container.records import Body, Record, Ref
    from graphport.formats.tensorflow.container.wire import Message

DIALECT = "tensorflow"
MAX_NODES = 200_000
"""Nodes that are evaluated, those of a function again for each call."""
MAX_CALL_DEPTH = 64
"""Functions, loops and branches within each other."""

_PASSING = frozenset(
    {
        *("Identity", "StopGradient", "PreventGradient", "Snapshot", "EnsureShape", "CheckNumerics", "CheckNumericsV2"),
        *("RefIdentity", "PlaceholderWithDefault", "GuaranteeConst", "DeepCopy", "CheckPinned", "_EagerConst"),
        *("MlirPassthroughOp", "HostConst", "RefEnter"),
    }
)
"""Operators that return their first operand."""
_DROPPED = frozenset(
    {
        *("NoOp", "Assert", "Print", "PrintV2", "DisableCopyOnRead", "ControlTrigger", "LookupTableImportV2"),
        *("InitializeTableV2", "InitializeTableFromTextFileV2", "DestroyResourceOp", "MergeV2Checkpoints", "SaveV2"),
        *("Abort", "DeleteSessionTensor", "TensorArrayCloseV3", "TensorArrayCloseV2", "StackCloseV2"),
    }
)
"""Operators without a result that a run of a model needs."""
_CODE = {
    "PyFunc": "it runs Python code that is outside of the file",
    "PyFuncStateless": "it runs Python code that is outside of the file",
    "EagerPyFunc": "it runs Python code that is outside of the file",
    "ReadFile": "it reads a file",
    "WriteFile": "it writes a file",
    "MatchingFiles": "it lists files",
}
_ASSIGNMENTS = {
    "AssignVariableOp": "",
    "AssignAddVariableOp": "AddV2",
    "AssignSubVariableOp": "Sub",
    "Assign": "",
    "AssignAdd": "AddV2",
    "AssignSub": "Sub",
    "ResourceScatterUpdate": "ScatterUpdate",
    "ResourceScatterAdd": "ScatterAdd",
    "ResourceScatterSub": "ScatterSub",
    "ResourceScatterMax": "ScatterMax",
    "ResourceScatterMin": "ScatterMin",
    "ResourceScatterMul": "ScatterMul",
    "ResourceScatterDiv": "ScatterDiv",
    "ResourceScatterNdUpdate": "TensorScatterUpdate",
    "ResourceScatterNdAdd": "TensorScatterAdd",
    "ResourceScatterNdSub": "TensorScatterSub",
    "ResourceScatterNdMax": "TensorScatterMax",
    "ResourceScatterNdMin": "TensorScatterMin",
    "ResourceStridedSliceAssign": "TensorStridedSliceUpdate",
}
"""Operators that write a variable, and the operator that computes its new value from the old one."""
_READS = {"ResourceGather": "ResourceGather", "ResourceGatherNd": "GatherNd"}
"""Operators that read a part of a variable, and the operator that reads it of a tensor."""
HANDLES = frozenset({"VarHandleOp", "VariableV2", "Variable"})


class Building:
    """Evaluates nodes at the end of the current graph."""

    def __init__(self, main: Body, library: dict[str, Message], findings: Findings) -> None:
        self.main = main
        self.library = library
        self.findings = findings
        self.root = Graph()
        self.graph = self.root
        self.variables: dict[str, Variable] = {}
        self.tables: dict[str, Table] = {}
        self.stored: Callable[[str], Storage | None] = lambda _: None
        """The elements of a variable by the name of its handle."""
        self.fills: Callable[[str], tuple[Storage, Storage] | None] = lambda _: None
        """The keys and values of a table by the name of its handle."""
        self.depth = 0
        self._bodies: dict[str, Body] = {}
        self._effects: dict[int, bool] = {}
        self._constants: dict[tuple[int, str], Value] = {}
        self._left = budget.limit("tensorflow.nodes", MAX_NODES)

    def table_contents(self, name: str) -> tuple[Storage, Storage] | None:
        """The keys and values of a table by the name of its handle."""
        return self.fills(name)

    # Functions

    def function(self, name: str, place: str) -> Body:
        """A function of the library.

        Raises:
            DiagnosticError: TF0201 there is none.
        """
        if name not in self._bodies:
            message = self.library.get(name)
            if message is None:
                self.refuse("TF0201", f"undefined function {name!r}", place, "write the graph again: it is malformed")
            self._bodies[name] = function_body(message, self.findings)
        return self._bodies[name]

    def call(self, body: Body, arguments: Sequence[Any], prefix: str) -> list[Any]:
        """Return the results of a function called with `arguments`, computed in the current graph.

        Raises:
            DiagnosticError: TF0201 it has other arguments, TF0205 calls are nested too deep.
        """
        if len(arguments) != len(body.arguments):
            text = f"{len(arguments)} arguments for function {body.name}, expected {len(body.arguments)}"
            self.refuse("TF0201", text, prefix, "write the graph again: it is malformed")
        frame = Frame(body, prefix)
        for name, item in zip(body.arguments, arguments, strict=True):
            frame.items[name, 0] = item
            frame.done.add(name)
        with self.nested(prefix):
            return self.evaluate(frame, body.returns, body.control_returns)

    @contextmanager
    def nested(self, place: str) -> Generator[None]:
        """Count one more level of calls, loops and branches.

        Raises:
            DiagnosticError: TF0205 there are too many.
        """
        self.depth += 1
        if self.depth > budget.limit("tensorflow.calls", MAX_CALL_DEPTH):
            help = "check for recursive functions, or set GRAPHPORT_LIMITS=tensorflow.calls=N to allow N levels"
            self.refuse("TF0205", f"calls are nested more than {self.depth - 1} levels deep", place, help)
        yield
        self.depth -= 1

    @contextmanager
    def inside(self, body: Graph) -> Generator[None]:
        """Add nodes to `body` inside the `with` block."""
        outer = self.graph
        outer.share_names(body)
        self.graph = body
        try:
            yield
        finally:
            self.graph = outer

    # Order

    def evaluate(self, frame: Frame, refs: Sequence[Ref], effects: Iterable[str] = ()) -> list[Any]:
        """The items of tensors, after all nodes that they depend on, and writes of variables, are evaluated."""
        has_effects = self.has_effects(frame.body)
        names = [*(effects if has_effects else ()), *(name for name, _ in refs)]
        for name in self._order(frame, names, has_effects=has_effects):
            self._evaluate_node(frame, frame.body.nodes[name])
            frame.done.add(name)
        return [self.resolve(frame, ref) for ref in refs]

    def resolve(self, frame: Frame, ref: Ref) -> Any:
        """Return the item of a tensor.

        Raises:
            DiagnosticError: TF0201 the node has no result of this index.
        """
        found = frame.find(ref)
        if found is None:
            text = f"node {ref[0]} has no output {ref[1]}"
            self.refuse("TF0201", text, frame.body.name, "write the graph again: it is malformed")
        return found

    def _order(self, frame: Frame, names: Iterable[str], *, has_effects: bool) -> list[str]:
        """Return the nodes that are not evaluated yet, in topological order.

        Raises:
            DiagnosticError: TF0201 a node is missing, or depends on itself; TF0205 there are too many.
        """
        order: list[str] = []
        state: dict[str, bool] = {}
        stack = [(name, False) for name in reversed(list(names))]
        while stack:
            name, is_left = stack.pop()
            if is_left:
                state[name] = True
                order.append(name)
                continue
            if name in state:
                if not state[name]:
                    text = f"node {name} depends on itself, outside of a loop"
                    self.refuse("TF0201", text, frame.body.name, "write the graph again: it is malformed")
                continue
            if frame.is_done(name):
                continue
            record = frame.body.nodes.get(name)
            if record is None:
                self.refuse(
                    "TF0201", f"undefined node {name!r}", frame.body.name, "write the graph again: it is malformed"
                )
            self._count(name)
            state[name] = False
            stack.append((name, True))
            stack.extend((each, False) for each in reversed(self._needs(frame, record, has_effects=has_effects)))
        return order

    def _count(self, name: str) -> None:
        self._left -= 1
        if self._left < 0:
            help = "set GRAPHPORT_LIMITS=tensorflow.nodes=N to allow N nodes: inlined functions may be too large"
            self.refuse("TF0205", "the graph has too many nodes when its functions are inlined", f"node {name}", help)

    def _needs(self, frame: Frame, record: Record, *, has_effects: bool) -> list[str]:
        controls = record.controls if has_effects else ()
        if record.op_type in _DROPPED:
            return list(controls)
        special = control_flow.needs(self, frame, record)
        return [*controls, *((name for name, _ in record.inputs) if special is None else special)]

    def has_effects(self, body: Body) -> bool:
        """Whether a run of a graph or function writes a variable."""
        known = self._effects.get(id(body))
        if known is None:
            self._effects[id(body)] = False  # while functions that call each other are looked through
            self._effects[id(body)] = known = any(
                record.op_type in _ASSIGNMENTS or self._calls_effects(record) for record in body.nodes.values()
            )
        return known

    def _calls_effects(self, record: Record) -> bool:
        if record.op_type not in CALLS and record.op_type not in control_flow.FUNCTIONAL:
            return False
        return any(
            self.has_effects(self.function(each.name, record.name))
            for name in ("f", "then_branch", "else_branch", "cond", "body", "branches")
            for each in _functions(record.attribute(name, self.findings))
            if each.name in self.library
        )

    # Nodes

    def _evaluate_node(self, frame: Frame, record: Record) -> None:
        op_type = record.op_type
        if op_type in _DROPPED:
            return
        if op_type in _CODE:
            self.refuse("TF0206", f"{op_type}: {_CODE[op_type]}", f"node {record.name}", EXPORT)
        if control_flow.evaluate(self, frame, record):
            return
        operands = [self.resolve(frame, ref) for ref in record.inputs]
        results = self._results(frame, record, operands)
        for index, item in enumerate(results):
            frame.items[record.name, index] = item

    def _results(self, frame: Frame, record: Record, operands: list[Any]) -> Sequence[Any]:
        op_type = record.op_type
        if any(isinstance(each, Dead) for each in operands):
            return [DEAD] * max(record.count(self.findings), 1)
        if op_type in _PASSING and operands:
            return operands[:1]
        if op_type == "IdentityN":
            return operands
        if op_type == "Const":
            return [self._constant(frame, record)]
        if op_type in HANDLES:
            return [self.variable(record.name)]
        if op_type == "ReadVariableOp":
            return [self.value(operands[0], record)]
        if op_type in _ASSIGNMENTS:
            return self._assign(frame, record, operands)
        if op_type == "VarIsInitializedOp":
            return [self.constant(np.ones((), np.bool_))]
        if op_type in _READS:
            given = [self.value(each, record) for each in operands]
            return self.emit(_READS[op_type], given, self.node_attributes(record), f"{frame.prefix}{record.name}")
        if op_type in CALLS:
            return self._call(frame, record, operands)
        if op_type == xla_modules.OP_TYPE:
            return xla_modules.evaluate(self, frame, record, operands)
        if op_type in tables.OPERATORS:
            return tables.evaluate(self, frame, record, operands)
        if op_type in lists.OPERATORS:
            return lists.evaluate(self, frame, record, operands)
        if complex_pairs.is_complex(record, operands, self.findings):
            return complex_pairs.evaluate(self, frame, record, operands)
        return self.operation(op_type, operands, record, frame.prefix)

    def _call(self, frame: Frame, record: Record, operands: list[Any]) -> list[Any]:
        function = record.attribute("f", self.findings)
        if not isinstance(function, FunctionRef):
            self.refuse(
                "TF0201",
                "a call without a function name",
                f"node {record.name}",
                "write the graph again: it is malformed",
            )
        return self.call(self.function(function.name, record.name), operands, f"{frame.prefix}{record.name}/")

    def operation(self, op_type: str, operands: Sequence[Any], record: Record, prefix: str) -> list[Value]:
        """The results of an operator, as a node of the raw graph.

        Raises:
            DiagnosticError: TF0206 there is no rule for it.
        """
        if registry.lowering(DIALECT, op_type) is None:
            message, help = refusal(op_type)
            self.refuse("TF0206", message, f"node {record.name}", help)
        values = [self.value(each, record) for each in operands]
        count = max(record.count(self.findings), 1) if op_type == record.op_type else 1
        return self.emit(op_type, values, self.node_attributes(record), f"{prefix}{record.name}", count)

    def node_attributes(self, record: Record) -> dict[str, Any]:
        """The attributes of a node of the raw graph: no functions, and no lists with unknown entries."""
        return {
            name: each
            for name, each in record.attributes(self.findings).items()
            if not isinstance(each, FunctionRef) and None not in (each if isinstance(each, tuple) else ())
        }

    def emit(
        self,
        op_type: str,
        operands: Sequence[Value | None],
        attributes: dict[str, Any],
        name: str,
        count: int = 1,
        *,
        dialect: str = DIALECT,
    ) -> list[Value]:
        """The results of a new node at the end of the current graph."""
        results = [Value(self.graph.fresh(name if not index else f"{name}:{index}"), UNKNOWN) for index in range(count)]
        node = Node(op_type, operands, results, attributes, dialect=dialect, name=name)
        node.origin = self.findings.span(f"node {name}")
        self.graph.append(node)
        return results

    def value(self, item: Any, record: Record) -> Value:
        """An item as a tensor.

        Raises:
            DiagnosticError: TF0207 it is none.
        """
        if isinstance(item, Value):
            return item
        if isinstance(item, Variable):
            return self.read(item)
        if isinstance(item, TensorList):
            return lists.stacked(self, item, record)
        if isinstance(item, ComplexPair):
            text = f"{record.op_type} reads a complex tensor"
            self.refuse("TF0207", text, f"node {record.name}", "read its real and imaginary parts instead")
        kind = "a table" if isinstance(item, Table) else "a result that is not computed"
        return self.refuse("TF0207", f"{record.op_type} reads {kind} as a tensor", f"node {record.name}", EXPORT)

    # Constants and variables

    def constant(self, data: Storage | np.ndarray[Any, Any], name: str = "constant") -> Value:
        """A constant of the root graph."""
        storage = data if isinstance(data, Storage) else ArrayStorage(data)
        fact = TensorFact(DType.STRING, storage.shape) if storage.dtype is DType.STRING else TensorFact.of(storage)
        value = Value(self.root.fresh(name), fact, storage=storage)
        return self.root.adopt_constant(value)

    def _complex_constant(self, frame: Frame, record: Record, constant: Constant) -> ComplexPair:
        if constant.storage is None:
            help = "split the tensor into real and imaginary parts"
            self.refuse("TF0202", "a complex constant with one repeated value", f"node {record.name}", help)
        numbers, name = constant.storage.numpy(), f"{frame.prefix}{record.name}"
        parts = (self.constant(np.ascontiguousarray(each), name) for each in (numbers.real, numbers.imag))
        return ComplexPair(*parts)

    def _constant(self, frame: Frame, record: Record) -> Value | ComplexPair:
        key = id(frame.body), record.name
        found = self._constants.get(key)
        if found is not None:
            return found
        stated = record.attribute_messages.get("value")
        message = None if stated is None else stated.message("tensor")
        if message is None:
            self.refuse(
                "TF0202", "a constant has no value", f"node {record.name}", "write the graph again: it is malformed"
            )
        constant = Constant(message, self.findings, f"node {record.name}")
        if constant.dtype.kind == "c":
            return self._complex_constant(frame, record, constant)
        if constant.storage is not None:
            value = self.constant(constant.storage, f"{frame.prefix}{record.name}")
            self._constants[key] = value
            return value
        dims = self.constant(np.array(constant.shape, np.int64))
        fill = self.constant(constant.fill if constant.fill is not None else np.zeros(()))
        return self.emit("Fill", [dims, fill], {}, f"{frame.prefix}{record.name}")[0]

    def variable(self, name: str) -> Variable:
        """The variable of a handle, which is a node of the main graph."""
        if name not in self.variables:
            self.variables[name] = Variable(name, self.stored(name))
        return self.variables[name]

    def read(self, variable: Variable) -> Value:
        """The value of a variable at this point of the program.

        Raises:
            DiagnosticError: TF0208 the file has none.
        """
        if variable.value is None:
            if variable.storage is None:
                help = "save the model with its variables, or initialize the variables first"
                self.refuse("TF0208", f"missing value of the variable {variable.name}", f"node {variable.name}", help)
            variable.first = variable.value = self.constant(variable.storage, variable.name)
        return variable.value

    def _assign(self, frame: Frame, record: Record, operands: list[Any]) -> list[Any]:
        variable, operation = operands[0], _ASSIGNMENTS[record.op_type]
        if not isinstance(variable, Variable):
            self.refuse(
                "TF0207", f"the resource input of {record.op_type} is not a variable", f"node {record.name}", EXPORT
            )
        if variable.first is None and variable.storage is not None:
            self.read(variable)
        if not operation:
            variable.value = self.value(operands[1], record)
        else:
            given = [self.read(variable), *operands[1:]]
            (variable.value,) = self.operation(operation, given, record, frame.prefix)
        return [variable]

    def input(self, name: str, dtype: DType | None, shape: tuple[int, ...] | None, place: str) -> Value:
        """An input of the model.

        Raises:
            DiagnosticError: TF0204 its element type is not numeric.
        """
        if dtype is None or dtype is DType.STRING:
            kind = "strings" if dtype is DType.STRING else "no tensor"
            help = "cut the model after the operators that use the input"
            self.refuse("TF0204", f"the input {name} has {kind} (string, resource or variant type)", place, help)
        self.root.reserve(name)
        value = Value(name, named(fact_of(dtype, shape), name, 0))
        value.origin = self.findings.span(place)
        return self.root.adopt_input(value)

    def refuse(self, code: str, message: str, place: str, help: str) -> Never:
        """Refuse the file; see `Findings`."""
        self.findings.refuse(code, message, place, help)


def _functions(attribute: Any) -> list[FunctionRef]:
    if isinstance(attribute, FunctionRef):
        return [attribute]
    elements = cast("tuple[Any, ...]", attribute) if type(attribute) is tuple else ()
    return [element for element in elements if isinstance(element, FunctionRef)]
