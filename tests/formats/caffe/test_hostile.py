"""Networks that somebody changed at random: findings, and nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.core.diagnostics import Diagnostic
from tests.draws import times
from tests.formats.caffe.test_layers import AGREEING, DEFINED, one_layer
from tests.formats.caffe.test_networks import detector, unet

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_NAME = re.compile(r'"\w+"')
NUMBERS = ["0", "-1", "1", "3", "100", "1000000", "4294967295", "-2147483648", "0.5", "1e30", "inf", "nan"]
TEXTS = [
    detector().text,
    unet().text,
    *(one_layer(type, **options).text for type, options in AGREEING.values()),
    *(one_layer(type, **options).text for type, options, _ in DEFINED.values()),
]


@st.composite
def changed(draw) -> str:
    """A network with a few other numbers, other names, or layers that are missing or there twice."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["number", "name", "drop", "repeat"]))
        lines = text.split("\n")
        index = draw(st.integers(0, len(lines) - 1))
        if kind == "drop":
            del lines[index]
        elif kind == "repeat":
            lines.insert(index, lines[index])
        else:
            found = list((_NUMBER if kind == "number" else _NAME).finditer(lines[index]))
            if found:
                place = draw(st.sampled_from(found))
                other = draw(st.sampled_from(NUMBERS)) if kind == "number" else draw(st.sampled_from(found))[0]
                lines[index] = lines[index][: place.start()] + other + lines[index][place.end() :]
        text = "\n".join(lines) or "\n"
    return text


@settings(max_examples=times(150))
@given(changed())
def test_changes_are_reported(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("net") / "net.prototxt"
    path.write_text(text)
    assert all(isinstance(finding, Diagnostic) for finding in gp.check(path))


@pytest.mark.parametrize("text", ["", "layer", "\0", "layer { type: 'ReLU' }", "input: 'x'"], ids=repr)
def test_a_file_that_is_not_a_network_is_reported(tmp_path, text):
    path = tmp_path / "net.prototxt"
    path.write_text(text)
    assert any(finding.is_error for finding in gp.check(path))
