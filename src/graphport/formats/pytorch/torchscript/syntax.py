"""Parse the source texts of an archive to classes and functions within limits. No code is executed."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport.core import budget
from graphport.formats.pytorch.torchscript.refusal import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphport.formats.pytorch.pt2.container import Container

MAX_TEXT_BYTES = 1 << 25
"""Maximum bytes of one source text; a network of 10,000 layers has about 2 MB."""
MAX_NESTING = 100
MAX_DIGITS = 400
"""Maximum digits of a literal; torch writes floats without exponent, with up to 309 digits before the point."""

_CODE = "code/"
_STRINGS = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_DIGITS = re.compile(rf"[0-9_a-fA-FxX]{{{MAX_DIGITS},}}")
_ALLOWED = (
    *(ast.Module, ast.ClassDef, ast.FunctionDef, ast.arguments, ast.arg, ast.AnnAssign, ast.Assign, ast.Expr, ast.Pass),
    *(ast.Return, ast.If, ast.For, ast.While, ast.With, ast.withitem, ast.Call, ast.keyword, ast.Attribute, ast.Name),
    *(ast.Subscript, ast.List, ast.Tuple, ast.Dict, ast.Constant, ast.UnaryOp, ast.USub, ast.Load, ast.Store, ast.Del),
    *(ast.Delete, ast.Import, ast.alias, ast.Starred),
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function; `default` is a literal or `None`."""

    name: str
    type: str
    default: ast.expr | None


@dataclass(frozen=True, eq=False, slots=True)
class FunctionText:
    """A function or method."""

    name: str
    member: str
    parameters: tuple[Parameter, ...]
    returns: str
    body: tuple[ast.stmt, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ClassText:
    """A class: `base` is `Module`, `NamedTuple`, `Enum`, `Interface`, or empty."""

    name: str
    base: str
    member: str
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    constants: Mapping[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    methods: Mapping[str, FunctionText] = field(default_factory=dict[str, FunctionText])


class Texts:
    """Classes and functions by qualified name (`__torch__.net.M`); texts are parsed on demand."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._parsed: dict[str, Mapping[str, ClassText | FunctionText]] = {}
        self._found: dict[str, ClassText | FunctionText | None] = {}

    def find(self, name: str) -> ClassText | FunctionText | None:
        """Return the class or function with this qualified name; `None` if the archive does not have it.

        Raises:
            RefusedError: TS0004 the text cannot be parsed.
        """
        if name not in self._found:
            space, _, own = name.rpartition(".")
            member = f"{_CODE}{space.replace('.', '/')}.py"
            self._found[name] = self.definitions(member).get(own) if member in self._container else None
        return self._found[name]

    def members(self) -> list[str]:
        """Return the members that are source texts."""
        return [name for name in self._container.below(_CODE) if name.endswith(".py")]

    def definitions(self, member: str) -> Mapping[str, ClassText | FunctionText]:
        """Return the classes and functions of one text."""
        if member not in self._parsed:
            self._parsed[member] = _definitions(_tree(self._container, member), member)
        return self._parsed[member]


def _tree(container: Container, member: str) -> ast.Module:
    most = budget.limit("torchscript.text", MAX_TEXT_BYTES)
    size = container.members[member].length
    if size > most:
        refuse("TS0004", f"{member} has {size} bytes, the limit is {most}", help="GRAPHPORT_LIMITS=torchscript.text=N")
    try:
        text = container.read(member).decode("utf-8")
    except UnicodeDecodeError as error:
        refuse("TS0004", f"{member} is not valid UTF-8: {error.reason} at byte {error.start}")
    _check_bounds(text, member)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        refuse("TS0004", f"{member} is not TorchScript: {error}")
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            line = getattr(node, "lineno", "?")
            refuse("TS0004", f"{member}:{line}: unsupported Python syntax {type(node).__name__}")
    return tree


def _check_bounds(text: str, member: str) -> None:
    bare = _STRINGS.sub("", text)
    if _DIGITS.search(bare):
        refuse("TS0004", f"{member} has a number of more than {MAX_DIGITS} digits")
    depth = 0
    for mark in re.findall(r"[()\[\]{}\n]", bare):
        depth += (mark in "([{") - (mark in ")]}")
        if depth > MAX_NESTING:
            refuse("TS0004", f"{member} nests expressions more than {MAX_NESTING} levels deep")


def _definitions(tree: ast.Module, member: str) -> dict[str, ClassText | FunctionText]:
    space = member.removeprefix(_CODE).removesuffix(".py").replace("/", ".")
    found: dict[str, ClassText | FunctionText] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = _class(node, space, member)
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = function_of(node, member, f"{space}.{node.name}")
    return found


def _class(node: ast.ClassDef, space: str, member: str) -> ClassText:
    types: dict[str, str] = {}
    constants: dict[str, ast.expr] = {}
    methods: dict[str, FunctionText] = {}
    for item in node.body:
        match item:
            case ast.FunctionDef():
                methods[item.name] = function_of(item, member, f"{space}.{node.name}.{item.name}")
            case ast.AnnAssign(target=ast.Name(id=name)):
                types[name] = ast.unparse(item.annotation)
                if item.value is not None:
                    constants[name] = item.value
            case ast.Assign(targets=[ast.Name(id=name)]):
                constants[name] = item.value
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id="__annotations__"), slice=ast.Constant(value=str(name)))]
            ):
                types[name] = ast.unparse(item.value)
            case _:
                pass
    base = node.bases[0].id if node.bases and isinstance(node.bases[0], ast.Name) else ""
    return ClassText(f"{space}.{node.name}", base, member, types, constants, methods)


def function_of(node: ast.FunctionDef, member: str, name: str) -> FunctionText:
    """Convert a function definition; decorators and variadic parameters are refused."""
    given = node.args
    if node.decorator_list or given.vararg or given.kwarg or given.posonlyargs:
        refuse("TS0004", f"{member}:{node.lineno}: {node.name} has unsupported parameters")
    positional: list[ast.expr | None] = [*[None] * (len(given.args) - len(given.defaults)), *given.defaults]
    pairs: Iterable[tuple[ast.arg, Any]] = [
        *zip(given.args, positional, strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    parameters = tuple(
        Parameter(arg.arg, "Tensor" if arg.annotation is None else ast.unparse(arg.annotation), default)
        for arg, default in pairs
    )
    for parameter in parameters:
        if parameter.default is not None and any(isinstance(x, ast.Call) for x in ast.walk(parameter.default)):
            refuse("TS0004", f"{member}:{node.lineno}: the default of {parameter.name!r} is a call, not a literal")
    returns = "" if node.returns is None else ast.unparse(node.returns)
    return FunctionText(name, member, parameters, returns, tuple(node.body))
