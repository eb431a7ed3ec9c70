"""A report conforms to its schema, and its views show its content."""

from __future__ import annotations

import csv
import io
import json
import re
from importlib.resources import files
from xml.etree import ElementTree as ET

import jsonschema
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

import graphport as gp
from graphport.cli.main import cli
from tests.models import NNEF, model, node, typed

SCHEMA = json.loads((files("graphport.reports") / "schema" / "report-1.json").read_text("utf-8"))
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\u2028'\"&{title}"


def valid(report: gp.Report) -> dict:
    document = json.loads(report.json())
    jsonschema.validate(document, SCHEMA)
    return document


def chain(scale: float = 1.0, names: tuple[str, ...] = ("a", "b", "c")) -> onnx.ModelProto:
    """Conv, Mul, Relu, Add; `scale` is of the Mul."""
    random = np.random.default_rng(0)
    h, m, r = names
    constants = {
        "w": random.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "s": np.float32(scale),
        "z": np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1),
    }
    nodes = [
        node("Conv", ["x", "w"], [h], name=f"conv {h}"),
        node("Mul", [h, "s"], [m], name=f"mul {m}"),
        node("Relu", [m], [r], name=f"relu {r}"),
        node("Add", [r, "z"], ["y"], name="last"),
    ]
    return model(nodes, [("x", (1, 3, 8, 8))], [("y", (1, 4, 6, 6))], constants)


def branches() -> onnx.ModelProto:
    def body(op: str) -> onnx.GraphProto:
        return helper.make_graph([node(op, ["x"], [f"{op}_y"], name=op)], op, [], [typed(f"{op}_y", (2,))])

    nodes = [node("If", ["c"], ["y"], name="choose", then_branch=body("Relu"), else_branch=body("Neg"))]
    return model(nodes, [typed("c", (), onnx.TensorProto.BOOL), ("x", (2,))], [("y", (2,))])


def test_report_of_one_model_lists_nodes_values_and_weights(tmp_path):
    found = valid(gp.report(gp.from_onnx(chain())))
    (said,) = found["models"]
    assert [each["op"] for each in said["nodes"]] == ["Conv", "Mul", "Relu", "Add"]
    conv = said["nodes"][0]
    assert conv["macs"] == 4 * 36 * 27
    assert said["values"][conv["outputs"][0]]["shape"] == [1, 4, 6, 6]
    weight = said["values"][conv["inputs"][1]]
    numbers = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    assert weight["statistics"]["min"] == pytest.approx(float(numbers.min()))
    assert weight["statistics"]["mean"] == pytest.approx(float(numbers.mean()), rel=1e-5)
    assert sum(weight["statistics"]["histogram"]) == numbers.size
    assert said["values"][said["nodes"][1]["inputs"][1]]["numbers"] == [1.0]


def test_bodies_are_scopes_around_their_node():
    (said,) = valid(gp.report(gp.from_onnx(branches())))["models"]
    names = {scope["name"]: scope for scope in said["scopes"]}
    assert set(names) == {"If choose #0", "then_branch", "else_branch"}
    inner = next(each for each in said["nodes"] if each["op"] == "Neg")
    assert said["scopes"][inner["scope"]]["name"] == "else_branch"
    assert said["graphs"][inner["graph"]]["node"] == 0


def test_first_differing_value_is_found_under_other_names():
    a, b = gp.from_onnx(chain()), gp.from_onnx(chain(1.5, ("p", "q", "r")))
    found = valid(gp.report(a, b))
    assert [(error["name"], error["other"]) for error in found["errors"]] == [
        ("a", "p"),
        ("b", "q"),
        ("c", "r"),
        ("y", "y"),
    ]
    assert [error["passed"] for error in found["errors"]] == [True, False, False, False]
    (first,) = found["first"]
    # The signal is 1 and the noise 0.5: 20 log10 2.
    assert found["errors"][first]["snr_db"] == pytest.approx(6.0206, abs=1e-3)


def test_equal_models_have_no_first_difference():
    found = valid(gp.report(gp.from_onnx(chain()), gp.from_onnx(chain())))
    assert "first" not in found
    assert all(error["passed"] and error["snr_db"] is None for error in found["errors"])


def test_inputs_add_value_statistics():
    x = np.ones((1, 3, 8, 8), np.float32)
    (said,) = valid(gp.report(gp.from_onnx(chain()), inputs={"x": x}))["models"]
    relu = said["values"][said["nodes"][2]["outputs"][0]]
    assert relu["statistics"]["min"] >= 0
    assert sum(relu["statistics"]["histogram"]) == 4 * 6 * 6


def test_models_that_cannot_be_run_are_reported_without_differences():
    proto = model([node("Unheard", ["x"], ["y"], domain="far")], [("x", (1,))], [("y", (1,))], domains={"far": 1})
    found = valid(gp.report(gp.from_onnx(proto), gp.from_onnx(proto)))
    assert "errors" not in found
    assert "not compared" in found["notes"][0]


def test_quantized_report_lists_qparams_and_float_nodes():
    samples = np.random.default_rng(1).normal(size=(8, 3, 8, 8)).astype(np.float32)
    source = gp.from_onnx(chain())
    found = valid(gp.report(source, gp.quantize(source, {"x": samples}, preset="fast")))
    assert {row["type"] for row in found["quantization"]["grids"]} <= {"int8", "uint8", "int32"}
    assert any(row["b"] is not None for row in found["quantization"]["grids"])
    assert {each["place"] for each in found["dispatch"]} >= {"quantized"}
    assert found["quantization"]["layers"][0]["operator"] == "Conv"


def test_scopes_are_fragments_and_lines(tmp_path):
    text = NNEF.replace("    h = conv", "    h = twice(x, w, b);\n    q = conv").replace(
        "version 1.0;",
        "version 1.0;\nextension KHR_enable_fragment_definitions;\n"
        "fragment twice(x: tensor<scalar>, w: tensor<scalar>, b: tensor<scalar>) -> (y: tensor<scalar>)\n"
        "{\n    t = conv(x, w, b, padding = [(1, 1), (1, 1)]);\n    y = relu(t);\n}\n",
    )
    text = text.replace("y = relu(h)", "y = add(q, h)")
    (tmp_path / "graph.nnef").write_text(text, encoding="utf-8")
    (said,) = valid(gp.report(gp.load(tmp_path / "graph.nnef")))["models"]
    assert [scope["name"] for scope in said["scopes"]] == ["twice:15"]
    inner = [each for each in said["nodes"] if each.get("scope") == 0]
    assert [each["excerpt"].strip() for each in inner if each["op"] == "Relu"] == ["y = relu(t);"]


def test_no_text_of_a_model_becomes_markup():
    proto = chain()
    for each in proto.graph.node:
        each.name = HOSTILE
    proto.graph.name = HOSTILE
    report = gp.report(gp.from_onnx(proto))
    for view in (report.html(), report.svg(), report._repr_html_(), gp.from_onnx(proto)._repr_html_()):
        assert "<img" not in view
        assert "<script>window" not in view
    page = report.html()
    assert page.count("<script") == page.count("</script>") == 2
    ET.fromstring(report.svg())  # noqa: S314  our own output
    (data,) = re.findall(
        r'<script type="application/json" id="data" data-coding="plain">(.*?)</script>', page, re.DOTALL
    )
    assert json.loads(data)["models"][0]["nodes"][0]["name"] == HOSTILE


def test_page_loads_no_external_resources():
    page = gp.report(gp.from_onnx(chain())).html()
    assert "default-src 'none'" in page
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", page)
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}


def test_rows_and_csv_have_one_row_per_node():
    report = gp.report(gp.from_onnx(chain()), gp.from_onnx(chain(2.0)))
    rows = report.to_rows()
    assert [row["operator"] for row in rows] == ["Conv", "Mul", "Relu", "Add"]
    assert rows[0]["equal"] is True
    assert rows[1]["snr_db"] == pytest.approx(0.0)
    read = list(csv.DictReader(io.StringIO(report.csv())))
    assert [row["name"] for row in read] == [row["name"] for row in rows]


def test_rows_of_nodes_without_a_name_have_that_of_their_result():
    nameless = model([node("Relu", ["x"], ["y"], name="")], [("x", (2,))], [("y", (2,))])
    assert [row["name"] for row in gp.report(gp.from_onnx(nameless)).to_rows()] == ["y"]


def test_values_in_another_layout_are_reported():
    def net(axes):
        nodes = [node("Transpose", ["x"], ["t"], perm=axes), node("ReduceSum", ["t"], ["y"], keepdims=0)]
        return gp.from_onnx(model(nodes, [("x", (4, 4))], [("y", ())]))

    found = valid(gp.report(net([0, 1]), net([1, 0])))
    assert [error["passed"] for error in found["errors"]] == [False, True]
    assert found["notes"] == ["all outputs are equal; the 1 values that differ may have another layout, such as NHWC"]


def test_times_are_of_nodes():
    report = gp.report(gp.from_onnx(chain()), times=True)
    times = valid(report)["times"]
    assert set(times) <= {"0", "1", "2", "3"}
    assert times
    assert [row["microseconds"] for row in report.to_rows() if row["microseconds"] is not None] == list(times.values())


def test_csv_has_no_formulas():
    proto = chain()
    proto.graph.node[0].name = "=1+1"
    read = list(csv.DictReader(io.StringIO(gp.report(gp.from_onnx(proto)).csv())))
    assert read[0]["name"] == "'=1+1"


@pytest.mark.parametrize("ending", ["html", "svg", "json", "csv", "md"])
def test_the_command_writes_every_view(ending, tmp_path):
    onnx.save(chain(), tmp_path / "a.onnx")
    onnx.save(chain(2.0), tmp_path / "b.onnx")
    target = tmp_path / f"out.{ending}"
    arguments = ["report", str(tmp_path / "a.onnx"), "--against", str(tmp_path / "b.onnx"), "-o", str(target)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "the first that differs is b" in result.output
    assert target.stat().st_size > 100


def test_unknown_report_suffix_is_rejected_before_reading(tmp_path):
    result = CliRunner().invoke(cli, ["report", str(tmp_path / "none.onnx"), "-o", str(tmp_path / "out.pdf")])
    assert result.exit_code == 1
    assert "IO0009" in result.output


@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("convert", []),
        ("simplify", []),
        ("prepare", []),
        ("quantize", ["--preset", "fast", "--no-latency"]),
        ("compare", []),
    ],
)
def test_report_option_writes_a_report_of_the_result(verb, more, tmp_path):
    source, target, report = (str(tmp_path / name) for name in ("a.onnx", "b.onnx", "report.json"))
    onnx.save(chain(), source)
    onnx.save(chain(), target)
    np.savez(tmp_path / "in.npz", x=np.random.default_rng(1).normal(size=(4, 3, 8, 8)).astype(np.float32))
    if verb == "quantize":
        more = [*more, "--calibration", str(tmp_path / "in.npz")]
    result = CliRunner().invoke(cli, [verb, source, target, "--report", report, *more])
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "report.json").read_text("utf-8"))
    jsonschema.validate(found, SCHEMA)
    assert found["verb"] == verb
    assert [each["name"] for each in found["outputs"]] == ["y"]
    expected = {"convert": "proof", "simplify": "decisions", "prepare": "dispatch", "quantize": "quantization"}
    assert found.get(expected.get(verb, "errors"))


def test_figures_for_papers_are_drawn_of_the_document(tmp_path):
    pytest.importorskip("matplotlib")
    report = gp.report(gp.from_onnx(chain()), gp.from_onnx(chain(1.5)))
    (axes,) = report.figure("error").axes
    levels = axes.lines[0].get_ydata()
    assert len(levels) == len(report.document["errors"])
    assert axes.texts[0].get_text() == report.document["errors"][report.document["first"][0]]["name"]
    (axes,) = report.figure("work").axes
    assert [bar.get_width() for bar in axes.patches] == [4 * 3 * 3 * 3 * 6 * 6]
    for ending, first in (("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")):
        report.save_figure(tmp_path / f"error.{ending}", "error")
        assert (tmp_path / f"error.{ending}").read_bytes().startswith(first)


def test_figure_without_data_is_rejected(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(gp.DiagnosticError, match="IO0011"):
        gp.report(gp.from_onnx(chain())).figure("front")
    onnx.save(chain(), tmp_path / "net.onnx")
    told = CliRunner().invoke(cli, ["report", str(tmp_path / "net.onnx"), "--figure", "work"])
    assert told.exit_code == 2
    assert "-o error.pdf" in told.stderr
