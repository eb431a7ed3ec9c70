"""Clips of clips cut off what both cut off, wherever their intervals meet."""

from __future__ import annotations

import itertools

import numpy as np

from graphport.passes.merge_clips import merge_clips
from tests.every import every
from tests.passes.alone import applied
from tests.passes.cases import info, model, node

BOUNDS = (None, -2.0, 0.0, 3.0, 6.0)
X = np.array([-9, -2, -1.5, 0, 0.5, 3, 4, 6, 9], np.float32)
INTERVALS = [(a, b) for a, b in itertools.product(BOUNDS, BOUNDS) if a is None or b is None or a <= b]


def clips(first, second, *, outputs=("y",), computed=False):
    constants = {}
    nodes, given, feeds = [], [info("x", [9])], {"x": X}
    for index, (bounds, read, made) in enumerate([(first, "x", "h"), (second, "h", "y")]):
        words = []
        for place, bound in enumerate(bounds):
            words.append("_" if bound is None else f"b{index}{place}")
            if bound is not None and not (computed and index == place == 0):
                constants[words[-1]] = np.array(bound, np.float32)
            elif bound is not None:
                given.append(info(words[-1], []))
                feeds[words[-1]] = np.array(bound, np.float32)
        while words and words[-1] == "_":
            words.pop()
        nodes.append(node("Clip", " ".join([read, *words]), made))
    proto = model(nodes, given, [info(name, [9]) for name in outputs], constants)
    return applied(proto, merge_clips, feeds)[0]


@every(("first", "second"), list(itertools.product(INTERVALS, INTERVALS)))
def test_two_clips_are_one_where_they_overlap(first, second):
    low = max([each for each in (first[0], second[0]) if each is not None], default=-np.inf)
    high = min([each for each in (first[1], second[1]) if each is not None], default=np.inf)
    assert len(clips(first, second)) == (1 if low <= high else 2)


def test_what_others_read_and_what_is_computed_stays():
    assert len(clips((0.0, 6.0), (3.0, None), outputs=("h", "y"))) == 2
    assert len(clips((0.0, 6.0), (3.0, None), computed=True)) == 2
