"""Usage of the command line: grouped options, usage errors as text or JSON, and quiet mode."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from graphport.cli.click_types import StringChoice
from graphport.cli.progress import log_file, print_progress
from graphport.cli.quiet import is_quiet, quiet, silenced
from graphport.cli.render import json_text
from graphport.core.docstrings import docstring
from graphport.core.names import did_you_mean, find_similar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_MODEL = "a file or folder in any format, recognized by its content; - is standard input."
_ARGUMENTS = {
    "MODEL": f"Model to read: {_MODEL}",
    "SRC": f"Model to read: {_MODEL}",
    "A": f"First model: {_MODEL}",
    "B": "Second model, in any format.",
    "DST": "File or folder to write; its name or --format selects the format; - is standard output.",
}
"""Descriptions of the arguments that several commands have."""
_NAME_WIDTH = 10
"""Width of the names of commands, so that the columns of all headings align."""
_JSON = "--json"
_OWN = ("--json", "--color", "--quiet", "--log-file", "--help")
"""Options of every command; they are listed last in its help."""


class Option(click.Option):
    """An option that the help lists under its own heading."""

    def __init__(self, *arguments: Any, group: str, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.group = group


class Choice(StringChoice):
    """A choice of names; for an unknown name the error suggests similar ones."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        message = super().get_invalid_choice_message(value, ctx)
        found = find_similar(str(value), self.choices)
        return f"{message.removesuffix('.')}; did you mean {' or '.join(map(repr, found))}?" if found else message


def grouped(group: str, *names: str, **named: Any) -> Callable[[Any], Any]:
    """Return `click.option` under the heading `group`."""
    return click.option(*names, cls=Option, group=group, **named)


class _EscapedOptions(click.Command):
    """A command that escapes the name of an unknown option; click before 8.4 does not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            found = [repr(name) for name in error.possibilities or ()]
            similar = f" (Did you mean one of: {', '.join(found)}?)" if found else ""
            if len(found) == 1:
                similar = f" Did you mean {found[0]}?"
            raise click.UsageError(f"No such option {error.option_name!r}.{similar}", error.ctx) from None


class Verb(_EscapedOptions):
    """A command that prints only errors with `-q`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.help = self.help or docstring(self.callback)
        self.params += [quiet(), log_file()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        own: list[tuple[str, str]] = []
        _write_arguments(self.get_params(ctx), formatter)
        for param in self.get_params(ctx):
            record = None if isinstance(param, click.Argument) else param.get_help_record(ctx)
            if record is None:
                continue
            if set(_OWN) & set(param.opts):
                own.append(record)
            else:
                groups.setdefault(getattr(param, "group", "Options"), []).append(record)
        for title, records in {**groups, "Output": own}.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:
        is_json = bool(ctx.params.get("as_json_"))
        with print_progress(ctx, is_silent=is_quiet() or is_json):
            if not is_quiet() or is_json:
                return super().invoke(ctx)
            with silenced(ctx):
                return super().invoke(ctx)


def _argument_name(param: click.Argument) -> str:
    return param.metavar or str(param.name).upper()


def _write_arguments(params: Iterable[click.Parameter], formatter: click.HelpFormatter) -> None:
    """Write the section of the arguments that `_ARGUMENTS` describes."""
    arguments = [_argument_name(param) for param in params if isinstance(param, click.Argument)]
    names = [name for argument in arguments for name in argument.split()]
    records = [(name, _ARGUMENTS[name.rstrip(".")]) for name in names if name.rstrip(".") in _ARGUMENTS]
    if records:
        with formatter.section("Arguments"):
            formatter.write_dl(records)


class Verbs(_EscapedOptions, click.Group):
    """A group that suggests similar commands for a typo, and prints usage errors as JSON on request."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.help = self.help or docstring(self.callback)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            ctx.fail(f"unknown command {name!r}{did_you_mean(name, self.list_commands(ctx), 'commands')}")
        return super().resolve_command(ctx, args)

    def list_groups(self, ctx: click.Context) -> Mapping[str, Sequence[str]]:
        """Return the commands under each heading of the help."""
        return {"Commands": self.list_commands(ctx)}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in self.list_groups(ctx).items():
            verbs = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl(
                    [(name.ljust(_NAME_WIDTH), _summary(verb)) for name, verb in verbs if verb is not None]
                )

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, *remaining: Any, standalone_mode: bool = True, **named: Any
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        if _JSON not in _before_dashes(given):
            return super().main(given, *remaining, standalone_mode=standalone_mode, **named)
        try:
            found = super().main(given, *remaining, standalone_mode=False, **named)
        except click.UsageError as error:
            _refuse(error)
        except click.ClickException as error:
            if not standalone_mode:
                raise
            error.show()
            sys.exit(error.exit_code)
        except click.Abort:
            if not standalone_mode:
                raise
            sys.exit(1)
        if standalone_mode:
            sys.exit(found if isinstance(found, int) else 0)
        return found


def _refuse(error: click.UsageError) -> NoReturn:
    """Print a usage error as the JSON document."""
    from graphport.core.diagnostics import Diagnostic

    verb = error.ctx.info_name if error.ctx is not None and error.ctx.parent is not None else "usage"
    remedy = None if error.ctx is None else f"try '{error.ctx.command_path} --help'"
    finding = Diagnostic("USE0001", error.format_message(), None, remedy)
    click.echo(as_document(str(verb), {"valid": False, "diagnostics": [finding.as_json()]}))
    sys.exit(2)


def as_document(verb: str, document: Mapping[str, Any]) -> str:
    """Format the JSON document of a command with its schema name."""
    return json_text({"schema": f"graphport/{verb}/1"} | dict(document))


def _before_dashes(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _summary(verb: click.Command) -> str:
    """Return the first sentence of a command's help."""
    return verb.get_short_help_str(limit=1000)
