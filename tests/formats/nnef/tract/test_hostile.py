"""Texts in tract's flavour that are made to be slow or deep: told, or read, and no fault of ours."""

from __future__ import annotations

import tracemalloc

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


@pytest.mark.parametrize("use", ["reshape(x, shape = {})", "add(x, {})", "copy(f({}))"])
def test_an_array_in_which_names_double_is_counted_and_not_written_out(tmp_path, monkeypatch, use):
    monkeypatch.setenv("GRAPHPORT_DEBUG", "1")
    doubled = "".join(f"a{i + 1} = [a{i}, a{i}]; " for i in range(40))
    text = TEXT.format(
        value="copy(x)", extent="N, 3", fragments="fragment f(a: integer[]) -> (b: integer[]) { b = a; }"
    )
    path = tmp_path / "m.nnef"
    path.write_text(text.replace("y = copy(x)", f"a0 = [1]; {doubled} y = {use.format('a40')}"), encoding="utf-8")
    assert code_of(gp.load, path) == "NNEF0506"


def test_results_of_fragments_are_counted_as_arrays_are(load):
    pair = "fragment f(a: integer[]) -> (b: integer[], c: integer[]) { b = a; c = a; }"
    assert code_of(load, "reshape(x, shape = " + "f(" * 30 + "[1]" + ")" * 30 + ")", fragments=pair) == "NNEF0506"


def test_texts_take_as_much_as_they_are_long(load):
    # NumPy's own texts are each as long as the longest: 2.4 GB of these.
    texts = ", ".join([f'"{"a" * 50_000}"', *['""'] * 12_000])
    tracemalloc.start()
    try:
        load(f"add(x, [{texts}])")
        assert tracemalloc.get_traced_memory()[1] < 1 << 28
    finally:
        tracemalloc.stop()


def test_a_pair_of_one_is_reported_where_it_stands(tmp_path):
    path = tmp_path / "m.nnef"
    text = TEXT.format(value="conv(x, x, padding = [(1)])", extent="1, 2, 6", fragments="")
    path.write_text(text, encoding="utf-8")
    assert code_of(gp.load, path) == "NNEF0401"


def test_a_mirror_of_many_slices_is_refused_before_it_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHPORT_DEBUG", "1")
    source = tmp_path / "m.nnef"
    body = "x = external<scalar>(shape = [8388608]); y = pad(x, padding = [(4194304, 0)], border = 'reflect-even');"
    source.write_text(f"version 1.0;\ngraph g(x) -> (y)\n{{ {body} }}\n", encoding="utf-8")
    model = gp.load(source, raw=True)
    assert code_of(gp.save, model, tmp_path / "out.nnef.tgz", flavour="tract") == "LIMIT0001"


def test_an_assertion_that_is_too_long_to_compare_is_no_fact(load):
    sides = ["+".join(f"{name}{number}" for number in range(70)) for name in "AB"]
    symbols = "".join(f"extension tract_symbol {name};\n" for side in sides for name in side.split("+"))
    for relation in ("==", "<="):
        model = load(fragments=f"{symbols}extension tract_assert {sides[0]} {relation} {sides[1]};\n")
        assert model.graph.extents.constraints == {}


def test_an_operator_that_tract_lacks_is_refused(load):
    assert code_of(load, "copy((x in x))") in ("NNEF0210", "NNEF0103")
