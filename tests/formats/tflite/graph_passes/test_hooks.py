"""TFLite variables as inputs and outputs, and as variables again: each run continues with the state of the last one."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.tflite.graph_passes.hooks import before
from graphport.formats.tflite.graph_passes.states import keep_states
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.states import State, mark, state_of
from graphport.ir.verify import verify
from tests.laws import canonical, computed

FACT = TensorFact(DType.FLOAT32, (2,))
X = np.array([2, 3], np.float32)
NAMES = [("", "h"), ("", "cell/h"), ("box", "h"), ("box", "g"), ("", ""), ("", "k")]
RESOURCES = {"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"}


def put(graph: Any, op_type: str, *operands: Value, fact: Any = FACT, results: int = 1, **told: Any) -> Any:
    made = [Value(graph.fresh(op_type.lower()), fact) for _ in range(results)]
    attributes = {"types": (DType.FLOAT32,), "fused_activation_function": 0} | told
    return graph.append(Node(op_type, list(operands), made, attributes, dialect="tflite"))


def handle(graph: Any, place: int) -> Value:
    container, name = NAMES[place]
    told = {**({"container": container} if container else {}), **({"shared_name": name} if name else {})}
    return put(graph, "VAR_HANDLE", fact=TensorFact(None, None), **told).output


def constant(graph: Any, array: Any) -> Value:
    storage = storage_of(np.asarray(array, np.float32))
    return graph.add_constant(graph.fresh("c"), TensorFact.of(storage), storage)


class Program:
    """Random reads and assignments of variables, and their expected values."""

    def __init__(self, rng: Any, variables: int, steps: int) -> None:
        self.graph: Any = Graph()
        self.begins = {place: rng.uniform(1, 2, 2).astype(np.float32) for place in range(variables)}
        self.rng, self.steps = rng, steps
        self.story: list[tuple[str, int, int]] = []
        x = self.graph.add_input("x", FACT)
        self.once: Any = Graph()
        self.graph.share_names(self.once)
        for place, array in self.begins.items():
            put(self.once, "ASSIGN_VARIABLE", handle(self.once, place), constant(self.once, array), results=0)
        put(self.graph, "CALL_ONCE", results=0, init_subgraph=self.once)
        pool = [x]
        for _ in range(steps):
            place, one = int(rng.integers(variables)), int(rng.integers(len(pool)))
            kind = str(rng.choice(["read", "assign", "add"]))
            self.story.append((kind, place, one))
            if kind == "read":
                pool.append(put(self.graph, "READ_VARIABLE", handle(self.graph, place)).output)
            elif kind == "assign":
                put(self.graph, "ASSIGN_VARIABLE", handle(self.graph, place), pool[one], results=0)
            else:
                pool.append(put(self.graph, "ADD", pool[one], pool[-1]).output)
        self.shown = [value for value in pool[1:] if rng.random() < 0.5][-2:] or [put(self.graph, "ADD", x, x).output]
        self.places = [pool.index(value) if value in pool else -1 for value in self.shown]
        self.graph.set_outputs(self.shown)

    def run(self, x: Any, held: dict[int, Any]) -> list[Any]:
        """Return the outputs for the variable values `held`, and update these."""
        pool = [x]
        for kind, place, one in self.story:
            if kind == "read":
                pool.append(held[place])
            elif kind == "assign":
                held[place] = pool[one]
            else:
                pool.append(pool[one] + pool[-1])
        return [x + x if place < 0 else pool[place] for place in self.places]

    @property
    def touched(self) -> list[int]:
        """Variables in the order in which they are first read or assigned."""
        return list(dict.fromkeys(place for kind, place, _ in self.story if kind != "add"))

    @property
    def assigned(self) -> set[int]:
        return {place for kind, place, _ in self.story if kind == "assign"}

    def is_kept(self, place: int) -> bool:
        """Return whether a run may change a variable; assigning its current value does not."""
        held = {each: f"start {each}" for each in self.begins}
        pool = ["x"]
        for kind, each, one in self.story:
            if kind == "read":
                pool.append(held[each])
            elif kind == "assign":
                held[each] = pool[one]
            else:
                pool.append(f"sum {len(pool)}")
        return held[place] != f"start {place}"


def runs(graph: Any, begins: list[Any], count: int = 3) -> list[list[Any]]:
    """Outputs of runs that go on, of a graph with its variables as inputs; the first ones only."""
    twin, found = canonical(rewrite.copy(graph)), []
    states = {value.name: (state_of(value), value.storage) for value in twin.inputs if state_of(value) is not None}
    feeds = dict(zip(states, begins, strict=True))
    for number in range(count):
        found.append(computed(twin, {"x": X * (number + 1), **feeds}))
        outputs = dict(zip([value.name for value in twin.outputs], found[-1], strict=True))
        feeds = {name: outputs[state.output] for name, (state, _) in states.items() if state is not None}
    return found


def test_runs_go_on_where_the_last_one_ended():
    rng = np.random.default_rng(7)
    for case in range(60):
        program = Program(rng, variables=1 + case % len(NAMES), steps=2 + case % 9)
        graph = program.graph
        before(graph)
        verify(graph)
        assert not RESOURCES & {node.op_type for node in graph}
        kept = [place for place in program.touched if program.is_kept(place)]
        states = graph.inputs[1:]
        assert len(states) == len(kept), case
        for value, place in zip(states, kept, strict=True):
            np.testing.assert_array_equal(value.storage.numpy(), program.begins[place])
            assert (value.fact, value.name.startswith(NAMES[place][1].rpartition("/")[2])) == (FACT, True)
        told = [state_of(value) for value in states]
        assert len({state.variable for state in told if state}) == len(kept)
        assert all(state and state.output in {value.name for value in graph.outputs} for state in told)
        held = dict(program.begins)
        count = len(program.shown)
        for found, number in zip(runs(graph, [program.begins[place] for place in kept]), (1, 2, 3), strict=True):
            for one, other in zip(found[:count], program.run(X * number, held), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6)
        if not kept:
            continue
        # As variables again, and back.
        expected = runs(graph, [program.begins[place] for place in kept])
        keep_states(graph)
        verify(graph)
        assert graph.inputs == [graph.inputs[0]]
        assert graph.first.op_type == "CALL_ONCE"
        assert len(graph.outputs) == count
        before(graph)
        assert {state.variable for value in graph.inputs if (state := state_of(value))} == {
            s.variable for s in told if s
        }
        by_name = {state.variable: place for state, place in zip(told, kept, strict=True) if state}
        begins = [program.begins[by_name[s.variable]] for value in graph.inputs if (s := state_of(value))]
        for found, wanted in zip(runs(graph, begins), expected, strict=True):
            for one, other in zip(found[:count], wanted[:count], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6)


def counter() -> Program:
    """y = x + v, and v is y in the next run."""
    program = Program(np.random.default_rng(0), 1, 0)
    graph = program.graph
    graph.set_outputs([])
    graph.remove(graph.last)
    read = put(graph, "READ_VARIABLE", handle(graph, 0))
    total = put(graph, "ADD", graph.inputs[0], read.output)
    put(graph, "ASSIGN_VARIABLE", handle(graph, 0), total.output, results=0)
    graph.set_outputs([total.output])
    return program


def test_resources_that_are_not_simple_stay():
    def other_reader(graph: Any, _: Any) -> None:
        put(graph, "COPY", next(node for node in graph if node.op_type == "VAR_HANDLE").output)

    def foreign_once(graph: Any, _: Any) -> None:
        graph.first.dialect = "custom"

    def unknown_start(_: Any, once: Any) -> None:
        once.last.set_input(1, once.add_input("s", FACT))

    def nobody_starts(_: Any, once: Any) -> None:
        once.remove(once.last)

    def another_start(_: Any, once: Any) -> None:
        once.first.set_attribute("shared_name", "other")

    def another_container(_: Any, once: Any) -> None:
        once.first.set_attribute("container", "other")

    def more_runs_once(_: Any, once: Any) -> None:
        put(once, "ABS", constant(once, [1, 2]))

    def more_is_read_once(_: Any, once: Any) -> None:
        put(once, "READ_VARIABLE", handle(once, 0))

    def branch(op_type: str) -> Any:
        def change(graph: Any, _: Any) -> None:
            body: Any = Graph()
            graph.share_names(body)
            held = handle(body, 0)
            if op_type == "READ_VARIABLE":
                put(body, op_type, held)
            elif op_type == "ASSIGN_VARIABLE":
                put(body, op_type, held, constant(body, [1, 2]), results=0)
            put(graph, "IF", graph.inputs[0], results=0, then_subgraph=body)

        return change

    changes = (
        other_reader,
        foreign_once,
        unknown_start,
        nobody_starts,
        another_start,
        another_container,
        more_runs_once,
        more_is_read_once,
        *map(branch, ("READ_VARIABLE", "ASSIGN_VARIABLE", "VAR_HANDLE")),
    )
    for change in changes:
        program = counter()
        change(program.graph, program.once)
        words = [node.op_type for node in program.graph]
        before(program.graph)
        assert [node.op_type for node in program.graph] == words, change
        assert len(program.graph.inputs) == 1
    program = counter()
    put(program.graph, "IF", program.graph.inputs[0], results=0, then_subgraph=Graph())
    before(program.graph)
    assert [node.op_type for node in program.graph] == ["ADD", "IF"]


def test_states_begin_with_zeros_where_nothing_is_reported():
    graph: Any = Graph()
    x, s = graph.add_input("x", FACT), graph.add_input("s", FACT)
    total = put(graph, "ADD", x, s).output
    graph.set_outputs([total])
    mark(s, State(total.name, "s", is_returned=True))
    keep_states(graph)
    assert [node.op_type for node in graph] == [
        "CALL_ONCE",
        "VAR_HANDLE",
        "READ_VARIABLE",
        "ADD",
        "ASSIGN_VARIABLE",
    ]
    assert [node.attributes["types"] for node in graph if node.op_type == "READ_VARIABLE"] == [(DType.FLOAT32,)]
    (once,) = graph.first.bodies()
    start = once.last.operands[1]
    assert start.storage.dtype is DType.FLOAT32
    np.testing.assert_array_equal(start.storage.numpy(), np.zeros(2, np.float32))
    assert graph.outputs == [total]
    for fact in (TensorFact(DType.FLOAT32, None), TensorFact(None, (2,))):
        graph = Graph()
        x, s = graph.add_input("x", FACT), graph.add_input("s", fact)
        total = put(graph, "ADD", x, s).output
        graph.set_outputs([total])
        mark(s, State(total.name, "s"))
        keep_states(graph)
        assert ([node.op_type for node in graph], graph.inputs) == (["ADD"], [x, s])
