"""Recorded op types of rules: a partial test run adds to the record, and only deleted rules are removed."""

from __future__ import annotations

import json
from importlib.resources import files

from graphport.ops import registry
from tools.emitted import LOWER, Recorder, merged

KNOWN = {
    "lower": {
        "nnef": {
            "relu": {"emits": ["Relu"], "always": ["Relu"], "test": "tests/a.py"},
            "no_such_word": {"emits": ["Relu"], "always": ["Relu"], "test": "tests/a.py"},
        },
    },
    "lift": {
        "nnef": {"Relu": {"emits": ["relu"], "always": ["relu"], "test": "tests/a.py"}},
        "no_such_dialect": {"NoSuchOperator": {"emits": [], "always": [], "test": "tests/a.py"}},
    },
}


def test_partial_test_run_extends_the_table(tmp_path):
    seen = [["lower", "nnef", "relu", ["Relu", "Cast"], ["Cast"], "tests/formats/nnef/rules/test_activation.py"]]
    (tmp_path / "1.json").write_text(json.dumps(seen), encoding="utf-8")
    found = merged(tmp_path, KNOWN)
    row = {"emits": ["Cast", "Relu"], "always": [], "test": "tests/formats/nnef/rules/test_activation.py"}
    assert found["lower"]["nnef"]["relu"] == row
    assert found["lift"]["nnef"]["Relu"] == KNOWN["lift"]["nnef"]["Relu"]


def test_rules_that_are_gone_are_forgotten(tmp_path):
    found = merged(tmp_path, KNOWN)
    assert "no_such_word" not in found["lower"]["nnef"]
    assert "no_such_dialect" not in found["lift"]


def test_full_test_run_replaces_the_table(tmp_path):
    seen = [["lower", "nnef", "relu", ["Max"], ["Max"], "tests/b.py"]]
    (tmp_path / "1.json").write_text(json.dumps(seen), encoding="utf-8")
    found = merged(tmp_path, KNOWN, is_whole=True)
    assert found == {
        "lower": {"nnef": {"relu": {"emits": ["Max"], "always": ["Max"], "test": "tests/b.py"}}},
        "lift": {},
    }


def test_full_test_run_keeps_rows_of_tests_that_did_not_run(tmp_path):
    row = {"emits": ["Relu"], "always": ["Relu"], "test": "tests/conformance/test_laws.py"}
    gone = row | {"test": "tests/conformance/no_such_test.py"}
    known = {"lower": {"nnef": {"relu": row, "no_such_word": row, "sigmoid": gone}}, "lift": {}}
    assert merged(tmp_path, known, is_whole=True) == {"lower": {"nnef": {"relu": row}}, "lift": {}}


def test_partial_test_run_keeps_onnx_rows(tmp_path):
    row = {"emits": ["Gather"], "always": ["Gather"], "test": "tests/a.py"}
    assert merged(tmp_path, {"lower": {"onnx": {"Gather": row}}, "lift": {}})["lower"] == {"onnx": {"Gather": row}}


def test_op_types_registered_by_tests_are_omitted(tmp_path):
    seen = [["lower", "madeup", "double", ["Relu"], ["Relu"], "tests/a.py"]]
    (tmp_path / "1.json").write_text(json.dumps(seen), encoding="utf-8")
    assert merged(tmp_path, {}) == {"lower": {}, "lift": {}}


def test_rules_registered_by_tests_are_not_recorded():
    def toy(b):
        return b

    recorder = Recorder()
    assert recorder.wrapped((LOWER, "nnef", "conv"), toy) is toy
    rule = registry.lowering("nnef", "conv")
    assert rule is not None
    assert recorder.wrapped((LOWER, "nnef", "conv"), rule) is not rule


def test_emitted_table_contains_only_existing_dialects():
    known = json.loads((files("graphport.ops") / "emitted.json").read_text(encoding="utf-8"))
    assert {dialect for kind in known.values() for dialect in kind} <= set(registry.names())


def test_operators_in_a_body_are_not_attributed_to_the_outer_op_type():
    recorder = Recorder()
    inferred = recorder.apart(lambda: recorder.note("Add", ""))

    def loop():
        recorder.note("Loop", "")
        inferred()
        recorder.note("Reshape", "")
        return True

    loop.__module__ = "graphport"
    recorder.wrapped((LOWER, "tflite", "WHILE"), loop)()
    assert recorder.seen[LOWER, "tflite", "WHILE"].some == {"Loop", "Reshape"}
