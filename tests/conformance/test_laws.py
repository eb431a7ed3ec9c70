"""Invariants for operators of all dialects: operands in a file and folded, symbolic dims, duplicated nodes.

The cases are those that `openvino/` and `ncnn/` draw, the documents of `nnef/` and of `benchmarks/nnef`, the PNNX
models of `pnnx/`, and the operators that PNNX and NNEF can represent. The results are compared with those of the
unchanged graph, which other tests check.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.nnef.documents import documents
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.core.facts import TensorFact, as_integer
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Value
from tests import laws
from tests.conformance.ncnn.judgement import KINDS, draws, written
from tests.conformance.openvino import cases as openvino_cases
from tests.conformance.openvino.draw import Draw
from tests.conformance.openvino.test_operators import GENERATORS
from tests.conformance.pnnx.test_models import models as models_of_pnnx
from tests.conformance.pnnx.test_models import unpack
from tests.formats.pnnx.samples import draw as drawn_for_pnnx
from tests.ops.test_every_operator import TABLE
from tests.ops.test_every_operator_in_pnnx import models

NNEF = Path(__file__).parent / "nnef" / "cases"
PARTS = 4

FEW = settings(
    max_examples=2,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

Case = tuple[str, Graph, list[Any]]
"""What it is, a graph in the words of its dialect, and arrays for its inputs."""


def openvino(part: slice, folder: Path) -> Iterator[Case]:
    for name in sorted(GENERATORS)[part]:
        case = GENERATORS[name](Draw(1))
        yield name, gp.load(openvino_cases.write(case, folder), raw=True).graph, openvino_cases.given(case)


def ncnn(part: slice, folder: Path) -> Iterator[Case]:
    for seed, kind in enumerate(KINDS[part]):
        random = np.random.default_rng(seed)
        case, place = draws(random, [kind]), folder / f"ncnn{seed}"
        arrays = written(case, place, random)
        yield str(case), gp.load(place / "net.param", raw=True).graph, [array[None] for array in arrays.values()]


def nnef(part: slice, folder: Path) -> Iterator[Case]:
    random = np.random.default_rng(0)
    for row in json.loads((NNEF / "cases.json").read_text())[part]:
        try:
            graph = gp.load(NNEF / row["file"], raw=True, edition=row["dialect"]).graph
        except DiagnosticError:
            continue
        arrays = []
        for value in graph.inputs:
            fact = value.fact
            assert isinstance(fact, TensorFact)
            is_real, shape = fact.dtype is not None and fact.dtype.kind == "f", tuple(map(as_integer, fact.dims))
            arrays.append(random.normal(size=shape) if is_real else random.integers(0, 2, shape))
        yield row["file"], graph, arrays


def operations(part: slice, folder: Path) -> Iterator[Case]:
    for index, document in enumerate(documents()[part]):
        place = folder / f"operation{index}"
        document.write(place)
        yield document.name, gp.load(place, raw=True).graph, list(document.given().values())


def pnnx(part: slice, folder: Path) -> Iterator[Case]:
    for name in sorted(models_of_pnnx())[part]:
        path = unpack(name, folder)
        try:
            graph = gp.load(path, raw=True).graph
        except DiagnosticError:
            continue
        arrays = [drawn_for_pnnx(each) for each in models_of_pnnx()[name]["inputs"]]
        if len(arrays) == len(graph.inputs):
            yield name, graph, arrays


def pages(part: slice, folder: Path) -> Iterator[Case]:
    for name in sorted(set(TABLE) - {"Constant", "ConstantOfShape"})[part]:
        for case in _drawn(name):
            proto, feeds = next(iter(models(case, name)))
            for path in (folder / "one.pnnx.param", folder / "one.nnef.tgz"):
                try:
                    gp.save(gp.from_onnx(proto), path)
                    graph = gp.load(path, raw=True).graph
                except DiagnosticError:
                    continue
                if len(graph.inputs) == len(feeds):
                    yield f"{name} in {path.suffixes[0]}", graph, list(feeds.values())


def _drawn(name: str) -> list[Any]:
    found: list[Any] = []

    @FEW
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        found.append(TABLE[name](data.draw))

    draw()
    return found


DIALECTS: dict[str, Callable[[slice, Path], Iterator[Case]]] = {
    "openvino": openvino,
    "ncnn": ncnn,
    "nnef": nnef,
    "operations": operations,
    "pnnx": pnnx,
    "pages": pages,
}


def violations(cases: Iterator[Case], file: Path) -> tuple[dict[str, list[str]], int]:
    """Return the violations by case, and the number of cases."""
    found: dict[str, list[str]] = {}
    count = 0
    for name, graph, drawn in cases:
        known = rewrite.copy(graph)
        arrays = [_declared(value, array) for value, array in zip(known.inputs, drawn, strict=True)]
        for value, array in zip(known.inputs, arrays, strict=True):
            if isinstance(value.fact, TensorFact):
                value.fact = value.fact.with_shape(array.shape)
        try:
            twin = laws.canonical(known)
            if len(twin.inputs) != len(arrays):  # states of a document, which are inputs of what runs
                continue
            expected = laws.computed(twin, {value.name: x for value, x in zip(twin.inputs, arrays, strict=True)})
        except (laws.Opaque, DiagnosticError):  # wrong, not ours, or without its weights
            continue
        count += 1
        wrong = []
        for form in (
            _stored(known, arrays, file, expected),
            _doubled(known, arrays, expected),
            _opened(graph, arrays, expected),
        ):
            try:
                wrong += form
            except DiagnosticError as error:
                wrong.append(f"refused: {error}")
        if wrong:
            found[name] = wrong
    return found, count


def _declared(value: Value, array: Any) -> Any:
    """Cast an array to the element type of its input: formats have fewer types; indices of ncnn are integers."""
    dtype = value.fact.dtype if isinstance(value.fact, TensorFact) else None
    return array if dtype is None or dtype.kind != array.dtype.kind else array.astype(dtype.numpy, copy=False)


def _stored(graph: Graph, arrays: list[Any], file: Path, expected: list[Any]) -> Iterator[str]:
    yield from _unequal("folded", laws.folded(graph, arrays, file), expected)


def _doubled(graph: Graph, arrays: list[Any], expected: list[Any]) -> Iterator[str]:
    for outputs in laws.twice(graph, arrays):
        yield from _unequal("twice", outputs, expected)


def _opened(graph: Graph, arrays: list[Any], expected: list[Any]) -> Iterator[str]:
    for is_shared in (False, True):
        try:
            wrong, outputs, simplified = laws.wrong_when_opened(graph, arrays, is_shared=is_shared)
        except laws.Opaque:  # the operator's meaning depends on a dim, as for many operators
            continue
        yield from wrong
        yield from _unequal("opened", outputs, expected)
        yield from _unequal("simplified", simplified, expected)


def _unequal(form: str, found: list[Any], expected: list[Any]) -> Iterator[str]:
    for one, other in zip(found, expected, strict=True):
        a, b = np.asarray(one), np.asarray(other)
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            yield f"{form}: {a.dtype}{list(a.shape)}, {b.dtype}{list(b.shape)} as it is"
        elif a.dtype.kind in "biuOSU":
            yield from () if a.tolist() == b.tolist() else (f"{form}: other elements",)
        else:
            close = 1e-2 if a.dtype.itemsize <= 2 else 1e-4
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            if not np.allclose(a.astype(wide), b.astype(wide), rtol=close, atol=close, equal_nan=True):
                yield f"{form}: other numbers"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_sample_of_op_types_computes_equal_results_in_other_forms(dialect, tmp_path):
    wrong, count = violations(DIALECTS[dialect](slice(0, None, 20), tmp_path), tmp_path / "operands")
    assert wrong == {}
    assert count > 4


@pytest.mark.conformance
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_op_type_computes_equal_results_in_other_forms(dialect, part, tmp_path):
    wrong, _ = violations(DIALECTS[dialect](slice(part, None, PARTS), tmp_path), tmp_path / "operands")
    assert wrong == {}
