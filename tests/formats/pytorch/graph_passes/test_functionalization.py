"""Programs with in-place writes compute the results of NumPy arrays, whose views share memory like tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import storage_of
from graphport.formats.pytorch.graph_passes.functionalization import STRIDED, WRITTEN, functionalize
from graphport.formats.pytorch.rules.binding import ITEM, KEYS
from graphport.formats.pytorch.rules.overloads import DIALECT, writes_first_operand
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from graphport.ops import registry
from tests.laws import canonical, computed

registry.load(DIALECT)


class Program:
    """Tensors of a program, each with the corresponding NumPy array."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.graph: Any = Graph()
        self.feeds: dict[str, Any] = {}
        self.now: list[tuple[Value, Any]] = []
        for index, shape in enumerate(shapes):
            array = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape) * (1 - 2 * (index % 2))
            value = self.graph.add_input(f"x{index}", TensorFact(DType.FLOAT32, shape))
            self.feeds[value.name] = array
            self.now.append((value, array.copy()))

    def put(
        self, op_type: str, *operands: Value | None, keys: Any = None, results: Any = (UNKNOWN,), **told: Any
    ) -> Any:
        made = [Value(self.graph.fresh("v"), fact) for fact in results]
        names = tuple(keys or ("self", "other")[: len(operands)])
        self.graph.append(Node(op_type, list(operands), made, {KEYS: names, **told}, dialect=DIALECT))
        return made[0] if len(made) == 1 else made

    def look(self, at: int, op_type: str, array: Any, **told: Any) -> None:
        """Add a view of a tensor."""
        self.now.append((self.put(op_type, self.now[at][0], results=[fact_of(array)], **told), array))

    def write(self, at: int, op_type: str, array: Any, *operands: Value, **told: Any) -> None:
        """Write into a tensor; its name is that of the result from then on."""
        value, own = self.now[at]
        own[...] = array
        made = self.put(op_type, value, *operands, results=[fact_of(own)], **told)
        self.now[at] = made, own

    def held(self, *places: int) -> Any:
        """Compare some tensors, at their end, with their arrays."""
        outputs = {self.now[place][0]: self.now[place][1] for place in places}
        self.graph.set_outputs(list(outputs))
        expected = list(outputs.values())
        assert functionalize(self.graph) == []
        verify(self.graph)
        assert not any(writes_first_operand(node.op_type) for node in self.graph)
        assert [value.name for value in self.graph.inputs] == list(self.feeds)
        found = computed(canonical(rewrite.copy(self.graph)), self.feeds)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        return self.graph


def fact_of(array: Any) -> TensorFact:
    return TensorFact(DType.FLOAT32, array.shape)


KINDS = ("slice", "select", "transpose", "unsqueeze", "view", "permute", "unbind", "split", "alias")


def looked(draw: Any, program: Program, at: int, kind: str | None = None) -> None:
    """A view of a tensor, where its shape has one."""
    _, array = program.now[at]
    rank = array.ndim
    axis = draw(st.integers(0, rank - 1)) if rank else 0
    kind = draw(st.sampled_from(KINDS)) if kind is None else kind
    if kind == "alias":
        program.look(at, "aten.alias.default", array[...])
    elif kind == "unsqueeze" and rank < 4:
        program.look(at, "aten.unsqueeze.default", np.expand_dims(array, axis), dim=axis)
    elif kind == "view" and array.flags.c_contiguous:
        program.look(at, "aten.view.default", array.reshape(-1), size=(-1,))
    elif not rank:
        return
    elif kind == "slice" and array.shape[axis]:
        start = draw(st.integers(0, array.shape[axis] - 1))
        step = draw(st.integers(1, 2))
        index = (slice(None),) * axis + (slice(start, None, step),)
        told = {"dim": axis, "start": start, "end": 2**63 - 1, "step": step}
        program.look(at, "aten.slice.Tensor", array[index], **told)
    elif kind == "select" and array.shape[axis]:
        place = draw(st.integers(-array.shape[axis], array.shape[axis] - 1))
        index = (slice(None),) * axis + (place,)
        program.look(at, "aten.select.int", array[(*index, ...)], dim=axis, index=place)
    elif kind == "transpose":
        other = draw(st.integers(0, rank - 1))
        program.look(at, "aten.transpose.int", np.swapaxes(array, axis, other), dim0=axis, dim1=other)
    elif kind == "permute":
        order = draw(st.permutations(range(rank)))
        program.look(at, "aten.permute.default", array.transpose(order), dims=tuple(order))
    elif kind in ("unbind", "split") and array.shape[axis]:
        if kind == "unbind":
            parts = [np.moveaxis(array, axis, 0)[(n, ...)] for n in range(array.shape[axis])]
            op_type, told = "aten.unbind.int", {}
        else:
            parts = [
                np.moveaxis(np.moveaxis(array, axis, 0)[n : n + 2], 0, axis) for n in range(0, array.shape[axis], 2)
            ]
            op_type, told = "aten.split.Tensor", {"split_size": 2}
        made = program.put(op_type, program.now[at][0], results=[fact_of(part) for part in parts], dim=axis, **told)
        program.now += zip([made] if isinstance(made, Value) else made, parts, strict=True)


def changed(draw: Any, program: Program, at: int) -> None:
    """A write into a tensor."""
    _, array = program.now[at]
    kind = draw(st.sampled_from(["add_", "mul_", "relu_", "zero_", "copy_", "add"]))
    others = [place for place, (_, other) in enumerate(program.now) if other.shape == array.shape]
    if kind == "mul_":
        program.write(at, "aten.mul_.Scalar", array * np.float32(-0.5), other=-0.5)
    elif kind == "relu_":
        program.write(at, "aten.relu_.default", np.maximum(array, 0))
    elif kind == "zero_":
        program.write(at, "aten.zero_.default", np.zeros_like(array))
    else:
        other, numbers = program.now[draw(st.sampled_from(others))]
        if kind == "add_":
            program.write(at, "aten.add_.Tensor", array + numbers, other)
        elif kind == "copy_":
            program.write(at, "aten.copy_.default", numbers.copy(), other, keys=("self", "src"))
        else:
            total = array + numbers
            made = program.put("aten.add.Tensor", program.now[at][0], other, results=[fact_of(total)])
            program.now.append((made, total))


@pytest.mark.parametrize("first", KINDS)
@given(data=st.data())
@settings(max_examples=12)
def test_write_to_a_nested_view_updates_all_aliases(first, data):
    program = Program((3, 2, 4))
    looked(data.draw, program, 0, first)
    assert len(program.now) > 1
    second = data.draw(st.integers(1, len(program.now) - 1))
    looked(data.draw, program, second)
    at = data.draw(st.integers(1, len(program.now) - 1))
    program.write(at, "aten.mul_.Scalar", program.now[at][1] * np.float32(-2), other=-2.0)
    program.held(*range(len(program.now)))


@given(data=st.data())
def test_random_views_and_writes_match_numpy(data):
    program = Program((2, 3), (3, 2, 2))
    for _ in range(data.draw(st.integers(2, 9))):
        at = data.draw(st.integers(0, len(program.now) - 1))
        work = data.draw(st.sampled_from([looked, changed]))
        work(data.draw, program, at)
    places = data.draw(st.lists(st.integers(0, len(program.now) - 1), min_size=1, max_size=4))
    program.held(*places)


def test_program_without_writes_is_unchanged():
    program = Program((2, 3))
    program.look(0, "aten.view.default", program.now[0][1].reshape(-1), size=(-1,))
    before = list(program.graph)
    program.held(1)
    assert list(program.graph) == before


def test_conversion_of_an_input_is_recorded():
    program = Program((2, 3), (2, 3), (2, 3))
    program.look(0, "aten.select.int", program.now[0][1][1], dim=0, index=1)
    program.write(3, "aten.mul_.Scalar", program.now[3][1] * np.float32(2), other=2.0)
    program.write(1, "aten.relu_.default", np.maximum(program.now[1][1], 0))
    inputs = list(program.graph.inputs)
    graph = program.held(3)
    became = [value.notes.get(WRITTEN) if value.has_notes else None for value in inputs]
    assert became[2] is None
    graph.set_outputs(became[:2])
    found = computed(canonical(rewrite.copy(graph)), program.feeds)
    for one, (_, other) in zip(found, program.now[:2], strict=True):
        np.testing.assert_array_equal(one, other)


def test_written_output_keeps_its_name():
    program = Program((2, 3))
    program.look(0, "aten.alias.default", program.now[0][1][...])
    value = program.now[1][0]
    program.graph.rename(value, "first")
    program.write(0, "aten.mul_.Scalar", program.now[0][1] * np.float32(2), other=2.0)
    program.graph.rename(program.now[0][0], "second")
    graph = program.held(1, 0)
    assert [each.name for each in graph.outputs] == ["first", "second"]
    assert len(set(graph.outputs)) == 2
    unseen = Program((2, 3))
    before = unseen.now[0][0]
    unseen.write(0, "aten.mul_.Scalar", unseen.now[0][1] * np.float32(2), other=2.0)
    unseen.now.append((before, unseen.now[0][1]))
    one, two = unseen.held(0, 1).outputs
    assert before not in (one, two)
    assert one is not two


def test_write_is_cast_to_the_dtype_of_its_target():
    for own, other, is_cast in (
        (DType.FLOAT32, DType.FLOAT32, False),
        (DType.FLOAT32, DType.FLOAT64, True),
        (DType.FLOAT16, DType.FLOAT32, True),
        (DType.INT64, DType.INT64, True),  # an average of integers is none
        (DType.FLOAT32, DType.INT64, True),
        (None, DType.FLOAT32, False),
    ):
        graph: Any = Graph()
        x, y = (graph.add_input(name, TensorFact(dtype, (3,))) for name, dtype in (("x", own), ("y", other)))
        made = Value("made", TensorFact(own, (3,)))
        graph.append(Node("aten.add_.Tensor", [x, y], [made], {KEYS: ("self", "other")}, dialect=DIALECT))
        after = graph.append(
            Node("aten.relu.default", [made], [Value("y2", x.fact)], {KEYS: ("self",)}, dialect=DIALECT)
        )
        graph.set_outputs([after.output])
        assert functionalize(graph) == []
        words = [node.op_type for node in graph]
        assert ("aten.to.dtype" in words) is is_cast, (own, other)
        if is_cast:
            cast = next(node for node in graph if node.op_type == "aten.to.dtype")
            assert cast.attributes["dtype"] == f"torch.{own.text}"
            assert (cast.output.fact, cast.operands[0].fact) == (x.fact, UNKNOWN)
            assert after.operands == [cast.output]


def test_op_type_without_results_may_write():
    program = Program((2, 3))
    value, array = program.now[0]
    array *= np.float32(3)
    program.put("aten.mul_.Scalar", value, results=(), other=3.0)
    program.look(0, "aten.view.default", array.reshape(-1), size=(-1,))
    program.held(1)


def test_view_with_a_computed_offset_is_written_back():
    program = Program((5, 3))
    start = program.graph.add_input("start", TensorFact(DType.INT64, ()))
    program.feeds["start"] = np.array(2)
    value, array = program.now[0]
    told = {"keys": ("self", "start"), "dim": 0, "end": 4, "step": 1}
    seen = program.put("aten.slice.Tensor", value, start, results=[TensorFact(DType.FLOAT32, None)], **told)
    program.now.append((seen, array[2:4]))
    program.write(1, "aten.mul_.Scalar", array[2:4] * np.float32(2), other=2.0)
    program.held(0)


def test_write_to_an_expanded_view_is_reported():
    program = Program((2, 1))
    seen = program.put(
        "aten.expand.default", program.now[0][0], results=[TensorFact(DType.FLOAT32, (2, 3))], size=(2, 3)
    )
    program.put("aten.zero_.default", seen)
    (finding,) = functionalize(program.graph)
    assert "whose elements overlap" in finding.message


def test_other_dialects_read_the_written_value():
    program = Program((2, 3))
    value, array = program.now[0]
    program.write(0, "aten.mul_.Scalar", array * np.float32(2), other=2.0)
    (made,) = (Value("made", fact_of(array)),)
    program.graph.append(Node("Relu", [value], [made]))
    program.graph.append(Node("aten.alias.default", [], [Value("none", UNKNOWN)], {KEYS: ()}, dialect=DIALECT))
    program.now.append((made, np.maximum(array, 0)))
    program.graph.set_outputs([made])
    assert functionalize(program.graph) == []
    assert next(node for node in program.graph if node.op == "Relu").operands == [program.now[0][0]]


def test_an_op_type_that_changes_how_a_tensor_looks_at_its_numbers():
    program = Program((2, 3))
    value, array = program.now[0]
    turned = program.put("aten.t_.default", value, results=[fact_of(array.T)])
    program.now += [(turned, array.T)]
    program.write(1, "aten.mul_.Scalar", array.T * np.float32(2), other=2.0)
    program.look(0, "aten.alias.default", array.T)  # an earlier result is the same tensor
    program.held(1, 2)
    program = Program((2, 3))
    value, array = program.now[0]
    column = program.put("aten.unsqueeze_.default", value, results=[TensorFact(DType.FLOAT32, (1, 2, 3))], dim=0)
    program.now = [(value, array[None]), (column, array[None])]
    program.write(1, "aten.mul_.Scalar", array[None] * np.float32(2), other=2.0)
    after = program.put("aten.relu.default", value, results=[TensorFact(DType.FLOAT32, (1, 2, 3))])
    program.now.append((after, np.maximum(array[None], 0)))
    program.held(1, 2)


def doubtful(op_type: str, told: Any, shape: Any, *, strided: bool, dtype: DType = DType.FLOAT32) -> tuple[Any, bool]:
    """Return the result of a write after an op that may copy, and whether a consumer of the original observes it."""
    program = Program((2, 3))
    value, array = program.now[0]
    if strided:
        value.notes[STRIDED] = True
    seen = program.put(op_type, value, results=[TensorFact(dtype, shape)], **told)
    program.put("aten.zero_.default", seen, results=[TensorFact(dtype, shape)])
    after = program.put("aten.alias.default", value, results=[fact_of(array)])
    program.graph.set_outputs([after])
    findings = functionalize(program.graph)
    if findings:
        return [finding.code for finding in findings], False
    (found,) = computed(canonical(rewrite.copy(program.graph)), program.feeds)
    return [], not found.any()


def test_the_layout_states_whether_an_op_type_copies():
    def flat(**told: Any) -> Any:
        return "aten.reshape.default", {"shape": (6,), **told}, (6,)

    same = (2, 3)
    for (op_type, told, shape), strided, dtype, expected in (
        (flat(), False, DType.FLOAT32, True),
        (flat(), True, DType.FLOAT32, None),
        (("aten.reshape.default", {"shape": same}, same), True, DType.FLOAT32, True),
        (("aten.contiguous.default", {}, same), False, DType.FLOAT32, True),
        (("aten.contiguous.default", {}, same), True, DType.FLOAT32, False),
        (("aten.contiguous.default", {"memory_format": "contiguous"}, same), False, DType.FLOAT32, True),
        (("aten.contiguous.default", {"memory_format": "channels_last"}, same), False, DType.FLOAT32, None),
        (("aten.to.dtype", {"dtype": "torch.float32"}, same), False, DType.FLOAT32, True),
        (("aten.to.dtype", {"dtype": "torch.float16"}, same), False, DType.FLOAT16, False),
        (("aten.to.dtype", {"dtype": "torch.float32", "copy": True}, same), False, DType.FLOAT32, False),
        (("aten.dropout.default", {"p": 0.5, "train": False}, same), False, DType.FLOAT32, True),
        (("aten.expand.default", {"size": same}, same), False, DType.FLOAT32, None),
    ):
        found = doubtful(op_type, told, shape, strided=strided, dtype=dtype)
        assert found == ((["LEG0004"], False) if expected is None else ([], expected)), (op_type, told, strided)


def test_possible_copy_is_rejected_only_after_a_write():
    for is_written in (False, True):
        program = Program((2, 3))
        value, array = program.now[0]
        value.notes[STRIDED] = True
        copy = program.put("aten.reshape.default", value, results=[TensorFact(DType.FLOAT32, (6,))], shape=(6,))
        if is_written:
            program.write(0, "aten.mul_.Scalar", array * np.float32(2), other=2.0)
        after = program.put("aten.relu.default", copy, results=[TensorFact(DType.FLOAT32, (6,))])
        program.write(0, "aten.mul_.Scalar", array * np.float32(2), other=2.0)
        program.graph.set_outputs([after])
        findings = functionalize(program.graph)
        assert [each.code for each in findings] == ["LEG0004"] * is_written
        if findings:
            assert "depending on run-time values" in findings[0].message
            assert "aten.relu.default" in findings[0].message


def test_an_op_type_that_is_unknown_is_reported():
    program = Program((2, 3))
    program.put("aten.mystery_.default", program.now[0][0])
    (finding,) = functionalize(program.graph)
    assert (finding.code, "unsupported in-place operator aten.mystery.default" in finding.message) == ("LEG0004", True)


BATCH = {"training": True, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": True}


@pytest.mark.parametrize("op_type", ["aten.batch_norm.default", "aten.instance_norm.default"])
def test_running_statistics_are_those_after_the_batch(op_type):
    told = (
        BATCH
        if "batch" in op_type
        else {**{k: v for k, v in BATCH.items() if k != "training"}, "use_input_stats": True}
    )
    for trains in (True, False):
        program = Program((4, 3, 5))
        x, array = program.now[0]
        given_ = {}
        for name, number in (("running_mean", 0.5), ("running_var", 2.0)):
            storage = storage_of(np.full(3, number, np.float32))
            given_[name] = program.graph.add_constant(name, TensorFact.of(storage), storage)
        told = {name: trains if value is True and name != "cudnn_enabled" else value for name, value in told.items()}
        keys = ("input", "weight", "bias", *given_)
        y = program.put(op_type, x, None, None, *given_.values(), keys=keys, results=[fact_of(array)], **told)
        after = [program.put("aten.alias.default", each, results=[each.fact]) for each in given_.values()]
        program.graph.set_outputs([y, *after])
        _, mean, var = computed(canonical(rewrite.copy(program.graph)), program.feeds)
        assert functionalize(program.graph) == []
        verify(program.graph)
        axes = (0, 2) if "batch" in op_type else (2,)
        means, vars_ = array.mean(axes), array.var(axes, ddof=1)
        if means.ndim > 1:
            means, vars_ = means.mean(0), vars_.mean(0)
        expected = (0.9 * 0.5 + 0.1 * means, 0.9 * 2 + 0.1 * vars_) if trains else (np.full(3, 0.5), np.full(3, 2.0))
        np.testing.assert_allclose(mean, expected[0], rtol=1e-5)
        np.testing.assert_allclose(var, expected[1], rtol=1e-5)
        assert all("cudnn_enabled" not in node.attributes for node in program.graph if node.op_type != op_type)


def test_statistics_that_do_not_exist_are_not_updated():
    program = Program((4, 3, 5))
    x, array = program.now[0]
    y = program.put("aten.batch_norm.default", x, keys=("input",), results=[fact_of(array)], **BATCH)
    program.graph.set_outputs([y])
    assert functionalize(program.graph) == []
    assert [node.op_type for node in program.graph] == ["aten.batch_norm.default"]


def test_operand_lists_read_the_updated_values():
    program = Program((2, 3), (2, 3))
    parts = [value for value, _ in program.now]
    program.write(0, "aten.mul_.Scalar", program.now[0][1] * np.float32(2), other=2.0)
    total = np.concatenate([array for _, array in program.now])
    made = program.put("aten.cat.default", *parts, keys=(f"tensors{ITEM}",) * 2, results=[fact_of(total)], dim=0)
    program.now.append((made, total))
    program.held(2)
