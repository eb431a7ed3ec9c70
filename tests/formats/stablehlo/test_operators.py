"""Each operator of StableHLO and CHLO computes what NumPy or the specification's formula gives."""

import math
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import graphport
from graphport.formats.stablehlo.rules import catalog, emitter

FOLDER = Path(__file__).parent
TABLE = tomllib.loads((FOLDER / "operators.toml").read_text())
ROWS, PROGRAMS = TABLE["operator"], TABLE["program"]
REFUSED = {"chlo.ragged_dot"}

X = np.array([0.25, 0.5, 0.9375], np.float32)
UNARY = {
    "abs": np.abs,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cosine": np.cos,
    "exponential_minus_one": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log_plus_one": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "negate": np.negative,
    "round_nearest_afz": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "round_nearest_even": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": np.sign,
    "sine": np.sin,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "is_finite": np.isfinite,
    "chlo.is_inf": np.isinf,
    "chlo.is_pos_inf": np.isposinf,
    "chlo.is_neg_inf": np.isneginf,
    "chlo.acos": np.arccos,
    "chlo.acosh": np.arccosh,
    "chlo.asin": np.arcsin,
    "chlo.asinh": np.arcsinh,
    "chlo.atan": np.arctan,
    "chlo.atanh": np.arctanh,
    "chlo.cosh": np.cosh,
    "chlo.sinh": np.sinh,
    "chlo.tan": np.tan,
    "chlo.square": np.square,
    "chlo.erf": np.vectorize(math.erf),
    "chlo.erfc": np.vectorize(math.erfc),
    "chlo.lgamma": np.vectorize(math.lgamma),
}
BINARY = {
    "atan2": np.arctan2,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "power": np.power,
    "chlo.broadcast_add": np.add,
    "chlo.broadcast_atan2": np.arctan2,
    "chlo.broadcast_divide": np.divide,
    "chlo.broadcast_maximum": np.maximum,
    "chlo.broadcast_minimum": np.minimum,
    "chlo.broadcast_multiply": np.multiply,
    "chlo.broadcast_power": np.power,
    "chlo.broadcast_remainder": np.fmod,
    "chlo.broadcast_subtract": np.subtract,
    "chlo.broadcast_next_after": np.nextafter,
    "chlo.next_after": np.nextafter,
}
INTEGER = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right_logical": np.right_shift,
    "chlo.broadcast_and": np.bitwise_and,
    "chlo.broadcast_or": np.bitwise_or,
    "chlo.broadcast_xor": np.bitwise_xor,
    "chlo.broadcast_shift_left": np.left_shift,
    "chlo.broadcast_shift_right_arithmetic": np.right_shift,
    "chlo.broadcast_shift_right_logical": np.right_shift,
}

SQUARE = """func.func private @square(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.multiply %x, %x : tensor<2xf32>
  return %y : tensor<2xf32>
}
"""
GREATER = """func.func private @greater(%x: tensor<f32>, %y: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %z = stablehlo.compare GT, %x, %y, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %z : tensor<i1>
}
"""


def operator_text(name, operands, types, attributes="", regions="", *, are_constants=True):
    """A program of one operator in its generic form, on constants or on arguments of their types."""
    op_type = name if name.startswith("chlo.") else f"stablehlo.{name}"
    lines = [f"%x{k} = stablehlo.constant {operand}" for k, operand in enumerate(operands) if are_constants]
    names = ", ".join(f"%x{k}" for k in range(len(operands)))
    given = ", ".join(operand.rpartition(" : ")[2] for operand in operands)
    returned = ", ".join(types)
    results = ", ".join(f"%y#{k}" for k in range(len(types))) if len(types) > 1 else "%y"
    region = f" ({{\n{regions}\n}})" if regions else ""
    properties = f" <{{{attributes}}}>" if attributes else ""
    count = f":{len(types)}" if len(types) > 1 else ""
    lines.append(f'%y{count} = "{op_type}"({names}){properties}{region} : ({given}) -> ({returned})')
    lines.append(f"return {results} : {returned}")
    arguments = [f"%x{k}: {operand.rpartition(' : ')[2]}" for k, operand in enumerate(operands) if not are_constants]
    return program_text("\n".join(lines), returned, ", ".join(arguments))


def program_text(body, returned, arguments=""):
    """A program whose function `main` has a body."""
    return f"func.func public @main({arguments}) -> ({returned}) {{\n{body}\n}}\n{SQUARE}{GREATER}"


def run(name, operands, types, tmp_path, attributes="", regions=""):
    """Run one operator in its generic form on constants."""
    return run_text(operator_text(name, operands, types, attributes, regions), tmp_path)


def run_text(text, tmp_path):
    """Run a program without arguments."""
    path = tmp_path / "model.mlir"
    path.write_text(text)
    return list(graphport.run(graphport.load(path), {}, backend="reference").values())


def constant(array):
    """Write an array as a constant, its bytes in hexadecimal."""
    kind = {"f": "f", "i": "i", "u": "ui"}[array.dtype.kind] + str(8 * array.dtype.itemsize)
    return f'dense<"0x{array.tobytes().hex().upper()}"> : tensor<{array.size}x{kind}>'


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions(name, tmp_path):
    predicate = name.startswith(("is_", "chlo.is_"))
    sample = np.array([np.inf, -np.inf, np.nan, 1.5], np.float32) if predicate else X
    if not predicate and name in ("abs", "ceil", "floor", "negate", "round_nearest_afz", "round_nearest_even", "sign"):
        sample = np.array([-2.5, -0.4, 0.5, 1.5], np.float32)
    if name == "chlo.acosh":
        sample = X + 1
    (found,) = run(name, [constant(sample)], [f"tensor<{sample.size}x{'i1' if predicate else 'f32'}>"], tmp_path)
    np.testing.assert_allclose(found, UNARY[name](sample), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions(name, tmp_path):
    a, b = np.array([1.5, 2.0, 0.5], np.float32), np.array([2.0, -3.0, 0.5], np.float32)
    (found,) = run(name, [constant(a), constant(b)], ["tensor<3xf32>"], tmp_path)
    np.testing.assert_allclose(found, BINARY[name](a, b), rtol=1e-6)


@pytest.mark.parametrize("name", INTEGER)
def test_integer_functions(name, tmp_path):
    a, b = np.array([12, 7, 255], np.uint32), np.array([10, 1, 3], np.uint32)
    (found,) = run(name, [constant(a), constant(b)], ["tensor<3xui32>"], tmp_path)
    np.testing.assert_array_equal(found, INTEGER[name](a, b))


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_operator_on_constants(row, tmp_path):
    given = row["operands"], row["types"], tmp_path, row.get("attributes", ""), row.get("regions", "")
    found = run(row["name"], *given)
    for array, expected in zip(found, row["expected"], strict=True):
        wanted = [complex(x) for x in expected] if array.dtype.kind == "c" else expected
        np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("row", PROGRAMS, ids=[row["name"] for row in PROGRAMS])
def test_operators_in_sequence(row, tmp_path):
    (found,) = run_text(program_text(row["text"], row["type"]), tmp_path)
    np.testing.assert_allclose(found, row["expected"])


def test_every_rule_has_a_test():
    texts = [path.read_text() for path in sorted((FOLDER / "cases").glob("*.mlir"))] + [row["text"] for row in PROGRAMS]
    names = {
        name
        for text in texts
        for name in re.findall(r"stablehlo\.(\w+)|((?:chlo|sdy|builtin)\.\w+)|func\.(call)", text)
    }
    seen = {part for found in names for part in found} | {row["name"] for row in ROWS}
    assert catalog.__all__
    assert not emitter.RULES.keys() - seen - {*UNARY, *BINARY, *INTEGER} - REFUSED
