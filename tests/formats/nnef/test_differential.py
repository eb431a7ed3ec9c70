"""Flat operations and shapes, held against the reader of the format's own authors."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from graphport.core.diagnostics import Source
from graphport.formats.nnef.container.check import check
from graphport.formats.nnef.container.expand import expand
from graphport.formats.nnef.container.parser import parse
from graphport.formats.nnef.container.propagation import Propagation
from tests.formats.nnef.documents import final

CASES = Path(__file__).parents[2] / "conformance" / "nnef" / "cases"

KNOWN = {
    "lex-formfeed-comment": "1.2: a form feed ends a comment; theirs goes on to the end of the line",
    "typ-fragment-result-constant": "1.3: a result may be a number; theirs names a tensor that no operation makes",
    "exp-unary-minus-add": "1.2: a prefix operator applies to its operand only; theirs to all that follows",
    "exp-unary-minus-ident": "1.2: the same",
    "exp-arr-concat-empty": "1.3: '[]' casts to any array; theirs does not add it to one",
    "exp-str-range": "1.3: a range of a string is a string; theirs expects an array",
    "op-unsqueeze.unsorted": "1.6: axes are places in the result, in any order; theirs takes them one after another",
}
"""Where the other reader is known to be wrong: the section of our notes on the format, and the rule."""

# It ends the process that it is in where a text surprises it, so that it gets one of its own.
_THEIRS = """
import json, re, sys
import nnef

def answer(text):
    try:
        graph = nnef.parse_string(text, lowered=re.findall(r"fragment (\\\\w+)", text))
        nnef.infer_shapes(graph)
    except Exception as error:
        return str(error)
    operations = [operation.name for operation in graph.operations if operation.name != "copy"]
    return [operations, {name: list(tensor.shape) for name, tensor in graph.tensors.items()}]

print(json.dumps([answer(text) for text in json.load(sys.stdin)]))
"""


class Answer(NamedTuple):
    """Operations in order, without copies, and the shapes of all named tensors."""

    operations: list[str]
    shapes: dict[str, list[Any]]


def theirs(texts: list[str]) -> list[Any]:
    command = [sys.executable, "-W", "ignore", "-c", _THEIRS.replace("\\\\w", "\\w")]
    found = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    return json.loads(found.stdout.splitlines()[-1])


def ours(text: str) -> Answer:
    checked = check(parse(Source("model.nnef", text)).document)
    expansion = expand(checked, infer=Propagation())
    assert not [finding for finding in (*checked.diagnostics, *expansion.diagnostics) if finding.is_error]
    shapes = {
        name: list(tensor.fact.shape)
        for name, tensor in expansion.tensors.items()
        if tensor.fact is not None and tensor.fact.shape is not None
    }
    return Answer([each.name for each in expansion.operations if each.name != "copy"], shapes)


def agrees(text: str, other: Any) -> bool:
    if isinstance(other, str):
        return False
    mine = ours(text)
    return mine.operations == other[0] and all(other[1].get(name) == shape for name, shape in mine.shapes.items())


def cases() -> dict[str, str]:
    rows = json.loads((CASES / "cases.json").read_text())
    return {
        row["id"]: (CASES / row["file"]).read_text()
        for row in rows
        if row["dialect"] == "final" and row["valid"] is True and row["group"] != "hostile"
    }


def test_documents_that_others_wrote_are_equivalent_to_both():
    texts = cases()
    answers = dict(zip(texts, theirs([*texts.values()]), strict=True))
    assert {name for name, text in texts.items() if not agrees(text, answers[name])} == set(KNOWN)
    assert len(texts) > 80


# ── made up ───────────────────────────────────────────────────────────────────────────────────────────────────────────

UNARY = ["relu", "sigmoid", "exp", "abs", "softplus", "sqrt", "floor", "tanh", "gelu", "silu", "log2", "rsqr"]
BINARY = ["add", "sub", "mul", "div", "min", "max", "pow"]


def statements(draw: random.Random, count: int) -> Iterator[str]:
    """Operations on tensors of rank 4, each of which fits."""
    shapes = {"x": [2, 4, 8, 6]}
    for number in range(count):
        name, of = f"t{number}", draw.choice([*shapes])
        n, c, h, w = shape = shapes[of]
        match draw.randrange(12):
            case 0:
                yield f"{name} = {draw.choice(UNARY)}({of});"
            case 1:
                other = draw.choice([each for each, own in shapes.items() if own == shape])
                yield f"{name} = {draw.choice(BINARY)}({of}, {other});"
            case 2:
                yield f"w{number} = variable(shape = [{n}, {c}], label = 'w{number}');"
                yield f"{name} = mul({of}, w{number});"
            case 3:
                stride, size, out = draw.randint(1, 3), draw.randint(1, 3), draw.randint(1, 5)
                yield f"w{number} = variable(shape = [{out}, {c}, {size}, {size}], label = 'w{number}');"
                yield f"{name} = conv({of}, w{number}, stride = [{stride}, 1]);"
                shape = [n, out, -(-h // stride), w]
            case 4:
                stride, size, out = draw.randint(1, 2), draw.randint(1, 3), draw.randint(1, 5)
                yield f"w{number} = variable(shape = [{c}, {out}, {size}, {size}], label = 'w{number}');"
                still = "padding = [(0, 0), (0, 0)]"
                yield f"{name} = deconv({of}, w{number}, stride = [{stride}, {stride}], {still});"
                shape = [n, out, (h - 1) * stride + size, (w - 1) * stride + size]
            case 5:
                op_type = draw.choice(["max_pool", "avg_pool", "box", "rms_pool"])
                yield f"{name} = {op_type}({of}, size = [1, 1, 2, 3], stride = [1, 1, 2, 2], border = 'ignore');"
                shape = [n, c, -(-h // 2), -(-w // 2)]
            case 6:
                axis = draw.randrange(4)
                yield f"{name} = {draw.choice(['sum', 'max', 'min', 'mean'])}_reduce({of}, axes = [{axis}]);"
                shape = [1 if place == axis else extent for place, extent in enumerate(shape)]
            case 7:
                yield f"{name} = transpose({of}, axes = [0, 2, 3, 1]);"
                shape = [n, h, w, c]
            case 8:
                axis = draw.randrange(4)
                yield f"{name} = concat([{of}, {of}], axis = {axis});"
                shape = [2 * extent if place == axis else extent for place, extent in enumerate(shape)]
            case 9:
                yield f"{name} = reshape({of}, shape = [0, -1, 1, {w}]);"
                shape = [n, c * h, 1, w]
            case 10:
                yield f"{name} = pad({of}, padding = [(0, 1), (0, 0), (2, 1), (0, 0)]);"
                shape = [n + 1, c, h + 3, w]
            case _:
                yield f"{name} = slice({of}, axes = [3], begin = [0], end = [{(w + 1) // 2}]);"
                shape = [n, c, h, (w + 1) // 2]
        shapes[name] = shape


def document(seed: int) -> str:
    return final(*statements(random.Random(seed), 25), "y = relu(t24);", shape="[2, 4, 8, 6]")


def test_documents_that_are_made_up_are_equivalent_to_both():
    texts = [document(seed) for seed in range(60)]
    assert [text for text, other in zip(texts, theirs(texts), strict=True) if not agrees(text, other)] == []


@pytest.mark.parametrize("seed", range(3))
def test_made_up_documents_use_many_op_types(seed):
    assert len(set(re.findall(r"= (\w+)\(", document(seed)))) > 10
