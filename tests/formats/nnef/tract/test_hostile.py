"""Texts in tract's flavour that are made to be slow or deep: told, or read, and no fault of ours."""

from __future__ import annotations

import pytest

import graphport as gp

TEXT = """version 1.0;
extension tract_registry tract_core;
extension tract_symbol N;
{fragments}
graph g(x) -> (y)
{{
    x = tract_core_external(shape = [{extent}], datum_type = "f32");
    y = {value};
}}
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHPORT_DEBUG", "1")

    def loaded(value="copy(x)", extent="N, 3", fragments=""):
        path = tmp_path / "m.nnef"
        path.write_text(TEXT.format(value=value, extent=extent, fragments=fragments), encoding="utf-8")
        return gp.load(path)

    return loaded


def code_of(call, *args, **options):
    with pytest.raises(gp.DiagnosticError) as caught:
        call(*args, **options)
    return caught.value.diagnostics[0].code


@pytest.mark.parametrize("levels", [100, 20_000])
@pytest.mark.parametrize(
    ("opening", "inner", "closing"),
    [("(", "x", ")"), ("[", "1", "]"), ("copy(", "x", ")"), ("-", "x", ""), ("", "x", "[0]"), ("x[", "0", "]")],
)
def test_nesting_ends_in_a_finding(load, levels, opening, inner, closing):
    assert code_of(load, opening * levels + inner + closing * levels) == "NNEF0207"


def test_types_nested_deep_end_in_a_finding(load):
    deep = f"fragment f(a: {'(' * 20_000}integer{')' * 20_000}) -> (b: integer) {{ b = a; }}"
    assert code_of(load, fragments=deep) == "NNEF0207"


def test_fragments_and_expressions_within_their_limits_are_too_deep_together(load):
    calls = [
        f"fragment f{i}(a: tensor<scalar>) -> (b: tensor<scalar>) {{ b = {'copy(' * 70}f{i + 1}(a){')' * 70}; }}"
        for i in range(55)
    ]
    last = "fragment f55(a: tensor<scalar>) -> (b: tensor<scalar>) { b = copy(a); }"
    assert code_of(load, "f0(x)", fragments="\n".join([*calls, last])) == "NNEF0510"


def test_long_sums_are_loops(load):
    assert str(load(extent="+".join(["N"] * 5000)).graph.inputs[0].fact) == "float32[5000*N]"
    assert len(load("+".join(["x"] * 3000)).graph) == 2999


def test_long_products_of_symbols_are_refused(load):
    assert code_of(load, extent="*".join(["N"] * 300)) == "NNEF0401"
