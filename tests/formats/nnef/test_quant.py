from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.diagnostics import Source
from graphport.formats.nnef.container.limits import DEFAULT
from graphport.formats.nnef.container.quant import check_quantization, parse_quantization, quantization_text
from graphport.formats.nnef.container.quantized import Quantization
from graphport.formats.nnef.container.syntax import Edition
from tests.every import every
from tests.formats.nnef.documents import checked, codes, evaluated, final, line, provisional, remedy

TEXT = final(
    "w = variable(shape = [4, 3, 3, 3], label = 'conv/w');",
    "a = conv(x, w);",
    "i = argmax_reduce(a, axes = [1]);",
    "y = relu(a);",
)
LINEAR = "min_max_linear_quantize(min = 0.0, max = 1.0, bits = 8, signed = false, symmetric = false)"
ZERO_POINT = "zero_point_linear_quantize(zero_point = {}, scale = {}, bits = 8, signed = true, symmetric = false)"


def quantized(text: str, document=TEXT, edition=Edition.FINAL):
    expansion = evaluated(document)
    labels = {
        str(each.attributes["label"]): next(each.outputs()) for each in expansion.operations if each.name == "variable"
    }
    parsed = parse_quantization(Source("graph.quant", text), edition)
    found, diagnostics = check_quantization(parsed, checked(document).operations, expansion.tensors, labels)
    return found, [*parsed.diagnostics, *diagnostics]


def test_a_file_states_how_tensors_are_quantized():
    found, diagnostics = quantized(f"\"a\": {LINEAR}; # comment\n'y': {LINEAR};\n")
    assert diagnostics == []
    assert [*found] == ["a", "y"]
    assert found["a"].operation == "min_max_linear_quantize"
    assert found["a"].arguments == {"min": 0.0, "max": 1.0, "bits": 8, "signed": False, "symmetric": False}


def test_parameters_of_channels_are_nested_arrays():
    found, diagnostics = quantized(f'"w": {ZERO_POINT.format("[[0],[0],[1],[-2]]", "[[0.1],[0.2],[0.3],[0.4]]")};')
    assert diagnostics == []
    assert found["w"].arguments["zero_point"] == ((0,), (0,), (1,), (-2,))


def test_a_variable_may_be_named_by_its_label():
    found, diagnostics = quantized(f'"conv/w": {LINEAR};\n"w": {LINEAR};')
    assert diagnostics == []
    assert [*found] == ["w"]


def test_a_provisional_file_has_no_semicolons():
    text = '"y": linear_quantize(min = 0.0, max = 1.0, bits = 8)\n"x": logarithmic_quantize(max = 1.0, bits = 4)\n'
    found, diagnostics = quantized(text, provisional("y = relu(x)"), Edition.PROVISIONAL)
    assert diagnostics == []
    assert [*found] == ["y", "x"]


@every(
    ("text", "code"),
    [
        pytest.param(f'"a" {LINEAR};', "NNEF0201", id="no colon"),
        pytest.param(f"a: {LINEAR};", "NNEF0201", id="a name without quotes"),
        pytest.param(f'"a": {LINEAR}', "NNEF0203", id="no semicolon"),
        pytest.param(f'"a: {LINEAR};', "NNEF0104", id="an open string"),
        pytest.param('"a": 1;', "NNEF0801", id="no operation"),
        pytest.param(f'"a" + "b": {LINEAR};', "NNEF0801", id="a name that is computed"),
        pytest.param(f'"b": {LINEAR};', "NNEF0802", id="no such tensor"),
        pytest.param(f'"i": {LINEAR};', "NNEF0803", id="a tensor of integers"),
        pytest.param(f'"a": {LINEAR};\n"a": {LINEAR};', "NNEF0804", id="a tensor twice"),
        pytest.param(f'"w": {LINEAR};\n"conv/w": {ZERO_POINT.format(0, 0.1)};', "NNEF0804", id="in two ways"),
        pytest.param('"a": relu(x = 1.0);', "NNEF0805", id="no quantization"),
        pytest.param('"a": min_max_quantize(min = 0.0);', "NNEF0805", id="no operation of that name"),
        pytest.param('"a": logarithmic_quantize(1.0, bits = 8);', "NNEF0806", id="a parameter by position"),
        pytest.param('"a": logarithmic_quantize(max = 1.0);', "NNEF0324", id="a parameter missing"),
        pytest.param(
            '"a": logarithmic_quantize(max = 1.0, bits = 8, sign = true);', "NNEF0326", id="a parameter too many"
        ),
        pytest.param('"a": logarithmic_quantize(max = 1.0, bits = 8, x = 1.0);', "NNEF0326", id="the tensor itself"),
        pytest.param('"a": logarithmic_quantize(max = 1, bits = 8);', "NNEF0807", id="an integer for a scalar"),
        pytest.param('"a": logarithmic_quantize(max = 1.0, bits = 8.0);', "NNEF0807", id="a scalar for an integer"),
        pytest.param('"a": logarithmic_quantize(max = [], bits = 8);', "NNEF0807", id="an empty array"),
        pytest.param('"a": logarithmic_quantize(max = y, bits = 8);', "NNEF0807", id="a name for a number"),
        pytest.param('"a": logarithmic_quantize(max = 1.0 + 1.0, bits = 8);', "NNEF0807", id="a sum for a number"),
        pytest.param(
            '"w": logarithmic_quantize(max = [[1.0], [1.0, 2.0], [1.0], [1.0]], bits = 8);',
            "NNEF0808",
            id="ragged rows",
        ),
        pytest.param(
            '"w": logarithmic_quantize(max = [1.0, 2.0, 3.0], bits = 8);', "NNEF0809", id="three of four channels"
        ),
        pytest.param(
            '"w": logarithmic_quantize(max = [[[[[1.0]]]]], bits = 8);', "NNEF0809", id="more axes than the tensor"
        ),
        pytest.param('"a": logarithmic_quantize(max = 1.0, bits = 0);', "NNEF0810", id="no bits"),
        pytest.param(f'"a": {ZERO_POINT.format(0, 0.0)};', "NNEF0810", id="a scale of nothing"),
        pytest.param(f'"a": {LINEAR.replace("1.0", "-1.0")};', "NNEF0810", id="a range upside down"),
    ],
)
def test_a_rule_that_is_broken_is_the_only_finding(text, code):
    assert codes(quantized(text)[1]) == [code]


def test_all_mistakes_are_found_in_one_run():
    _, diagnostics = quantized(f'"a" {LINEAR};\n"b": {LINEAR};\n"y": relu(x = 1.0);\n')
    assert [(each.code, line(each)) for each in diagnostics] == [("NNEF0201", 1), ("NNEF0802", 2), ("NNEF0805", 3)]


def test_a_misspelled_tensor_has_a_suggestion():
    (finding,) = quantized(f'"conv/v": {LINEAR};')[1]
    assert remedy(finding) == "did you mean 'conv/w'?"


def test_deep_arrays_are_a_finding():
    text = f'"w": logarithmic_quantize(max = {"[" * 20_000}1.0{"]" * 20_000}, bits = 8);'
    assert codes(quantized(text)[1]) == ["NNEF0415"]


names = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=8)
reals = st.floats(allow_nan=False, allow_infinity=False)
values = st.one_of(
    reals, st.integers(0, 9), st.booleans(), st.lists(st.tuples(reals, reals), min_size=1, max_size=3).map(tuple)
)


@given(st.dictionaries(names, st.dictionaries(st.sampled_from(["min", "max", "bits"]), values, min_size=1), max_size=3))
def test_what_is_written_reads_as_the_same(entries):
    written = {name: Quantization("linear_quantize", arguments) for name, arguments in entries.items()}
    for edition in Edition:
        parsed = parse_quantization(Source("graph.quant", quantization_text(written, edition)), edition, DEFAULT)
        assert parsed.diagnostics == []
        assert [entry.key.value for entry in parsed.entries] == [*written]
        for entry, (_, quantization) in zip(parsed.entries, written.items(), strict=True):
            assert [argument.name for argument in entry.call.arguments] == [*quantization.arguments]


def test_the_file_that_is_written_is_read_with_the_same_values():
    text = f'"a": {LINEAR};\n"w": {ZERO_POINT.format("[[0], [1], [2], [3]]", "[[0.1], [1e-08], [0.3], [4.0]]")};\n'
    found, _ = quantized(text)
    assert quantization_text(found) == text
