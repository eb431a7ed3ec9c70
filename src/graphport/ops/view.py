"""Nodes as rules take them: what the signature of an operator's page names, by these names.

A lifting of an operator with many parameters takes its view in place of the parameters. Views are in `ops/views/`, a
module a family, made from the pages by `tools/operator_views.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Self

from graphport.ops import declare

if TYPE_CHECKING:
    from graphport.ops.builder import Builder


class View:
    """Operands and attributes of a node, with the defaults of its operator's page."""

    operator: ClassVar[str]

    def stated(self) -> dict[str, Any]:
        """The attributes that differ from their defaults, by name."""
        attributes = (field for field in fields(self) if field.kw_only)  # pyright: ignore[reportArgumentType]  a view is a dataclass
        values = ((field, getattr(self, field.name)) for field in attributes)
        return {field.name: value for field, value in values if value != field.default}

    @classmethod
    def lift(
        cls, dialect: str, until: int | None = None
    ) -> Callable[[Callable[[Builder, Self], Any]], Callable[[Builder, Self], Any]]:
        """Register how a node of the operator is said in `dialect` (in ONNX opsets up to `until`)."""

        def register(function: Callable[[Builder, Self], Any]) -> Callable[[Builder, Self], Any]:
            @wraps(function)
            def lifted(b: Builder, *operands: Any, **attributes: Any) -> Any:
                return function(b, cls(*operands, **attributes))

            declare.lift(dialect, cls.operator, until=until)(lifted)
            return function

        return register
