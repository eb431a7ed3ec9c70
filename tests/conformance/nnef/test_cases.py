"""Every case of the suite, each within the time that a crash or an endless search would not keep."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.nnef.adapter import judge

CASES = Path(__file__).parent / "cases"
SECONDS = 10
ALARM = getattr(signal, "SIGALRM", None)
COPIES = ("copy", "idn")

pytestmark = pytest.mark.conformance


def rows():
    return json.loads((CASES / "cases.json").read_text())


@contextmanager
def limited(seconds):
    """Fails the test after so many seconds; where there are no alarms it is not limited."""
    if ALARM is None:
        yield
        return

    def ring(*_):
        pytest.fail(f"no answer within {seconds} seconds")

    before = signal.signal(ALARM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(ALARM, before)


def close(expected, given, tolerance):
    match expected:
        case list():
            pairs = zip(expected, given, strict=True)
            return isinstance(given, list | tuple) and all(close(a, b, tolerance) for a, b in pairs)
        case str() | None:
            return expected == given
        case _:
            return abs(float(expected) - float(given)) <= tolerance * max(1.0, abs(float(expected)))


def answer_to(case):
    given = {"inputs": case["inputs"]} if "inputs" in case else {}
    quantization = str(CASES / case["quant_file"]) if "quant_file" in case else None
    with limited(SECONDS):
        return judge(str(CASES / case["file"]), case["dialect"], quantization, **given)


@pytest.mark.parametrize("case", rows(), ids=lambda case: case["id"])
def test_case_matches_the_nnef_specification(case):
    answer = answer_to(case)
    if case["valid"] is None:
        return
    assert answer["valid"] == case["valid"], answer.get("error", "an invalid document is accepted")
    if not case["valid"]:
        return
    for key in ("shapes", "dtypes"):
        expected = case.get(f"expected_{key}", {})
        assert {name: answer[key].get(name) for name in expected} == expected
    if "expected_ops" in case:
        found, expected = ([op for op in ops if op not in COPIES] for ops in (answer["ops"], case["expected_ops"]))
        assert found == expected
    for key in ("attribs", "quant"):
        for tensor, expected in case.get(f"expected_{key}", {}).items():
            for name, value in expected.items():
                assert close(value, answer[key][tensor][name], 1e-6), name
    for tensor, expected in case.get("expected_values", {}).items():
        assert close(expected, answer["values"][tensor], max(case["tolerance"], 1e-4)), tensor


def test_the_rows_name_every_document_once():
    named = [case["file"] for case in rows()]
    lying = [path.relative_to(CASES).as_posix() for path in CASES.rglob("*.nnef")]
    assert sorted(named) == sorted(lying)
