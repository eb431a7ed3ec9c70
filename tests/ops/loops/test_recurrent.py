"""Scan nodes that are recurrent layers are converted to LSTM, GRU or RNN; similar ones stay; results are unchanged."""

from __future__ import annotations

import numpy as np

import graphport as gp
from tests.every import every

HIDDEN, WIDTH, STEPS = 3, 4, 5
HEAD = "version 1.0;\nextension tract_registry tract_core;\n"
LSTM = """
    i = sigmoid(xi + matmul(h, ri, transposeB = true));
    f = sigmoid(xf + matmul(h, rf, transposeB = true));
    g = tanh(xg + matmul(h, rg, transposeB = true));
    o = sigmoid(xo + matmul(h, ro, transposeB = true));
    c1 = f * c + i * g;
    h1 = o * tanh(c1);
"""
GRU = """
    r = sigmoid(xi + matmul(h, ri, transposeB = true));
    z = sigmoid(xf + matmul(h, rf, transposeB = true));
    n = tanh(xg + r * (matmul(h, rg, transposeB = true) + late));
    h1 = (1.0 - z) * n + z * h;
"""
RNN = "    h1 = tanh(xi + matmul(h, ri, transposeB = true));\n"
GATES = {"LSTM": "ifgo", "GRU": "ifg", "RNN": "i"}
BODIES = {"LSTM": LSTM, "GRU": GRU, "RNN": RNN}


def literal(rng, *shape):
    return str((rng.normal(size=shape) * 0.7).round(4).astype(float).tolist())


def document(kind, body, *, batch=2, chunk=1, shifted=True, steps=STEPS):
    """Return a text with one loop over projected inputs."""
    rng = np.random.default_rng(3)
    gates, states = GATES[kind], ["h", "c"] if kind == "LSTM" else ["h"]
    late = ["late"] if kind == "GRU" else []
    formals = [*states, *(f"x{g}" for g in gates), *(f"r{g}" for g in gates), *late]
    lines = [f"x = tract_core_external(shape = [{steps}, {batch}, {WIDTH}], datum_type = 'f32');"]
    for g in gates:
        lines.append(f"w{g} = {literal(rng, 1, HIDDEN, WIDTH)};")
        lines.append(f"r{g} = {literal(rng, 1, HIDDEN, HIDDEN)};")
        lines.append(f"b{g} = {literal(rng, 1, 1, HIDDEN)};")
        lines.append(f"p{g} = matmul(x, w{g}, transposeB = true)" + (f" + b{g};" if shifted else ";"))
    lines += [f"{each} = {literal(rng, 1, 1, HIDDEN)};" for each in late]
    lines += [f"{s}0 = {literal(rng, 1, batch, HIDDEN)};" for s in states]
    scan = ", ".join(f"('x{g}', p{g}, 0, {chunk})" for g in gates)
    full = ", ".join([*(f"('r{g}', r{g})" for g in gates), *(f"('{each}', {each})" for each in late)])
    state = ", ".join(f"('{s}', {s}0, '{s}1')" for s in states)
    output = ", ".join([f"('h1', 'full', 0, {chunk})", *(f"('{s}1', 'last', 0, {chunk})" for s in states)])
    names = ", ".join(["y", *(f"{s}n" for s in states)])
    lines.append(
        f"( {names} ) = tract_core_scan(body = 'step', scan = [{scan}], full = [{full}], state = [{state}], "
        f"output = [{output}]);"
    )
    parameters = ", ".join(f"{each}: tensor<scalar>" for each in formals)
    returned = ", ".join(f"{s}1: tensor<scalar>" for s in states)
    return (
        f"{HEAD}fragment step( {parameters} ) -> ( {returned} )\n{{{body}}}\n"
        f"graph g( x ) -> ( {names} )\n{{\n    " + "\n    ".join(lines) + "\n}\n"
    )


def operators(model):
    return [node.op for node in model.graph if node.op in ("LSTM", "GRU", "RNN", "Scan")]


def read(tmp_path, text):
    (tmp_path / "graph.nnef").write_text(text)
    return gp.load(tmp_path / "graph.nnef")


def checked(tmp_path, monkeypatch, text, found):
    """The text has the operators `found`, and computes what its loop does."""
    model = read(tmp_path, text)
    assert operators(model) == found
    with monkeypatch.context() as patch:
        patch.setattr("graphport.formats.nnef.graph_passes.tract.recognize", lambda graph: 0)
        loop = read(tmp_path, text)
    assert operators(loop) == ["Scan"] * len(found)
    shape = [dim for dim in model.inputs["x"].fact.dims if isinstance(dim, int)]
    given = {"x": np.random.default_rng(5).normal(size=shape).astype(np.float32)}
    one, other = (list(gp.run(each, given, backend="reference").values()) for each in (model, loop))
    for a, b in zip(one, other, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)
    return model


GRU_FORMS = {
    "the difference first": "h1 = n + z * (h - n);",
    "the product taken off": "h1 = (n - z * n) + h * z;",
    "the state first": "h1 = h * z + n * (1.0 - z);",
}
OTHER_CELLS = {
    "reset before the product": (
        "GRU",
        GRU.replace("r * (matmul(h, rg, transposeB = true) + late)", "matmul(r * h, rg, transposeB = true) + late"),
    ),
    "other activations": ("LSTM", LSTM.replace("tanh", "relu")),
    "an activation of its own at the end": ("LSTM", LSTM.replace("tanh(c1)", "relu(c1)")),
    "relu": ("RNN", RNN.replace("tanh", "relu")),
    "the sums apart": (
        "LSTM",
        LSTM.replace(
            "xi + matmul(h, ri, transposeB = true)", "matmul(h, ri, transposeB = true) + (xi + [[[0.5, 0.25, -1.0]]])"
        ),
    ),
    "weights stored by rows": ("RNN", RNN.replace("ri, transposeB = true", "ri")),
    "sums of products": (
        "RNN",
        RNN.replace(
            "matmul(h, ri, transposeB = true)", "tract_core_einsum([h, ri], expr = 'amk,xnk->amn', acc = 'f32')"
        ),
    ),
}
NO_CELLS = {
    "a gate of the other state": ("LSTM", LSTM.replace("matmul(h, rf", "matmul(c, rf")),
    "gates of several activations": ("LSTM", LSTM.replace("o = sigmoid", "o = tanh")),
    "the old cell is shown": ("LSTM", LSTM.replace("o * tanh(c1)", "o * tanh(c)")),
    "forgetting is adding": ("LSTM", LSTM.replace("f * c + i * g", "f + c * i * g")),
    "a cell that is not kept": ("LSTM", LSTM.replace("c1 = f * c + i * g", "c1 = f * h + i * g")),
    "2 in place of 1": ("GRU", GRU.replace("1.0 - z", "2.0 - z")),
    "the wrong gate mixes": ("GRU", GRU.replace("+ z * h", "+ r * h")),
    "a gate that is both": ("GRU", GRU.replace("n = tanh(xg", "n = tanh(z * xg")),
    "nothing is reset": ("GRU", GRU.replace("r * (matmul", "(matmul")),
    "a state that is added": ("RNN", RNN.replace("xi +", "xi + h +")),
    "two products": ("RNN", RNN.replace("xi +", "xi + matmul(h, ri) +")),
    "a scaled sum": ("RNN", RNN.replace("xi +", "0.5 * xi +")),
}  # fmt: skip


@every("batch", [1, 2])
@every("chunk", [1, -1])
@every("shifted", [True, False])
@every("kind", ["LSTM", "GRU", "RNN"])
def test_loops_are_layers(tmp_path, monkeypatch, kind, shifted, chunk, batch):
    text = document(kind, BODIES[kind], batch=batch, chunk=chunk, shifted=shifted)
    model = checked(tmp_path, monkeypatch, text, [kind])
    (layer,) = [node for node in model.graph if node.op == kind]
    assert layer.attributes["direction"] == ("reverse" if chunk < 0 else "forward")
    assert "MatMul" not in {node.op for node in model.graph}


@every("form", GRU_FORMS)
def test_a_mixture_is_written_in_several_ways(tmp_path, monkeypatch, form):
    body = GRU.replace("h1 = (1.0 - z) * n + z * h;", GRU_FORMS[form])
    checked(tmp_path, monkeypatch, document("GRU", body), ["GRU"])


@every("case", OTHER_CELLS)
def test_cells_differ_in_activations_and_sums(tmp_path, monkeypatch, case):
    kind, body = OTHER_CELLS[case]
    assert body != BODIES[kind]
    checked(tmp_path, monkeypatch, document(kind, body), [kind])


@every("case", NO_CELLS)
def test_loop_similar_to_a_cell_is_kept(tmp_path, monkeypatch, case):
    kind, body = NO_CELLS[case]
    assert body != BODIES[kind]
    checked(tmp_path, monkeypatch, document(kind, body), ["Scan"])


def test_loop_with_computed_weights_is_kept(tmp_path, monkeypatch):
    text = document("RNN", RNN)
    given = f"ri = tract_core_external(shape = [1, {HIDDEN}, {HIDDEN}], datum_type = 'f32');"
    start = text.index("ri = [")
    text = text[:start] + given + text[text.index(";", start) + 1 :]
    (tmp_path / "graph.nnef").write_text(text.replace("graph g( x )", "graph g( x, ri )"))
    assert operators(gp.load(tmp_path / "graph.nnef")) == ["Scan"]


def test_steps_and_batch_that_are_open_are_layers(tmp_path, monkeypatch):
    text = document("GRU", GRU, batch=2).replace(f"shape = [{STEPS}, 2,", "shape = [S, 2,")
    model = read(tmp_path, text.replace(HEAD, HEAD + "extension tract_symbol S;\n"))
    assert operators(model) == ["GRU"]
    assert [str(dim) for dim in model.outputs["y"].fact.shape] == ["S", "2", "3"]


def test_loop_returning_all_cell_states_is_kept(tmp_path, monkeypatch):
    text = document("LSTM", LSTM).replace("('h1', 'full', 0, 1)", "('c1', 'full', 0, 1)")
    checked(tmp_path, monkeypatch, text, ["Scan"])


@every("direction", ["forward", "reverse", "bidirectional"])
@every("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_recovered_from_written_loops(tmp_path, kind, direction):
    import onnx
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(11)
    ways, gates = 1 + (direction == "bidirectional"), len(GATES[kind])
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    shapes = {"w": (ways, gates * HIDDEN, WIDTH), "r": (ways, gates * HIDDEN, HIDDEN), "b": (ways, 2 * gates * HIDDEN)}
    stored = [
        numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name) for name, shape in shapes.items()
    ]
    node = helper.make_node(kind, ["x", "w", "r", "b"], ["y", "h"], hidden_size=HIDDEN, direction=direction)
    if kind == "GRU":
        node.attribute.append(helper.make_attribute("linear_before_reset", 1))
    infos = [
        helper.make_tensor_value_info(name, 1, shape)
        for name, shape in (("x", [STEPS, 2, WIDTH]), ("y", [STEPS, ways, 2, HIDDEN]), ("h", [ways, 2, HIDDEN]))
    ]
    graph = helper.make_graph([node], "g", infos[:1], infos[1:], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    model = gp.load(tmp_path / "m.onnx")
    gp.save(model, tmp_path / "m", format="nnef", flavour="tract")
    again = gp.load(tmp_path / "m")
    assert operators(again) == [kind]
    given = {"x": rng.normal(size=(STEPS, 2, WIDTH)).astype(np.float32)}
    for a, b in zip(gp.run(model, given).values(), gp.run(again, given).values(), strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)
    # OpenVINO wrongly merges both directions of layers with one input.
    gp.save(again, tmp_path / "m.xml")
    found = gp.run(gp.load(tmp_path / "m.xml"), given, backend="openvino").values()
    for a, b in zip(gp.run(model, given).values(), found, strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)
