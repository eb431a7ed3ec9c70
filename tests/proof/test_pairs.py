"""Pairs of models that differ on purpose: what finds each difference, and the table of docs/proof.md."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

import graphport as gp
from graphport.proof.verdict import Verdict
from tests.draws import spread

PAIRS = Path(__file__).with_name("pairs")
DOCUMENT = Path(__file__).parents[2] / "docs/proof.md"
NAMES = [path.name.removesuffix(".a.onnx") for path in sorted(PAIRS.glob("*.a.onnx"))]
STANDARD = ("normal", "edges", "integers")


def prove(name):
    return gp.verify(PAIRS / f"{name}.a.onnx", PAIRS / f"{name}.b.onnx")


def finder(proof):
    """What refutes a pair: the record of the matrix that differs."""
    if proof.interface:
        return "the interface"
    label = next((run.input for run in proof.runs if run.agrees is False), "")
    if label.startswith("segment"):
        return "segments"
    if label in STANDARD:
        return "standard test inputs"
    return "further sizes" if label.startswith(STANDARD) else "the search"


def table():
    """Differences and verdicts by what finds them."""
    found = defaultdict(list)
    for name in NAMES:
        proof = prove(name)
        found[finder(proof), str(proof.verdict)].append(name.replace("_", " "))
    rows = [f"| {by} | {'; '.join(names)} | {verdict} |" for (by, verdict), names in sorted(found.items())]
    return "\n".join(["| found by | differences | verdict |", "|---|---|---|", *rows])


def rows_of_document():
    lines = DOCUMENT.read_text("utf-8").partition("<!-- pairs:")[2].partition("<!-- end of pairs")[0].splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    return {name: (by, verdict) for by, names, verdict in rows for name in names.split("; ")}


def test_the_document_lists_all_pairs():
    assert set(rows_of_document()) == {name.replace("_", " ") for name in NAMES}


@pytest.mark.parametrize("name", spread(NAMES))
def test_a_pair_is_found_as_the_document_states(name):
    proof = prove(name)
    assert proof.verdict is Verdict.FAILED
    assert rows_of_document()[name.replace("_", " ")] == (finder(proof), "verification failed")


if __name__ == "__main__":
    text = DOCUMENT.read_text("utf-8")
    begin, end = "<!-- pairs: written by tests/proof/test_pairs.py -->", "<!-- end of pairs -->"
    before, _, rest = text.partition(begin)
    DOCUMENT.write_text(f"{before}{begin}\n\n{table()}\n\n{end}{rest.partition(end)[2]}", "utf-8")
