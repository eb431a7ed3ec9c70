"""A tensor that is parted into a sequence whose items are read at known places is parted into results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.passes.resolve_sequences import resolve_sequences
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
    """An axis, sizes along it (or one for all, or none) and places, of which each counts from either end."""
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
    return axis, sizes, draw(st.lists(st.integers(-count, count - 1), min_size=1, max_size=3))


@settings(max_examples=25)
@given(readings())
def test_every_way_to_part_computes_the_same(reading):
    axis, sizes, places = reading
    constants = {f"p{index}": place for index, place in enumerate(places)}
    if sizes is not None:
        constants["sizes"] = sizes
    split = node("SplitToSequence", "x" if sizes is None else "x sizes", "s", axis=axis)
    reads = [node("SequenceAt", f"s p{index}", f"y{index}") for index in range(len(places))]
    names = [f"y{index}" for index in range(len(places))]
    ops, _ = parted([split, *reads], outputs=names, **constants)
    count = X.shape[axis] if sizes is None else len(np.atleast_1d(sizes))
    again = len(places) - len({place % count for place in places}) if not isinstance(sizes, int) else None
    assert ops[0] == "Split"
    assert set(ops[1:]) <= {"Identity"}
    assert again is None or len(ops) == 1 + again


@st.composite
def chains(draw: st.DrawFn):
    """A tensor as a sequence, changed at places that count from either end, and read whole and by items."""
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


@settings(max_examples=25)
@given(chains())
def test_every_chain_of_known_places_computes_the_same(chain):
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
            "known places",
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
            "read otherwise",
            id="another reader",
        ),
        pytest.param([SPLIT, AT], {"sizes": [3, 4], "place": 0, "shape": (2, "N", 3)}, "not known", id="open extent"),
    ],
)
def test_what_cannot_be_told_stays(nodes, options, reason):
    ops, journal = parted(nodes, **options)
    assert "SplitToSequence" in ops
    assert [text for text in reasons(journal) if reason in text]


def test_a_sequence_that_a_body_reads_stays():
    from onnx import helper

    body = helper.make_graph([node("SequenceAt", "s place", "inner")], "b", [], [info("inner", None)])
    other = helper.make_graph([node("Identity", "x", "outer")], "o", [], [info("outer", None)])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other)
    more, feeds = [info("c", [], 9)], {"c": np.array(True)}
    ops, journal = parted([SPLIT, choice], more=more, feeds=feeds, sizes=[3, 4], place=0)
    assert ops == ["SplitToSequence", "If"]
    assert reasons(journal)
