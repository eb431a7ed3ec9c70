"""ONNX operator domains as dialects.

The default domain is the dialect `onnx`, all others keep their names (`com.microsoft`). A node of the default domain
whose operator changed after the supported opset belongs to `onnx.future`: it may have no canonical form, and is written
at its original opset. The prefix `onnx:` is added to a domain named like another format's dialect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.ir.graph import Graph

DEFAULT = "onnx"
FUTURE = "onnx.future"
CANONICAL = ""

_ALIASES = ("", "ai.onnx")
_OURS = "graphport"
_PREFIX = "onnx:"


def is_default(dialect: str) -> bool:
    """Whether nodes of the dialect are written in the default domain."""
    return dialect in (CANONICAL, DEFAULT, FUTURE)


def dialect_of(domain: str) -> str:
    """The dialect of a domain of an ONNX file."""
    if domain in _ALIASES:
        return DEFAULT
    if domain in (DEFAULT, FUTURE) or domain.startswith(_PREFIX) or _is_of_a_format(domain):
        return _PREFIX + domain
    return domain


def dialect_of_function(domain: str) -> str:
    """The dialect of nodes that call a function of the model's own; one in the default domain hides an operator."""
    dialect = dialect_of(domain)
    return _PREFIX if dialect == DEFAULT else dialect


def domain_of(dialect: str) -> str | None:
    """Return the domain in which nodes of a dialect are written; `None` for dialects of other formats."""
    if is_default(dialect):
        return ""
    if dialect.startswith(_PREFIX):
        return dialect.removeprefix(_PREFIX)
    return None if _is_of_a_format(dialect) else dialect


def _is_of_a_format(dialect: str) -> bool:
    """Whether a dialect, or its first component, belongs to another format or to graphport."""
    name = dialect.partition(".")[0]
    return name == _OURS or (name in registry.dialects() and not registry.record(name).is_domain)


def keeps(dialect: str) -> bool:
    """Whether an ONNX file can contain nodes of a dialect unchanged, in any domain."""
    return domain_of(dialect) is not None


def versions(graph: Graph) -> dict[str, str]:
    """Return the version of every domain of a raw graph, by the domain's name."""
    domains = {dialect: domain_of(dialect) for dialect in graph.opsets}
    return {
        domain or "ai.onnx": str(graph.opsets[dialect]) for dialect, domain in domains.items() if domain is not None
    }
