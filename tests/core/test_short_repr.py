"""`repr` of results and facts stays short, whatever they contain."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.core.diagnostics import Diagnostic, Source, Span
from graphport.core.dtypes import DType
from graphport.core.facts import OptionalFact, SequenceFact, TensorFact
from graphport.core.short_repr import MAX_LENGTH, abridge, short_repr
from tests.models import model, node

COUNT = 60
LONG = "n" * 2000


def wide() -> onnx.ModelProto:
    """A model with many inputs, outputs and long names."""
    nodes = [node("Neg", [f"{LONG}{i}"], [f"y{LONG}{i}"]) for i in range(COUNT)]
    return model(nodes, [(f"{LONG}{i}", [1, 3]) for i in range(COUNT)], [(f"y{LONG}{i}", [1, 3]) for i in range(COUNT)])


def of_wide(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(wide(), path)
    loaded = gp.load(path)
    inputs = [np.ones((1, 3), np.float32)] * COUNT
    edited = gp.edit(loaded, rename={f"y{LONG}0": "z"})
    simplified, rewrite_report = gp.simplify(loaded)
    yield from (loaded, loaded.graph, edited, simplified, rewrite_report, gp.load(wide()))
    yield from (next(iter(loaded.graph)), loaded.graph.inputs[0], loaded.graph.inputs[0].fact)
    yield gp.run(loaded, inputs)
    yield gp.compare(loaded, gp.load(path), inputs, every_value=True)
    yield from (gp.inspect(loaded), gp.report(loaded), gp.verify(path, loaded, inputs))
    yield gp.convert(path, tmp_path / "net.nnef.tgz", verify=False)
    yield from gp.compare(loaded, loaded, inputs).outputs[:1]


@pytest.mark.filterwarnings("ignore:.*")
def test_results_of_a_wide_model_are_short(tmp_path):
    for result in of_wide(tmp_path):
        text = repr(result)
        assert len(text) < 500, (type(result), len(text))
        assert text.startswith((type(result).__name__, "<", "{", "%"))


FACT = TensorFact(DType.INT64, (1 << 70,) * 100, tuple(range(1 << 60, (1 << 60) + 256)))


@pytest.mark.parametrize(
    "value",
    [
        FACT,
        SequenceFact(FACT),
        OptionalFact(FACT),
        Diagnostic("IO0001", LONG, Span(Source(LONG, LONG), 0, 1), LONG),
        gp.Expression("add(" * 200 + "@0" + ",@0)" * 200),
        gp.Limits(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_facts_and_diagnostics_are_short(value):
    assert len(repr(value)) < 500


@short_repr
@dataclass
class Sample:
    first: int
    second: list[int] = field(default_factory=list)
    third: str | None = None
    hidden: int = field(default=7, repr=False)


def test_fields_with_their_default_are_omitted():
    assert repr(Sample(1)) == "Sample(first=1)"
    assert repr(Sample(1, [1, 2, 3], "a")) == "Sample(first=1, second=[1, 2, 3], third='a')"
    assert repr(Sample(1, [1, 2, 3, 4], hidden=8)) == "Sample(first=1, second=[1, 2, 3, …])"


def test_the_limit_holds_for_long_texts():
    assert abridge("ab") == "'ab'"
    assert len(abridge([LONG] * 100)) <= MAX_LENGTH
