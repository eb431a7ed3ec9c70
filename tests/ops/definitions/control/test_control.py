"""Control flow, sequences and optionals: text models compared with ONNX Runtime, and their facts."""

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, OptionalFact, SequenceFact, TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.control import (
    ConcatFromSequence,
    If,
    Loop,
    Optional,
    OptionalGetElement,
    OptionalHasElement,
    Scan,
    SequenceAt,
    SequenceConstruct,
    SequenceEmpty,
    SequenceErase,
    SequenceInsert,
    SequenceLength,
    SequenceMap,
    SplitToSequence,
    joins,
)
from tests.ops.facts import f32, fact_of, facts_of, i64, rule, single


def parsed(text, opset=21):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


def shapes_of(model) -> dict[str, Any]:
    return model.shapes()


def join_of(a, b) -> Any:
    return joins.join(a, b)


def ort(proto, inputs) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def check(text, opset=21, /, **inputs) -> list[Any]:
    """Hold the reference, and what we write for ONNX Runtime, against ONNX Runtime on the original; return the results."""
    proto = parsed(text, opset)
    expected = ort(proto, inputs)
    model = gp.from_onnx(proto)
    for backend in ("reference", "onnxruntime"):
        found = list(gp.run(model, inputs, backend=backend).values())
        for a, b in zip(found, expected, strict=True):
            _same(a, b)
    known = shapes_of(model)
    for name, value in zip((o.name for o in proto.graph.output), expected, strict=True):
        _fits(known[name], value)
    return expected


def _same(found, expected):
    if isinstance(expected, list):
        assert isinstance(found, list)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            _same(a, b)
        return
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def _fits(fact, value):
    if isinstance(fact, TensorFact) and fact.shape is not None:
        assert fact.dtype is DType.of(value.dtype)
        assert len(fact.shape) == value.ndim
        assert all(dim == n for dim, n in zip(fact.shape, value.shape, strict=True) if isinstance(dim, int))


X = np.arange(12, dtype=np.float32).reshape(3, 4)


# If


BRANCHES = """
agraph (float[3, 4] x, bool c) => (float[a, b] y) {
    two = Constant <value_float = 2.0> ()
    y = If (c) <
        then_branch = yes () => (float[3, 4] a) { a = Mul (x, two) },
        else_branch = no () => (float[2, 4] b) { s = Constant <value_ints = [0]> () e = Constant <value_ints = [2]> () b = Slice (x, s, e) }
    >
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_if_branches_capture_outer_values(condition):
    check(BRANCHES, x=X, c=np.array(condition))


def test_if_with_constant_condition_has_the_shape_of_its_branch():
    text = BRANCHES.replace("bool c) =>", "bool unused) =>").replace(
        "two =", "c = Constant <value = bool {1}> ()\n two ="
    )
    model = gp.from_onnx(parsed(text))
    assert shapes_of(model)["y"].shape == (3, 4)
    found = gp.run(model, {"x": X, "unused": np.array(False)}, backend="reference")["y"]
    np.testing.assert_array_equal(found, 2 * X)


def test_branches_within_branches():
    check(
        """
        agraph (float[N] x, bool c, bool d) => (float[N] y) {
            y = If (c) <
                then_branch = a () => (float[N] p) { p = If (d) <
                    then_branch = b () => (float[N] q) { q = Neg (x) },
                    else_branch = e () => (float[N] r) { r = Abs (x) }
                > },
                else_branch = f () => (float[N] s) { s = Identity (x) }
            >
        }""",
        x=single([-1, 2]),
        c=np.array(True),
        d=np.array(False),
    )


class Facts:
    """A body that returns fixed facts."""

    def __init__(self, answer):
        self.answer = answer

    @property
    def facts(self):
        return self.answer() if callable(self.answer) else self.answer

    def __call__(self, *given):
        return self.answer(*given) if callable(self.answer) else self.answer


N = Symbol("N", 1)
BOOL = TensorFact(DType.BOOL, ())


def test_results_of_branches_are_joined():
    (found,) = rule(If)(BOOL, then_branch=Facts([f32(2, N)]), else_branch=Facts([f32(3, N)]))
    assert found.shape[1] == N
    assert isinstance(found.shape[0], type(N))
    with pytest.raises(ShapeError, match="then_branch returns 1 values, else_branch 2"):
        rule(If)(BOOL, then_branch=Facts([f32(2)]), else_branch=Facts([f32(2), f32(2)]))
    with pytest.raises(ShapeError, match="result 0 is float32 in then_branch and int64 in else_branch"):
        rule(If)(BOOL, then_branch=Facts([f32(2)]), else_branch=Facts([i64(2)]))


def test_a_symbolic_condition_leaves_both_branches_possible():
    condition = BOOL.with_elements([Symbol("c", 0)])
    (found,) = rule(If)(condition, then_branch=Facts([f32(2)]), else_branch=Facts([f32(3)]))
    assert not isinstance(found.shape[0], int)
    (found,) = rule(If)(BOOL.with_elements([0]), then_branch=Facts([f32(2)]), else_branch=Facts([f32(3)]))
    assert found.shape == (3,)


def test_join_of_facts_keeps_what_both_facts_contain():
    assert join_of(i64(2).with_elements([1, 2]), i64(2).with_elements([1, 2])).elements == (1, 2)
    assert join_of(i64(1).with_elements([1]), i64(1).with_elements([2])).elements is None
    assert join_of(SequenceFact(f32(2)), SequenceFact(f32(2))) == SequenceFact(f32(2))
    assert join_of(OptionalFact(f32(2)), OptionalFact(f32(2, 3))) == OptionalFact(TensorFact(DType.FLOAT32, None))
    assert join_of(SequenceFact(f32(2)), f32(2)) == UNKNOWN


# Loop


LOOP = """
agraph (int64 m, bool c, float[2] x) => (float[2] last, float[k, 2] all) {
    last, all = Loop (m, c, x) <body = step (int64 i, bool go, float[2] v) => (bool again, float[2] w, float[2] s) {
        n = Cast <to = 1> (i)
        w = Add (v, n)
        five = Constant <value_float = 5.0> ()
        first = ReduceMax <keepdims = 0> (w)
        again = Less (first, five)
        s = Identity (w)
    }>
}"""


@pytest.mark.parametrize("rounds", [0, 1, 3, 100])
@pytest.mark.parametrize("condition", [True, False])
def test_a_loop_ends_by_its_number_or_its_condition(rounds, condition):
    check(LOOP, m=np.array(rounds), c=np.array(condition), x=single([0, 1]))


def test_loop_with_zero_iterations_returns_empty_scan_outputs():
    _, scanned = check(LOOP, m=np.array(0), c=np.array(True), x=single([0, 1]))
    assert scanned.shape == (0, 2)


def test_loop_may_carry_a_growing_tensor():
    text = """
    agraph (int64 m, float[2] x) => (float[n] last) {
        last = Loop (m, , x) <body = step (int64 i, bool go, float[a] v) => (bool again, float[b] w) {
            again = Identity (go)
            w = Concat <axis = 0> (v, v)
        }>
    }"""
    check(text, m=np.array(3), x=single([1, 2]))
    fact = shapes_of(gp.from_onnx(parsed(text)))["last"]
    assert fact.dtype is DType.FLOAT32
    assert not isinstance(fact.shape[0], int)


def test_loop_may_carry_sequences_and_several_dtypes():
    check(
        """
        agraph (int64 m, float[2] x) => (seq(float[a]) all, int64 count) {
            zero = Constant <value_int = 0> ()
            none = SequenceEmpty ()
            all, count = Loop (m, , none, zero) <
                body = step (int64 i, bool go, seq(float[b]) s, int64 n) => (bool again, seq(float[c]) t, int64 k) {
                    again = Identity (go)
                    one = Constant <value_int = 1> ()
                    k = Add (n, one)
                    f = Cast <to = 1> (k)
                    y = Mul (x, f)
                    t = SequenceInsert (s, y)
                }>
        }""",
        m=np.array(3),
        x=single([1, 2]),
    )


def carried(body, *initial, m=None, cond=None):
    return rule(Loop)(m, cond, *initial, body=Facts(body))


def test_loop_carried_facts_reach_a_fixed_point():
    on = TensorFact(DType.BOOL, (), (1,))
    last, scan = carried(lambda i, c, v: [c, v, v], f32(2, N), m=i64().with_elements([5]))
    assert last == f32(2, N)
    assert scan.shape == (5, 2, N)
    (_, scan) = carried(lambda i, c, v: [BOOL, v, v], f32(2), m=i64().with_elements([5]))
    assert scan.shape[1] == 2
    assert not isinstance(scan.shape[0], int)
    grown, _ = carried(lambda i, c, v: [on, f32(v.shape[0] + 1, 4), v], f32(1, 4))
    assert grown.shape[1] == 4
    assert not isinstance(grown.shape[0], int)
    (unranked,) = carried(lambda i, c, v: [on, f32(*v.shape, 1)] if v.shape is not None else [on, v], f32(1))
    assert unranked.shape is None
    (counter,) = carried(
        lambda i, c, v: [on, i64().with_elements([v.elements[0] + 1]) if v.elements else i64()],
        i64().with_elements([0]),
    )
    assert counter.elements is None
    (negative,) = carried(lambda i, c: [on, f32(2)], m=i64().with_elements([-3]))
    assert negative.shape == (0, 2)
    with pytest.raises(ShapeError, match="the body returns 1 values, 2 are needed"):
        carried(lambda i, c, v: [on], f32(2))


def test_a_loop_of_types_has_no_rule_about_them():
    body = Facts(lambda i, c, a, b: [c, a, b])
    answer = facts_of(Loop, [None, None, f32(2), i64(3)], {"body": body}, 2)
    assert answer == (f32(2), i64(3))


# Scan


def test_a_scan_carries_and_stacks():
    check(
        """
        agraph (float[2] start, float[3, 2] xs) => (float[2] last, float[3, 2] all) {
            last, all = Scan <num_scan_inputs = 1, body = step (float[2] s, float[2] x) => (float[2] t, float[2] y) {
                t = Add (s, x)
                y = Mul (t, x)
            }> (start, xs)
        }""",
        start=single([1, 2]),
        xs=single([[1, 2], [3, 4], [5, 6]]),
    )


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize(("axis", "out"), [(0, 0), (1, 0), (-1, -1), (1, 1)])
def test_a_scan_has_axes_and_directions(direction, axis, out):
    shape = (2, 3) if axis in (1, -1) else (3, 2)
    result = (2, 3) if out else (3, 2)
    check(
        f"""
        agraph (float[2] start, float[{shape[0]}, {shape[1]}] xs) => (float[2] last, float[{result[0]}, {result[1]}] all) {{
            last, all = Scan <num_scan_inputs = 1, scan_input_axes = [{axis}], scan_output_axes = [{out}],
                scan_input_directions = [{direction}], scan_output_directions = [{1 - direction}],
                body = step (float[2] s, float[2] x) => (float[2] t, float[2] y) {{
                    t = Add (s, x)
                    y = Identity (t)
                }}> (start, xs)
        }}""",
        start=single([1, 2]),
        xs=np.arange(6, dtype=np.float32).reshape(shape),
    )


def test_scan_over_an_empty_axis_returns_empty_outputs():
    text = """
    agraph (float[2] start, float[n, 2] xs) => (float[2] last, float[2, n] all) {
        last, all = Scan <num_scan_inputs = 1, scan_output_axes = [1],
            body = step (float[2] s, float[2] x) => (float[2] t, float[2] y) { t = Add (s, x) y = Identity (t) }> (start, xs)
    }"""
    model = gp.from_onnx(parsed(text))
    found = gp.run(model, {"start": single([1, 2]), "xs": np.zeros((0, 2), np.float32)}, backend="reference")
    assert found["all"].shape == (2, 0)
    assert shapes_of(model)["all"].shape[0] == 2


def test_scan_rejects_mismatched_operands():
    same = Facts(lambda s, x: [s, x])

    def scan(*operands, body=same, **attributes):
        return rule(Scan)(*operands, body=body, **({"num_scan_inputs": 1} | attributes))

    assert scan(f32(2), f32(N, 3)) == [f32(2), f32(N, 3)]
    assert scan(f32(2), UNKNOWN)[0] == f32(2)
    with pytest.raises(ShapeError, match="num_scan_inputs is 3, the operands are 2"):
        scan(f32(2), f32(3), num_scan_inputs=3)
    with pytest.raises(ShapeError, match="num_scan_inputs is 0"):
        scan(f32(2), f32(3), num_scan_inputs=0)
    with pytest.raises(ShapeError, match="scan_input_axes has 2 entries, 1 are needed"):
        scan(f32(2), f32(3), scan_input_axes=(0, 0))
    with pytest.raises(ShapeError, match="the directions are"):
        scan(f32(2), f32(3), scan_input_directions=(2,))
    with pytest.raises(ShapeError, match="the directions are"):
        scan(f32(2), f32(3), scan_output_directions=(2,))
    with pytest.raises(ShapeError, match="axis 1 is outside"):
        scan(f32(2), f32(3), scan_input_axes=(1,))
    with pytest.raises(ShapeError, match="steps of scanned operand 1: 3 and 4 differ"):
        scan(f32(3), f32(4), body=Facts(lambda x, y: [x]), num_scan_inputs=2)


OLD_SCAN = """
agraph (int64[3] lengths, float[3, 2] start, float[3, 4, 2] xs) => (float[3, 2] last, float[3, 4, 2] all) {
    last, all = Scan <num_scan_inputs = 1, directions = [DIRECTION],
        body = step (float[2] s, float[2] x) => (float[2] t, float[2] y) {
            two = Constant <value = float[1] {2.0}> ()
            t = Add (s, x)
            y = Mul (t, two)
        }> (LENGTHS, start, xs)
}"""


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("lengths", [True, False])
def test_the_oldest_scan_has_a_batch(direction, lengths):
    text = OLD_SCAN.replace("DIRECTION", str(direction)).replace("LENGTHS", "lengths" if lengths else "")
    inputs = {"lengths": np.array([4, 2, 1])} if lengths else {}
    text = text if lengths else text.replace("int64[3] lengths, ", "")
    xs = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    check(text, 8, **inputs, start=np.ones((3, 2), np.float32), xs=xs)


# Sequences


def test_sequences_are_built_and_read():
    check(
        """
        agraph (float[2] x, float[3] y, int64 i) => (seq(float[a]) all, float[b] one, int64 n, seq(float[c]) fewer) {
            some = SequenceConstruct (x, y)
            all = SequenceInsert (some, x, i)
            one = SequenceAt (all, i)
            n = SequenceLength (all)
            fewer = SequenceErase (all, i)
        }""",
        x=single([1, 2]),
        y=single([3, 4, 5]),
        i=np.array(-1),
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("new", [0, 1])
def test_sequences_are_joined(axis, new):
    check(
        f"""
        agraph (float[3, 4] x) => (float[a, b{", c" if new else ""}] y) {{
            s = SequenceConstruct (x, x)
            y = ConcatFromSequence <axis = {axis}, new_axis = {new}> (s)
        }}""",
        x=X,
    )


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_tensors_are_split_into_entries(axis, keepdims):
    shape = "a, b" if keepdims else "a"
    text = f"""
        agraph (float[3, 4] x) => (seq(float[{shape}]) s) {{
            s = SplitToSequence <axis = {axis}, keepdims = {keepdims}> (x)
        }}"""
    check(text, x=X)


@pytest.mark.parametrize("split", [np.array(2), np.array(3), np.array([1, 3]), np.array([4, 0])])
def test_tensors_are_split_into_parts(split):
    shape = "[2]" if split.ndim else ""
    text = f"""
        agraph (float[3, 4] x, int64{shape} parts) => (seq(float[a, b]) s) {{ s = SplitToSequence <axis = 1> (x, parts) }}"""
    check(text, x=X, parts=split)


def test_a_body_maps_sequences():
    check(
        """
        agraph (float[2] x, float[3] y, float[1] z) => (seq(float[a]) s, seq(float[b]) t) {
            all = SequenceConstruct (x, y)
            twice = SequenceConstruct (y, x)
            s, t = SequenceMap (all, z, twice) <body = each (float[p] e, float[1] w, float[q] f) => (float[r] g, float[u] h) {
                g = Add (e, w)
                h = Neg (f)
            }>
        }""",
        x=single([1, 2]),
        y=single([3, 4, 5]),
        z=single([10]),
    )


def element(fact) -> Any:
    assert isinstance(fact, SequenceFact)
    return fact.element


def test_sequence_element_fact_joins_its_elements():
    both = fact_of(SequenceConstruct, f32(2, N), f32(3, N))
    assert element(both).shape[1] == N
    first, second = (fact_of(SequenceAt, both, i64()) for _ in range(2))
    assert first.shape[1] == second.shape[1] == N
    assert element(fact_of(SequenceEmpty)) == TensorFact(DType.FLOAT32, None)
    assert element(fact_of(SequenceEmpty, dtype=DType.INT64)).dtype is DType.INT64
    assert element(fact_of(SequenceInsert, SequenceFact(f32(2)), f32(2))) == f32(2)
    assert fact_of(SequenceErase, SequenceFact(f32(2))) == SequenceFact(f32(2))
    assert fact_of(SequenceLength, SequenceFact(f32(2))) == i64()
    assert fact_of(SequenceAt, UNKNOWN, i64()) == UNKNOWN


def test_sequence_elements_get_distinct_dynamic_dims():
    proto = parsed("""
        agraph (float[2] x, float[3] y) => (float[a] p, float[b] q) {
            s = SequenceConstruct (x, y)
            i = Constant <value_int = 0> ()
            j = Constant <value_int = 1> ()
            p = SequenceAt (s, i)
            q = SequenceAt (s, j)
        }""")
    known = shapes_of(gp.from_onnx(proto))
    assert known["p"].shape != known["q"].shape


def test_parts_have_the_length_that_follows():
    def part(length, split, **attributes):
        return element(fact_of(SplitToSequence, f32(length, 3), split, **attributes)).shape

    assert part(6, None) == (1, 3)
    assert part(6, None, keepdims=0) == (3,)
    assert part(6, i64().with_elements([2])) == (2, 3)
    assert part(6, i64(3).with_elements([2, 2, 2])) == (2, 3)
    for split in (i64().with_elements([4]), i64(2).with_elements([1, 5]), i64()):
        assert not isinstance(part(6, split)[0], int)
    for split, match in (
        (i64(2).with_elements([1, 4]), "do not fill 6"),
        (i64().with_elements([0]), "no lengths"),
        (i64(1).with_elements([-6]), "no lengths"),
    ):
        with pytest.raises(ShapeError, match=match):
            part(6, split)


def test_joined_elements_are_open_along_the_axis():
    s = SequenceFact(f32(2, N))
    assert fact_of(ConcatFromSequence, s, axis=0).shape[1] == N
    assert fact_of(ConcatFromSequence, s, axis=-1).shape[0] == 2
    assert fact_of(ConcatFromSequence, s, axis=0, new_axis=1).shape[1:] == (2, N)
    with pytest.raises(ShapeError, match="axis 2 is outside"):
        fact_of(ConcatFromSequence, s, axis=2)
    with pytest.raises(ShapeError, match="new_axis is 2"):
        fact_of(ConcatFromSequence, s, axis=0, new_axis=2)


def test_sequencemap_shape_depends_on_the_element():
    s = SequenceFact(f32(2, N))
    found = rule(SequenceMap)(s, f32(5), body=Facts(lambda e, w: [e, f32(Symbol("local"), 5)]))
    assert element(found[0]).shape == (2, N)
    assert not isinstance(element(found[1]).shape[0], int)
    assert element(found[1]).shape[0] != Symbol("local")


@pytest.mark.parametrize(
    ("op_def", "facts", "match"),
    [
        (SequenceConstruct, [], "0 operands, at least 1"),
        (SequenceConstruct, [f32(2), i64(2)], "is int64, another operand float32"),
        (SequenceInsert, [SequenceFact(f32(2)), i64(2)], "the tensor is int64, the sequence has float32 elements"),
        (SequenceInsert, [SequenceFact(f32(2)), f32(2), i64(1, 1)], "position has rank 2"),
        (SequenceAt, [f32(2), i64()], "input_sequence is float32.*, no sequence"),
        (SequenceLength, [f32(2)], "no sequence"),
        (SplitToSequence, [SequenceFact(f32(2))], "input is sequence.*, no tensor"),
    ],
)
def test_sequence_operators_reject_mismatched_operands(op_def, facts, match):
    with pytest.raises(ShapeError, match=match):
        facts_of(op_def, facts, {}, 1)


@pytest.mark.parametrize("op_def", [SequenceAt, SequenceErase, SequenceInsert], ids=lambda op_def: op_def.name)
def test_positions_outside_are_refused(op_def):
    s = [single([1]), single([2])]
    extra = [single([3])] if op_def is SequenceInsert else []
    for position in (3, -3):
        with pytest.raises(IndexError, match="there is no position"):
            op_def(s, *extra, np.array(position))
    with pytest.raises(IndexError, match="there is no position"):
        SequenceErase([])
    assert [x.tolist() for x in SequenceInsert(s, single([3]), np.array(-2))] == [[3], [1], [2]]


def test_definitions_of_sequences_do_not_change_them():
    s = [single([1])]
    SequenceInsert(s, single([2]))
    SequenceErase(s)
    assert len(s) == 1


def test_parts_that_do_not_fill_are_refused():
    with pytest.raises(ValueError, match="do not fill 3 entries"):
        SplitToSequence(X, np.array([1, 1]))
    assert SplitToSequence(X[:0], np.array(2)) == []
    assert [part.shape for part in SplitToSequence(X[:0], np.array([0, 0]))] == [(0, 4), (0, 4)]


# Optionals


def test_optional_operators_handle_empty_optionals():
    assert Optional(X) is X
    assert Optional(type=f32(2)) is None
    assert OptionalGetElement(X) is X
    assert OptionalHasElement(X)
    assert not OptionalHasElement(None)
    assert not OptionalHasElement()
    with pytest.raises(ValueError, match="the optional is empty"):
        OptionalGetElement(None)


def test_facts_of_optionals():
    assert fact_of(Optional, f32(2)) == OptionalFact(f32(2))
    assert fact_of(Optional, None, type=SequenceFact(f32(2))) == OptionalFact(SequenceFact(f32(2)))
    assert fact_of(OptionalGetElement, OptionalFact(f32(2))) == f32(2)
    assert fact_of(OptionalGetElement, f32(2)) == f32(2)
    assert fact_of(OptionalHasElement, OptionalFact(f32(2))).elements is None
    assert fact_of(OptionalHasElement, f32(2)).elements == (1,)
    assert fact_of(OptionalHasElement).elements == (0,)
    with pytest.raises(ShapeError, match="are both missing"):
        fact_of(Optional)


def test_an_empty_optional_ends_a_run_with_a_finding():
    proto = parsed(
        "agraph (float[2] x) => (float[2] y) { o = Optional <type = float[2]> () y = OptionalGetElement (o) }", 18
    )
    with pytest.raises(DiagnosticError, match="the optional is empty"):
        gp.run(gp.from_onnx(proto), {"x": single([1, 2])}, backend="reference")


# Older forms


@pytest.mark.parametrize("opset", [11, 13, 16, 19, 21])
def test_unchanged_forms_are_those_of_onnx_runtime(opset):
    check(
        BRANCHES.replace("value_float = 2.0", "value = float {2.0}")
        .replace("<value_ints = [0]>", "<value = int64[1] {0}>")
        .replace("<value_ints = [2]>", "<value = int64[1] {2}>"),
        opset,
        x=X,
        c=np.array(True),
    )
    loop = LOOP.replace("value_float = 5.0", "value = float {5.0}")
    check(loop, opset, m=np.array(2), c=np.array(True), x=single([0, 1]))
