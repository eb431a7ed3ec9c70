"""ONNX's schema of an operator at a version of its domain, combined with our operator definition."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import onnx.defs

from graphport.core.dtypes import DType
from graphport.formats.onnx.container import domains
from graphport.ops import registry
from graphport.ops.declare import OPSET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

JUDGED = 28
"""The newest opset whose changes were reviewed for changes of meaning."""

_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
_SINGLE = onnx.defs.OpSchema.FormalParameterOption.Single


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator at one version; `is_known` is false without a schema, and then everything is allowed."""

    dialect: str
    name: str
    is_known: bool = False
    is_deprecated: bool = False
    kinds: Mapping[str, int] = field(default_factory=dict[str, int])
    """Type, by number, of every attribute."""
    required: tuple[str, ...] = ()
    dtypes: frozenset[str] = frozenset()
    """Attributes that are element types."""
    inputs: tuple[int, int] = (0, sys.maxsize)
    """Least and greatest number of operands."""
    outputs: tuple[int, int] = (0, sys.maxsize)
    newer: frozenset[str] = frozenset()
    """Attributes added after the supported opset, which no operator definition covers."""
    has_open_end: bool = False
    """Whether the number of results matters, so that unused last results count."""

    def accepts(self, operands: int, results: int) -> bool:
        """Whether it may have so many operands and results."""
        return self.inputs[0] <= operands <= self.inputs[1] and self.outputs[0] <= results <= self.outputs[1]


def newest() -> int:
    """The newest version of the default domain that the installed `onnx` knows."""
    return onnx.defs.onnx_opset_version()


@cache
def operator(domain: str, name: str, version: int | None) -> Operator:
    """Return the operator `name` of an ONNX domain at a version; `None` if the file declares no version."""
    dialect = domains.dialect_of(domain)
    is_default = dialect == domains.DEFAULT
    if is_default and version is not None and version > newest():
        return Operator(domains.FUTURE, name)
    schema = _schema("" if is_default else domain, name, version)
    if schema is None:
        is_new = is_default and version is not None and version > OPSET
        return Operator(domains.FUTURE if is_new else dialect, name)
    pinned = _schema("", name, OPSET) if is_default and schema.since_version > OPSET else schema
    is_future = pinned is None or not _is_equivalent(pinned, schema)
    return Operator(
        dialect=domains.FUTURE if is_future else dialect,
        name=name,
        is_known=True,
        is_deprecated=schema.deprecated,
        kinds={key: _type_code(attribute.type) for key, attribute in schema.attributes.items()},
        required=tuple(key for key, attribute in schema.attributes.items() if attribute.required),
        dtypes=_dtypes(name) if is_default and not is_future else frozenset(),
        inputs=(schema.min_input, schema.max_input),
        outputs=(schema.min_output, schema.max_output),
        newer=frozenset() if is_future or pinned is None else frozenset(schema.attributes.keys() - pinned.attributes),
        has_open_end=bool(schema.outputs)
        and schema.outputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic,
    )


def _is_equivalent(pinned: onnx.defs.OpSchema, later: onnx.defs.OpSchema) -> bool:
    """Whether a node without newer attributes has the same meaning at a later opset and the supported one.

    Changes of element types do not change the meaning. Changes in the text of a schema cannot be compared, so versions
    after `JUDGED` are not equivalent.
    """
    if pinned.since_version == later.since_version:
        return True
    if later.since_version > JUDGED or later.deprecated:
        return False
    kept = {key: each for key, each in later.attributes.items() if key in pinned.attributes}
    added = [each for key, each in later.attributes.items() if key not in pinned.attributes]
    return (
        _attributes(kept) == _attributes(pinned.attributes)
        and not any(each.required for each in added)
        and [(p.name, p.option) for p in pinned.inputs] == [(p.name, p.option) for p in later.inputs]
        and [(p.name, p.option) for p in pinned.outputs] == [(p.name, p.option) for p in later.outputs]
    )


def _attributes(attributes: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {key: (_type_code(each.type), each.required, str(each.default_value)) for key, each in attributes.items()}


@cache
def versions(name: str, version: int) -> tuple[int, int]:
    """Return the first and last version of the default domain with the meaning of `name` at `version`.

    For an operator without schema, only `version` itself.
    """
    schema = _schema("", name, version)
    if schema is None:
        return version, version
    last = newest()
    later = _schema("", name, last)
    while later is not None and later.since_version > version:
        last = later.since_version - 1
        later = _schema("", name, last)
    return schema.since_version, last


def misfit(name: str, version: int, types: Sequence[str | None], operands: int) -> str | None:
    """Return why operator `name` of the default domain does not accept values of these types, or `None`.

    The first `operands` types are those of operands, the others of results. A type is empty if unknown, and `None` for
    an absent value.
    """
    inputs, outputs = _parameters(name, version)
    for place, found in enumerate(types):
        of = inputs if place < operands else outputs
        index = place if place < operands else place - operands
        parameter = of[min(index, len(of) - 1)] if of else None
        if parameter is None or found == "" or found in parameter.types:
            continue
        if found is not None:
            return f"{parameter.name} does not accept {found} in this opset"
        if place < operands and parameter.is_required and index < len(of):
            return f"the input {parameter.name} is required in this opset"
    return None


class _Parameter(NamedTuple):
    name: str
    types: frozenset[str]
    is_required: bool


@cache
def _parameters(name: str, version: int) -> tuple[tuple[_Parameter, ...], tuple[_Parameter, ...]]:
    schema = _schema("", name, version)
    if schema is None:
        return (), ()
    inputs, outputs = (
        tuple(_Parameter(p.name, frozenset(p.types), p.option == _SINGLE) for p in of)
        for of in (schema.inputs, schema.outputs)
    )
    return inputs, outputs


def ir_version(opset: int) -> int:
    """Return the oldest file format version for an opset of the default domain."""
    import onnx.helper

    table: Any = onnx.helper.OP_SET_ID_VERSION_MAP
    # The table leaves out versions that no release had for its newest.
    later = [ir for (domain, version), ir in table.items() if domain == "ai.onnx" and version >= opset]
    return min(later, default=onnx.IR_VERSION)


def _schema(domain: str, name: str, version: int | None) -> onnx.defs.OpSchema | None:
    if version is None or not 0 < version < 1 << 31 or not (name.isascii() and domain.isascii()):
        return None
    try:
        return onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return None


def _type_code(kind: Any) -> int:
    """The number of a type of attributes; the enumeration of the C++ library has no declared values."""
    return int(kind.value)


def _dtypes(name: str) -> frozenset[str]:
    op_def = registry.op_defs().get(name)
    if op_def is None:
        return frozenset()
    keywords = op_def.signature.keywords.items()
    return frozenset(key for key, op_type in keywords if DType in (op_type.annotation, *get_args(op_type.annotation)))
