"""PNNX texts of one operator each, compared with PyTorch's function of that name; `words/make.py` made them.

No other PNNX model of the tests has the operators: forms of other versions, and complex numbers.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np

import graphport as gp
from graphport.conversion.coverage import missing_operators
from graphport.conversion.legalize import is_canonical
from graphport.formats import FORMATS
from tests.every import every

WORDS = Path(__file__).parent / "words"
TEXTS = json.loads((WORDS / "words.json").read_text())


def computed(path, arrays):
    model = gp.load(path)
    assert is_canonical(model.graph), [finding.message for finding in model.findings]
    return list(gp.run(model, arrays, backend="reference").values())


def agree(found, expected):
    for result, wanted in zip(found, expected, strict=True):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        size = np.abs(wanted[np.isfinite(wanted)]).max(initial=1) if wanted.dtype.kind == "f" else 1
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5 * size)


@every("name", TEXTS)
def test_an_op_type_computes_what_pytorch_does(tmp_path, name):
    text = TEXTS[name]
    path = tmp_path / "net.pnnx.param"
    path.write_text("\n".join(["7767517", f"{len(text['lines'])} 99", *text["lines"], ""]))
    with np.load(WORDS / "words.npz") as data, zipfile.ZipFile(path.with_suffix(".bin"), "w") as weights:
        for key, array in text["weights"].items():
            weights.writestr(f"word.{key}", data[array].tobytes())
        given = {array: data[array] for array in text["given"]}
        expected = [data[f"{name}.{place}"] for place in range(sum(key.startswith(f"{name}.") for key in data))]
    agree(computed(path, given), expected)
    model = gp.load(path)
    if not missing_operators(model.graph, FORMATS["pnnx"]):
        gp.save(model, tmp_path / "again.pnnx.param")
        agree(computed(tmp_path / "again.pnnx.param", given), expected)
