"""Every function on every pair of element types, compared with PyTorch's results."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.expression.expression import Expression
from tests.draws import spread
from tests.every import every

STORED = np.load(Path(__file__).parent / "data" / "functions.npz")
NAMES = {"bf16": "bfloat16", **{f"{kind}{bits}": f"{word}{bits}" for kind, word, bits in (
    ("u", "uint", 8), ("i", "int", 8), ("i", "int", 16), ("i", "int", 32), ("i", "int", 64),
    ("f", "float", 16), ("f", "float", 32), ("f", "float", 64), ("c", "complex", 64), ("c", "complex", 128),
)}}  # fmt: skip
TOLERANCES = {
    "float16": 1e-3, "bfloat16": 8e-3, "float32": 3e-6, "float64": 1e-14, "complex64": 3e-6, "complex128": 1e-13,
}  # fmt: skip
EXTREMES = {"maximum", "minimum"}


def dtype_of(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


OPERANDS = {
    name.removeprefix("operand "): STORED[name].view(dtype_of(NAMES.get(word := name.removeprefix("operand "), word)))
    for name in STORED.files
    if name.startswith("operand ")
}


def operand(word, place):
    """Return the array with the name `word`, or None for a number."""
    if word in OPERANDS:
        return np.roll(OPERANDS[word], -3 * place)
    return np.asarray(OPERANDS[word[: word.index("[")]][int(word[-2])]) if word.endswith("]") else None


def by_function():
    """Return the cases of each function: the names of its operands and the result, or None for a refusal."""
    cases = defaultdict(list)
    taken = dict.fromkeys(STORED.files, 0)
    for name, *words, dtype in json.loads(STORED["index"].tobytes()):
        if dtype == "error":
            cases[name].append((words, None))
            continue
        shapes = [array.shape for place, word in enumerate(words) if (array := operand(word, place)) is not None]
        shape = np.broadcast_shapes(*shapes)
        size = dtype_of(dtype).itemsize * int(np.prod(shape))
        raw = STORED_BYTES[dtype][taken[dtype] : taken[dtype] + size]
        taken[dtype] += size
        cases[name].append((words, raw.view(dtype_of(dtype)).reshape(shape)))
    return dict(cases)


STORED_BYTES = {name: STORED[name] for name in STORED.files}
CASES = by_function()


def computed(name, words, tier):
    """Return the result of the expression; None if it is refused."""
    arrays, arguments = [], []
    for place, word in enumerate(words):
        array = operand(word, place)
        arguments.append(f"@{len(arrays)}" if array is not None else word)
        arrays.extend([] if array is None else [array])
    try:
        return np.asarray(Expression(f"{name}({','.join(arguments)})", tier=tier)(*arrays))
    except DiagnosticError:
        return None


def is_equal(name, actual, expected):
    if actual is None or expected is None:
        return actual is expected
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        return False
    if expected.dtype.kind in "biu":
        return np.array_equal(actual, expected)
    tolerance = TOLERANCES[expected.dtype.name]
    if expected.dtype.kind == "c":
        # Results for infinite parts differ even between PyTorch builds.
        is_finite = np.isfinite(expected)
        actual, expected = actual[is_finite].astype(complex), expected[is_finite].astype(complex)
        return np.allclose(actual, expected, rtol=tolerance, atol=tolerance * 1e-3)
    actual, expected = actual.astype(float), expected.astype(float)
    if not np.allclose(actual, expected, rtol=tolerance, atol=0, equal_nan=True):
        return False
    is_number = ~np.isnan(expected)
    # Which of two zeros is larger depends on the order in which PyTorch happens to compare.
    return name in EXTREMES or np.array_equal(np.signbit(actual)[is_number], np.signbit(expected)[is_number])


def test_recorded_cases_cover_all_functions():
    assert sum(map(len, CASES.values())) > 6_000
    assert {"pow", "remainder", "torch.long", "rshift", "erf"} <= CASES.keys()


@every("name", CASES)
def test_functions_match_pytorch(name):
    different = [
        (words, expected)
        for words, expected in CASES[name]
        if not is_equal(name, computed(name, words, "numpy"), expected)
    ]
    assert not different


@every("name", spread(list(CASES)))
def test_compiled_functions_match_pytorch(name):
    pytest.importorskip("llvmlite")
    few = [case for case in CASES[name] if case[0] == ["f16", "i32"] or set(case[0]) in ({"i32"}, {"f16"}, {"f32"})]
    assert few
    different = [
        (words, expected) for words, expected in few if not is_equal(name, computed(name, words, "fused"), expected)
    ]
    assert not different
