"""What graphport says of one case of the NNEF suite, in the suite's own terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphport import api
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.check import check
from graphport.formats.nnef.expand import expand
from graphport.formats.nnef.syntax import Edition
from graphport.formats.nnef.parser import parse
from graphport.core.diagnostics import Source

DATA = {DType.FLOAT32: "scalar", DType.INT64: "integer", DType.BOOL: "logical"}


def judge(
    path: str, dialect: str, quantization: str | None = None, inputs: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Validity, shapes, types, operations, attributes and, given `inputs`, values of a document."""
    try:
        model = api.load(path, edition=dialect)
    except DiagnosticError as error:
        first = error.diagnostics[0]
        return {"valid": False, "error": str(first), "error_line": first.span.line if first.span else None}
    values = {value.name: value for value in model.graph.values()}
    facts = {name: value.fact for name, value in values.items() if isinstance(value.fact, TensorFact)}
    answer: dict[str, Any] = {
        "valid": True,
        "shapes": {name: list(fact.shape) for name, fact in facts.items() if fact.shape is not None},
        "dtypes": {name: DATA.get(fact.dtype) for name, fact in facts.items()},
        **_operations(path, dialect),
    }
    if inputs is not None:
        fitted = {name: np.asarray(array, model.inputs[name].fact.dtype.numpy) for name, array in inputs.items()}
        found = api.run(model, fitted, backend="reference", every_value=True)
        answer["values"] = {name: array.tolist() for name, array in found.items()}
    return answer


def _operations(path: str, dialect: str) -> dict[str, Any]:
    from graphport.formats.nnef.propagation import Propagation

    source = Source(path, Path(path).read_text())
    parsed = parse(source, Edition(dialect))
    flat = expand(check(parsed.document), infer=Propagation(), shapes={})
    attributes = {
        tensor.name: dict(operation.attributes) for operation in flat.operations for tensor in operation.outputs()
    }
    return {"ops": [operation.name for operation in flat.operations], "attribs": attributes}
