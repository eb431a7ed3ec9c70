"""A split into a sequence whose items are read at constant indices becomes a split into results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import graphport as gp
from graphport.passes.journal import Journal
from graphport.passes.resolve_sequences import resolve_sequences
from graphport.passes.substitution import add_constant
from tests.draws import times
from tests.passes.alone import applied, reasons
from tests.passes.cases import I64, F, info, model, node, some

X = some(2, 7, 3)


def parted(nodes, shape=(2, 7, 3), feeds=None, more=(), outputs=("y",), **constants):
    proto = model(
        nodes,
        [info("x", shape), *more],
        [info(name, None, I64 if name == "n" else F) for name in outputs],
        {name: np.array(array, np.int64) for name, array in constants.items()},
        opset=18,
    )
    return applied(proto, resolve_sequences, {"x": X, **(feeds or {})})


@st.composite
def readings(draw: st.DrawFn):
    """Draw an axis, sizes along it (or one for all, or none), keepdims, and indices, also negative ones."""
    axis = draw(st.integers(-3, 2))
    extent = X.shape[axis]
    form = draw(st.sampled_from(["sizes", "one", "none"]))
    if form == "sizes":
        cuts = sorted(draw(st.lists(st.integers(0, extent), max_size=2)))
        sizes = [b - a for a, b in zip([0, *cuts], [*cuts, extent], strict=True)]
        count = len(sizes)
    else:
        sizes = draw(st.integers(1, extent)) if form == "one" else None
        count = extent if sizes is None else -(-extent // sizes)
    return (
        axis,
        sizes,
        draw(st.sampled_from([None, 0, 1])),
        draw(st.lists(st.integers(-count, count - 1), min_size=1, max_size=3)),
    )


@settings(max_examples=times(25))
@given(readings())
def test_every_way_to_part_computes_equal_results(reading):
    axis, sizes, keepdims, places = reading
    constants = {f"p{index}": place for index, place in enumerate(places)}
    if sizes is not None:
        constants["sizes"] = sizes
    told = {} if keepdims is None else {"keepdims": keepdims}
    told |= {"axis": axis} if axis else {}  # the default is 0
    split = node("SplitToSequence", "x" if sizes is None else "x sizes", "s", **told)
    reads = [node("SequenceAt", f"s p{index}", f"y{index}") for index in range(len(places))]
    names = [f"y{index}" for index in range(len(places))]
    ops, _ = parted([split, *reads], outputs=names, **constants)
    count = X.shape[axis] if sizes is None else len(np.atleast_1d(sizes))
    again = len(places) - len({place % count for place in places}) if not isinstance(sizes, int) else None
    squeezed = len({place % count for place in places}) if sizes is None and keepdims == 0 else 0
    assert ops[0] == "Split"
    assert set(ops[1:]) <= {"Identity", "Squeeze"}
    assert ops.count("Squeeze") == squeezed
    assert again is None or len(ops) == 1 + again + squeezed


@st.composite
def chains(draw: st.DrawFn):
    """Draw a tensor as a sequence, modified at positive or negative indices, and read completely and by items."""
    count, nodes, places, name = 7, [], {}, "s0"
    if draw(st.booleans()):
        nodes.append(node("SplitToSequence", "x", name, axis=1, keepdims=draw(st.integers(0, 1))))
    else:
        count = draw(st.integers(1, 3))
        nodes.append(node("SequenceConstruct", " ".join(["x"] * count), name))
    nodes += [node("Constant", "", "zero", value_int=0), node("SequenceAt", "s0 zero", "first")]
    for index in range(1, draw(st.integers(1, 4)) + 1):
        grows = count < 2 or draw(st.booleans())
        place = draw(st.none() | st.integers(-count, count if grows else count - 1))
        places |= {} if place is None else {f"p{index}": place}
        told = "" if place is None else f" p{index}"
        op, operands = ("SequenceInsert", f"{name} first") if grows else ("SequenceErase", name)
        nodes.append(node(op, operands + told, f"s{index}"))
        count, name = count + (1 if grows else -1), f"s{index}"
    places["at"] = draw(st.integers(-count, count - 1))
    new = draw(st.integers(0, 1))
    nodes += [
        node("SequenceLength", name, "n"),
        node("SequenceAt", f"{name} at", "y"),
        node("ConcatFromSequence", name, "z", axis=draw(st.integers(-2, 1)), new_axis=new),
    ]
    return nodes, places


@settings(max_examples=times(25))
@given(chains())
def test_sequences_with_constant_indices_are_resolved(chain):
    nodes, places = chain
    ops, _ = parted(nodes, outputs=("n", "y", "z"), **places)
    assert not [op for op in ops if "Sequence" in op]


SPLIT = node("SplitToSequence", "x sizes", "s", axis=1)
AT = node("SequenceAt", "s place", "y")


@pytest.mark.parametrize(
    ("nodes", "options", "reason"),
    [
        pytest.param(
            [SPLIT, AT],
            {"sizes": [3, 4], "more": [info("place", [], I64)], "feeds": {"place": np.array(1)}},
            "constant indices",
            id="computed place",
        ),
        pytest.param(
            [SPLIT, AT],
            {"place": 0, "more": [info("sizes", [2], I64)], "feeds": {"sizes": np.array([3, 4])}},
            "sizes are computed",
            id="computed sizes",
        ),
        pytest.param(
            [SPLIT, AT, node("Identity", "s", "t"), node("SequenceLength", "t", "n")],
            {"sizes": [3, 4], "place": 0, "outputs": ("y", "n")},
            "not read by constant indices",
            id="another reader",
        ),
        pytest.param([SPLIT, AT], {"sizes": [3, 4], "place": 0, "shape": (2, "N", 3)}, "unknown", id="open extent"),
    ],
)
def test_undetermined_sequences_are_kept(nodes, options, reason):
    ops, journal = parted(nodes, **options)
    assert "SplitToSequence" in ops
    assert [text for text in reasons(journal) if reason in text]


def test_a_sequence_that_a_body_reads_stays():
    body = helper.make_graph([node("SequenceAt", "s place", "inner")], "b", [], [info("inner", None)])
    other = helper.make_graph([node("Identity", "x", "outer")], "o", [], [info("outer", None)])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other)
    more, feeds = [info("c", [], 9)], {"c": np.array(True)}
    ops, journal = parted([SPLIT, choice], more=more, feeds=feeds, sizes=[3, 4], place=0)
    assert ops == ["SplitToSequence", "If"]
    assert reasons(journal)


def left_alone(nodes, *, outputs=("y",), shape=(2, 7, 3), results=None, **constants):
    """Return the reasons for unchanged sequences; the graph must be unchanged."""
    given = {name: np.array(array, np.int64) for name, array in constants.items()}
    told = results or [info(name, None, I64 if name == "n" else F) for name in outputs]
    graph = gp.from_onnx(model(nodes, [info("x", shape)], told, given, opset=18)).graph
    before, journal = str(graph), Journal()
    resolve_sequences(graph, journal)
    assert str(graph) == before
    assert not journal.done
    return reasons(journal)


THREES = [node("SequenceConstruct", "x x x", "s"), node("SplitToSequence", "x", "s", axis=2)]
"""Three items each; where a tensor is parted, nothing is before all that reads them has been looked at."""


@pytest.mark.parametrize("three", THREES, ids=["constructed", "parted"])
@pytest.mark.parametrize(("place", "is_there"), [(2, True), (3, False), (-3, True), (-4, False)])
def test_sequenceat_and_sequenceerase_need_an_index_in_range(three, place, is_there):
    for op, more in (("SequenceAt", []), ("SequenceErase", [node("SequenceLength", "t", "n")])):
        nodes = [three, node(op, "s p", "t" if more else "y"), *more]
        outputs = ("n",) if more else ("y",)
        if is_there:
            ops, _ = parted(nodes, outputs=outputs, p=place)
            assert not [each for each in ops if "Sequence" in each]
        else:
            assert left_alone(nodes, outputs=outputs, p=place) == [f"element {place} is out of range"]


@pytest.mark.parametrize(("place", "is_there"), [(3, True), (4, False), (-3, True), (-4, False)])
def test_sequenceinsert_accepts_the_index_after_the_last_element(place, is_there):
    for three in THREES:
        nodes = [three, node("SequenceInsert", "s x p", "t"), node("SequenceLength", "t", "n")]
        if is_there:
            ops, _ = parted(nodes, outputs=("n",), p=place)
            assert set(ops) <= {"Split"}
        else:
            assert left_alone(nodes, outputs=("n",), p=place) == [f"element {place} is out of range"]


def test_sequenceerase_of_an_empty_sequence_is_kept():
    length = node("SequenceLength", "t", "n")
    empty = node("SequenceEmpty", "", "s")
    assert left_alone([empty, node("SequenceErase", "s", "t"), length], outputs=("n",)) == ["the sequence is empty"]
    ops, _ = parted([empty, node("SequenceInsert", "s x", "t"), length], outputs=("n",))
    assert not ops
    joined = [empty, node("ConcatFromSequence", "s", "y", axis=0)]
    assert "not read by constant indices" in left_alone(joined)[0]
    ops, _ = parted([empty, node("SequenceLength", "s", "n")], outputs=("n",))
    assert not ops


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        pytest.param([3, 3], "the split sizes do not sum to the axis length", id="too few"),
        pytest.param([3, 5], "the split sizes do not sum to the axis length", id="too many"),
    ],
)
def test_sizes_have_to_make_up_the_extent(sizes, reason):
    graph = gp.from_onnx(
        model([SPLIT, AT], [info("x", (2, 7, 3))], [info("y", None)], {"sizes": [3, 4], "place": np.array(0)})
    ).graph
    split = graph.first_node
    split.set_input(1, add_constant(graph, np.array(sizes, np.int64), "others"))
    journal = Journal()
    resolve_sequences(graph, journal)
    assert reasons(journal) == [reason]
    assert [each.op for each in graph] == ["SplitToSequence", "SequenceAt"]


def test_a_sequence_that_the_graph_returns_stays():
    results = [helper.make_tensor_sequence_value_info("s", F, None), info("y", None)]
    told = left_alone([SPLIT, AT], results=results, sizes=[3, 4], place=0)
    assert told == ["the sequence is a graph output"]
    told = left_alone([SPLIT], results=results[:1], sizes=[3, 4])
    assert told == ["the sequence is a graph output"]


def test_a_sequence_that_is_changed_and_returned_stays():
    results = [helper.make_tensor_sequence_value_info("t", F, None)]
    nodes = [SPLIT, node("SequenceErase", "s place", "t")]
    assert left_alone(nodes, results=results, sizes=[3, 4], place=0) == ["the sequence is a graph output"]


@pytest.mark.parametrize(("count", "is_few"), [(1024, True), (1025, False)])
def test_more_items_than_a_graph_should_have_stay(count, is_few):
    nodes = [node("SplitToSequence", "x", "s"), node("SequenceLength", "s", "n")]
    proto = model(nodes, [info("x", (count, 1))], [info("n", None, I64)], {}, opset=18)
    graph, journal = gp.from_onnx(proto).graph, Journal()
    resolve_sequences(graph, journal)
    assert reasons(journal) == ([] if is_few else [f"the sequence has {count} elements"])
    assert [note.text for note in journal.done] == ([f"is {count} values"] if is_few else [])


def test_splittosequence_of_unknown_shape_is_kept():
    told = left_alone([node("SplitToSequence", "x", "s", axis=1), AT], shape=None, place=0)
    assert told == ["the shape of its operand is unknown"]


def test_new_values_are_named_after_the_sequence():
    graph = gp.from_onnx(
        model([SPLIT, AT], [info("x", (2, 7, 3))], [info("y", None)], {"sizes": [3, 4], "place": np.array(1)})
    ).graph
    resolve_sequences(graph, Journal())
    (split,) = graph
    assert [value.name for value in split.results] == ["s_1", "y"]
    assert [value.fact.shape for value in split.results] == [(2, 3, 3), (2, 4, 3)]
    assert split.inputs[1].name == "s_sizes"


@pytest.mark.parametrize(("place", "is_there"), [(1, True), (-2, True), (2, False), (-3, False)])
def test_sequenceerase_shortens_the_sequence(place, is_there):
    for three in THREES:
        nodes = [three, node("SequenceErase", "s first", "t"), node("SequenceAt", "t p", "y")]
        if is_there:
            assert set(parted(nodes, first=0, p=place)[0]) <= {"Identity", "Split"}
        else:
            assert left_alone(nodes, first=0, p=place) == [f"element {place} is out of range"]


@pytest.mark.parametrize(("place", "is_there"), [(3, True), (-4, True), (4, False), (-5, False)])
def test_sequenceinsert_lengthens_the_sequence(place, is_there):
    for three in THREES:
        nodes = [three, node("SequenceInsert", "s x first", "t"), node("SequenceAt", "t p", "y")]
        if is_there:
            assert set(parted(nodes, first=0, p=place)[0]) <= {"Identity", "Split"}
        else:
            assert left_alone(nodes, first=0, p=place) == [f"element {place} is out of range"]
