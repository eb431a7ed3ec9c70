"""The reasons why operators without an import rule are refused."""

from __future__ import annotations

import re

_RANDOM = re.compile(r"Random|^(TruncatedNormal|Multinomial|StatefulStandardNormal|StatelessTruncatedNormal)|RngSkip")
_REASONS = (
    (
        _RANDOM,
        "the model generates random numbers",
        "export the model for inference, which omits random layers, for example RandomFlip",
    ),
    (
        re.compile(r"^(String|Strings|Static?Regex|Regex|Unicode|AsString|Substr|ReduceJoin|UnsortedSegmentJoin)"),
        "it computes with strings",
        "compute it before the model runs, and pass numbers to the model",
    ),
    (
        re.compile(r"^(Decode|Encode|Parse|ExtractJpeg|ExtractGlimpse|Serialize|Deserialize|Example)"),
        "it decodes or encodes bytes",
        "decode the data before the model runs, and pass a tensor to the model",
    ),
    (
        re.compile(r"^(Sparse|Ragged|Deserialize|TakeManySparse)"),
        "it computes with sparse or ragged tensors",
        "convert them to dense tensors before this operator",
    ),
    (
        re.compile(r"^(Svd|SelfAdjointEig|Eig|MatrixLogarithm|MatrixSquareRoot|BatchSvd|Lu$|Qr$|Schur)"),
        "ONNX has no operator for this factorization",
        "compute it outside of the model",
    ),
)
"""Operators by name: the reason, and the remedy."""


def refusal(op_type: str) -> tuple[str, str]:
    """Return the message and the remedy for an operator without an import rule."""
    message = f"unsupported operator {op_type}"
    for names, reason, help in _REASONS:
        if names.search(op_type):
            return f"{message}: {reason}", help
    return message, "see `graphport ops` for the supported operators"
