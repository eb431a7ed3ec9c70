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
KINDS = {
    "constant": ("batchnorm", "layernorm", "l2", "detector", "saturated", "argmax output"),
    "control flow": ("if", "loop"),
    "interface": ("input", "names"),
    "missing node": ("clip", "residual", "nan replacement", "dropped"),
    "other formula": ("gelu", "softmax", "softplus", "int64"),
    "sizes": ("batch from", "images", "odd", "positions"),
    "threshold or tie": ("argmax last", "greater", "round", "nms"),
}
"""Kinds of differences, with the beginnings of the names of their pairs."""


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


def kind_of(name):
    """The kind with the longest beginning of a name."""
    return max((len(start), kind) for kind, starts in KINDS.items() for start in starts if name.startswith(start))[1]


def table():
    """Differences and verdicts by kind and by what finds them."""
    found = defaultdict(list)
    for name in (each.replace("_", " ") for each in NAMES):
        proof = prove(name.replace(" ", "_"))
        found[kind_of(name), finder(proof), str(proof.verdict)].append(name)
    rows = [
        f"| {kind} | {by} | {'; '.join(names)} | {verdict} |" for (kind, by, verdict), names in sorted(found.items())
    ]
    return "\n".join(["| kind | found by | differences | verdict |", "|---|---|---|---|", *rows])


def rows_of_document():
    lines = DOCUMENT.read_text("utf-8").partition("<!-- pairs:")[2].partition("<!-- end of pairs")[0].splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    return {name: (kind, by, verdict) for kind, by, names, verdict in rows for name in names.split("; ")}


def test_document_lists_all_pairs():
    assert set(rows_of_document()) == {name.replace("_", " ") for name in NAMES}


@pytest.mark.parametrize("name", spread(NAMES))
def test_difference_of_a_pair_is_found_as_documented(name):
    proof = prove(name)
    assert proof.verdict is Verdict.FAILED
    text = name.replace("_", " ")
    assert rows_of_document()[text] == (kind_of(text), finder(proof), "verification failed")


if __name__ == "__main__":
    text = DOCUMENT.read_text("utf-8")
    begin, end = "<!-- pairs: written by tests/proof/test_pairs.py -->", "<!-- end of pairs -->"
    before, _, rest = text.partition(begin)
    DOCUMENT.write_text(f"{before}{begin}\n\n{table()}\n\n{end}{rest.partition(end)[2]}", "utf-8")
