from __future__ import annotations

import textwrap

import pytest

from tools.diagnostic_codes import DATA, data, findings, in_module, problems


def found_in(text: str):
    return in_module(textwrap.dedent(text), "module.py")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param(
            'Diagnostic("NNEF0001", "no such name", span, "assign it")',
            ("error", "no such name", "assign it"),
            id="a diagnostic",
        ),
        pytest.param(
            'diagnostics.Diagnostic("NNEF0001", f"\'{name}\' is " f"{what!r}", help=None)',
            ("error", "'…' is …", ""),
            id="what the input says is left open",
        ),
        pytest.param(
            'Diagnostic("NNEF0001", "m", severity=Severity.WARNING)', ("warning", "m", ""), id="a named severity"
        ),
        pytest.param(
            'Diagnostic("NNEF0001", "m", None, None, Severity.NOTE if final else Severity.ERROR)',
            ("error or note", "m", ""),
            id="a severity that depends",
        ),
        pytest.param('self.error("NNEF0001", "m", token, "h")', ("error", "m", "h"), id="a method that reports"),
        pytest.param('self.fail(token.span, "NNEF0001", "m", "h")', ("error", "m", "h"), id="the place comes first"),
        pytest.param('self.warn("NNEF0001", "m")', ("warning", "m", ""), id="a method that warns"),
        pytest.param('report(code="NNEF0001", message="m")', ("error", "m", ""), id="by keyword"),
        pytest.param('Diagnostic("NNEF0001", "a" if x else "b")', ("error", "a / b", ""), id="one of two sentences"),
        pytest.param('Diagnostic("NNEF0001", error.message)', ("error", "…", ""), id="a sentence from elsewhere"),
    ],
)
def test_a_finding_is_read_from_its_call(call, expected):
    (finding,) = found_in(call)
    assert (finding.code, finding.file, finding.line) == ("NNEF0001", "module.py", 1)
    assert (finding.severity, finding.message, finding.help) == expected


def test_location_argument_is_not_taken_as_the_remedy(tmp_path):
    folder = tmp_path / "formats" / "onnx"
    folder.mkdir(parents=True)
    (folder / "findings.py").write_text("def error(code, message, place, help=None): ...\n", "utf-8")
    calls = 'error("ONNX0001", "m", "graph.input")\nerror("ONNX0002", "m", f"byte {n}", "fetch the file again")\n'
    (folder / "reader.py").write_text(calls, "utf-8")
    without, with_remedy = findings(tmp_path)
    assert (without.help, with_remedy.help) == ("", "fetch the file again")


def test_code_may_be_a_constant():
    (finding,) = found_in("""
        SYNTAX = "NNEF0101"
        def parse(): return Diagnostic(SYNTAX, "m")
    """)
    assert (finding.code, finding.message) == ("NNEF0101", "m")


def test_message_may_be_a_variable():
    (first, second) = found_in("""
        def check(x):
            message = f"{x} is odd"
            if x:
                raise DiagnosticError(Diagnostic("IO0001", message))
            message = "other"
            return Diagnostic("IO0002", message)
    """)
    assert [(first.code, first.message), (second.code, second.message)] == [("IO0001", "… is odd"), ("IO0002", "other")]


def test_code_may_be_a_parameter_default():
    (finding,) = found_in("""
        class Checker:
            def open(self, node, code="NNEF0512"):
                return self.error(code, "left open", node)
    """)
    assert (finding.code, finding.message) == ("NNEF0512", "left open")


def test_a_variable_of_another_function_is_another():
    (finding,) = found_in("""
        def one():
            message = "one"
        def two(message):
            return Diagnostic("IO0001", message)
    """)
    assert finding.message == "…"


def test_code_in_a_comparison_is_ignored():
    assert found_in('if finding.code == "NNEF0101": pass') == []


def write(folder, modules):
    for name, text in modules.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("modules", "complaint"),
    [
        pytest.param(
            {"ir/a.py": 'Diagnostic("IO0001", "one")', "ops/b.py": 'Diagnostic("IO0001", "two")'},
            "ops/b.py:1: IO0001 already means 'one' in ir/a.py:1",
            id="two layers",
        ),
        pytest.param(
            {"formats/a/x.py": 'Diagnostic("IO0001", "one")', "formats/b/x.py": 'Diagnostic("IO0001", "two")'},
            "formats/b/x.py:1: IO0001 already means 'one' in formats/a/x.py:1",
            id="two formats",
        ),
        pytest.param({"a.py": 'Diagnostic("DAT0001", "m")'}, "a.py:1: 'DAT0001' is no code", id="no such group"),
        pytest.param({"a.py": 'Diagnostic("IO01", "m")'}, "a.py:1: 'IO01' is no code", id="two digits"),
        pytest.param({"a.py": 'CODES = {"x": "IO0001"}'}, "a.py:1: IO0001 is given to no call", id="hidden in a table"),
    ],
)
def test_wrong_codes_are_complained_about(tmp_path, modules, complaint):
    write(tmp_path, modules)
    (message,) = problems(findings(tmp_path), tmp_path)
    assert message.startswith(complaint)


def test_code_may_be_used_twice_with_one_message(tmp_path):
    write(tmp_path, {"a.py": 'Diagnostic("IO0001", f"no {x}")', "b.py": 'Diagnostic("IO0001", f"no {y}")'})
    assert problems(findings(tmp_path), tmp_path) == []


def test_one_package_may_use_a_code_with_several_messages(tmp_path):
    write(tmp_path, {"run/a.py": 'Diagnostic("RUN0001", "one")', "run/b.py": 'Diagnostic("RUN0001", "two")'})
    assert problems(findings(tmp_path), tmp_path) == []


@pytest.fixture(scope="module")
def project():
    """Return the findings of the whole source; reading it takes seconds."""
    return findings()


def test_no_code_of_the_project_is_wrong(project):
    assert problems(project) == []


def test_the_stored_codes_are_up_to_date(project):
    assert DATA.read_text(encoding="utf-8") == data(project), "run `make codes`"
