"""Seeds and verbs of the editor (language server requests on a text) and of the options of the command line."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    from pathlib import Path

Verb = tuple[str, Callable[[], object]]
EDITOR, OPTIONS = "editor", "options"
TEXTS = (".nnef", ".param", ".prototxt", ".xml")
"""Suffixes of files that the language server supports."""
_PLACES = 3
"""Number of text positions at which each request is made."""
_VALUES = {
    "edit --rename": ("image=x", "conv1=c", "a=b=c"),
    "edit --batch": ("4", "N"),
    "edit --open": ("image=N", "image=N,1,8,8"),
    "edit --set-shape": ("image=8x1x8x8", "image=Nx1xHxW"),
    "edit --add-output": ("hidden", "conv1"),
    "edit --remove-output": ("scores",),
    "edit --set-attribute": ("conv1.strides=[2, 2]", "conv1.auto_pad=SAME_UPPER", "relu.alpha=0.5"),
    "edit --preprocess": (
        "u8 nhwc mean=127.5 std=127.5",
        "bgr resize=16x16 scale=2 mean=1,2,3 std=1,2,3 input=image",
    ),
    "edit --layout": ("nhwc", "image=nchw"),
    "edit --opset": ("13", "21"),
    "cut --from": ("hidden", "image"),
    "cut --to": ("hidden", "scores,hidden"),
    "cut --input": ("image=1x1x8x8", "image=int64:2x1x8x8"),
    "merge --connect": ("a.scores=b.image", "a.image=b.scores"),
    "shapes --input": ("image=Nx1x8x8", "image=3..7x1x8x8", "image=0.."),
    "explain": ("NNEF0302", "Conv", "fuse-batchnorm", "ncnn"),
    "ops": ("Conv", "nn.Conv2d", "aten.addmm.default"),
    "report --input": ("image=2x1x8x8",),
    "convert --ir-opset": ("8", "16"),
    "simplify --only": ("fold-constants", "fuse-batchnorm"),
}


def values() -> list[bytes]:
    """Return the seeds: files with a verb, an option and its value."""
    return [f"{option}\n{value}".encode() for option, given in _VALUES.items() for value in given]


def verbs_of_options(path: Path, out: Path, model: Path) -> Iterator[Verb]:
    """Yield the command of the file at `path`; options outside `_VALUES` are skipped: they may write other paths."""
    option, _, value = path.read_bytes().partition(b"\n")
    # Decoded like the arguments of a process, which contain no NUL.
    given = value.replace(b"\0", b"").decode("utf-8", "surrogateescape")
    if option.decode("latin-1") in _VALUES:
        verb, *rest = option.decode().split()
        yield verb, partial(_called, [*_arguments(verb, str(model), str(out / "m.onnx")), *rest, given])


def _arguments(verb: str, model: str, target: str) -> list[str]:
    match verb:
        case "edit" | "cut" | "simplify" | "convert":
            return [verb, model, target, "--no-verify"]
        case "merge":
            return [verb, model, model, target, "--no-verify"]
        case "shapes" | "report":
            return [verb, model]
        case _:
            return [verb]


def _called(arguments: list[str]) -> int:
    """Run a command. Return its exit code.

    Raises:
        LookupError: the exit code reports an internal error.
    """
    import click

    from graphport.cli.main import cli

    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        try:
            code = cli.main(arguments, standalone_mode=False)
        except click.ClickException:
            return 2
        except SystemExit as error:
            code = error.code
    if code not in (0, 1, 2, None):
        message = f"exit code {code}"
        raise LookupError(message)
    return int(code or 0)


def _rename(asked: Any, params: Any) -> None:
    """Send a rename request; an error response with code RequestFailed is accepted."""
    from lsprotocol.types import LSPErrorCodes
    from pygls.exceptions import JsonRpcException

    from graphport.lsp import server

    try:
        server._rename(asked, params)
    except JsonRpcException as error:
        if error.code != LSPErrorCodes.RequestFailed:
            raise


def verbs_of_editor(path: Path) -> Iterator[Verb]:
    """Yield each request of the language server on the text at `path`, at positions inside and outside of it."""
    from lsprotocol import types
    from pygls.workspace import Workspace

    from graphport.lsp import server
    from graphport.lsp.diagnostics import analyse, to_lsp_diagnostic

    data = path.read_bytes()
    source = data.decode("utf-8", "surrogateescape")
    chance = random.Random(crc32(data))  # noqa: S311  positions must be reproducible
    text = server.OpenDocument(path.as_uri())
    asked: Any = SimpleNamespace(texts={text.uri: text}, workspace=Workspace(None))
    yield "words", lambda: text.update(source, 1)
    if text.format is None:
        return
    yield "model", lambda: setattr(text, "analysis", analyse(source, text.path, 1, text.format or "nnef"))
    detail: list[types.Diagnostic] = []
    yield "findings", lambda: detail.extend(to_lsp_diagnostic(each, text.lines) for each in text.analysis.findings)
    this = types.TextDocumentIdentifier(text.uri)
    whole = types.Range(types.Position(0, 0), types.Position(len(text.lines) + 1, 0))
    for name, answer, given in (
        ("tokens", server._semantic_tokens, types.SemanticTokensParams(this)),
        ("tokens of lines", server._semantic_tokens, types.SemanticTokensRangeParams(this, whole)),
        ("hints", server._inlay_hints, types.InlayHintParams(this, whole)),
        ("outline", server._document_symbols, types.DocumentSymbolParams(this)),
        (
            "format",
            server._format,
            types.DocumentFormattingParams(this, types.FormattingOptions(tab_size=4, insert_spaces=True)),
        ),
        ("actions", server._code_actions, types.CodeActionParams(this, whole, types.CodeActionContext(detail))),
    ):
        yield name, partial(answer, asked, given)
    for _ in range(_PLACES):
        line = chance.randrange(len(text.lines) + 1)
        token_at = types.Position(line, chance.randrange(len([*text.lines, ""][line]) + 3))
        context = types.ReferenceContext(include_declaration=chance.random() < 0.5)
        for name, answer, given in (
            ("hover", server._hover, types.HoverParams(this, token_at)),
            ("definition", server._definition, types.DefinitionParams(this, token_at)),
            ("references", server._references, types.ReferenceParams(context, this, token_at)),
            ("highlight", server._highlight, types.DocumentHighlightParams(this, token_at)),
            ("prepare rename", server._prepare_rename, types.PrepareRenameParams(this, token_at)),
            ("rename", _rename, types.RenameParams(this, token_at, "other")),
            ("complete", server._complete, types.CompletionParams(this, token_at)),
        ):
            yield name, partial(answer, asked, given)
