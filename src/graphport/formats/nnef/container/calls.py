"""Type checks of calls: arguments, generic types, and where `external`, `variable` and `constant` may occur."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphport.formats.nnef.container.argument_binding import Binder, called_name, suggestion
from graphport.formats.nnef.container.call_text import FlatCall
from graphport.formats.nnef.container.syntax import (
    Builtin,
    Call,
    Edition,
    Name,
)
from graphport.formats.nnef.container.types import (
    ANY,
    INTEGER,
    LOGICAL,
    PRIMITIVES,
    SCALAR,
    UNKNOWN,
    Primitive,
    Type,
    castable,
    generic_choices,
    type_name,
    with_generic,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.formats.nnef.container.argument_binding import Plan
    from graphport.formats.nnef.container.declarations import Declaration, Operations
    from graphport.formats.nnef.container.findings import Findings
    from graphport.formats.nnef.container.scope import Scope
    from graphport.formats.nnef.container.syntax import Argument
    from graphport.formats.nnef.container.type_checker import TypeChecker


_SOURCES = frozenset(("external", "variable", "update"))


NO_INPUT = "declare inputs in the graph body: x = external(…), where x is a graph parameter"


@dataclass(slots=True)
class Deprecated:
    """Uses of deprecated forms: `shape_of`, and tensors passed by parameter name."""

    shape_of: list[Builtin] = field(default_factory=list[Builtin])
    named_tensors: list[Argument] = field(default_factory=list["Argument"])


class Calls:
    """Infers the result types of a document's calls."""

    def __init__(
        self, edition: Edition, operations: Operations, findings: Findings, fitting: TypeChecker, deprecated: Deprecated
    ) -> None:
        self._edition = edition
        self._is_final = edition is Edition.FINAL
        self._operations = operations
        self._findings = findings
        self._fitting = fitting
        self._deprecated = deprecated
        self._binder = Binder(edition, findings)
        self._accepted: dict[tuple[object, ...], Type] = {}
        self._of_forms: dict[tuple[object, ...], Type] = {}

    def known_type(self, node: FlatCall, scope: Scope) -> Type | None:
        """Return the type of a call if a call of the same form on tensors of the same types has been accepted."""
        types = scope.types
        return self._of_forms.get((node.form, *[types.get(name) for name in node.tensors]))

    def called(self, node: Call, types: Sequence[Type], scope: Scope) -> Type:
        """The type of a call whose arguments have `types`."""
        if node.name in _SOURCES:
            self._check_source(node, scope)
        found = self._called(node, types, scope)
        if isinstance(node, FlatCall) and node.name not in _SOURCES and self._key(node, types) in self._accepted:
            self._of_forms[(node.form, *types[: node.form.count])] = found
        return found

    def _key(self, node: Call, types: Sequence[Type]) -> tuple[object, ...]:
        return (node.name, node.generic, tuple([each.name for each in node.arguments]), *types)

    def _called(self, node: Call, types: Sequence[Type], scope: Scope) -> Type:
        key = self._key(node, types)
        accepted = self._accepted.get(key)
        if accepted is not None:
            return accepted
        declaration = self._operations.find(node.name)
        if declaration is None:
            if not self._operations.is_opaque(node.name):
                message = f"undeclared operation '{node.name}'"
                remedy = None if self._findings.is_full else suggestion(node.name, self._operations.names())
                self._findings.error("NNEF0322", message, called_name(node), remedy)
            return UNKNOWN
        plan = self._binder.plan(declaration, node)
        chosen = self._generic(node, declaration, plan, types, scope)
        result = declaration.result_type if chosen is None else with_generic(declaration.result_type, chosen)
        if plan is None or (declaration.is_generic and chosen is None):
            return UNKNOWN if chosen is None and declaration.is_generic else result
        if self._arguments_fit(node, declaration, plan, types, chosen):
            self._accepted[key] = result
        return result

    def _arguments_fit(
        self, node: Call, declaration: Declaration, plan: Plan, types: Sequence[Type], chosen: Primitive | None
    ) -> bool:
        """Check the types of the arguments; return whether equal calls need no further check."""
        is_plain = plan.positional_attribute is None
        for argument, index, given in zip(node.arguments, plan.formals, types, strict=True):
            formal = declaration.formals[index]
            wanted = formal.type if chosen is None else with_generic(formal.type, chosen)
            if given is not wanted and not castable(given, wanted):
                what = f"'{formal.name}' of '{node.name}'"
                self._fitting.argument(argument.value, given, wanted, what)
                is_plain = False
            if argument.name is not None and formal.takes_tensors and self._is_final:
                self._deprecated.named_tensors.append(argument)
                is_plain = False
        return is_plain

    def _generic(
        self, node: Call, declaration: Declaration, plan: Plan | None, types: Sequence[Type], scope: Scope
    ) -> Primitive | None:
        """Return the type of `?` in this call; `None` if there is no `?`, or after an error."""
        if not declaration.is_generic:
            if node.generic is not None:
                message = f"'{node.name}' is not generic and does not accept <{node.generic}>"
                self._findings.error("NNEF0331", message, called_name(node), f"write {node.name}(…)")
            return None
        if node.generic is not None:
            if node.generic == "?" and not scope.is_generic:
                message = "<?> outside of a generic fragment"
                self._findings.error("NNEF0332", message, called_name(node), "name the type: <scalar>")
                return None
            return PRIMITIVES[node.generic]
        if declaration.generic_default is not None or plan is None:
            return declaration.generic_default
        choices = {
            choice
            for index, given in zip(plan.formals, types, strict=True)
            for choice in generic_choices(declaration.formals[index].type, given)
        }
        if len(choices) > 1:
            choices.discard(ANY)
        if not choices and self._misshapen(node, declaration, plan, types):
            return None
        return self._only_choice(node, choices, types)

    def _misshapen(self, node: Call, declaration: Declaration, plan: Plan, types: Sequence[Type]) -> bool:
        """Whether an argument mismatches its generic parameter for every type `?`, such as an array for a tensor."""
        is_wrong = False
        for argument, index, given in zip(node.arguments, plan.formals, types, strict=True):
            formal = declaration.formals[index]
            if not any(castable(given, with_generic(formal.type, each)) for each in (SCALAR, INTEGER, LOGICAL)):
                is_wrong = True
                self._fitting.fit(argument.value, given, formal.type, f"'{formal.name}' of '{node.name}'", "NNEF0401")
        return is_wrong

    def _only_choice(self, node: Call, choices: set[Primitive], types: Sequence[Type]) -> Primitive | None:
        if len(choices) == 1:
            return next(iter(choices))
        if choices:
            named = " and ".join(sorted(f"'{self._type_name(each)}'" for each in choices))
            message = f"conflicting data-types in the arguments of '{node.name}': {named}"
            self._findings.error("NNEF0333", message, node, "use tensors of one data-type")
        elif not any(each is UNKNOWN for each in types):
            message = f"the arguments of '{node.name}' do not determine its generic type"
            self._findings.error("NNEF0330", message, called_name(node), f"name it: {node.name}<scalar>(…)")
        return None

    def _check_source(self, node: Call, scope: Scope) -> None:
        if node.name in self._operations.own:
            return
        if not scope.is_graph and node.name == "external":
            self._findings.error("NNEF0308", "'external' inside a fragment", called_name(node), NO_INPUT)
        elif not scope.is_graph and self._is_final:
            message = f"'{node.name}' inside a fragment"
            remedy = "move it to the graph body (required since 1.0.1), and pass its result as an argument"
            self._findings.error("NNEF0310", message, called_name(node), remedy)
        elif node.name == "update" and scope.is_graph:
            self._check_update(node, scope)

    def _check_update(self, node: Call, scope: Scope) -> None:
        target = node.arguments[0].value
        if not isinstance(target, Name) or scope.types.get(target.text) is UNKNOWN:
            return
        if target.text not in scope.variables:
            message = f"'update' of '{target.text}', which is not a variable"
            self._findings.error("NNEF0311", message, target, "pass the result of 'variable' as the first argument")
        elif target.text in scope.updated:
            line = self._findings.source.position(scope.updated[target.text].start)[0]
            message = f"duplicate update of variable '{target.text}'"
            self._findings.error("NNEF0312", message, target, f"remove this or the first update in line {line}")
        else:
            scope.updated[target.text] = node

    def _type_name(self, of: Type) -> str:
        return type_name(of, self._edition)
