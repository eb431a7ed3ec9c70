"""`graphport explain`."""

from __future__ import annotations

import json
import tomllib
from dataclasses import MISSING, fields
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

import click

from graphport.cli.options import (
    Verb,
    answered,
    print_json,
)
from graphport.core.docstrings import docstring
from graphport.core.names import find_similar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphport.ops.declare import OpDef
    from graphport.passes.driver import Pass
    from graphport.runtimes.target import Target

_KINDS = "names are those of diagnostics (NNEF0302), passes (fuse-batchnorm), operators (Conv), and targets (ncnn)"


@click.command(cls=Verb, name="explain")
@click.argument("name")
@answered
def verb(name: str, color: str, as_json_: bool) -> None:
    """Explain a diagnostic code, a pass, an operator, or a quantization target.

    \b
    Examples:
      graphport explain NNEF0302
      graphport explain fuse-batchnorm
      graphport explain Conv
      graphport explain ncnn
    """
    del color
    found = _explained(name)
    if found is None:
        found = find_similar(name, explanations())
        meant = f"did you mean {' or '.join(map(repr, found))}?" if found else _KINDS
        message = f"unknown name {name!r}; {meant}"
        raise click.UsageError(message)
    if as_json_:
        print_json(found)
    else:
        click.echo("\n".join(_lines(found)))


def explanations() -> list[str]:
    """Return all explanations by name."""
    from graphport.ops import registry
    from graphport.quantization.targets import TARGETS

    return [*_codes(), *passes(), *TARGETS, *registry.op_defs()]


def passes() -> dict[str, tuple[Pass, list[str]]]:
    """Return every pass by name, with the commands that run it."""
    from graphport.passes.prepare import PREPARE
    from graphport.passes.simplify import SIMPLIFY

    found: dict[str, tuple[Pass, list[str]]] = {}
    for each in (PREPARE, SIMPLIFY):
        for one in each:
            found.setdefault(one.name, (one, []))[1].append(each.name)
    return found


def _explained(name: str) -> dict[str, Any] | None:
    from graphport.ops import registry
    from graphport.quantization.targets import TARGETS

    stated = _codes().get(name.upper())
    if stated is not None:
        return _code(name.upper(), stated)
    if name in passes():
        return _pass(*passes()[name])
    if name in TARGETS:
        return _target(TARGETS[name])
    op_def = registry.op_defs().get(name)
    return None if op_def is None else _operator(op_def)


def _data(name: str) -> str:
    return files("graphport.cli").joinpath("explanations", name).read_text("utf-8")


def _codes() -> dict[str, dict[str, Any]]:
    return json.loads(_data("codes.json"))


@cache
def _examples(group: str) -> dict[str, dict[str, Any]]:
    """Return the examples of a group of codes (for example `NNEF`) or of passes; none if the group has no file."""
    try:
        return tomllib.loads(_data(f"{group}.toml" if group == "passes" else f"examples/{group}.toml"))
    except FileNotFoundError:
        return {}


def diagnostics() -> dict[str, dict[str, Any]]:
    """Return the description of every diagnostic by code."""
    return {code: _code(code, stated) for code, stated in _codes().items()}


def _code(code: str, stated: dict[str, Any]) -> dict[str, Any]:
    example = _examples(code.rstrip("0123456789")).get(code, {"none": "not written yet"})
    if "file" in example:
        example = {"command": f"graphport check {_write_example(example['file'])}", **example}
    return {"kind": "diagnostic", "name": code, **stated, **example, "docs": f"diagnostics/{code}.html"}


def _write_example(file: str) -> str:
    """Write the text of an example to a file; ONNX's text form needs the package onnx."""
    return file.removesuffix("txt") if file.endswith(".onnxtxt") else file


def _pass(each: Pass, verbs: list[str]) -> dict[str, Any]:
    return {
        "kind": "pass",
        "name": each.name,
        "verbs": verbs,
        "exactness": each.exactness,
        "text": docstring(each.work),
        **_examples("passes")[each.name],
    }


def _target(target: Target) -> dict[str, Any]:
    meant = dict(_meanings(docstring(type(target))))
    details: dict[str, Any] = {}
    for field in fields(target):
        value = getattr(target, field.name)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if field.name != "name" and value != default:
            details[field.name] = {"is": _listed(value), "means": meant.get(field.name, "")}
    return {"kind": "target", "name": target.name, "text": _module_text(target), "settings": details}


def _module_text(target: Target) -> str:
    from importlib import import_module

    from graphport.quantization.targets import module_of

    return docstring(import_module(module_of(target)))


def _meanings(text: str) -> Iterator[tuple[str, str]]:
    """Return the attributes that a docstring describes, with their descriptions."""
    name, stated = "", list[str]()
    for line in text.partition("Attributes:")[2].splitlines():
        head, colon, rest = line.strip().partition(": ")
        if colon and head.isidentifier() and line.startswith("    ") and not line.startswith("        "):
            if name:
                yield name, " ".join(stated)
            name, stated = head, [rest]
        elif line.strip():
            stated.append(line.strip())
    if name:
        yield name, " ".join(stated)


def _listed(value: Any) -> str:
    """A value in words; the order of collections does not depend on hashes."""
    if isinstance(value, frozenset | tuple | list):
        items = cast("Iterable[Any]", value)
        return ", ".join(sorted(f"({_listed(each)})" if _is_collection(each) else str(each) for each in items))
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _is_collection(value: Any) -> bool:
    return isinstance(value, frozenset | tuple | list)


def _operator(op_def: OpDef) -> dict[str, Any]:
    from graphport.formats import FORMATS
    from graphport.ops import operator_manual

    by_format: dict[str, str] = {}
    for name, kind in FORMATS.items():
        stated = operator_manual.spellings(kind.read_dialect)[op_def.name]
        words = ", ".join(stated.patterns or stated.reads)
        direction = stated.direction if kind.writes else stated.direction.removesuffix("write").rstrip(", ")
        by_format[name] = f"{direction or 'no'}{f': {words}' if words else ''}"
    return {
        "kind": "operator",
        "name": op_def.name,
        "signature": operator_manual.signature(op_def, width=100),
        "types": operator_manual.element_types(op_def),
        "text": op_def.manual,
        "versions": operator_manual.versions(op_def),
        "exactness": op_def.exactness,
        "role": op_def.role,
        "formats": by_format,
    }


def headings(found: dict[str, Any]) -> dict[str, str]:
    """Return the listings of an example in order, each with its heading."""
    file = f" ({found['file']})" if "file" in found else ""
    every = {
        "setup": "given",
        "wrong": f"wrong{file}",
        "right": f"right{file}",
        "before": "before",
        "after": "after, without unused values",
    }
    return {name: heading for name, heading in every.items() if name in found}


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{found['kind']} {found['name']}" + (f" ({found['severity']})" if "severity" in found else "")
    for heading, name in (("run by", "verbs"), ("exactness", "exactness"), ("in quantization", "role")):
        if name in found:
            yield f"{heading}: {_listed(found[name])}"
    yield from (f"  {sentence}" for sentence in found.get("sentences", ()))
    yield from (f"  remedy: {remedy}" for remedy in found.get("remedies", ()))
    for name in ("why", "signature", "text", "versions"):
        if found.get(name):
            yield from ("", found[name])
    for name, heading in headings(found).items():
        yield from ("", f"{heading}:", "", *(f"    {line}" for line in found[name].splitlines()))
    if "command" in found:
        yield from ("", f"$ {found['command']}")
    if "none" in found:
        yield from ("", f"no example: {found['none']}")
    for name, stated in found.get("types", {}).items():
        yield f"{name}: {', '.join(stated)}"
    for name, stated in found.get("settings", {}).items():
        yield f"  {name} = {stated['is']}" + (f"  ({stated['means']})" if stated["means"] else "")
    if "formats" in found:
        yield ""
        yield from (f"  {name}: {stated}" for name, stated in found["formats"].items())
