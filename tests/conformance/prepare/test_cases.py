"""Every fact of every graph of the sample."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from graphport.api.rewrite import rewrite_file
from graphport.passes.prepare import PREPARE
from tests.passes import facts

CASES = Path(__file__).parent / "cases"
NAMES = {"no_op": "no", "max_nodes": "nodes", "no_shared_initializer": "unshared"}

pytestmark = pytest.mark.conformance


def rows():
    return json.loads((CASES / "manifest.json").read_text())


def check(fact: str, row, result: Path) -> None:
    source = CASES / row["file"]
    given = np.load(CASES / "ref" / f"{source.stem}.npz")
    feeds = {name.removeprefix("in:"): given[name] for name in given if name.startswith("in:")}
    match fact:
        case "equal":
            found = facts.computed(result, feeds)
            for name in row["outputs"]:
                np.testing.assert_allclose(found[name], given[f"out:{name}"], rtol=row["rtol"], atol=row["atol"])
        case "io_same":
            facts.assert_same_interface(onnx.load(source), onnx.load(result))
        case "checker" | "ort_loads":
            facts.assert_loads(source, result)
        case "dynamic_batch":
            facts.assert_equal(source, result, {n: np.concatenate([x, x]) for n, x in feeds.items()})
        case _:
            name, _, rest = fact.replace("==", "=").partition(":")
            facts.assert_fact(f"{NAMES.get(name, name)}:{rest}", onnx.load(result))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["file"])
def test_every_fact_holds(row, tmp_path):
    result = tmp_path / "result.onnx"
    report = rewrite_file(CASES / row["file"], result, PREPARE)
    assert report.passed
    for fact in row["must_hold"]:
        check(fact, row, result)
