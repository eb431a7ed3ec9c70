"""What graphport says of one case of the NNEF suite, in the suite's own terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import graphport as gp
from graphport.core.diagnostics import Source
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.check import check
from graphport.formats.nnef.container.expand import expand
from graphport.formats.nnef.container.parser import parse
from graphport.formats.nnef.container.propagation import Propagation
from graphport.formats.nnef.container.quantized import quantizations
from graphport.formats.nnef.container.syntax import Edition

DATA = {DType.FLOAT32: "scalar", DType.INT64: "integer", DType.BOOL: "logical"}


def judge(
    path: str, dialect: str, quantization: str | None = None, inputs: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Validity, shapes, types, operations, attributes, quantization and, given `inputs`, values of a document."""
    if quantization is not None and Path(quantization) != Path(path).with_suffix(".quant"):
        raise ValueError("the quantization of a text lies beside it")
    findings = gp.check(path, edition=dialect)
    wrong = next((finding for finding in findings if finding.is_error), None)
    if wrong is not None:
        return {"valid": False, "error": str(wrong), "error_line": wrong.span.line if wrong.span else None}
    model = gp.load(path, edition=dialect)
    facts = {name: fact for name, fact in model.shapes().items() if isinstance(fact, TensorFact)}
    answer: dict[str, Any] = {
        "valid": True,
        "shapes": {name: list(fact.shape) for name, fact in facts.items() if fact.shape is not None},
        "dtypes": {name: DATA.get(fact.dtype) for name, fact in facts.items() if fact.dtype is not None},
        **_operations(path, dialect),
    }
    if quantization is not None:
        raw = gp.load(path, raw=True, edition=dialect)
        answer["quant"] = {name: dict(each.arguments) for name, each in quantizations(raw.graph).items()}
    if inputs is not None:
        dtypes = {name: facts[name].dtype or DType.FLOAT32 for name in inputs}
        given = {name: np.asarray(array, dtypes[name].numpy) for name, array in inputs.items()}
        found = gp.run(model, given, backend="reference", every_value=True)
        answer["values"] = {name: array.tolist() for name, array in found.items()}
    return answer


def _operations(path: str, dialect: str) -> dict[str, Any]:
    source = Source(path, Path(path).read_text())
    checked = check(parse(source, Edition(dialect)).document)
    flat = expand(checked, infer=Propagation())
    attributes = {
        tensor.name: dict(operation.attributes) for operation in flat.operations for tensor in operation.outputs()
    }
    return {"ops": [operation.name for operation in flat.operations], "attribs": attributes}
