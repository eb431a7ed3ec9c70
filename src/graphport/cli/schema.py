"""`graphport schema`."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import click

from graphport.cli.options import Verb, color_option, findings_end
from graphport.core.names import did_you_mean

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


@click.command(cls=Verb, name="schema")
@click.argument("verb_name", metavar="[VERB]", required=False)
@color_option
@findings_end
def verb(verb_name: str | None, color: str) -> None:
    """Print the JSON schema of a command's --json output; without VERB, list the commands with a schema.

    Each document names its schema: "schema": "graphport/VERB/1". The number increases when a field is removed or
    changes its meaning; new fields do not change it.

    \b
    Examples:
      graphport schema check
      graphport schema convert > convert.schema.json
    """
    del color
    known = described()
    if verb_name is None:
        click.echo("\n".join(known))
        return
    if verb_name not in known:
        message = f"no JSON schema for {verb_name!r}{did_you_mean(verb_name, known, 'commands')}"
        raise click.UsageError(message)
    click.echo(json.dumps(schema(verb_name), indent=2))


def described() -> list[str]:
    """Return the commands that have a schema."""
    found = (file.name.removesuffix(".json") for file in _folder().iterdir() if file.name.endswith(".json"))
    return sorted(set(found) - {"common"})


def schema(verb_name: str) -> dict[str, Any]:
    """Return the schema of the output of `graphport VERB --json`: its results, or its findings on failure."""
    own, common = _read(verb_name), _read("common")
    name = f"graphport/{verb_name}/1"
    heading = {"type": "object", "properties": {"schema": {"const": name}}, "required": ["schema"]}
    refused = {"$ref": "#/$defs/refused"}
    definitions = common["$defs"] | own.get("$defs", {}) | {"refused": _refused(), "result": own["result"]}
    if "whole" in own:
        # A document may have a schema of its own; its `$id` separates the references.
        package, _, file = own["whole"].partition(":")
        definitions["whole"] = json.loads((files(package) / file).read_text("utf-8"))
    return {
        "$schema": _DRAFT,
        "title": own["title"],
        "description": own["description"],
        **heading,
        "anyOf": [{"$ref": "#/$defs/result"}, refused],
        "$defs": definitions,
    }


def _refused() -> dict[str, Any]:
    findings = {"type": "array", "items": {"$ref": "#/$defs/finding"}}
    properties = {"valid": {"const": False}, "diagnostics": findings}
    return {
        "description": "The input or the usage is wrong.",
        "type": "object",
        "properties": properties,
        "required": ["valid", "diagnostics"],
    }


def _folder() -> Any:
    return files("graphport.cli") / "schemas"


def _read(name: str) -> dict[str, Any]:
    return json.loads((_folder() / f"{name}.json").read_text("utf-8"))
