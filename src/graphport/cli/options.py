"""Options and arguments that several verbs share, and how every verb ends."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from graphport.cli.progress import logged
from graphport.cli.quiet import is_quiet, stdout
from graphport.cli.render import DEFAULT_WIDTH, Color, as_json, as_text, exit_code, note_faults, wants_color
from graphport.cli.streams import FILE, MODEL, from_option, named
from graphport.cli.usage import Choice, Verb, as_document, grouped
from graphport.core.faults import is_ours

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from graphport.core.diagnostics import Diagnostic

Command = TypeVar("Command", bound=Callable[..., Any])


__all__ = ["FILE", "MODEL", "Verb", "from_option", "grouped"]


class LateChoice(Choice):
    """A choice among names that are looked up when they are asked for, so that other verbs start without them."""

    def __init__(self, find: Callable[[], Iterable[str]]) -> None:
        self._find = find
        super().__init__(())

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(self._find())

    @choices.setter
    def choices(self, given: tuple[str, ...]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  an attribute
        del given


json_option = click.option("--json", "as_json_", is_flag=True, help="Print one JSON document and nothing else.")
color_option = click.option(
    "--color", type=Choice([str(c) for c in Color]), default="auto", show_default=True, help="Colours in text."
)
edition_option = click.option(
    "--edition", type=Choice(["provisional", "final"]), help="Edition of NNEF; by content if not given."
)
program_option = grouped(
    "Files of several programs (.pt2, .tflite)",
    "--program",
    "--signature",
    "program",
    metavar="NAME",
    help="Which program of a package of PyTorch's, or which signature of a TFLite file.",
)
states_option = grouped(
    "Files of several programs (.pt2, .tflite)",
    "--state",
    "states",
    is_flag=True,
    help="Buffers that a program changes are inputs and outputs, kept from run to run.",
)


def package_options(command: Command) -> Command:
    """How programs of PyTorch are read; `packaged` picks it."""
    return program_option(states_option(command))


def reading_options(command: Command) -> Command:
    """How models are read, and what is said of their inputs."""
    return input_option(edition_option(package_options(command)))


def opening_options(command: Command) -> Command:
    """How the one model of a verb is read, and what is said of its inputs."""
    return input_option(edition_option(from_option(program_option(command))))


def packaged(options: dict[str, Any]) -> dict[str, Any]:
    """What `package_options` gave, taken from `options`, as `load` is told it."""
    return {"program": options.pop("program"), "states": options.pop("states")}


backend_option = click.option(
    "--backend",
    metavar="BACKEND",
    default="auto",
    show_default=True,
    help="What computes: onnxruntime, reference, fused, openvino, ncnn, litert, tract; auto takes the first that can.",
)
threads_option = click.option(
    "--threads",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Threads that compute; as many as the backend likes if not given.",
)


class ShapeOption(click.ParamType[Any]):
    """`NAME=1x3x224x224`, `NAME=int64:1x8` where a file has no type; dims are numbers or symbols, none a rank of 0."""

    name = "NAME=SHAPE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, list[int | str]]:
        """The name and the dims."""
        name, equals, text = str(value).rpartition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not NAME=SHAPE, such as x=1x3x224x224", param, ctx)
        # A comma parts dims where a symbol's name has an x.
        parts = [] if not text else text.split("," if "," in text else "x")
        if not all(parts):
            self.fail(f"{value!r} has an empty dim", param, ctx)
        if any(part.startswith("-") and part[1:].isdecimal() for part in parts):
            self.fail(f"{value!r} has a negative dim", param, ctx)
        return name, [int(part) if part.isascii() and part.isdecimal() else part for part in parts]


input_option = click.option(
    "--input",
    "shapes",
    multiple=True,
    type=ShapeOption(),
    help="Bind extents of an input, such as x=1x3x224x224, and with x=int64:1x8 a type that is open. Repeatable.",
)


_ONNX, _NNEF, _IR, _NCNN = "Written as ONNX", "Written as NNEF", "Written as OpenVINO IR", "Written as ncnn"


def _given(_context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    """What a repeatable option was given; nothing is as good as no option."""
    return value or None


WRITER = (
    grouped(_ONNX, "--opset", type=click.IntRange(1), metavar="N", help="The opset to write."),
    grouped(
        _ONNX,
        "--external-data/--no-external-data",
        "external_data",
        default=None,
        help="Weights in a file beside the model, or in it (default: as they were, and outside above 2 GiB).",
    ),
    grouped(_NNEF, "--flatten", is_flag=True, default=None, help="Fragments expanded, a flat text."),
    grouped(
        _NNEF,
        "--allow-fragments",
        is_flag=True,
        default=None,
        help="Declare fragments for operators that it has no words for.",
    ),
    grouped(
        _NNEF,
        "--flavour",
        type=Choice(["khronos", "tract", "both"]),
        help="The words of Khronos' text, of tract, or those that both take (default; else those of tract).",
    ),
    grouped(_IR, "--ir-version", type=Choice(["10", "11"]), help="The version of the file."),
    grouped(_IR, "--ir-opset", type=click.IntRange(1), metavar="N", help="The newest operation set."),
    grouped(
        f"{_IR} or ncnn",
        "--weights",
        type=Choice(["f32", "f16", "bf16", "int8"]),
        help="How float32 weights are stored: int8 in OpenVINO IR alone, bf16 in ncnn alone.",
    ),
    grouped(
        "Written as PNNX",
        "--code",
        is_flag=True,
        default=None,
        help="Also NAME_pnnx.py, a module of PyTorch, and NAME_ncnn.py beside NAME.ncnn.param.",
    ),
    grouped(
        _NCNN,
        "--optimize",
        is_flag=True,
        default=None,
        help="Put operators together, and let layers take in activations.",
    ),
    grouped(
        _NCNN,
        "--precision",
        multiple=True,
        default=None,
        callback=_given,
        metavar="LAYER=TYPE",
        help="What a layer, by name or pattern, is computed in: f32, f16 or bf16. Repeatable.",
    ),
)
"""What the writers of formats can be told; each refuses what is for another one."""


batch_option = grouped(
    _NCNN, "--batch", type=click.IntRange(1), metavar="N", help="Items of the inputs, along their first axis."
)


def writer_options(command: Command) -> Command:
    """The options of writers; `chosen` picks those that were given."""
    for option in reversed(WRITER):
        command = option(command)
    return command


def chosen(options: Mapping[str, Any], target: Path, format: str | None) -> dict[str, Any]:
    """The options of writers that were given, by the names that writers have for them.

    Raises:
        UsageError: one is for another format than that of `target`.
    """
    from graphport import formats

    found = {name: value for name, value in options.items() if value is not None}
    kind = formats.by_name(target, format)
    for name in found:
        if name not in kind.choices:
            message = f"--{name.replace('_', '-')} says nothing to {kind.title}"
            raise click.UsageError(message)
    if "ir_version" in found:
        found["ir_version"] = int(found["ir_version"])
    return found


def bound(shapes: Iterable[tuple[str, list[int | str]]]) -> dict[str, list[int | str]] | None:
    """What `--input` gave, by name."""
    return dict(shapes) or None


def print_json(document: Mapping[str, Any]) -> None:
    """The JSON document of the verb that runs, on standard output."""
    click.echo(named(as_document(str(click.get_current_context().info_name), document)))


def print_findings(findings: Iterable[Diagnostic], color: str = "auto", *, err: bool = True) -> None:
    """Findings as text; errors alone where quiet is wanted."""
    stream = sys.stderr if err else stdout()
    findings = list(findings)
    for finding in findings:
        logged(str(finding))
    note_faults(findings)
    if is_quiet():
        findings = [finding for finding in findings if finding.is_error or is_ours(finding)]
    width = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns if stream.isatty() else DEFAULT_WIDTH
    text = as_text(findings, color=wants_color(Color(color), stream), width=width)
    if text:
        click.echo(named(text), file=stream, color=True)


def answered(command: Command) -> Command:
    """How a verb answers: in colour or not, in a document or not, and with which findings and exit code."""
    return color_option(json_option(findings_end(command)))


def findings_end(command: Command) -> Command:
    """Let a verb report the findings that a stage raises, and end with exit code 1, or 3 for a fault of graphport."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        from graphport.core.diagnostics import DiagnosticError
        from graphport.core.faults import FOUND, stumbled

        try:
            if "backend" in kwargs:
                from graphport.backends import check_name

                check_name(kwargs["backend"])
            found = command(*args, **kwargs)
        except click.exceptions.Exit as end:
            raise click.exceptions.Exit(exit_code(end.exit_code)) from None
        except DiagnosticError as error:
            _refuse(error.diagnostics, kwargs)
        except BrokenPipeError:
            raise  # whoever read our output has gone: nothing is wrong with the input, and nobody listens
        except OSError as error:
            from graphport.core.diagnostics import Diagnostic, Source, Span

            span = None if error.filename is None else Span(Source(str(error.filename)))
            _refuse([Diagnostic("IO0004", f"the system says: {error.strerror or error}", span)], kwargs)
        except UnicodeError as error:
            from graphport.core.diagnostics import Diagnostic

            _refuse([Diagnostic("IO0007", f"a text is no UTF-8: {error}")], kwargs)
        except FOUND as error:
            _refuse([stumbled(f"graphport {click.get_current_context().info_name}", error)], kwargs)
        if code := exit_code(0):
            raise click.exceptions.Exit(code)
        return found

    return guarded  # type: ignore[return-value]


def _refuse(findings: list[Diagnostic], options: Mapping[str, Any]) -> NoReturn:
    if options.get("as_json_"):
        print_json({"valid": False, "diagnostics": [as_json(finding) for finding in findings]})
    else:
        print_findings(findings, str(options.get("color", "auto")))
    raise click.exceptions.Exit(exit_code(1))


def function_named(name: str) -> Any:
    """The function that `MODULE:FUNCTION` names; modules are looked for in the present folder, too."""
    from importlib import import_module

    from graphport.core.diagnostics import Diagnostic, DiagnosticError

    module, colon, function = name.partition(":")
    sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), function) if colon and module and function else None
    except (ImportError, AttributeError) as error:
        raise DiagnosticError(
            Diagnostic("QUANT0026", f"there is no measure {name!r}: {error}", None, "name it as MODULE:FUNCTION")
        ) from error
    finally:
        sys.path.remove("")
    if not callable(found):
        raise DiagnosticError(Diagnostic("QUANT0026", f"{name!r} is no function", None, "name it as MODULE:FUNCTION"))
    return found
