"""A document and the flat one that it is expanded to have the same shapes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphport.backends import prepare
from graphport.conversion.legalize import legalize
from graphport.formats.nnef import read, write

UNARY = (
    "relu(x)",
    "neg(x)",
    "x + 1.0",
    "max_pool(x, size = [1, 1, 2, 2])",
    "squeeze(unsqueeze(x, axes = [4]), axes = [4])",
)
BINARY = ("x + y", "mul(x, y)", "max(x, -y)", "x * 2.0 if length_of(shape) > 2 else y")


@st.composite
def compositional(draw):
    """A document whose fragments call those before them, some as often as their parameter says."""
    count = draw(st.integers(1, 4))
    text = ["version 1.0;", "extension KHR_enable_fragment_definitions;", "extension KHR_enable_operator_expressions;"]
    bodies = list(UNARY)
    for number in range(count):
        inner = draw(st.sampled_from(bodies))
        other = draw(st.sampled_from(BINARY))
        text += [
            f"fragment f{number}( x: tensor<scalar>, shape: integer[] = [1, 2, 3], n: integer = 1 ) -> ( z: tensor<scalar> )",
            "{",
            f"    y = {inner};",
            f"    w = {other};",
            f"    z = f{number}(w, shape = shape, n = n - 1) if n > 1 else w;",
            "}",
        ]
        bodies.append(f"f{number}(x, shape = shape)" if draw(st.booleans()) else f"f{number}(x)")
    times = draw(st.integers(1, 4))
    extents = [draw(st.integers(1, 6)) for _ in range(4)]
    text += [
        "graph main( x ) -> ( a, b )",
        "{",
        f"    x = external(shape = {extents});",
        f"    a = f{count - 1}(x, n = {times});",
        "    [p, q] = [relu(a), f0(a)];",
        "    b = concat([p, q], axis = 1);",
        "}",
    ]
    return "\n".join(text), extents


def known(path):
    graph, findings = read(path)
    assert not any(finding.is_error for finding in findings)
    graph, findings = legalize(graph)
    assert findings == []
    return graph


@given(compositional())
def test_expanded_documents_keep_shapes_and_values(tmp_path_factory, case):
    text, extents = case
    folder = tmp_path_factory.mktemp("law")
    (folder / "graph.nnef").write_text(text, encoding="utf-8")
    raw, _ = read(folder)
    write(raw, folder / "flat", flatten=True)
    flat = (folder / "flat" / "graph.nnef").read_text(encoding="utf-8")
    assert "\nfragment" not in flat
    assert " if " not in flat
    before, after = known(folder), known(folder / "flat")
    assert {v.name: v.fact for v in after.values() if v.producer} == {
        v.name: v.fact for v in before.values() if v.producer
    }
    x = np.random.default_rng(0).normal(size=extents).astype(np.float32)
    one, other = (prepare(graph, "reference").run({"x": x}) for graph in (before, after))
    for name in ("a", "b"):
        np.testing.assert_array_equal(other[name], one[name])
