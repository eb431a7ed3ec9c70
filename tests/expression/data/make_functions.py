"""Writes functions.npz: what PyTorch 2.13 (CPU) makes of every function of expressions and every pair of element types.

Run it where `torch` is installed: `python make_functions.py`. Operands are the arrays below, by the name of their
type; `f32[2]` is one element of it, a tensor without axes; anything else is a number in the text. Left out is what
PyTorch has no code for on processors, or no overload, though its rules give it a meaning; and the power True of truth
values, which it takes as a number and refuses as a tensor.
"""

from __future__ import annotations

import itertools
import json
import operator
import warnings
from pathlib import Path

import numpy as np
import torch

INF, NAN = float("inf"), float("nan")
FLOATS = [0.0, -0.0, 1.5, -2.5, INF, -INF, NAN, 0.3]
COMPLEX = [0j, 1 + 0j, -1 + 2j, 0.5 - 0.5j, 3 + 4j, -2.5 + 0j, 0.1j, -7 - 1j]
OPERANDS = {
    "bool": ([True, False, True, False, True, True, False, True], torch.bool),
    "u8": ([0, 1, 2, 3, 7, 100, 200, 255], torch.uint8),
    **{
        f"i{b}": ([0, 1, -1, 2, -3, 7, 2 ** (b - 1) - 1, -(2 ** (b - 1))], getattr(torch, f"int{b}"))
        for b in (8, 16, 32)
    },
    "i64": ([0, 1, -1, 2, -3, 7, 2**40, -(2**40)], torch.int64),
    "f16": (FLOATS, torch.float16),
    "bf16": (FLOATS, torch.bfloat16),
    "f32": (FLOATS, torch.float32),
    "f64": (FLOATS, torch.float64),
    "c64": (COMPLEX, torch.complex64),
    "c128": (COMPLEX, torch.complex128),
}


def divide(x, y):
    """A quotient; `x / y` of a number and a tensor multiplies by the reciprocal, which is rounded before."""
    return torch.div(x if isinstance(x, torch.Tensor) else torch.asarray(x), y)


UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "expm1",
    "floor",
    "log",
    "log10",
    "log1p",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]
CASTS = {"torch.float": torch.float, "torch.long": torch.long, "torch.bool": torch.bool}
BINARY = {
    **{name: getattr(torch, name) for name in ("pow", "atan2", "logaddexp", "maximum", "minimum", "fmod", "remainder")},
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": divide,
    "floor_divide": operator.floordiv,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}
NUMBERS = ("2", "-1", "0.5", "-0.5", "True", "0+2j")
TENSORS_ONLY = {"atan2", "logaddexp", "maximum", "minimum"}
NO_MEANING = ("not implemented for", "combination of arguments", "without overflow")


def tensor(name: str, first: int = 0) -> torch.Tensor:
    values, dtype = OPERANDS[name]
    return torch.tensor(values[first:] + values[:first], dtype=dtype)


def operand(op_type: str, first: int = 0) -> object:
    if op_type in OPERANDS:
        return tensor(op_type, first)
    if op_type.endswith("]"):
        return tensor(op_type[: op_type.index("[")])[int(op_type[-2])]
    return {"True": True, "0+2j": 2j}.get(op_type) or (float(op_type) if "." in op_type else int(op_type))


def raw(result: torch.Tensor) -> np.ndarray:
    """The bytes of the elements."""
    flat = result.reshape(-1)
    return (flat.to(torch.uint8) if flat.dtype is torch.bool else flat.view(torch.uint8)).numpy()


def cases():
    for name in UNARY:
        yield from ((name, getattr(torch, name), (dtype,)) for dtype in OPERANDS)
    for name, dtype in CASTS.items():
        yield from ((name, lambda x, dtype=dtype: x.to(dtype), (source,)) for source in OPERANDS if source[0] != "c")
    for name, function in BINARY.items():
        for a, b in itertools.product(OPERANDS, OPERANDS):
            yield from ((name, function, pair) for pair in ((a, b), (a, f"{b}[2]"), (f"{a}[2]", b)))
        if name not in TENSORS_ONLY:
            for a, number in itertools.product(OPERANDS, NUMBERS):
                if (name, a, number) != ("pow", "bool", "True"):
                    yield from ((name, function, pair) for pair in ((a, number), (number, a)))


def main() -> None:
    warnings.filterwarnings("ignore")
    index: list[list[str]] = []
    values: dict[str, list[np.ndarray]] = {}
    for name, function, words in cases():
        try:
            result = function(*(operand(op_type, 3 * place) for place, op_type in enumerate(words)))
        except (RuntimeError, TypeError) as error:
            if not any(phrase in str(error) for phrase in NO_MEANING):
                index.append([name, *words, "error"])
            continue
        dtype = str(result.dtype).removeprefix("torch.")
        if dtype == "complex32":
            continue
        index.append([name, *words, dtype])
        values.setdefault(dtype, []).append(raw(result))
    packed = {dtype: np.concatenate(parts) for dtype, parts in values.items()}
    packed |= {f"operand {name}": raw(tensor(name)) for name in OPERANDS}
    text = np.frombuffer(json.dumps(index).encode(), np.uint8)
    np.savez_compressed(Path(__file__).with_name("functions.npz"), index=text, **packed)


main()
