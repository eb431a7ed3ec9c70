"""Nodes as rules take them: what the signature of an operator's page names, by these names.

A lifting of an operator with many parameters, and the shape rule on its page, take its view in place of the parameters:
a lifting one of values, a shape rule one of facts. Views are in `ops/views/`, a module a family, made from the pages by
`tools/operator_views.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache, wraps
from inspect import signature
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from graphport.ops import declare, registry

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

    T = TypeVar("T", default=Value)
else:
    from typing import TypeVar

    T = TypeVar("T")

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


class View(Generic[T]):
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


class Attributes:
    """Attributes that words of a dialect have in common: a dataclass with their names and defaults, all `kw_only`.

    A rule takes them as one, behind the builder, and hands them on so. What else a word has are parameters of its own:

        @Sliding.lower("nnef", "conv")
        def conv(b: Builder, stated: Sliding, input: Value, filter: Value, *, groups: int = 1) -> Value: ...
    """

    @classmethod
    def lower(
        cls, dialect: str, word: str, *, until: int | None = None, reads_facts_alone: bool = False
    ) -> Callable[[F], F]:
        """Register how `word` of `dialect`, which has these attributes, is said canonically."""
        shared = signature(cls).parameters

        def register(function: F) -> F:
            @wraps(function)
            def lowered(b: Builder, *operands: Any, **attributes: Any) -> Any:
                own = {name: attributes.pop(name) for name in shared if name in attributes}
                return function(b, cls(**own), *operands, **attributes)

            builder, _, *others = signature(function).parameters.values()
            called = sorted((builder, *others, *shared.values()), key=lambda parameter: parameter.kind)
            vars(lowered)["__signature__"] = signature(function).replace(parameters=called)
            declare.lower(dialect, word, until=until, reads_facts_alone=reads_facts_alone)(lowered)
            return function

        return register


def viewed(rule: Callable[[Any], R]) -> Callable[..., R]:
    """A shape rule that takes the view that it names, of facts: `rule(op: ConvView[TensorFact])`.

    Names and defaults are looked up on the page when the rule is first asked: to load a file takes no class of views.
    """
    name = rule.__annotations__["op"].partition("View[")[0]

    @cache
    def fields() -> tuple[list[str], dict[str, Any]]:
        signature = registry.pages()[name].signature
        stated = {each.name: each.default for each in signature.keywords.values() if not each.is_required}
        absent = dict.fromkeys(each.name for each in signature.operands if each.is_optional)
        return [each.name for each in signature.operands], absent | stated

    @wraps(rule)
    def shape(*operands: Any, **attributes: Any) -> R:
        names, defaults = fields()
        return rule(SimpleNamespace(**(defaults | dict(zip(names, operands, strict=False)) | attributes)))

    return shape
