"""What rules were seen to emit: a part of the tests adds to what is known, and forgets nothing but rules that are gone."""

from __future__ import annotations

import json

from tools.emitted import merged

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


def test_a_part_of_the_tests_adds_to_what_is_known(tmp_path):
    seen = [["lower", "nnef", "relu", ["Relu", "Cast"], ["Cast"], "tests/ops/dialects/nnef/test_activation.py"]]
    (tmp_path / "1.json").write_text(json.dumps(seen), encoding="utf-8")
    found = merged(tmp_path, KNOWN)
    row = {"emits": ["Cast", "Relu"], "always": [], "test": "tests/ops/dialects/nnef/test_activation.py"}
    assert found["lower"]["nnef"]["relu"] == row
    assert found["lift"]["nnef"]["Relu"] == KNOWN["lift"]["nnef"]["Relu"]


def test_rules_that_are_gone_are_forgotten(tmp_path):
    found = merged(tmp_path, KNOWN)
    assert "no_such_word" not in found["lower"]["nnef"]
    assert "no_such_dialect" not in found["lift"]


def test_all_tests_together_tell_everything(tmp_path):
    assert merged(tmp_path) == {"lower": {}, "lift": {}}
