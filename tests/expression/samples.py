"""The sample expressions, with their operands drawn and their results as NumPy arrays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

CASES = json.loads((Path(__file__).parent / "data" / "expressions.json").read_text())["cases"]
WIDTHS = {"f32": ("float32", "complex64"), "f64": ("float64", "complex128")}


def text_of(case):
    if "expr" in case:
        return case["expr"]
    nested = case["nested"]
    return nested["head"] * nested["times"] + nested["core"] + nested["tail"] * nested["times"]


def inputs_of(case, precision="f32"):
    return [_array(given, precision) for given in case["inputs"]]


def expected_of(case, precision="f32"):
    return _expected(case["expected"][precision])


def _expected(stored):
    match stored["kind"]:
        case "tensor":
            return _filled(stored)
        case "list":
            return [_expected(item) for item in stored["items"]]
        case "complex":
            return complex(*stored["value"])
        case "none":
            return None
        case _:
            return float(stored["value"]) if stored["kind"] == "float" else stored["value"]


def _array(given, precision):
    array = _drawn(given) if given["kind"] == "seed" else _filled(given)
    real, complex_type = WIDTHS[precision]
    match array.dtype.kind:
        case "f":
            return array.astype(real)
        case "c":
            return array.astype(complex_type)
        case _:
            return array


def _drawn(given):
    draws = np.random.default_rng(given["seed"])
    shape = given["shape"]
    match given["dist"]:
        case "normal":
            numbers = draws.standard_normal(shape)
        case "uniform":
            numbers = draws.random(shape)
        case "positive":
            numbers = draws.random(shape) * 4 + 0.25
        case "unit":
            numbers = draws.random(shape) * 1.8 - 0.9
        case _:
            numbers = draws.integers(-50, 50, shape)
    return numbers.astype(given["dtype"])


def _filled(stored):
    data = stored["data"]
    if stored["dtype"].startswith("complex"):
        data = [complex(*map(float, pair)) for pair in data]
    elif stored["dtype"].startswith("float"):
        data = [float(entry) for entry in data]
    return np.array(data, stored["dtype"]).reshape(stored["shape"])
