"""Documents for tests of the language, and helpers that run the stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source
from graphport.core.dims import Dim
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.check import Checked, check
from graphport.formats.nnef.container.expand import Expansion, expand
from graphport.formats.nnef.container.limits import DEFAULT, Limits
from graphport.formats.nnef.container.operation import Operation, Tensor
from graphport.formats.nnef.container.parser import Parsed, parse
from graphport.formats.nnef.container.syntax import Document, Edition

FRAGMENTS = "extension KHR_enable_fragment_definitions;\n"
OPERATORS = "extension KHR_enable_operator_expressions;\n"
BOTH = FRAGMENTS + OPERATORS


def final(*statements: str, before="", inputs="x", outputs="y", shape="[1, 3, 8, 8]") -> str:
    """Return a final document with `before` in front of the graph; its inputs have one shape."""
    made = [f"{name} = external(shape = {shape});" for name in inputs.split(", ")]
    body = "".join(f"    {line}\n" for line in [*made, *statements])
    return f"version 1.0;\n{before}graph main( {inputs} ) -> ( {outputs} )\n{{\n{body}}}\n"


def provisional(*statements: str, before="", inputs="x", outputs="y", shape="[1, 3, 8, 8]") -> str:
    """A provisional document, built like `final`."""
    made = [f"{name} = external(shape = {shape})" for name in inputs.split(", ")]
    body = "".join(f"    {line}\n" for line in [*made, *statements])
    return f"version 1.0\n{before}graph main( {inputs} ) -> ( {outputs} )\n{{\n{body}}}\n"


def fragment(
    body: str, *, parameters="x: tensor<scalar>", results="y: tensor<scalar>", name="f", extensions=BOTH
) -> str:
    """A final fragment, and the extensions that it needs."""
    return f"{extensions}fragment {name}( {parameters} ) -> ( {results} )\n{{\n    {body}\n}}\n"


PROBE = "fragment probe( x: tensor<scalar>, values: integer[] ) -> ( y: tensor<scalar> );\n"


def probed(items: str, *, parameters="", call="y = f(x);", shape="[12]") -> str:
    """A final document whose fragment passes the array `items` to an operation that takes any integers."""
    more = f", {parameters}" if parameters else ""
    text = fragment(f"y = probe(x, values = {items});", parameters=f"x: tensor<scalar>{more}")
    return final(call, before=text + PROBE, shape=shape)


def read(text: str, edition: Edition | None = None, limits: Limits = DEFAULT) -> Parsed:
    return parse(Source("model.nnef", text), edition, limits)


def tree(text: str, edition: Edition | None = None) -> Document:
    """The tree of a text without syntax errors."""
    parsed = read(text, edition)
    assert not parsed.diagnostics, parsed.diagnostics
    return parsed.document


def checked(text: str, edition: Edition | None = None, *, tolerant=False, limits: Limits = DEFAULT) -> Checked:
    return check(read(text, edition, limits).document, tolerant=tolerant, limits=limits)


def evaluated(
    text: str, shapes: Mapping[str, Sequence[Dim]] | None = None, *, limits: Limits = DEFAULT, infers=True, edition=None
) -> Expansion:
    """The expansion of a text without errors before that stage."""
    found = checked(text, edition)
    assert not [finding for finding in found.diagnostics if finding.is_error], found.diagnostics
    return expand(found, infer=infer if infers else None, shapes=shapes, limits=limits)


def findings(text: str, edition: Edition | None = None, *, tolerant=False) -> list[Diagnostic]:
    """Return the findings of all stages; a stage runs only if there was no error before it."""
    parsed = read(text, edition)
    found = [*parsed.diagnostics]
    if not any(each.is_error for each in found):
        result = check(parsed.document, tolerant=tolerant)
        found += result.diagnostics
        if not any(each.is_error for each in found):
            found += expand(result, infer=infer).diagnostics
    return found


def codes(found: Iterable[Diagnostic], *, warnings=True) -> list[str]:
    """The codes of findings in order, each once."""
    return list(dict.fromkeys(each.code for each in found if warnings or each.is_error))


def line(finding: Diagnostic) -> int | None:
    return None if finding.span is None else finding.span.line


def column(finding: Diagnostic) -> int | None:
    return None if finding.span is None else finding.span.column


def remedy(finding: Diagnostic) -> str:
    return finding.help or ""


def attributes(expansion: Expansion, index: int = -1) -> dict[str, Any]:
    """Return the attributes of one operation, by default the last one."""
    return {**expansion.operations[index].attributes}


def operations(expansion: Expansion) -> list[str]:
    return [operation.name for operation in expansion.operations]


def infer(operation: Operation) -> list[TensorFact | None]:
    """Infer shapes in these tests: declared ones, and those of elementwise operations."""
    outputs = [*operation.outputs()]
    declared: Any = operation.attributes.get("shape")
    if operation.name in ("external", "variable", "constant", "reshape"):
        shape = declared
    elif operation.name == "softplus":
        raise DiagnosticError(Diagnostic("SHAPE0001", "this page refuses", operation.origin.span))
    elif operation.name in ("split", "unstack", "cast"):
        return [None] * len(outputs)
    else:
        shape = max((_shape(each) for each in operation.inputs()), key=len, default=())
    return [TensorFact(DType.FLOAT32, tuple(shape)) for _ in outputs]


def _shape(tensor: Tensor) -> tuple[Dim, ...]:
    return () if tensor.fact is None or tensor.fact.shape is None else tensor.fact.shape
