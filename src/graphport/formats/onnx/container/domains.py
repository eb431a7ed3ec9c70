"""ONNX's operator domains as dialects.

The default domain is the dialect `onnx`, every other one is called as it is (`com.microsoft`). A node of the default
domain whose operator changed after the pinned opset speaks `onnx.future`: it has no canonical form, and is written back
at the opset that it came with. A domain that is called like a dialect of another format gets `onnx:` in front.
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
    """The domain that nodes of a dialect are written in; `None` if it is another format's."""
    if is_default(dialect):
        return ""
    if dialect.startswith(_PREFIX):
        return dialect.removeprefix(_PREFIX)
    return None if _is_of_a_format(dialect) else dialect


def _is_of_a_format(dialect: str) -> bool:
    """Whether a dialect, or a part of one, has words of another format, or of our own."""
    name = dialect.partition(".")[0]
    return name == _OURS or (name in registry.dialects() and not registry.record(name).is_domain)


def keeps(dialect: str) -> bool:
    """Whether nodes of a dialect can stand in an ONNX file as they are, in the default domain or another."""
    return domain_of(dialect) is not None


def versions(graph: Graph) -> dict[str, str]:
    """The version of every domain that a raw graph speaks, by the domain's name."""
    domains = {dialect: domain_of(dialect) for dialect in graph.opsets}
    return {
        domain or "ai.onnx": str(graph.opsets[dialect]) for dialect, domain in domains.items() if domain is not None
    }
