"""The verbs: what they print, as text and as JSON, and how they end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click import Context, Option
from click.testing import CliRunner, Result

import graphport as gp
from graphport import cli as cli_package
from graphport.backends import BACKENDS
from graphport.cli import arrays
from graphport.cli.main import GROUPS, VERBS, cli
from graphport.core.diagnostics import Diagnostic, Severity
from graphport.formats import FORMATS
from tests.every import every
from tests.formats.openvino.documents import Layer, parameter, write_ir
from tests.models import NNEF, model, node, perceptron, write_nnef, write_onnx
from tests.sabotage import scale_weight

X = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def told(*arguments: object, code: int = 0):
    """The JSON document that a verb prints, and nothing else."""
    result = run(*arguments, "--json")
    assert result.exit_code == code, result.output
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert document.pop("schema") == f"graphport/{arguments[0]}/1"
    return document


def codes(document) -> list[str]:
    return [finding["code"] for finding in document["diagnostics"]]


@pytest.fixture
def net(tmp_path) -> Path:
    return write_onnx(tmp_path / "net.onnx", perceptron())


@pytest.fixture
def small(tmp_path) -> Path:
    return write_nnef(tmp_path / "small")


@pytest.fixture
def strange(tmp_path) -> Path:
    """A model with an operator that nobody else knows."""
    nodes = [node("Foo", ["x"], ["h"], domain="com.example"), node("Relu", ["h"], ["y"])]
    proto = model(nodes, [("x", [2, 4])], [("y", [2, 4])], domains={"com.example": 1})
    return write_onnx(tmp_path / "strange.onnx", proto)


# All of them


@every("verb", VERBS)
def test_help_has_examples_with_the_verb(verb):
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.output or verb == "demo"
    assert "--json" in result.output or verb in ("schema", "lsp")
    for line in result.output.partition("Examples:")[2].partition("\n\n")[0].splitlines():
        assert not line.strip() or line.startswith((f"    graphport {verb}", "  -", "Options", " "))


def test_help_lists_the_verbs():
    lines = run("--help").output.partition("Options:\n")[2].splitlines()
    assert [line.split()[0] for line in lines if line[:2] == "  " and line[2] not in " -"] == list(VERBS)
    headings = [line.rstrip(":") for line in lines if line and line[0] != " "]
    assert headings == list(GROUPS)


def test_help_aligns_the_summaries_of_all_groups():
    lines = [line for line in run("--help").output.splitlines() if line[2:].partition(" ")[0] in VERBS]
    assert len(lines) == len(VERBS)
    assert len({len(line) - len(line[2:].partition(" ")[2].lstrip()) for line in lines}) == 1


def test_every_verb_has_one_module():
    modules = {
        path.stem for path in Path(cli_package.__file__).parent.glob("*.py") if "\ndef verb(" in path.read_text()
    }
    assert sorted(VERBS) == sorted(modules)


def test_quantize_help_lists_frequent_options_first():
    section = run("quantize", "--help").output.partition("Options:\n")[2]
    options = [line.split()[0] for line in section.splitlines() if line.startswith("  --")]
    assert options[:5] == ["--calibration", "--target", "--preset", "--weights-only", "--to,"]


@every("verb", VERBS)
def test_models_to_read_and_to_write_are_described(verb):
    output = run(verb, "--help").output
    for name in ("SRC", "DST", "MODEL"):
        if f" {name}" in output.splitlines()[0]:
            section = output.partition("Arguments:\n")[2].partition("\n\n")[0]
            assert any(
                line.split()[0].rstrip(".") == name and len(line.split()) > 4
                for line in section.splitlines()
                if line.strip()
            )


def examples() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for verb in VERBS:
        shown = run(verb, "--help").output.partition("Examples:")[2]
        found += [(verb, line.strip()) for line in shown.splitlines() if line.strip().startswith("graphport ")]
    return found


@every(("verb", "example"), examples(), ids=lambda item: str(item)[:60])
def test_examples_use_existing_options(verb, example):
    known = run(verb, "--help").output
    for word in example.split():
        if word.startswith("--"):
            assert word in known


DIFFERENT_BY_VERB = {
    *("--all", "--backend", "--batch", "--calibration", "--format", "--from", "--inputs", "--layout", "--metric"),
    *("--min-metric", "--min-snr", "--output", "--outputs", "--proof", "--target", "--to", "--verbose", "--weights"),
}
"""Options whose description names what the verb does with them."""


def test_shared_options_have_equal_descriptions():
    described: dict[str, set[tuple[str, str]]] = {}
    for verb in VERBS:
        command = cli.get_command(Context(cli), verb)
        assert command is not None
        context = Context(command, info_name=verb)
        for option in command.get_params(context):
            for name in option.opts if isinstance(option, Option) else ():
                described.setdefault(name, set()).add(option.get_help_record(context) or ("", ""))
    assert {name for name, found in described.items() if name[:2] == "--" and len(found) > 1} == DIFFERENT_BY_VERB


@pytest.mark.parametrize(
    "verb", ["simplify", "prepare", "edit", "cut", "merge", "convert", "quantize", "dequantize", "cast"]
)
def test_the_format_of_the_result_is_named_format_in_every_verb(verb):
    assert "--format FORMAT" in run(verb, "--help").output


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["shapes", "a", "b"],
        ["ops", "nosuch"],
        ["explain", "nosuch"],
        ["schema", "nosuch"],
        ["run", "a", "--backend", "nosuch"],
        ["bench", "a", "--backend", "nosuch"],
        ["convert", "a", "b.onnx", "--to", "nosuch"],
        ["simplify", "a", "b.onnx", "--to", "nosuch"],
        ["cast", "a", "b.onnx", "--to", "nosuch"],
        ["quantize", "a", "b.onnx", "--target", "nosuch"],
        ["report", "a", "--format", "nosuch"],
        ["nosuch"],
        ["check", "a", "--nosuch"],
        ["check", "a", "--edition", "newest"],
        ["shapes", "a", "--input", "x"],
        ["shapes", "a", "--input", "=1x2"],
        ["shapes", "a", "--input", "x=1xx2"],
        ["shapes", "a", "--input", "x=1,,2"],
        ["shapes", "a", "--input", "x=-1x2"],
        ["convert", "a", "b", "--verify-limit", "-1"],
        ["check", "a", "--color", "sometimes"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(arguments):
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize("verb", ["check", "shapes", "inspect", "run"])
def test_a_missing_file_is_reported(verb, tmp_path):
    path = tmp_path / "missing.onnx"
    result = run(verb, path)
    assert result.exit_code == 1
    assert f"error[IO0001]: file or folder not found: {path}" in result.stderr
    assert result.stdout == ""
    assert codes(told(verb, path, code=1)) == ["IO0001"]


@pytest.mark.parametrize("verb", ["check", "shapes", "inspect", "run"])
def test_a_file_in_no_format_is_reported(verb, tmp_path):
    path = tmp_path / "net.bin"
    path.write_bytes(b"hello")
    assert codes(told(verb, path, code=1)) == ["IO0002"]


@pytest.mark.parametrize("verb", ["check", "shapes", "inspect", "run"])
def test_a_wrong_input_is_reported(verb, net):
    document = told(verb, net, "--input", "nosuch=1x4", code=1)
    assert codes(document) == ["SHAPE0003"]
    assert codes(told(verb, net, "--input", "x=1x5", code=1)) == ["SHAPE0003"]


@pytest.mark.parametrize("color", ["always", "never"])
def test_findings_are_coloured_on_demand(color, tmp_path):
    result = run("check", tmp_path / "missing", "--color", color)
    assert ("\x1b[" in result.stderr) == (color == "always")


# check


@pytest.mark.parametrize("fixture", ["net", "small"])
def test_check_of_a_valid_model(fixture, request):
    path = request.getfixturevalue(fixture)
    result = run("check", path)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{path}: valid ")
    document = told("check", path)
    assert document == {"valid": True, "format": "onnx" if fixture == "net" else "nnef", "diagnostics": []}


def test_check_reports_warnings_and_ends_with_0(strange):
    result = run("check", strange)
    assert result.exit_code == 0
    assert "warning[LEG0001]" in result.stdout
    document = told("check", strange)
    assert document["valid"]
    assert [(f["code"], f["severity"], f["line"]) for f in document["diagnostics"]] == [("LEG0001", "warning", None)]


def test_check_reports_every_error_with_line_and_column(tmp_path):
    path = tmp_path / "wrong.nnef"
    path.write_text(NNEF.replace("relu(h)", "rellu(g)").replace("conv(x, w, b,", "conv(x, w, b, striide = [],"))
    document = told("check", path, code=1)
    assert document["valid"] is False
    assert document["format"] == "nnef"
    assert {(f["line"], f["file"]) for f in document["diagnostics"]} == {(8, str(path)), (9, str(path))}
    assert all(f["column"] and f["severity"] == "error" for f in document["diagnostics"])


def test_check_reports_shape_errors_for_bound_inputs(tmp_path):
    nodes = [node("MatMul", ["x", "w"], ["y"], name="product")]
    proto = model(nodes, [("x", ["N", "K"])], [("y", None)], {"w": np.ones((4, 2), np.float32)})
    path = write_onnx(tmp_path / "net.onnx", proto)
    assert told("check", path)["valid"]
    document = told("check", path, "--input", "x=1x5", code=1)
    assert codes(document) == ["SHAPE0001"]
    assert "MatMul: a has 5 columns, b has 4 rows" in document["diagnostics"][0]["message"]


def test_check_of_an_edition(tmp_path):
    path = tmp_path / "text.nnef"
    path.write_text(NNEF)
    assert told("check", path, "--edition", "final")["valid"]
    assert not told("check", path, "--edition", "provisional", code=1)["valid"]


# shapes


def test_shapes_as_a_table(net):
    result = run("shapes", net)
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["value", "of", "type", "shape"],
        ["x", "input", "float32", "N×4"],
        ["w", "constant", "float32", "4×5"],
        ["b", "constant", "float32", "5"],
        ["v", "constant", "float32", "5×3"],
        ["hidden", "Gemm", "float32", "N×5"],
        ["active", "Relu", "float32", "N×5"],
        ["scores", "MatMul", "float32", "N×3"],
        ["y", "Softmax", "float32", "N×3"],
    ]


def test_shapes_as_json(net):
    values = told("shapes", net)["values"]
    assert values["x"] == {"dtype": "float32", "shape": ["N", 4]}
    assert values["y"] == {"dtype": "float32", "shape": ["N", 3]}
    assert told("shapes", net, "--input", "x=7x4")["values"]["y"]["shape"] == [7, 3]
    assert told("shapes", net, "--input", "x=batch,4")["values"]["y"]["shape"] == ["batch", 3]


def test_shapes_prints_bounds_of_dynamic_dims(tmp_path):
    path = write_ir(tmp_path, [parameter("x", "2..5,3"), Layer("y", "opset1.ReLU", {}, ["x"])], ["y"])
    (symbol,) = told("shapes", path)["bounds"]
    assert told("shapes", path)["bounds"] == {symbol: [2, 5]}
    assert run("shapes", path).stdout.splitlines()[-1] == f"{symbol}: 2 to 5"


def test_shapes_of_unknown_rank_sequences_and_scalars(tmp_path):
    sequence = onnx.helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, [2])
    nodes = [node("SequenceLength", ["s"], ["n"]), node("Foo", ["n"], ["u"], domain="com.x")]
    proto = model(nodes, [sequence], [("u", None)], domains={"com.x": 1})
    values = told("shapes", write_onnx(tmp_path / "net.onnx", proto))["values"]
    assert values["s"] == {"sequence": {"dtype": "float32", "shape": [2]}}
    assert values["n"] == {"dtype": "int64", "shape": []}
    assert values["u"]["shape"] is None
    assert [line.split()[-1] for line in run("shapes", tmp_path / "net.onnx").stdout.splitlines()[2:]] == [
        "scalar",
        "?",
    ]


def test_verbose_check_prints_assumptions_on_dims(net):
    granted = "assumed for the input x: N at least 1; --input x=0..x4 says that it may be empty"
    assert run("check", net, "-v").stdout.splitlines()[1:] == [granted]
    assert run("check", net).stdout.splitlines()[1:] == []
    for given in ("x=0..x4", "x=2x4"):
        assert "granted" not in run("check", net, "-v", "--input", given).stdout


# inspect


def test_inspect_as_text(net):
    result = run("inspect", net)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0][1:] == ["ONNX", "(ai.onnx", "17)"]
    assert ["input", "x", "float32[N,", "4]"] in lines
    assert ["Gemm", "1", "20*N"] in lines
    assert ["all", "4", "35*N"] in lines
    assert ["40", "parameters", "in", "160", "bytes", "of", "weights"] in lines
    assert ["nnef", "yes"] in lines


def test_inspect_as_json(net):
    document = told("inspect", net, "--input", "x=1x4", "--weights", 1)
    targets = document.pop("targets")
    assert set(targets) == {name for name, kind in FORMATS.items() if kind.writes and kind.takes_any_model}
    assert targets["nnef"] == targets["onnx"] == {"complete": True, "unsupported": {}}
    assert document == {
        "format": "onnx",
        "versions": {"ai.onnx": "17"},
        "inputs": {"x": {"dtype": "float32", "shape": [1, 4]}},
        "outputs": {"y": {"dtype": "float32", "shape": [1, 3]}},
        "operators": {"Gemm": 1, "MatMul": 1, "Relu": 1, "Softmax": 1},
        "parameters": 40,
        "bytes": 160,
        "macs": 35,
        "macs_by_operator": {"Gemm": 20, "MatMul": 15},
        "macs_unknown": {},
        "activations": {"sizes": {}, "peak_bytes": 40, "node": "active", "operator": "Relu"},
        "weights": [{"name": "w", "dtype": "float32", "shape": [4, 5], "nbytes": 80}],
        "diagnostics": [],
    }


def test_inspect_replaces_long_macs_formulas_by_numbers(tmp_path):
    # A sequence beside its past, times weights: the sum of all has products of three symbols.
    nodes = [
        node("Concat", ["past", "x"], ["whole"], axis=1),
        node("Conv", ["image", "k"], ["seen"], strides=[3, 3]),
        node("MatMul", ["whole", "w"], ["y"]),
        node("MatMul", ["y", "y_transposed"], ["z"]),
        node("Transpose", ["y"], ["y_transposed"], perm=[0, 2, 1]),
    ]
    nodes[3], nodes[4] = nodes[4], nodes[3]
    inputs = [
        ("past", ["batch", "kept_of_the_cache", 4]),
        ("x", ["batch", "seq", 4]),
        ("image", ["batch", 1, "H", "W"]),
    ]
    constants = {"k": np.ones((2, 1, 3, 3), np.float32), "w": np.ones((4, 8), np.float32)}
    proto = model(nodes, inputs, [("z", None), ("seen", None)], constants)
    path = write_onnx(tmp_path / "net.onnx", proto)
    document = told("inspect", path)
    sizes = {"batch": 1, "kept_of_the_cache": 128, "seq": 128, "H": 128, "W": 128}
    by_operator = {"MatMul": 256 * 4 * 8 + 256 * 8 * 256, "Conv": 2 * 9 * 42 * 42}
    assert document["example"]["sizes"] == sizes
    assert document["example"]["macs_by_operator"] == by_operator
    assert document["example"]["macs"] == sum(by_operator.values())
    lines = run("inspect", path).stdout.splitlines()
    (line,) = (line for line in lines if line.startswith("all "))
    assert line.endswith(" at batch 1, kept_of_the_cache 128, seq 128, H 128 and 1 more (see --json): 564,232")
    assert max(map(len, lines)) < 120
    bound = ["past=1x2x4", "image=1x1x8x8", "x=1x3x4"]
    assert "example" not in told("inspect", path, *(part for each in bound for part in ("--input", each)))


def test_inspect_lists_unsupported_operators_per_format(strange):
    result = run("inspect", strange)
    assert "warning[LEG0001]" in result.stderr
    assert "no: com.example.Foo (1)" in result.stdout
    document = told("inspect", strange)
    assert document["targets"]["nnef"] == {"complete": False, "unsupported": {"com.example.Foo": 1}}
    assert document["targets"]["onnx"]["complete"]


def test_inspect_of_nnef_names_the_edition(small):
    assert told("inspect", small)["versions"] == {"edition": "final"}
    assert "NNEF 1.0 (edition final)" in run("inspect", small).stdout


# convert


def test_convert_verifies(small, tmp_path):
    pytest.importorskip("tract")
    target = tmp_path / "small.onnx"
    result = run("convert", small, target)
    assert result.exit_code == 0
    assert f"written to {target} (onnx)" in result.stdout
    assert "verified: tract on " in result.stdout
    assert "ONNX Runtime on small.onnx agree" in result.stdout
    onnx.checker.check_model(str(target), full_check=True)
    document = told("convert", small, target)
    assert document["unsupported"] == {}
    assert document["verify"]["passed"]
    assert document["verify"]["max_abs"] <= 1e-4
    assert document["skipped"] is None


def test_convert_without_verification_reports_it(small, tmp_path):
    result = run("convert", small, tmp_path / "small.onnx", "--no-verify")
    assert "not verified: not requested" in result.stdout
    document = told("convert", small, tmp_path / "small.onnx", "--verify-limit", 0)
    assert document["verify"] is None
    assert "MiB of weights exceed the limit" in document["skipped"]


def test_convert_to_a_format_by_name(net, tmp_path):
    document = told("convert", net, tmp_path / "other", "--to", "nnef", "--input", "x=2x4")
    assert document["format"] == "nnef"
    assert (tmp_path / "other" / "graph.nnef").is_file()
    assert codes(told("convert", net, tmp_path / "net.xyz", code=1)) == ["IO0003"]
    assert codes(told("convert", net, tmp_path / "net.onnx", "--to", "xyz", code=2)) == ["IO0003"]


def test_convert_writes_the_opset_that_is_requested(small, tmp_path):
    target = tmp_path / "small.onnx"
    assert told("convert", small, target, "--opset", 13)["verify"]["passed"]
    assert onnx.load(target).opset_import[0].version == 13
    assert codes(told("convert", small, target, "--opset", 3, code=1)) == ["ONNX0602"]
    result = run("convert", small, tmp_path / "other.nnef.tgz", "--opset", 13)
    assert result.exit_code == 2
    assert "--opset does not apply to NNEF" in result.stderr


def test_convert_reports_unsupported_operators_and_writes_no_file(strange, tmp_path):
    target = tmp_path / "strange.nnef.tgz"
    result = run("convert", strange, target)
    assert result.exit_code == 1
    assert "nnef does not support these operators, so no file is written:" in result.stdout
    assert ["com.example.Foo", "1"] in [line.split() for line in result.stdout.splitlines()]
    document = told("convert", strange, target, code=1)
    assert document["unsupported"] == {"com.example.Foo": 1}
    assert "LEG0002" in codes(document)
    assert not target.exists()


def test_convert_with_verify_fails_if_no_runtime_computes_the_model(strange, tmp_path):
    document = told("convert", strange, tmp_path / "copy.onnx", "--verify", code=1)
    assert codes(document) == ["RUN0010"]
    assert told("convert", strange, tmp_path / "copy.onnx")["skipped"].startswith("nothing computes ")


def test_convert_that_changes_numbers_ends_with_1(small, tmp_path, monkeypatch):
    pytest.importorskip("tract")

    def spoiled(*arguments, **options):
        loaded = gp.load(*arguments, **options)
        scale_weight(loaded.graph)
        return loaded

    monkeypatch.setattr("graphport.api.convert.load", spoiled)
    result = run("convert", small, tmp_path / "small.onnx")
    assert result.exit_code == 1
    assert "verification failed: the outputs differ" in result.stdout
    assert not (tmp_path / "small.onnx").exists()
    assert told("convert", small, tmp_path / "small.onnx", code=1)["verify"]["passed"] is False


@pytest.mark.parametrize(
    ("target", "options", "mark"),
    [
        ("old.onnx", ["--opset", "13"], b""),
        ("old.xml", ["--ir-version", "10"], b'version="10"'),
        ("old.xml", ["--ir-opset", "8"], b"<net "),
    ],
)
def test_convert_passes_options_to_the_writer(net, tmp_path, target, options, mark):
    assert told("convert", net, tmp_path / target, *options, "--input", "x=2x4")["verify"]["passed"]
    assert mark in (tmp_path / target).read_bytes()


def test_convert_puts_large_weights_next_to_the_model(tmp_path):
    digits = Path(gp.__file__).parent / "examples" / "digits"
    assert told("convert", digits, tmp_path / "apart.onnx", "--external-data")["verify"]["passed"]
    assert (tmp_path / "apart.onnx.data").stat().st_size > 50_000
    assert (tmp_path / "apart.onnx").stat().st_size < 10_000


def test_an_option_of_another_format_is_wrong_usage(net, tmp_path):
    result = run("convert", net, tmp_path / "net.xml", "--opset", "13")
    assert result.exit_code == 2
    assert "--opset does not apply to OpenVINO IR" in result.stderr


def test_many_models_are_converted_into_a_folder(net, small, tmp_path, monkeypatch):
    pytest.importorskip("openvino")
    monkeypatch.chdir(tmp_path)
    Path("damaged.onnx").write_bytes(b"\0" * 9)
    arguments = ["*.onnx", small, "missing.onnx", "--to", "openvino", "--out-dir", "made/here"]
    document = told("convert", *arguments, code=1)
    assert not document["passed"]
    written = {Path(each["source"]).name: (each["written"], codes(each)) for each in document["models"]}
    assert written["net.onnx"] == ("made/here/net.xml", [])
    assert written["small"] == ("made/here/small.xml", [])
    assert written["damaged.onnx"][0] is written["missing.onnx"][0] is None
    assert written["missing.onnx"][1] == ["IO0001"]
    assert sorted(path.name for path in Path("made/here").iterdir()) == ["net.bin", "net.xml", "small.bin", "small.xml"]
    expected, found = (
        gp.run(path, {"x": X}, backend=by) for path, by in ((net, "onnxruntime"), ("made/here/net.xml", "openvino"))
    )
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5)
    text = run("convert", *arguments, "--no-verify")
    assert text.stdout.splitlines()[-1] == "2 of 4 models converted"
    assert "missing.onnx" in text.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["net.onnx", "--to", "onnx"], id="unknown target"),
        pytest.param(["net.onnx", "net.onnx", "other.onnx"], id="several without a folder"),
        pytest.param(["net.onnx", "--out-dir", "made"], id="unknown format"),
        pytest.param(
            ["net.onnx", "--to", "onnx", "--out-dir", "made", "--report", "page.html"], id="one page for many"
        ),
        pytest.param(["net.onnx", "small/net.onnx", "--to", "xml", "--out-dir", "made"], id="unknown format"),
        pytest.param(["net.onnx", "small/net.onnx", "--to", "pt2", "--out-dir", "made"], id="one name twice"),
    ],
)
def test_convert_with_mismatched_targets_is_a_usage_error(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("convert", *arguments).exit_code == 2
    assert not list(tmp_path.iterdir())


# run


def test_run_writes_outputs_by_name(net, tmp_path):
    np.savez(tmp_path / "in.npz", x=X)
    result = run("run", net, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert result.exit_code == 0
    assert ["y", "float32", "2×3"] in [line.split()[:3] for line in result.stdout.splitlines()]
    found = arrays.read(tmp_path / "out.npz")
    assert list(found) == ["y"]
    np.testing.assert_allclose(found["y"].sum(axis=1), [1, 1], rtol=1e-6)


@pytest.mark.parametrize("backend", ["auto", "onnxruntime", "reference"])
def test_run_on_every_backend(net, tmp_path, backend):
    np.savez(tmp_path / "in.npz", x=X)
    arguments = ["--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz", "--backend", backend]
    document = told("run", net, *arguments)
    assert document == {"outputs": {"y": {"dtype": "float32", "shape": [2, 3]}}, "file": str(tmp_path / "out.npz")}


def test_run_writes_every_value(net, tmp_path):
    np.savez(tmp_path / "in.npz", x=X)
    document = told("run", net, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "all.npz", "--all")
    found = arrays.read(tmp_path / "all.npz")
    assert list(found) == list(document["outputs"])
    proto = perceptron()
    names = [name for each in proto.graph.node for name in each.output]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert sorted(found) == sorted(names)
    for name, expected in zip(names, session.run(None, {"x": X}), strict=True):
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)


def test_run_generates_missing_inputs(net):
    assert told("run", net) == {"outputs": {"y": {"dtype": "float32", "shape": [1, 3]}}, "file": None}
    assert told("run", net, "--input", "x=5x4")["outputs"]["y"]["shape"] == [5, 3]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, ["RUN0006"], id="missing"),
        pytest.param({"x": X, "z": X}, ["RUN0006"], id="unknown"),
        pytest.param({"x": X.astype(np.float64) / 3}, ["RUN0007"], id="another type"),
        pytest.param({"x": X[:, :3]}, ["RUN0008"], id="another shape"),
    ],
)
def test_run_reports_inputs_that_do_not_fit(net, tmp_path, given, expected):
    np.savez(tmp_path / "in.npz", **given)
    assert codes(told("run", net, "--inputs", tmp_path / "in.npz", code=1)) == expected


def test_run_reports_a_malformed_file(net, tmp_path):
    (tmp_path / "in.npz").write_bytes(b"PK\x03\x04 not really")
    assert codes(told("run", net, "--inputs", tmp_path / "in.npz", code=1)) == ["IO0005"]


def test_run_reports_a_file_that_is_missing(net, tmp_path):
    document = told("run", net, "--inputs", tmp_path / "in.npz", code=1)
    assert codes(document) == ["IO0001"]
    assert document["diagnostics"][0]["file"] == str(tmp_path / "in.npz")
    assert document["diagnostics"][0]["message"].startswith("file or folder not found: ")


def test_run_reports_an_output_path_that_is_not_writable(net, tmp_path):
    (tmp_path / "file").write_text("")
    assert codes(told("run", net, "--outputs", tmp_path / "file" / "out.npz", code=1)) == ["IO0004"]


def test_run_reports_an_unknown_backend(net):
    document = told("run", net, "--backend", "abacus", code=2)
    assert codes(document) == ["RUN0001"]
    assert document["diagnostics"][0]["help"] == f"backends: auto, {', '.join(BACKENDS)}"


def test_run_needs_weights(tmp_path):
    path = tmp_path / "text.nnef"
    path.write_text(NNEF)
    assert codes(told("run", path, code=1)) == ["RUN0004"]


def test_run_reads_and_writes_sequences(tmp_path):
    info = onnx.helper.make_tensor_sequence_value_info
    nodes = [node("SequenceInsert", ["s", "x"], ["t"])]
    proto = model(nodes, [info("s", 1, None), ("x", [2])], [info("t", 1, None)])
    path = write_onnx(tmp_path / "net.onnx", proto)
    arrays.write(tmp_path / "in.npz", {"s": [np.zeros(2, np.float32)], "x": np.ones(2, np.float32)})
    document = told("run", path, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert document["outputs"] == {"t": {"sequence": 2}}
    assert list(arrays.read(tmp_path / "out.npz")) == ["t.0", "t.1"]
    assert told("compare", path, path, "--inputs", tmp_path / "in.npz")["passed"]


# compare


def test_compare_of_equal_models(net, tmp_path):
    gp.save(gp.load(net), tmp_path / "copy.onnx")
    result = run("compare", net, tmp_path / "copy.onnx")
    assert result.exit_code == 0
    assert "equal within tolerance" in result.stdout
    document = told("compare", net, tmp_path / "copy.onnx", "--all")
    assert document["passed"]
    assert document["first"] is None
    assert {value["name"] for value in document["values"]} == {"hidden", "active", "scores", "y"}


def test_compare_of_different_models_names_the_first_value_that_differs(tmp_path):
    a = write_nnef(tmp_path / "a")
    b = write_nnef(tmp_path / "b", scale=1.5)
    result = run("compare", a, b, "--all")
    assert result.exit_code == 1
    assert "the first value that differs is h" in result.stdout
    assert "the outputs differ" in result.stdout
    document = told("compare", a, b, code=1)
    assert document["passed"] is False
    assert document["outputs"][0]["max_abs"] > 0.1


def test_compare_uses_the_inputs_of_a_file(net, tmp_path):
    np.savez(tmp_path / "in.npz", x=X)
    assert told("compare", net, net, "--inputs", tmp_path / "in.npz")["passed"]
    np.savez(tmp_path / "in.npz", z=X)
    assert codes(told("compare", net, net, "--inputs", tmp_path / "in.npz", code=1)) == ["RUN0006", "RUN0006"]


# formats, ops


def test_formats(net):
    document = told("formats")
    assert {found["name"] for found in document["formats"]} >= {"nnef", "onnx"}
    onnx_format = next(found for found in document["formats"] if found["name"] == "onnx")
    assert onnx_format == {"name": "onnx", "title": "ONNX", "endings": [".onnx"], "read": True, "write": True}
    assert run("formats").stdout.splitlines()[0].split() == ["format", "title", "endings", "read", "write"]


def test_ops_lists_every_page_by_format_and_direction():
    document = told("ops")
    assert document["opset"] == 26
    by_name = {found["name"]: found for found in document["operators"]}
    assert list(by_name) == sorted(by_name)
    assert by_name["Relu"]["formats"]["nnef"] == {"read": ["relu"], "write": True}
    assert by_name["Loop"]["formats"]["nnef"] == {"read": [], "write": False}
    assert by_name["If"]["formats"]["onnx"] == {"read": ["If"], "write": True}
    lines = [line.split("  ") for line in run("ops").stdout.splitlines()]
    assert lines[0][0] == "operator"
    assert any(line[0] == "Relu" for line in lines)


def test_ops_shows_a_page():
    shown = run("ops", "LeakyRelu").stdout
    assert "LeakyRelu(x: T, *, alpha: float = 0.01) → y: T" in shown
    assert "Source: ONNX LeakyRelu-16." in shown
    assert "bfloat16, float16, float32, float64" in shown
    assert "leaky_relu(x, alpha=alpha)" in shown
    document = told("ops", "LeakyRelu")
    assert document["signature"] == "LeakyRelu(x: T, *, alpha: float = 0.01) → y: T"
    assert document["types"] == {"T": ["bfloat16", "float16", "float32", "float64"]}


def test_ops_explains_an_op_type_of_a_format():
    assert run("ops", "leaky_relu").stdout.splitlines()[0] == "leaky_relu of nnef is converted to LeakyRelu"
    assert "nn.Conv2d of pnnx is converted to Conv, with some of " in run("ops", "nn.Conv2d").stdout
    kept = "TreeEnsembleClassifier of ai.onnx.ml is kept unchanged and computed by the reference interpreter\n"
    assert run("ops", "TreeEnsembleClassifier").stdout == kept
    assert told("ops", "Upsample")["word"] == "Upsample"
    assert told("ops", "Upsample")["formats"]["onnx"] == ["Resize"]


def test_ops_suggests_a_similar_name():
    document = told("ops", "LeakyRely", code=2)
    assert codes(document) == ["LEG0003"]
    assert document["diagnostics"][0]["help"].startswith("did you mean LeakyRelu")
    assert told("ops", "qqqq", code=2)["diagnostics"][0]["help"] == "run graphport ops for the list"


# demo


def test_demo_runs_every_step():
    result = run("demo")
    assert result.exit_code == 0
    for part in ("valid NNEF 1.0", "Conv", "test images recognized", "verified: both compute the same", "Try next"):
        assert part in result.stdout
    document = told("demo")
    assert document["valid"]
    assert document["verify"]["passed"]
    assert document["right"] / document["images"] > 0.95
    assert document["prepare"]["fuse-batchnorm"] == 3
    assert document["quantize"]["right"] / document["quantize"]["images"] > 0.95
    assert document["quantize"]["snr_db"] > 30


# Bugs of ours are not findings


def test_a_bug_is_no_finding(net, monkeypatch):
    def fail(*_arguments: object, **_options: object):
        raise RuntimeError("a bug")

    monkeypatch.setattr(gp, "load", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        run("shapes", net)


def test_warnings_alone_exit_with_0(net, monkeypatch):
    def warned(*_arguments: object, **_options: object) -> Sequence[Diagnostic]:
        return [Diagnostic("IO0001", "careful", severity=Severity.WARNING)]

    monkeypatch.setattr(gp, "check", warned)
    assert told("check", net)["valid"]
