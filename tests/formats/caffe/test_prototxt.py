from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.diagnostics import DiagnosticError, Source
from graphport.formats.caffe.container.findings import Findings
from graphport.formats.caffe.container.message import Identifier, Message
from graphport.formats.caffe.container.printer import to_text
from graphport.formats.caffe.container.prototxt import MOST_NESTED, parse
from tests.every import every


def parsed(text: str, kind: str = "NetParameter") -> Message:
    findings = Findings()
    message = parse(Source("net.prototxt", text), findings, kind)
    findings.raise_errors()
    return message


def content(message: Message) -> dict:
    return {
        name: [content(e.content) if isinstance(e.content, Message) else e.content for e in entries]
        for name, entries in message.entries.items()
    }


def codes(text: str) -> list[str]:
    findings = Findings()
    try:
        parse(Source("net.prototxt", text), findings)
    except DiagnosticError as error:
        return [finding.code for finding in error.diagnostics]
    return [finding.code for finding in findings.all_findings()]


def convolution(text: str) -> dict:
    return content(parsed(f"layer {{ convolution_param {{ {text} }} }}"))["layer"][0]["convolution_param"][0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('name: "net"', {"name": ["net"]}, id="a text"),
        pytest.param("name: 'net'", {"name": ["net"]}, id="the other quotes"),
        pytest.param("name: 'a' \"b\"\n'c'", {"name": ["abc"]}, id="texts in a row are one"),
        pytest.param(r'name: "\x41\102\n\"\346\227\245"', {"name": ['AB\n"日']}, id="escapes are bytes of UTF-8"),
        pytest.param("input_dim: 1 input_dim: 0x10 input_dim: 010", {"input_dim": [1, 16, 8]}, id="three bases"),
        pytest.param("input_dim: [1, 2]", {"input_dim": [1, 2]}, id="a list"),
        pytest.param("input_dim: [ ]", {}, id="an empty list"),
        pytest.param("input_dim: 1; input_dim: 2,", {"input_dim": [1, 2]}, id="separators"),
        pytest.param("# all of it", {}, id="a comment alone"),
        pytest.param('name: "#" # "', {"name": ["#"]}, id="no comment in a text"),
        pytest.param("state: < level: - 2 >", {"state": [{"level": [-2]}]}, id="the other brackets"),
        pytest.param("state { } state_x: 1", {"state": [{}], "state_x": [1]}, id="an unknown field is kept"),
        pytest.param(
            "layer { x { y: 1.5 z: AB w: true v { u: 's' } } }",
            {"layer": [{"x": [{"y": [1.5], "z": ["AB"], "w": [True], "v": [{"u": ["s"]}]}]}]},
            id="an unknown message is kept",
        ),
        pytest.param("force_backward: t debug_info: 0", {"force_backward": [True], "debug_info": [False]}, id="flags"),
        pytest.param("\ufeffname: 'n'", {"name": ["n"]}, id="a mark in front"),
    ],
)
def test_a_text_is_read(text, expected):
    assert content(parsed(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1.0), ("1.", 1.0), (".5", 0.5), ("1e-2f", 0.01), ("-inf", -math.inf), ("2F", 2.0), ("0x10", 16.0)],
)
def test_a_real_number_is_read(text, expected):
    found = content(parsed(f"layer {{ loss_weight: {text} }}"))["layer"][0]["loss_weight"]
    assert found == [expected]


def test_enum_numbers_are_read_as_names():
    assert convolution("engine: CUDNN")["engine"] == [Identifier("CUDNN")]
    assert convolution("engine: 1")["engine"] == [Identifier("CAFFE")]


@every(
    ("text", "code"),
    [
        pytest.param("name", "CAFFE0101", id="a name alone"),
        pytest.param("name:", "CAFFE0101", id="no value"),
        pytest.param("layer {", "CAFFE0101", id="not closed"),
        pytest.param("layer < }", "CAFFE0101", id="closed by the other bracket"),
        pytest.param("}", "CAFFE0101", id="closed and not opened"),
        pytest.param("input_dim: [1 2]", "CAFFE0101", id="a list without a comma"),
        pytest.param("layer {" + "x {" * MOST_NESTED, "CAFFE0102", id="nested too deep"),
        pytest.param("input_dim: " + "1" * 1000, "CAFFE0102", id="too many digits"),
        pytest.param("name: 'a", "CAFFE0103", id="a text that does not end"),
        pytest.param("name: %", "CAFFE0103", id="a character that begins no word"),
        pytest.param("name: 1", "CAFFE0104", id="a number for a text"),
        pytest.param("input_dim: 1.5", "CAFFE0104", id="a real for an integer"),
        pytest.param("input_dim: 9223372036854775808", "CAFFE0104", id="too large an integer"),
        pytest.param("layer { convolution_param { num_output: -1 } }", "CAFFE0104", id="a negative number of outputs"),
        pytest.param("name { }", "CAFFE0104", id="a message for a text"),
        pytest.param("layer: 1", "CAFFE0104", id="a number for a message"),
        pytest.param("force_backward: 2", "CAFFE0104", id="no flag"),
        pytest.param("layer { phase: LEARN }", "CAFFE0105", id="no value of the enumeration"),
        pytest.param("name: 'a' name: 'b'", "CAFFE0106", id="said twice"),
        pytest.param("layr { }", "CAFFE0213", id="no such message in a network"),
        pytest.param("layer { color: 'red' }", "CAFFE0201", id="no such field"),
    ],
)
def test_syntax_error_is_reported(text, code):
    assert codes(text)[-1] == code
    assert set(codes(text)) <= {code, "CAFFE0201"}


def test_all_type_errors_are_reported_together():
    assert codes("name: 1 input_dim: 'a' layer { type: 2 }") == ["CAFFE0104"] * 3


def test_type_error_has_a_location():
    with pytest.raises(DiagnosticError) as caught:
        parsed('name: "n"\nlayer {\n  type: 5\n}')
    span = caught.value.diagnostics[0].span
    assert (span.line, span.column) == (3, 9)


def test_a_layer_spans_its_braces():
    text = 'name: "n"\nlayer { name: "a" }\n'
    span = parsed(text).messages("layer")[0].span
    assert text[span.start : span.stop] == 'layer { name: "a" }'


@given(st.text(alphabet="layer{}<>:;,'\"\\#-1.eE[] \nntopx\x00\ufffd", max_size=60))
def test_any_text_is_read_or_refused(text):
    assert all(code.startswith("CAFFE") for code in codes(text))


@given(
    st.text(),
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.floats(width=32, allow_nan=False)),
)
def test_prototxt_round_trips(name, dims, weights):
    net = Message("NetParameter")
    net.add("name", name.encode("utf-8", "replace").decode())
    for dim in dims:
        net.add("input_dim", dim)
    layer = Message("LayerParameter")
    for weight in weights:
        layer.add("loss_weight", weight)
    layer.add("phase", Identifier("TEST"))
    net.add("layer", layer)
    again, said = content(parsed(to_text(net))), content(net)
    read, written = (each["layer"][0].pop("loss_weight", []) for each in (again, said))
    assert again == said
    assert np.array(read, np.float32).tobytes() == np.array(written, np.float32).tobytes()
