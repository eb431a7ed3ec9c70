"""`graphport edit`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.click_types import ParamType
from graphport.cli.options import (
    FILE,
    MODEL,
    ShapeOption,
    Verb,
    answered,
    extract_package_options,
    extract_writer_options,
    format_option,
    input_bindings,
    print_findings,
    print_json,
    reading_options,
    writer_options,
)
from graphport.cli.render import as_json, shown
from graphport.cli.shapes import fact_as_json
from graphport.cli.verification import print_verification, verification, verification_options, write_proof

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from graphport.api.edit import EditReport
    from graphport.passes.preprocess import Preprocess

_LAYOUTS = ("nhwc", "nchw")


class _Pair(ParamType):
    """`LEFT=RIGHT`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split into both sides."""
        left, equals, right = str(value).partition("=")
        if not equals or not left or not right:
            self.fail(f"{value!r} is not {self.name}", param, ctx)
        return left, right


@click.command(cls=Verb, name="edit")
@click.argument("model", type=MODEL)
@click.argument("dst", type=FILE)
@click.option("--rename", multiple=True, type=_Pair("OLD=NEW"), help="Rename a value or node. Repeatable.")
@click.option("--batch", metavar="N|NAME", help="Batch size of all inputs, or a name for a dynamic one.")
@click.option(
    "--open", "opened", multiple=True, type=ShapeOption(), help="Make axes of an input dynamic: x=N or x=N,3,H,W."
)
@click.option("--set-shape", multiple=True, type=ShapeOption(), help="Shape of an input: x=8x3x224x224. Repeatable.")
@click.option(
    "--add-output", multiple=True, metavar="NAME", help="Add a value or the results of a node to the outputs."
)
@click.option(
    "--remove-output", multiple=True, metavar="NAME", help="Remove an output and the nodes that only it needs."
)
@click.option("--set-attribute", multiple=True, type=_Pair("NODE.ATTRIBUTE=VALUE"), help="Value of an attribute.")
@click.option(
    "--replace-weight", multiple=True, type=_Pair("NAME=FILE.npy"), help="Replace the elements of a constant."
)
@click.option(
    "--preprocess",
    multiple=True,
    metavar="STEPS",
    help='Preprocessing of an input: any of "u8 nhwc bgr resize=HxW scale=X mean=A,B,C std=A,B,C input=NAME".',
)
@click.option(
    "--postprocess",
    multiple=True,
    metavar="[NAME=]STEP",
    help="Append a step to an output: softmax, sigmoid, argmax or topk=K, along the last axis.",
)
@click.option(
    "--set-type",
    multiple=True,
    type=_Pair("NAME=TYPE"),
    help="Element type of an input or output, with a Cast: ids=int32. Repeatable.",
)
@click.option(
    "--metadata",
    multiple=True,
    type=_Pair("KEY=VALUE"),
    help="Metadata of an ONNX or TFLite file. Repeatable.",
)
@click.option("--inference", is_flag=True, help="End the training mode of BatchNormalization and Dropout.")
@click.option("--layout", multiple=True, metavar="[NAME=]nhwc|nchw", help="Layout of four-axis inputs and outputs.")
@format_option
@verification_options
@reading_options
@writer_options
@answered
def verb(
    model: Path,
    dst: Path,
    rename: tuple[tuple[str, str], ...],
    batch: str | None,
    opened: Any,
    set_shape: Any,
    add_output: tuple[str, ...],
    remove_output: tuple[str, ...],
    set_attribute: tuple[tuple[str, str], ...],
    replace_weight: tuple[tuple[str, str], ...],
    preprocess: tuple[str, ...],
    postprocess: tuple[str, ...],
    set_type: tuple[tuple[str, str], ...],
    metadata: tuple[tuple[str, str], ...],
    inference: bool,
    layout: tuple[str, ...],
    format: str | None,
    proof: Path | None,
    shapes: Any,
    edition: str | None,
    color: str,
    as_json_: bool,
    **options: Any,
) -> None:
    """Edit a model, write it, and prove the result where possible.

    Names are those before the edit. If the edit keeps the semantics, the file is compared with the source; samples of a
    new batch size are compared with single runs; other edits are compared with the edited model in memory. Exit code 1
    if the result is refuted or a name is unknown.

    \b
    Examples:
      graphport edit net.onnx other.onnx --rename x=image --rename y=scores
      graphport edit net.onnx batched.onnx --batch N
      graphport edit net.onnx inner.onnx --add-output relu1
      graphport edit net.onnx mobile.onnx --set-type ids=int32 --postprocess scores=topk=5
      graphport edit net.onnx camera.onnx --preprocess "u8 nhwc mean=127.5 std=127.5"
    """
    from graphport.api.edit import Edit, edit_file
    from graphport.api.proven_write import Checking

    changes = Edit(
        rename=dict(rename),
        batch=int(batch) if batch is not None and batch.isascii() and batch.isdecimal() else batch,
        shapes=dict([*opened, *set_shape]),
        add_outputs=add_output,
        remove_outputs=remove_output,
        attributes={_attribute(name): _value(text) for name, text in set_attribute},
        weights={name: _array(path) for name, path in replace_weight},
        preprocess=dict(map(_steps, preprocess)),
        layout=dict(map(_layout, layout)),
        types=dict(set_type),
        postprocess=dict(map(_step, postprocess)),
        metadata=dict(metadata),
        inference=inference,
    )
    asked = {"shapes": input_bindings(shapes), "edition": edition, **extract_package_options(options)}
    checked = Checking(**verification(options))
    writer = extract_writer_options(options, dst, format)
    report = edit_file(model, dst, changes, format=format, checking=checked, **asked, **writer)
    write_proof(report.proof, proof, model, report.written, **asked)
    if as_json_:
        print_json(_document(report, model, dst))
    else:
        _tell(report, dst, color)
    raise click.exceptions.Exit(0 if report.passed else 1)


def _step(text: str) -> tuple[str, str]:
    """Split `[NAME=]STEP`, where the step may be `topk=K`."""
    name, equals, step = text.partition("=")
    return ("", text) if not equals or name == "topk" else (name, step)


def _attribute(text: str) -> tuple[str, str]:
    node, dot, name = text.rpartition(".")
    if not dot or not node or not name:
        message = f"--set-attribute: {text!r} is not NODE.ATTRIBUTE"
        raise click.UsageError(message)
    return node, name


def _value(text: str) -> Any:
    """Parse a number, a list of numbers (`1,1` or `[1, 1]`), `true` or `false`, or else a string."""
    for literal in (text, f"[{text}]" if "," in text else text):
        try:
            return json.loads(literal)
        except (ValueError, RecursionError):
            continue
    return text


def _array(path: str) -> Any:
    import numpy as np

    from graphport.core.corrupt_files import CORRUPT
    from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
    from graphport.core.regular_files import open_regular

    with open_regular(path) as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except CORRUPT as error:
            message = f"{path} is no .npy of a plain array: {error or type(error).__name__}"
            raise DiagnosticError(Diagnostic("IO0005", message, Span(Source(path)), "write it by np.save")) from error


def _layout(text: str) -> tuple[str, str]:
    name, _, layout = text.rpartition("=")
    if layout not in _LAYOUTS:
        message = f"--layout: {layout!r} is neither nhwc nor nchw"
        raise click.UsageError(message)
    return name, layout


def _steps(text: str) -> tuple[str, Preprocess]:
    """Parse the name of the input (empty: the first input) and the preprocessing steps."""
    from graphport.core.dims import parse_dim
    from graphport.passes.preprocess import Preprocess

    words = text.replace(";", " ").split()
    given = {word.partition("=")[0]: word.partition("=")[2] for word in words}
    unknown = given.keys() - {"u8", "nhwc", "nchw", "bgr", "rgb", "resize", "scale", "mean", "std", "input"}
    if unknown:
        message = f"--preprocess: there is no step {' or '.join(sorted(unknown))}"
        raise click.UsageError(message)
    try:
        size = [
            int(each) if each.isdecimal() else parse_dim(each) for each in given.get("resize", "").split("x") if each
        ]
        steps = Preprocess(
            is_u8="u8" in given,
            is_nhwc="nhwc" in given,
            size=(size[0], size[1]) if size else None,
            is_reversed=bool({"bgr", "rgb"} & given.keys()),
            scale=float(given["scale"]) if "scale" in given else None,
            mean=_parse_numbers(given.get("mean", "")),
            std=_parse_numbers(given.get("std", "")),
        )
    except (ValueError, IndexError) as error:
        message = f"--preprocess: invalid number in {text!r}: {error}"
        raise click.UsageError(message) from error
    return given.get("input", ""), steps


def _parse_numbers(text: str) -> tuple[float, ...]:
    return tuple(float(each) for each in text.split(",") if each)


def _document(report: EditReport, source: Path, target: Path) -> dict[str, Any]:
    return {
        "source": str(source),
        "target": str(target),
        "inputs": {name: fact_as_json(value.fact) for name, value in report.model.inputs.items()},
        "outputs": {name: fact_as_json(value.fact) for name, value in report.model.outputs.items()},
        "against": report.against,
        "verdict": str(report.verdict),
        "verify": None if report.proof is None else report.proof.as_json(),
        "skipped": report.skipped,
        "written": report.written,
        "diagnostics": [as_json(finding) for finding in report.findings],
    }


def _tell(report: EditReport, target: Path, color: str) -> None:
    print_findings(report.findings, color)
    for what, values in (("inputs", report.model.inputs), ("outputs", report.model.outputs)):
        click.echo(f"{what}: {shown(_listed(f'{name} {value.fact}' for name, value in values.items()))}")
    if report.written is not None:
        click.echo(f"written to {shown(report.written)}")
    print_verification(report.proof, report.skipped, str(target) if report.written is None else None)


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts) or "none"
