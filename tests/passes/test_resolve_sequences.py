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


SPLIT = node("SplitToSequence", "x sizes", "s", axis=1)
AT = node("SequenceAt", "s place", "y")


@pytest.mark.parametrize(
    ("nodes", "options", "reason"),
    [
        pytest.param(
            [node("SplitToSequence", "x", "s", axis=1, keepdims=0), AT], {"place": 1}, "lose the axis", id="keepdims"
        ),
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
            [SPLIT, AT, node("SequenceLength", "s", "n")],
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
