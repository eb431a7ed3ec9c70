"""Mistakes of our own: a finding with a place, apart from the input's faults, and the exception for who debugs."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import graphport as gp
from graphport.conversion.export import export_graph
from graphport.conversion.legalize import legalize
from graphport.core import budget, faults
from graphport.core.diagnostics import DiagnosticError, Severity
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry
from tests.models import model, node, typed


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.delenv(faults.VARIABLE)


def _relu(dialect="", op_type="Relu"):
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 3)))
    graph.set_outputs(graph.append(Node(op_type, [x], [Value("y")], dialect=dialect)).results)
    return graph


def _stumble(*_, **__):
    message = "tuple index out of range"
    raise IndexError(message)


@pytest.mark.usefixtures("quiet")
def test_a_reading_rule_that_stumbles_leaves_its_node_and_is_reported(monkeypatch):
    monkeypatch.setattr(registry, "lowering", lambda *_: _stumble)
    legal, findings = legalize(_relu("nnef", "relu"))
    assert [node.op for node in legal] == ["nnef.relu"]
    (finding,) = {each.code: each for each in findings}.values()
    assert (finding.code, finding.severity) == ("BUG0001", Severity.WARNING)
    assert "nnef.relu" in finding.message
    assert "IndexError: tuple index out of range" in finding.message
    assert faults.is_ours(finding)


@pytest.mark.usefixtures("quiet")
def test_a_writing_rule_that_stumbles_is_an_error_of_ours(monkeypatch):
    monkeypatch.setattr(registry, "export_rules", lambda *_: [_stumble])
    _, findings = export_graph(_relu(), "nnef")
    assert [(each.code, each.severity) for each in findings] == [("BUG0001", Severity.ERROR)]


def test_debug_variable_reraises_the_exception(monkeypatch):
    monkeypatch.setenv(faults.VARIABLE, "1")
    monkeypatch.setattr(registry, "lowering", lambda *_: _stumble)
    with pytest.raises(IndexError):
        legalize(_relu("nnef", "relu"))


@pytest.mark.usefixtures("quiet")
def test_a_reader_that_stumbles_names_the_file(monkeypatch, tmp_path):
    from graphport.formats import nnef

    path = tmp_path / "m.nnef"
    path.write_text("version 1.0;\n")
    monkeypatch.setattr(nnef, "read", _stumble)
    with pytest.raises(DiagnosticError) as caught:
        gp.load(path)
    (finding,) = caught.value.diagnostics
    assert finding.code == "BUG0001"
    assert finding.span is not None
    assert finding.span.file == str(path)
    assert isinstance(caught.value.__cause__, IndexError)


def test_command_line_reports_internal_errors_separately(tmp_path):
    path = tmp_path / "m.nnef"
    path.write_text("version 1.0;\n")
    program = (
        "import sys; from graphport.formats import nnef; from graphport.cli import main\n"
        "nnef.read = lambda *_, **__: [][1]\n"
        f"sys.argv = ['graphport', *sys.argv[1:], {str(path)!r}]; main()"
    )

    def run(*arguments):
        command = [sys.executable, "-c", program, *arguments]
        environment = {name: value for name, value in os.environ.items() if name != faults.VARIABLE}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    told = run("shapes")
    assert (told.returncode, "Traceback" in told.stderr, "BUG0001" in told.stderr) == (3, False, True)
    shown = run("--debug", "shapes")
    assert "Traceback" in shown.stderr
    assert "IndexError" in shown.stderr


def test_reserve_checks_array_sizes_of_the_file():
    assert budget.reserve(3, 4) == 12
    assert budget.reserve(3, -4) == 0
    with pytest.raises(
        budget.OverBudgetError, match=r"4611686018427387904 rows, the limit is 4194304; set GRAPHPORT_MOST_MADE"
    ):
        budget.reserve(1 << 31, 1 << 31, what="rows")


def test_generated_elements_are_limited_per_command(monkeypatch):
    with budget.fresh(), budget.fresh():
        for _ in range(8):
            budget.reserve(1 << 22)
        with pytest.raises(budget.OverBudgetError, match="33554432 elements"):
            budget.reserve(1)
    monkeypatch.setenv(budget.SETTING, str(1 << 34))
    with budget.fresh():
        assert budget.reserve(1 << 30) == 1 << 30


def test_extents_that_no_format_can_hold_are_reported(tmp_path):
    path = tmp_path / "m.nnef"
    path.write_text(
        "version 1.0;\ngraph g(x) -> (y)\n{\n x = external<scalar>(shape = [4611686018427387904]);\n"
        " y = concat([x, x, x], axis = 0);\n}\n"
    )
    assert "extent" in "".join(each.message for each in gp.check(path))


def test_oversized_table_is_rejected_only_by_formats_that_need_it(tmp_path):
    how = {"mode": "linear", "coordinate_transformation_mode": "asymmetric", "axes": [2]}
    resize = node("Resize", ["x", "", "", "s"], ["y"], **how)
    constants = {"s": np.array([(1 << 30) + 7])}
    wide = gp.from_onnx(model([resize], [typed("x", [1, 1, 1 << 30])], [typed("y", None)], constants, opset=18))
    gp.save(wide, tmp_path / "m.onnx")
    gp.save(wide, tmp_path / "m.xml")
    with pytest.raises(DiagnosticError, match="LIMIT0001"):
        gp.save(wide, tmp_path / "m.nnef")


@pytest.mark.usefixtures("quiet")
def test_internal_error_is_one_line():
    assert faults.described(ValueError(" a\n  b ")) == "ValueError: a b"
    assert faults.described(KeyError()) == "KeyError"
    found = faults.stumbled("the rule", ValueError("no"), severity=Severity.WARNING)
    assert (found.code, found.message, found.severity) == (
        "BUG0001",
        "the rule failed: ValueError: no",
        Severity.WARNING,
    )
    assert faults.is_ours(found)
    found = faults.stumbled("the rule", MemoryError())
    assert (found.code, found.message) == ("LIMIT0001", "out of memory: the rule")
    assert not faults.is_ours(found)
    assert faults.exhausted("it", MemoryError("3 rows")).message == "out of memory: it: 3 rows"


@pytest.mark.usefixtures("quiet")
def test_as_finding_converts_only_programming_errors():
    def raised(error):
        with faults.as_finding("reading"):
            raise error

    with pytest.raises(DiagnosticError, match="reading failed: KeyError") as caught:
        raised(KeyError())
    assert isinstance(caught.value.__cause__, KeyError)
    for error in (UnicodeDecodeError("utf-8", b"a", 0, 1, "no"), OSError("no"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            raised(error)
    with faults.as_finding("reading"):
        pass
