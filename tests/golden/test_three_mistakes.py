"""The golden document for the command line holds exactly the three mistakes that it claims to hold."""

from __future__ import annotations

from pathlib import Path

import nnef
import pytest

TEXT = (Path(__file__).parent / "nnef" / "three_mistakes.nnef").read_text()
REPAIRS = {
    "no semicolon": ("'conv/kernel')\n", "'conv/kernel');\n"),
    "unknown argument": ("pading", "padding"),
    "unknown name": ("doubeld", "doubled"),
}


def repaired(*mistakes: str) -> str:
    text = TEXT
    for mistake in mistakes:
        text = text.replace(*REPAIRS[mistake])
    return text


def test_it_is_right_once_the_three_are_repaired():
    graph = nnef.parse_string(repaired(*REPAIRS))
    nnef.infer_shapes(graph)
    assert graph.tensors["probability"].shape == [1, 4]


@pytest.mark.parametrize("mistake", REPAIRS)
def test_each_mistake_alone_is_detected(mistake):
    with pytest.raises(nnef.Error):
        nnef.parse_string(repaired(*(REPAIRS.keys() - {mistake})))
