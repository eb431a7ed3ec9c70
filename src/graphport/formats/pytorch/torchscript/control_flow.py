"""Branches and loops: static conditions and trip counts are evaluated; others are nodes If and Loop of ONNX."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.binding import KEYS
from graphport.formats.pytorch.torchscript.empty_tensors import holds_if_empty
from graphport.formats.pytorch.torchscript.mutations import Growing, Mutable, contents, copy_items, restore
from graphport.formats.pytorch.torchscript.refusal import RaisedError, refuse
from graphport.formats.pytorch.torchscript.values import (
    UNINITIALIZED,
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
from graphport.ops.declare import OPSET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.formats.pytorch.torchscript.context import Context

MAX_TURNS = 1024
"""Maximum iterations of an unrolled loop; longer loops are Loop nodes."""
MAX_TRIALS = 8
_ALIAS = "aten.alias.default"
_FOREVER = (1 << 63) - 1
_DTYPES = {"int": DType.INT64, "float": DType.FLOAT64, "bool": DType.BOOL}

Path = tuple[Any, ...]
Key = tuple[str, Any, Any]


def run_if(evaluator: Context, statement: ast.If, variables: dict[str, Any]) -> tuple[Any] | None:
    """Evaluate an `if` statement."""
    condition = evaluator.operators.to_scalar(evaluator.expression(statement.test, variables), "bool")
    if not isinstance(condition, RuntimeScalar):
        return evaluator.block(statement.body if condition else statement.orelse, variables)
    _forget_temporaries(evaluator, statement, variables)
    then = _branch(evaluator, statement.body, variables)
    other = _branch(evaluator, statement.orelse, variables)
    if then is None or other is None:
        # One branch raises an exception, so the model is the other branch.
        return evaluator.block(statement.orelse if then is None else statement.body, variables)
    is_empty = holds_if_empty(condition.value) if _ranks_differ(then, other) else None
    if is_empty is not None:
        # The branch for an empty tensor may return tensors of another rank, which have no elements.
        evaluator.assume(f"a tensor is not empty ({ast.unparse(statement.test)})")
        return evaluator.block(statement.orelse if is_empty else statement.body, variables)
    _join(evaluator, condition, then, other, variables)
    return None


def _forget_temporaries(evaluator: Context, statement: ast.stmt, variables: dict[str, Any]) -> None:
    """Remove values of an earlier iteration that `statement` sets again before it reads them."""
    for name in evaluator.liveness.temporaries(statement):
        variables.pop(name, None)


def _ranks_differ(then: _Branch, other: _Branch) -> bool:
    """Whether the branches set a variable to tensors of different ranks."""
    for name, a in then.variables.items():
        b = other.variables.get(name)
        if a is b or not isinstance(a, Tensor) or not isinstance(b, Tensor):
            continue
        shapes = [branch.current.get(id(x), x.value).shape for branch, x in ((then, a), (other, b))]
        if None not in shapes and len({len(shape) for shape in shapes if shape is not None}) > 1:
            return True
    return False


def run_for(evaluator: Context, statement: ast.For, variables: dict[str, Any]) -> tuple[Any] | None:
    """Evaluate a `for` statement over `range(n)`."""
    match statement.iter:
        case ast.Call(func=ast.Name(id="range"), args=[bound]):
            count = evaluator.operators.to_scalar(evaluator.expression(bound, variables), "int")
        case _:
            refuse("TS0004", "unsupported for statement: expected range(n)")
    if not isinstance(statement.target, ast.Name):
        refuse("TS0004", "unsupported for statement: expected a single variable")
    index = statement.target.id
    if isinstance(count, RuntimeScalar) or count > MAX_TURNS:
        _forget_temporaries(evaluator, statement, variables)
        _Loop(evaluator, statement.body, variables, count=count, index=index).run()
        return None
    for turn in range(count):
        variables[index] = turn
        returned = evaluator.block(statement.body, variables)
        if returned is not None:
            return returned
    return None


def run_while(evaluator: Context, statement: ast.While, variables: dict[str, Any]) -> tuple[Any] | None:
    """Evaluate a `while` statement."""
    for _ in range(MAX_TURNS):
        condition = evaluator.operators.to_scalar(evaluator.expression(statement.test, variables), "bool")
        if isinstance(condition, RuntimeScalar):
            _forget_temporaries(evaluator, statement, variables)
            _Loop(evaluator, statement.body, variables, condition=condition, test=statement.test).run()
            return None
        if not condition:
            return None
        returned = evaluator.block(statement.body, variables)
        if returned is not None:
            return returned
    return refuse("TS0008", f"a while loop exceeds {MAX_TURNS} iterations without reading a tensor")


# ── structures of values ──────────────────────────────────────────────────────────────────────────────────────────────


def _leaves(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Return the tensors and scalars in a nested value, with their paths."""
    match value:
        case Tensor() | RuntimeScalar() | bool() | int() | float():
            return [(path, value)]
        case List() | NamedTuple():
            return [
                leaf
                for i, x in enumerate(copy_items(value) if isinstance(value, List) else value.items)
                for leaf in _leaves(x, (*path, i))
            ]
        case tuple():
            return [leaf for i, x in enumerate(cast("tuple[Any, ...]", value)) for leaf in _leaves(x, (*path, i))]
        case Dict():
            return [leaf for k, x in value.items.items() for leaf in _leaves(x, (*path, k))]
        case Quantized():
            return _leaves(value.codes, (*path, "codes"))
        case _:
            return []


def _mapped(value: Any, change: Callable[[Path, Any], Any], path: Path = ()) -> Any:
    """Copy a nested value, and apply `change` to its leaves."""
    match value:
        case Tensor() | RuntimeScalar() | bool() | int() | float():
            return change(path, value)
        case List():
            items = [_mapped(x, change, (*path, i)) for i, x in enumerate(copy_items(value))]
            return List(items, value.element, value.stacked)
        case NamedTuple():
            return NamedTuple(value.fields, tuple([_mapped(x, change, (*path, i)) for i, x in enumerate(value.items)]))
        case tuple():
            return tuple([_mapped(x, change, (*path, i)) for i, x in enumerate(cast("tuple[Any, ...]", value))])
        case Dict():
            return Dict({k: _mapped(x, change, (*path, k)) for k, x in value.items.items()})
        case Quantized():
            codes = _mapped(value.codes, change, (*path, "codes"))
            return Quantized(codes, value.scale, value.zero_point, value.axis, value.dtype)
        case _:
            return value


def _as_value(held: Any) -> Any:
    """Return the recorded contents of a container as a `List` or `Dict`."""
    if isinstance(held, tuple):
        items, stacked = cast("tuple[list[Any], Any]", held)
        return List(items, "", stacked)
    return Dict(cast("dict[Any, Any]", held))


# ── branches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Branch:
    """The effects of a branch: its graph, variables, mutated containers, and tensors written in place."""

    graph: Graph
    variables: dict[str, Any]
    changes: dict[Mutable, tuple[Any, Any]]
    written: list[Value]
    current: dict[int, Value] = field(default_factory=dict[int, Value])
    """Values of tensors at the end of the branch, by identity."""
    roots: dict[int, list[Value]] = field(default_factory=dict[int, "list[Value]"])
    """Captured tensors that these tensors alias or may alias, by identity."""
    kept: list[Any] = field(default_factory=list[Any])


def _branch(evaluator: Context, statements: Sequence[ast.stmt], variables: dict[str, Any]) -> _Branch | None:
    """Evaluate a branch in a new graph and undo its mutations; return `None` if it raises an exception."""
    emitter = evaluator.emitter
    found = _Branch(Graph("branch"), dict(variables), {}, [])
    saved = emitter.writes.snapshot()
    evaluator.mutations.begin()
    try:
        with emitter.inside(found.graph):
            if evaluator.block(statements, found.variables) is not None:
                refuse("TS0009", "a return statement in a branch that depends on run-time values")
            found.written = emitter.writes.written_since(saved, found.graph)
            found.changes = evaluator.mutations.end()
            changed = [x for name, x in found.variables.items() if x is not variables.get(name)]
            _record_results(evaluator, found, [*changed, *(_as_value(after) for _, after in found.changes.values())])
            for handle in found.written:
                found.current[id(handle)] = emitter.now(handle)
    except RaisedError:
        evaluator.mutations.end()
        discard(found.graph)
        return None
    finally:
        emitter.writes.restore(saved)
    return found


def _record_results(evaluator: Context, branch: _Branch, values: Sequence[Any]) -> None:
    """Record the current values of all tensors that a branch returns."""
    for value in values:
        for _, leaf in _leaves(value):
            branch.kept.append(leaf)
            if isinstance(leaf, Tensor):
                branch.current[id(leaf)] = evaluator.emitter.now(leaf.value)
                branch.roots[id(leaf)] = _outer_roots(evaluator, leaf, branch.graph)


def _outer_roots(evaluator: Context, tensor: Tensor, graph: Graph) -> list[Value]:
    """Return the tensors outside of `graph` that `tensor` aliases or may alias."""
    return [root for root in evaluator.emitter.writes.possible_roots(tensor.value) if root.graph is not graph]


def discard(graph: Graph) -> None:
    """Detach an unused graph: clear its outputs and the operands of its nodes."""
    graph.set_outputs(())
    for node in graph:
        node.inputs = ()
        for body in list(node.bodies()):
            discard(body)


class _Joining:
    """Builder of the results of an If: pairs of values from both branches."""

    def __init__(self, evaluator: Context, then: _Branch, other: _Branch) -> None:
        self.emitter = evaluator.emitter
        self.branches = then, other
        self.pairs: list[tuple[Value, Value]] = []
        self.results: list[Value] = []
        self.roots: dict[Value, list[Value]] = {}
        """Tensors from outside that a result shows after one branch or the other."""

    def joined(self, a: Any, b: Any) -> Any:
        """Merge the values of a variable after both branches."""
        if a is b:
            return a
        if a is UNINITIALIZED or b is UNINITIALIZED:
            place = int(a is UNINITIALIZED)
            return _mapped(b if place else a, lambda _, leaf: self._one_sided(place, leaf))
        match a, b:
            case (Tensor(), Tensor()):
                return self._tensor(a, b)
            case ((bool() | int() | float() | RuntimeScalar()), (bool() | int() | float() | RuntimeScalar())):
                return self._merge_scalars(a, b)
            case (List(), List()) if len(a.items) == len(b.items) and a.stacked is b.stacked is None:
                return List([self.joined(x, y) for x, y in zip(a.items, b.items, strict=True)], a.element or b.element)
            case (tuple(), tuple()):
                first, second = cast("tuple[Any, ...]", a), cast("tuple[Any, ...]", b)
                if len(first) != len(second):
                    refuse("TS0009", "a tuple whose length depends on run-time values")
                return tuple([self.joined(x, y) for x, y in zip(first, second, strict=True)])
            case (NamedTuple(), NamedTuple()):
                return NamedTuple(a.fields, tuple([self.joined(x, y) for x, y in zip(a.items, b.items, strict=True)]))
            case (Dict(), Dict()) if a.items.keys() == b.items.keys():
                return Dict({key: self.joined(x, b.items[key]) for key, x in a.items.items()})
            case _ if type(a) is type(b) and isinstance(a, str) and a == b:
                return a
            case (List(), List()):
                refuse("TS0009", "a list whose length depends on run-time values")
            case (Dict(), Dict()):
                refuse("TS0009", "a dictionary whose keys depend on run-time values")
            case _:
                reason = f"a variable is {type_name(a)} or {type_name(b)}, depending on run-time values"
                refuse("TS0009", reason)
        return None

    def _tensor(self, a: Tensor, b: Tensor) -> Tensor:
        result = self.result(self._current(0, a), self._current(1, b))
        self.roots.setdefault(result, []).extend([*self._roots(0, a), *self._roots(1, b)])
        return Tensor(result)

    def _roots(self, place: int, tensor: Tensor) -> Sequence[Value]:
        roots = self.branches[place].roots.get(id(tensor))
        return self.emitter.writes.possible_roots(tensor.value) if roots is None else roots

    def _one_sided(self, place: int, leaf: Any) -> Any:
        """Merge a value that only one branch computes; the other branch returns zeros."""
        if not isinstance(leaf, Tensor | RuntimeScalar):
            return leaf
        value = self._current(place, leaf) if isinstance(leaf, Tensor) else leaf.value
        if value.graph is not self.branches[place].graph:
            return leaf
        with self.emitter.inside(self.branches[1 - place].graph):
            filler = self._zeros(value)
        result = self.result(*((filler, value) if place else (value, filler)), like=value)
        if isinstance(leaf, Tensor):
            self.roots.setdefault(result, []).extend(self._roots(place, leaf))
        return Tensor(result) if isinstance(leaf, Tensor) else RuntimeScalar(result, leaf.kind)

    def _zeros(self, value: Value) -> Value:
        """Create zeros with the dtype of a value and its static dims; open dims have size 0."""
        fact = value.fact
        if not isinstance(fact, TensorFact) or fact.dtype is None or fact.shape is None:
            refuse("TS0009", f"unknown type of %{value.name}, which one branch computes")
        size = tuple([x if isinstance(x, int) else 0 for x in fact.shape])
        return self.emitter.node("aten.zeros.default", [], {"size": size, "dtype": f"torch.{fact.dtype.text}"})[0]

    def _merge_scalars(self, a: Any, b: Any) -> Any:
        if not isinstance(a, RuntimeScalar) and type(a) is type(b) and a == b:
            return a
        kinds = type_name(a), type_name(b)
        if kinds[0] != kinds[1]:
            refuse("TS0009", f"a number is {kinds[0]} or {kinds[1]}, depending on run-time values")
        values = [self.emitter.operand(x) for x in (a, b)]
        return RuntimeScalar(self.result(*values), cast("Any", kinds[0]))

    def _current(self, place: int, tensor: Tensor) -> Value:
        return self.branches[place].current.get(id(tensor), tensor.value)

    def result(self, a: Value, b: Value, like: Value | None = None) -> Value:
        """Add a result of the If, `a` or `b`; its fact is that of `like`, else the union of both facts."""
        for pair, result in zip(self.pairs, self.results, strict=True):
            if pair == (a, b):
                return result
        fact = self._fact(a.fact, b.fact, a.name) if like is None else TensorFact(like.dtype, like.shape)
        self.pairs.append((a, b))
        self.results.append(Value(self.emitter.name("if"), fact))
        return self.results[-1]

    def _fact(self, a: Any, b: Any, name: str) -> TensorFact:
        if a.dtype is not b.dtype:
            refuse("TS0009", f"a tensor is {a.dtype} or {b.dtype}, depending on run-time values")
        if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
            return TensorFact(a.dtype, None)
        return TensorFact(a.dtype, joined_dims(self.emitter.root, a.shape, b.shape, name))


def joined_dims(root: Graph, a: Sequence[Any], b: Sequence[Any], name: str) -> tuple[Any, ...]:
    """Merge two shapes: equal dims stay unchanged, different dims are new symbols."""
    pairs = enumerate(zip(a, b, strict=True))
    return tuple([x if x == y else root.extents.fresh(f"{name}.dim{i}", 0) for i, (x, y) in pairs])


def _join(
    evaluator: Context, condition: RuntimeScalar, then: _Branch, other: _Branch, variables: dict[str, Any]
) -> None:
    """Create an If from two branches and apply their merged effects."""
    joining = _Joining(evaluator, then, other)
    names = [name for name in then.variables if name in other.variables]
    after = {name: joining.joined(then.variables[name], other.variables[name]) for name in names}
    held: dict[Mutable, Any] = {}
    for target in dict.fromkeys([*then.changes, *other.changes]):
        now = contents(target)
        pair = [_as_value(branch.changes.get(target, (now, now))[1]) for branch in (then, other)]
        held[target] = joining.joined(*pair)
    handles = list(dict.fromkeys([*then.written, *other.written]))
    stored = [
        joining.result(*(b.current.get(id(h), h) for b in (then, other)))
        for h in _current_handles(evaluator, handles, then, other)
    ]
    _emit_if(evaluator, condition, joining)
    for handle, value in zip(handles, stored, strict=True):
        evaluator.emitter.writes.assign(handle, value)
    for result, roots in joining.roots.items():
        evaluator.emitter.writes.may_show(result, roots)
    for target, value in held.items():
        evaluator.mutations.touch(target)
        restore(target, (value.items, value.stacked) if isinstance(value, List) else value.items)
    variables.clear()
    variables.update(after)


def _current_handles(evaluator: Context, handles: Sequence[Value], then: _Branch, other: _Branch) -> Sequence[Value]:
    """Return the merged tensors; a branch that does not write a tensor returns its value before the If."""
    for handle in handles:
        now = evaluator.emitter.now(handle)
        for branch in (then, other):
            branch.current.setdefault(id(handle), now)
    return handles


def _emit_if(evaluator: Context, condition: RuntimeScalar, joining: _Joining) -> None:
    graphs = [branch.graph for branch in joining.branches]
    for place, graph in enumerate(graphs):
        own_outputs(evaluator, graph, [pair[place] for pair in joining.pairs])
    if not joining.pairs:
        for graph in graphs:
            discard(graph)
        return
    attributes = {"then_branch": graphs[0], "else_branch": graphs[1]}
    _append(evaluator, Node("If", [condition.value], joining.results, attributes, dialect="onnx"))


def _append(evaluator: Context, node: Node) -> None:
    emitter = evaluator.emitter
    emitter.root.opsets["onnx"] = OPSET
    emitter.graph.append(node)


def own_outputs(evaluator: Context, graph: Graph, values: Sequence[Value]) -> None:
    """Set the outputs of a body; captured and repeated values are returned through Identity nodes."""
    emitter = evaluator.emitter
    returned: list[Value] = []
    for value in values:
        if value.graph is graph and value.producer is not None and value not in returned:
            returned.append(value)
            continue
        copy = Value(emitter.name("copy"), value.fact)
        graph.append(Node(_ALIAS, [value], [copy], {KEYS: ("self",)}, dialect="pytorch"))
        returned.append(copy)
    graph.set_outputs(returned)


# ── loops ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Loop:
    """A loop with a run-time trip count.

    The body is evaluated until the set of loop-carried values is stable: variables, containers, attributes and tensors
    written in place, with dims that are constant or vary between iterations.
    """

    def __init__(
        self,
        evaluator: Context,
        statements: Sequence[ast.stmt],
        variables: dict[str, Any],
        *,
        condition: RuntimeScalar | None = None,
        test: ast.expr | None = None,
        count: Any = None,
        index: str | None = None,
    ) -> None:
        self.evaluator = evaluator
        self.emitter = evaluator.emitter
        self.statements = statements
        self.variables = variables
        self.condition = condition
        self.test = test
        self.count = count
        self.index = index
        assigned = [
            n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        ]
        self.carried: dict[Key, Any] = {
            ("name", n, None): variables[n] for n in dict.fromkeys(assigned) if n in variables
        }
        self.open: dict[tuple[Key, Path], TensorFact] = {}
        self.growing: dict[List, None] = {}

    def run(self) -> None:
        """Find the loop-carried values, and create the Loop."""
        for key, value in self.carried.items():
            self._open_tensors(key, value)
        for _ in range(MAX_TRIALS):
            trial = self._trial()
            if self._is_stable(trial):
                self._emit(trial)
                return
            discard(trial.graph)
        refuse("TS0009", "a loop of unknown length changes the types or shapes of its variables in each iteration")

    def _open_tensors(self, key: Key, value: Any) -> None:
        for path, leaf in _leaves(value):
            if isinstance(leaf, Tensor):
                fact = self.emitter.fact(leaf)
                self.open[key, path] = TensorFact(fact.dtype, fact.shape)
            elif isinstance(leaf, RuntimeScalar):
                self.open[key, path] = TensorFact(_DTYPES[leaf.kind], ())

    def _trial(self) -> _Trial:
        """Evaluate the body once."""
        emitter, mutations = self.emitter, self.evaluator.mutations
        trial = _Trial(Graph("loop_body"), dict(self.variables), {}, [])
        saved = emitter.writes.snapshot()
        mutations.begin()
        try:
            with emitter.inside(trial.graph):
                self._begin(trial)
                if self.evaluator.block(self.statements, trial.variables) is not None:
                    refuse("TS0009", "a return statement in a loop of unknown length")
                self._finish(trial, saved)
        finally:
            if not trial.is_ended:
                mutations.end()
            emitter.writes.restore(saved)
        return trial

    def _begin(self, trial: _Trial) -> None:
        graph = trial.graph
        trial.turn = graph.add_input("iteration", TensorFact(DType.INT64, ()))
        trial.goes_on = graph.add_input("condition", TensorFact(DType.BOOL, ()))
        for key, initial in self.carried.items():
            self._set(key, _mapped(initial, lambda path, leaf, key=key: self._input(trial, key, path, leaf)), trial)
        for target in self.growing:
            self.evaluator.mutations.touch(target)
            target.items = Growing(target.items)
        for (key, path), value in trial.inputs.items():
            if key[0] != "written":
                self.emitter.writes.may_show(value, self._initial_roots(key, path))
        if self.index is not None:
            trial.variables[self.index] = RuntimeScalar(trial.turn, "int")

    def _initial_roots(self, key: Key, path: Path) -> Sequence[Value]:
        leaf = dict(_leaves(self.carried[key]))[path]
        return self.emitter.writes.possible_roots(leaf.value) if isinstance(leaf, Tensor) else ()

    def _input(self, trial: _Trial, key: Key, path: Path, leaf: Any) -> Any:
        fact = self.open.get((key, path))
        if fact is None:
            return leaf
        value = trial.graph.add_input("carried", fact)
        trial.inputs[key, path] = value
        return Tensor(value) if isinstance(leaf, Tensor) else RuntimeScalar(value, cast("Any", type_name(leaf)))

    def _set(self, key: Key, value: Any, trial: _Trial) -> None:
        kind, target, name = key
        match kind:
            case "name":
                trial.variables[target] = value
            case "written":
                self.emitter.writes.assign(target, value.value)
            case "attribute":
                self.evaluator.mutations.touch(target)
                target.attributes[name] = value
            case _:
                self.evaluator.mutations.touch(target)
                restore(target, (value.items, value.stacked) if isinstance(value, List) else value.items)

    def _finish(self, trial: _Trial, saved: Any) -> None:
        emitter = self.emitter
        if self.test is not None:
            found = self.evaluator.operators.to_scalar(self.evaluator.expression(self.test, trial.variables), "bool")
            trial.again = emitter.operand(found)
        trial.written = emitter.writes.written_since(saved, trial.graph)
        trial.finals = {key: self._final(key, trial) for key in self.carried}
        trial.grown = {target: copy_items(target) for target in self.growing}
        trial.changes = self.evaluator.mutations.end()
        trial.is_ended = True
        trial.written_inputs = {place for place, value in trial.inputs.items() if emitter.writes.has_writes(value)}
        _record_results(self.evaluator, trial, list(trial.finals.values()))
        _record_results(self.evaluator, trial, [tuple(items) for items in trial.grown.values()])

    def _final(self, key: Key, trial: _Trial) -> Any:
        kind, target, name = key
        match kind:
            case "name":
                return trial.variables[target]
            case "written":
                return Tensor(self.emitter.now(target))
            case "attribute":
                return target.attributes[name]
            case _:
                return _as_value(contents(target))

    # Loop-carried values of a trial

    def _is_stable(self, trial: _Trial) -> bool:
        found = [self._new_writes(trial), self._new_changes(trial)]
        found += [self._generalize(key, final, trial) for key, final in trial.finals.items()]
        return not any(found)

    def _carry(self, key: Key, value: Any) -> bool:
        if key in self.carried:
            return False
        self.carried[key] = value
        self._open_tensors(key, value)
        return True

    def _new_writes(self, trial: _Trial) -> bool:
        inputs = set(trial.inputs.values())
        new = [h for h in trial.written if ("written", h, None) not in self.carried and h not in inputs]
        return any(self._carry(("written", h, None), Tensor(self.emitter.now(h))) for h in new)

    def _new_changes(self, trial: _Trial) -> bool:
        is_new = False
        for target, (before, after) in trial.changes.items():
            if target in self.growing or ("held", target, None) in self.carried:
                continue
            if isinstance(target, Object):
                for name, value in after.items():
                    if value is not before.get(name):
                        is_new |= self._carry(("attribute", target, name), before.get(name))
            elif isinstance(target, List) and _has_grown(before, after):
                self.growing[target] = None
                is_new = True
            else:
                is_new |= self._carry(("held", target, None), _as_value(before))
        return is_new

    def _generalize(self, key: Key, final: Any, trial: _Trial) -> bool:
        """Mark mutated leaves as loop-carried and varying dims as symbolic; return whether anything changed."""
        initial, after = dict(_leaves(self.carried[key])), dict(_leaves(final))
        if initial.keys() != after.keys():
            refuse(
                "TS0009",
                f"a loop of unknown length changes the structure of {key[1] if key[0] == 'name' else 'a container'}",
            )
        changed = False
        for path, leaf in after.items():
            place = key, path
            if place not in self.open:
                if not _is_same_value(initial[path], leaf):
                    self._check_kind(initial[path], leaf)
                    self.open[place] = TensorFact(_DTYPES[type_name(leaf)], ())
                    changed = True
            elif isinstance(leaf, Tensor):
                changed |= self._joined(place, trial.current[id(leaf)].fact)
        return changed

    def _check_kind(self, a: Any, b: Any) -> None:
        if type_name(a) != type_name(b) or type_name(a) not in _DTYPES:
            refuse("TS0009", f"a variable in a loop of unknown length changes from {type_name(a)} to {type_name(b)}")

    def _joined(self, place: tuple[Key, Path], fact: Any) -> bool:
        known = self.open[place]
        if known.dtype is not fact.dtype:
            refuse("TS0009", f"a tensor in a loop of unknown length changes from {known.dtype} to {fact.dtype}")
        if known.shape is None or fact.shape is None:
            self.open[place] = TensorFact(known.dtype, None)
            return known.shape is not None
        if len(known.shape) != len(fact.shape):
            refuse(
                "TS0009",
                f"a tensor in a loop of unknown length changes from rank {len(known.shape)} to rank {len(fact.shape)}",
            )
        pairs = list(zip(known.shape, fact.shape, strict=True))
        if all(
            x == y or (not isinstance(x, int) and x == self._loop_symbol(place, i)) for i, (x, y) in enumerate(pairs)
        ):
            return False
        dims = [x if x == y else self._fresh(place, i) for i, (x, y) in enumerate(pairs)]
        self.open[place] = TensorFact(known.dtype, tuple(dims))
        return True

    def _loop_symbol(self, place: tuple[Key, Path], axis: int) -> Any:
        return self.__dict__.setdefault("symbols", {}).get((place, axis))

    def _fresh(self, place: tuple[Key, Path], axis: int) -> Any:
        symbols = self.__dict__.setdefault("symbols", {})
        return symbols.setdefault((place, axis), self.emitter.root.extents.fresh(f"loop.dim{axis}", 0))

    # The Loop

    def _emit(self, trial: _Trial) -> None:
        emitter, graph = self.emitter, trial.graph
        places = list(trial.inputs)
        finals = {(key, path): leaf for key, value in trial.finals.items() for path, leaf in _leaves(value)}
        grown = [items[-1] for items in trial.grown.values()]
        again = trial.again if trial.again is not None else trial.goes_on
        outputs = [self._value(trial, finals[place]) for place in places]
        scans = [self._value(trial, leaf) for leaf in grown]
        own_outputs(self.evaluator, graph, [x for x in (again, *outputs, *scans) if x is not None])
        given = [self._initial(key, path) for key, path in places]
        results = [Value(emitter.name("loop"), self.open[place]) for place in places]
        length = self.count if isinstance(self.count, int) else emitter.root.extents.fresh("loop.length", 0)
        collected = [Value(emitter.name("loop.items"), TensorFact(v.dtype, _stacked_shape(v, length))) for v in scans]
        count = emitter.operand(_FOREVER if self.count is None else self.count)
        first = self.condition.value if self.condition is not None else emitter.constant(True)  # noqa: FBT003
        _append(
            self.evaluator,
            Node("Loop", [count, first, *given], [*results, *collected], {"body": graph}, dialect="onnx"),
        )
        by_place = dict(zip(places, results, strict=True))
        for key, initial in self.carried.items():
            self._after(key, _mapped(initial, lambda path, leaf, key=key: _result(by_place.get((key, path)), leaf)))
        for place, result in by_place.items():
            self._note_views(trial, place, result, finals[place])
        for target, value in zip(self.growing, collected, strict=True):
            self._collect(target, Tensor(value))

    def _note_views(self, trial: _Trial, place: tuple[Key, Path], result: Value, final: Any) -> None:
        """Mark a result as a possible view of its value before the loop, or of its value in the last iteration."""
        if place[0][0] == "written":
            return
        writes, initial = self.emitter.writes, self._initial_roots(*place)
        writes.may_show(result, initial, has_writes=place in trial.written_inputs)
        writes.may_show(result, trial.roots.get(id(final), ()))

    def _value(self, trial: _Trial, leaf: Any) -> Value:
        return trial.current[id(leaf)] if isinstance(leaf, Tensor) else self.emitter.operand(leaf)

    def _initial(self, key: Key, path: Path) -> Value:
        leaf = dict(_leaves(self.carried[key]))[path]
        return self.emitter.now(leaf.value) if isinstance(leaf, Tensor) else self.emitter.operand(leaf)

    def _after(self, key: Key, value: Any) -> None:
        kind, target, name = key
        match kind:
            case "name":
                self.variables[target] = value
            case "written":
                self.emitter.writes.assign(target, value.value)
            case "attribute":
                self.evaluator.mutations.touch(target)
                target.attributes[name] = value
            case _:
                self.evaluator.mutations.touch(target)
                restore(target, (value.items, value.stacked) if isinstance(value, List) else value.items)

    def _collect(self, target: List, items: Tensor) -> None:
        """Append the items of all iterations, stacked in `items`, to a list."""
        operators = self.evaluator.operators
        self.evaluator.mutations.touch(target)
        before: Any = target.stacked
        if target.items:
            before = operators.torch("stack", [List(list(target.items), "Tensor")], {})
        both = items if before is None else operators.torch("cat", [List([before, items], "Tensor")], {})
        target.items, target.stacked = [], both


@dataclass(slots=True)
class _Trial(_Branch):
    """The body of a loop, evaluated once."""

    turn: Value | None = None
    goes_on: Value | None = None
    again: Value | None = None
    inputs: dict[tuple[Key, Path], Value] = field(default_factory=dict[tuple[Key, Path], Value])
    finals: dict[Key, Any] = field(default_factory=dict[Key, Any])
    written_inputs: set[tuple[Key, Path]] = field(default_factory=set[tuple[Key, Path]])
    grown: dict[List, list[Any]] = field(default_factory=dict[List, list[Any]])
    is_ended: bool = False


def _is_same_value(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, bool | int | float) and type(a) is type(b) and a == b)


def _has_grown(before: Any, after: Any) -> bool:
    """Whether the body appended exactly one tensor to a list."""
    items, longer = before[0], after[0]
    is_one = len(longer) == len(items) + 1 and isinstance(longer[-1], Tensor)
    return is_one and all(a is b for a, b in zip(items, longer, strict=False))


def _stacked_shape(value: Value, length: Any) -> tuple[Any, ...] | None:
    return None if value.shape is None else (length, *value.shape)


def _result(value: Value | None, leaf: Any) -> Any:
    if value is None:
        return leaf
    return Tensor(value) if isinstance(leaf, Tensor) else RuntimeScalar(value, cast("Any", type_name(leaf)))
