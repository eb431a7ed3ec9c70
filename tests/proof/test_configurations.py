"""Which runtimes of a proof are loaded in their strict configuration."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphport.proof import loading
from graphport.proof.run import Configuration
from graphport.proof.runtimes import RUNTIMES


class Default:
    """A runner in the default configuration."""

    configuration = Configuration.DEFAULT

    def __init__(self, letter: str, format: str) -> None:
        self.letter = letter
        self.side = SimpleNamespace(runtime=RUNTIMES[format])

    def __str__(self) -> str:
        return f"default {self.letter}"


@pytest.mark.parametrize(
    ("formats", "expected"),
    [
        pytest.param(("onnx", "openvino"), [("default a", "strict b"), ("strict a", "strict b")], id="written file"),
        pytest.param(("openvino", "onnx"), [("strict a", "default b"), ("strict a", "strict b")], id="source"),
        pytest.param(("onnx", "onnx"), [("strict a", "strict b")], id="equal precision"),
        pytest.param(("onnx", "nnef"), [("strict a", "default b")], id="one configuration"),
    ],
)
def test_less_exact_runtime_is_strict_first(formats, expected, monkeypatch):
    def strict(case: Any, letter: str) -> Any:
        carrier = case.carriers[letter]
        return f"strict {letter}" if carrier.side.runtime.has_strict else carrier

    monkeypatch.setattr(loading, "_strict", strict)
    case: Any = SimpleNamespace(
        carriers={letter: Default(letter, format) for letter, format in zip("ab", formats, strict=True)}
    )
    assert [tuple(map(str, pair)) for pair in loading.strict_pairs(case)] == expected
