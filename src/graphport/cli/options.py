"""Options and arguments shared by several commands, and the common end of every command."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from graphport.cli.click_types import ParamType
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
    """A choice among names that are computed on demand, so that other commands start faster."""

    def __init__(self, find: Callable[[], Iterable[str]]) -> None:
        self._find = find
        super().__init__(())

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(self._find())

    @choices.setter
    def choices(self, given: tuple[str, ...]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  an attribute
        del given


def target_names() -> Iterable[str]:
    """Return the quantization targets."""
    from graphport.quantization.targets import TARGETS

    return TARGETS


json_option = click.option("--json", "as_json_", is_flag=True, help="Print one JSON document and nothing else.")
color_option = click.option(
    "--color", type=Choice([str(c) for c in Color]), default="auto", show_default=True, help="Colours in text."
)
edition_option = click.option(
    "--edition", type=Choice(["provisional", "final"]), help="Edition of NNEF (default: by content)."
)
format_option = click.option(
    "--to", "--format", "format", metavar="FORMAT", help="Format of DST (default: by its file name)."
)
program_option = grouped(
    "Files of several programs (.pt2, .tflite)",
    "--program",
    "--signature",
    "program",
    metavar="NAME",
    help="The program in a PyTorch package, or the signature of a TFLite file.",
)
states_option = grouped(
    "Files of several programs (.pt2, .tflite)",
    "--state",
    "states",
    is_flag=True,
    help="Whether mutable buffers of a program are state inputs and outputs.",
)


def package_options(command: Command) -> Command:
    """Options for reading PyTorch programs; `extract_package_options` extracts them."""
    return program_option(states_option(command))


def reading_options(command: Command) -> Command:
    """Options for reading models and binding their inputs."""
    return input_option(edition_option(package_options(command)))


def opening_options(command: Command) -> Command:
    """Options for reading the single model of a command."""
    return input_option(edition_option(from_option(program_option(command))))


def extract_package_options(options: dict[str, Any]) -> dict[str, Any]:
    """Extract the options of `package_options` as arguments of `load`."""
    return {"program": options.pop("program"), "states": options.pop("states")}


backend_option = click.option(
    "--backend",
    metavar="BACKEND",
    default="auto",
    show_default=True,
    help="Backend: onnxruntime, reference, fused, openvino, ncnn, litert, tract; auto: the first that can run.",
)
threads_option = click.option(
    "--threads",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Number of threads (default: chosen by the backend).",
)


class ShapeOption(ParamType):
    """`NAME=1x3x224x224`, or `NAME=int64:1x8` if the file has no type; dims are numbers or symbols."""

    name = "NAME=SHAPE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, list[int | str]]:
        """Parse the name and the dims."""
        name, equals, text = str(value).rpartition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not NAME=SHAPE, such as x=1x3x224x224", param, ctx)
        # A comma separates dims because symbol names may contain an x.
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
    help="Bind dims of an input: x=1x3x224x224; x=int64:1x8 also sets an unknown type. Repeatable.",
)


OPSET_HELP = "The opset of ONNX to write (default: the source's, or the lowest from 17 on)."
_ONNX, _NNEF, _IR, _NCNN = "Written as ONNX", "Written as NNEF", "Written as OpenVINO IR", "Written as ncnn"


def _repeated_values(
    _context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Return the values of a repeatable option; `None` if there are none."""
    return value or None


WRITER = (
    grouped(_ONNX, "--opset", type=click.IntRange(1), metavar="N", help=OPSET_HELP),
    grouped(
        _ONNX,
        "--external-data/--no-external-data",
        "external_data",
        default=None,
        help="Weights in a separate file, or in the model (default: as in the source; separate above 2 GiB).",
    ),
    grouped(_NNEF, "--flatten", is_flag=True, default=None, help="Expand fragments: flat syntax."),
    grouped(
        _NNEF,
        "--allow-fragments",
        is_flag=True,
        default=None,
        help="Declare fragments for operators that NNEF lacks.",
    ),
    grouped(
        _NNEF,
        "--flavour",
        type=Choice(["khronos", "tract", "both"]),
        help="NNEF variant: Khronos, tract, or the common subset (default; tract if that is insufficient).",
    ),
    grouped(_IR, "--ir-version", type=Choice(["10", "11"]), help="The version of the file."),
    grouped(_IR, "--ir-opset", type=click.IntRange(1), metavar="N", help="The newest opset to use."),
    grouped(
        f"{_IR} or ncnn",
        "--weights",
        type=Choice(["f32", "f16", "bf16", "int8"]),
        help="Storage type of float32 weights: int8 only in OpenVINO IR, bf16 only in ncnn.",
    ),
    grouped(
        "Written as PNNX or .pt2",
        "--code",
        is_flag=True,
        default=None,
        help="Also write a PyTorch module: NAME_pnnx.py (and NAME_ncnn.py), or NAME_module.py.",
    ),
    grouped(
        "Written as .pt2",
        "--allow-custom",
        is_flag=True,
        default=None,
        help="Write unsupported operators as custom operators, with stubs in NAME_custom.py.",
    ),
    grouped(
        "Written as .pt2",
        "--qdq",
        is_flag=True,
        default=None,
        help="Quantization as quantized_decomposed operators (loading requires torch.ao).",
    ),
    grouped(
        _NCNN,
        "--optimize",
        is_flag=True,
        default=None,
        help="Fuse operators and activations into layers.",
    ),
    grouped(
        _NCNN,
        "--precision",
        multiple=True,
        default=None,
        callback=_repeated_values,
        metavar="LAYER=TYPE",
        help="Computation type of layers, by name or pattern: f32, f16 or bf16. Repeatable.",
    ),
)
"""Options of writers; each is refused for other formats."""


batch_option = grouped(
    _NCNN, "--batch", type=click.IntRange(1), metavar="N", help="Batch size of the inputs (first axis)."
)


def writer_options(command: Command) -> Command:
    """Add the options of writers; `extract_writer_options` extracts those that were passed."""
    for option in reversed(WRITER):
        command = option(command)
    return command


def extract_writer_options(options: Mapping[str, Any], target: Path, format: str | None) -> dict[str, Any]:
    """Extract the writer options that were passed, by the writers' parameter names.

    Raises:
        UsageError: an option belongs to a format other than that of `target`.
    """
    from graphport import formats

    found = {name: value for name, value in options.items() if value is not None}
    kind = formats.by_name(target, format)
    for name in found:
        if name not in kind.choices:
            message = f"--{name.replace('_', '-')} does not apply to {kind.title}"
            raise click.UsageError(message)
    if "ir_version" in found:
        found["ir_version"] = int(found["ir_version"])
    return found


def input_bindings(shapes: Iterable[tuple[str, list[int | str]]]) -> dict[str, list[int | str]] | None:
    """Return the bindings of `--input` by name."""
    return dict(shapes) or None


def print_json(document: Mapping[str, Any]) -> None:
    """Print the JSON document of the current command to standard output."""
    click.echo(named(as_document(str(click.get_current_context().info_name), document)))


def print_findings(findings: Iterable[Diagnostic], color: str = "auto", *, err: bool = True) -> None:
    """Print findings as text; only errors in quiet mode."""
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
    """Print the result of a command: as text or JSON, with color, findings and exit code."""
    return color_option(json_option(findings_end(command)))


def findings_end(command: Command) -> Command:
    """Report the findings raised by a command, and exit with code 1, or 3 for a fault of graphport."""

    @wraps(command)
    def handle_findings(*args: Any, **kwargs: Any) -> Any:
        from graphport.core.diagnostics import DiagnosticError
        from graphport.core.faults import FOUND

        try:
            _check_names(kwargs)
            found = command(*args, **kwargs)
        except click.exceptions.Exit as end:
            raise click.exceptions.Exit(exit_code(end.exit_code)) from None
        except (DiagnosticError, OSError, *FOUND) as error:
            _refuse(findings_of(error), kwargs)
        if code := exit_code(0):
            raise click.exceptions.Exit(code)
        return found

    return handle_findings  # type: ignore[return-value]


def findings_of(error: Exception) -> list[Diagnostic]:
    """Return the findings of an exception of the current command.

    Raises:
        BrokenPipeError: the reader of the output has closed it.
    """
    from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
    from graphport.core.faults import stumbled

    match error:
        case DiagnosticError():
            return error.diagnostics
        case FileNotFoundError() if error.filename is not None:
            message = f"file or folder not found: {error.filename}"
            return [Diagnostic("IO0001", message, Span(Source(str(error.filename))), "check the path")]
        case OSError() if not isinstance(error, BrokenPipeError):
            span = None if error.filename is None else Span(Source(str(error.filename)))
            return [Diagnostic("IO0004", f"the operating system reports: {error.strerror or error}", span)]
        case UnicodeError():
            return [Diagnostic("IO0007", f"a string is not valid UTF-8: {error}")]
        case BrokenPipeError():
            raise error
        case _:
            return [stumbled(f"graphport {click.get_current_context().info_name}", error)]


def _check_names(options: Mapping[str, Any]) -> None:
    """Exit with code 2 if the backend or the format does not exist."""
    from graphport.core.diagnostics import DiagnosticError

    params = {param.name: param for param in click.get_current_context().command.params}
    try:
        backends = options.get("backends", [options.get("backend", "auto")])
        if backends != ["auto"]:
            from graphport.backends import check_name

            for backend in backends:
                check_name(backend)
        if options.get("format") is not None and not isinstance(params["format"].type, click.Choice):
            from graphport import formats

            formats.called(options["format"])
    except DiagnosticError as error:
        refuse_usage(error.diagnostics, options)


def refuse_usage(findings: list[Diagnostic], options: Mapping[str, Any]) -> NoReturn:
    """Print findings on the arguments of a command, and exit with code 2."""
    _refuse(findings, options, code=2)


def _refuse(findings: list[Diagnostic], options: Mapping[str, Any], *, code: int = 1) -> NoReturn:
    if options.get("as_json_"):
        print_json({"valid": False, "diagnostics": [as_json(finding) for finding in findings]})
    else:
        print_findings(findings, str(options.get("color", "auto")))
    raise click.exceptions.Exit(exit_code(code))


def import_function(name: str) -> Any:
    """Import the function `MODULE:FUNCTION`; the current folder is searched too."""
    from importlib import import_module

    from graphport.core.diagnostics import Diagnostic, DiagnosticError

    module, colon, function = name.partition(":")
    sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), function) if colon and module and function else None
    except (ImportError, AttributeError) as error:
        raise DiagnosticError(
            Diagnostic("QUANT0026", f"unknown metric {name!r}: {error}", None, "pass it as MODULE:FUNCTION")
        ) from error
    finally:
        sys.path.remove("")
    if not callable(found):
        raise DiagnosticError(
            Diagnostic("QUANT0026", f"{name!r} is not a function", None, "pass it as MODULE:FUNCTION")
        )
    return found
