"""Arguments of any kind in place of numbers, dims and arrays in tract documents are reported."""

from __future__ import annotations

import pytest

import graphport as gp

HEAD = "version 1.0;\nextension tract_registry tract_core;\n"
GRAPH = "graph g( x ) -> ( y )\n{\n x = external(shape = [1, 3, 8, 8]);\n %s\n}\n"
SCAN = (
    "fragment f(a: tensor<scalar>) -> (b: tensor<scalar>)\n"
    '{ b = tract_core_scan(body = "f", scan = [%s], output = [%s]); }\n'
)


def _code(path, text):
    path.write_text(text, encoding="utf-8")
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.load(path)
    return caught.value.diagnostics[0].code


def test_statements_that_make_no_numbers_are_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHPORT_DEBUG", "1")
    wrong = [
        "y = constant(x, 1.0);",
        "y = constant(shape = [2, 3], value = []);",
        'y = constant(shape = ["a"], value = [1.0]);',
        "y = constant(shape = [-1], value = [1.0]);",
        "y = constant(shape = [true], value = [1.0]);",
        "y = constant(shape = [2], value = [1.0, 2.0, 3.0]);",
        "y = constant(shape = [3], value = [[1.0, 2.0], [3.0]]);",
        'y = constant(shape = [1], value = ["a"]);',
        "y = constant(shape = [1], value = [x]);",
        "y = add(x, [[1.0, 2.0], [3.0]]);",
        "y = add(x, [true, [1.0]]);",
        "y = add(x, 9 ^ 9 ^ 9 ^ 9);",
        "y = add(x, 2 ^ 9223372036854775807);",
        "y = add(x, 10.0 ^ 400);",
        "y = add(x, 0 ^ (-1));",
        "y = add(x, (-8.0) ^ 0.5);",
        "y = add(x, 9223372036854775807 + 1);",
        'y = external(shape = ["a"]);',
        "y = external(shape = [1.5]);",
        "y = external(shape = [x]);",
        "y = external(shape = [-1]);",
        'y = variable(shape = [-1], label = "a");',
    ]
    found = {text: _code(tmp_path / "m.nnef", HEAD + GRAPH % text) for text in wrong}
    assert set(found.values()) == {"NNEF0401"}, found
    assert (
        _code(tmp_path / "m.nnef", HEAD + GRAPH % "y = constant(shape = [9999, 9999, 999], value = [1.0]);")
        == "LIMIT0001"
    )


def test_a_number_is_a_constant_of_any_shape(tmp_path):
    path = tmp_path / "m.nnef"
    path.write_text(HEAD + GRAPH % "y = add(x, constant(shape = [1, 3, 1, 8], value = 2 ^ 3 - 7));", encoding="utf-8")
    assert str(gp.load(path).outputs["y"].fact) == "float32[1, 3, 8, 8]"


def test_rows_of_a_scan_that_are_none_are_reported(tmp_path):
    whole = '("b", "full", 1, 1)'
    wrong = {
        ("5", ""): "NNEF0401",
        ('("a")', ""): "NNEF0401",
        ('("a", a, "b")', whole): "NNEF0401",
        ('("a", a, 1, 1, 7)', whole): "NNEF0401",
        ('("a", a, 1, 0)', whole): "NNEF0904",
        ('("a", a, 1, 1)', whole): "NNEF0510",  # its body is itself
    }
    found = {rows: _code(tmp_path / "m.nnef", HEAD + SCAN % rows + GRAPH % "y = f(x);") for rows in wrong}
    assert found == wrong


def test_fragments_that_call_others_twice_are_counted(tmp_path):
    fragments = ["fragment f0( x: scalar ) -> ( y: scalar )\n{ y = x; }\n"]
    fragments += [
        f"fragment f{i}( x: scalar ) -> ( y: scalar )\n{{ y = f{i - 1}(f{i - 1}(x)); }}\n" for i in range(1, 40)
    ]
    assert _code(tmp_path / "m.nnef", HEAD + "".join(fragments) + GRAPH % "y = add(x, f39(1.0));") == "NNEF0506"


def test_quantizations_that_say_no_grid_are_reported(tmp_path):
    wrong = {
        "zero_point_linear_quantize(zero_point = 3)": "NNEF0324",
        "linear_quantize(min = 0.0)": "NNEF0324",
        "zero_point_linear_quantize(zero_point = 3, scale = 0.0)": "NNEF0810",
        "zero_point_linear_quantize(zero_point = 3, scale = 0.5, bits = 1000000000)": "NNEF0810",
        "linear_quantize(min = 2.0, max = 1.0)": "NNEF0810",
    }
    (tmp_path / "graph.nnef").write_text(HEAD + GRAPH % "y = relu(x);", encoding="utf-8")
    found: dict[str, str] = {}
    for text in wrong:
        (tmp_path / "graph.quant").write_text(f'"x": {text};\n', encoding="utf-8")
        with pytest.raises(gp.DiagnosticError) as caught:
            gp.load(tmp_path)
        found[text] = caught.value.diagnostics[0].code
    assert found == wrong
