"""The language server over its protocol, with the client library pygls."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from graphport.formats import nnef
from graphport.lsp.nnef_completion import list_completions

# The client's pygls calls an asyncio function that Python 3.14 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning")

TEXT = """version 1.0;
extension KHR_enable_fragment_definitions, KHR_enable_operator_expressions;

fragment twice(a: tensor<scalar>) -> (b: tensor<scalar>)
{
    b = a + a;
}

graph net(x) -> (y)
{
    x = external(shape = [1, 3, 8, 8]);
    w = variable(shape = [4, 3, 3, 3], label = 'w');
    h = conv(x, w, 0.0, padding = [(1, 1), (1, 1)]);  # a comment
    y = relu(h);
}
"""
STANDARD = (Path(nnef.__file__).parent / "container" / "stdlib.nnef").read_text().splitlines()
COMMAND = (sys.executable, "-c", "from graphport.cli import main; main()", "lsp")


@asynccontextmanager
async def editor(path: Path, text: str):
    """Yield an editor with an open `text`, and its last diagnostics by version."""
    client = LanguageClient("test", "1")
    told: dict[int | None, list[types.Diagnostic]] = {}

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def published(params: types.PublishDiagnosticsParams) -> None:
        told[params.version] = list(params.diagnostics)

    await client.start_io(*COMMAND)
    try:
        await client.initialize_async(types.InitializeParams(types.ClientCapabilities(), root_uri=path.parent.as_uri()))
        client.initialized(types.InitializedParams())
        item = types.TextDocumentItem(path.as_uri(), "nnef", 1, text)
        client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        yield client, told
    finally:
        await asyncio.wait_for(client.shutdown_async(None), 30)
        client.exit(None)
        await client.stop()


async def findings(told, version: int):
    for _ in range(600):
        if version in told:
            return told[version]
        await asyncio.sleep(0.05)
    raise TimeoutError


def change(client, uri: str, version: int, line: int, column: int, text: str, removed: int = 0) -> None:
    token_at = types.Range(types.Position(line, column), types.Position(line, column + removed))
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(version, uri),
            [types.TextDocumentContentChangePartial(range=token_at, text=text)],
        )
    )


def at(text: str, words: str) -> types.Position:
    """Return the position of `words` in a text."""
    before = text[: text.index(words)]
    return types.Position(before.count("\n"), len(before) - before.rfind("\n") - 1)


async def whole_session(path: Path) -> None:
    uri = path.as_uri()
    document = types.TextDocumentIdentifier(uri)
    async with editor(path, TEXT) as (client, told):
        assert [f for f in await findings(told, 1) if f.severity is types.DiagnosticSeverity.Error] == []

        async def hover(words: str, over: int = 0) -> str:
            token_at = at(TEXT, words)
            token_at.character += over
            found = await client.text_document_hover_async(types.HoverParams(document, token_at))
            return found.contents.value if found else ""

        assert "float32[1, 4, 8, 8]" in await hover("h = conv")
        said = await hover("conv(x")
        assert "padding: (integer,integer)[]" in said.replace(", ", ",")
        assert "Cross-correlation" in said
        assert "`padding" in await hover("padding = ")

        # Definitions: a value, and a standard operation in the text that declares it.
        token_at = await client.text_document_definition_async(types.DefinitionParams(document, at(TEXT, "h);")))
        assert (token_at.uri, token_at.range.start) == (uri, at(TEXT, "h = conv"))
        token_at = await client.text_document_definition_async(types.DefinitionParams(document, at(TEXT, "conv(x")))
        assert token_at.uri.endswith("stdlib.nnef")
        assert (STANDARD[token_at.range.start.line] + " ").startswith(("fragment conv(", "fragment conv<"))

        uses = await client.text_document_references_async(
            types.ReferenceParams(types.ReferenceContext(True), document, at(TEXT, "h = conv"))
        )
        assert [use.range.start.line for use in uses] == [12, 13]
        edit = await client.text_document_rename_async(types.RenameParams(document, at(TEXT, "h = conv"), "hidden"))
        assert len(edit.changes[uri]) == 2
        # The `a` of the fragment is another name than one of the graph would be.
        uses = await client.text_document_references_async(
            types.ReferenceParams(types.ReferenceContext(False), document, at(TEXT, "a: tensor"))
        )
        assert [use.range.start.line for use in uses] == [5, 5]

        inside = types.Position(at(TEXT, "padding = ").line, at(TEXT, "padding = ").character)
        items = await client.text_document_completion_async(types.CompletionParams(document, inside))
        assert isinstance(items, types.CompletionList)
        labels = [item.label for item in items.items]
        assert labels.index("dilation") < labels.index("x") < labels.index("twice") < labels.index("max_pool")
        pool = next(item for item in items.items if item.label == "max_pool")
        assert "max_pool" in (await client.completion_item_resolve_async(pool)).documentation.value

        tokens = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(document))
        assert len(tokens.data) % 5 == 0
        assert list(tokens.data[:5]) == [0, 0, 7, 0, 0]  # `version`, a keyword
        everything = types.Range(types.Position(0, 0), types.Position(20, 0))
        hints = await client.text_document_inlay_hint_async(types.InlayHintParams(document, everything))
        assert ": float32[4, 3, 3, 3]" in [hint.label for hint in hints]
        symbols = await client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
        assert [symbol.name for symbol in symbols] == ["twice", "net"]

        # A mistake while typing, its remedy, and the layout when it is mended.
        change(client, uri, 2, at(TEXT, "relu").line, at(TEXT, "relu").character, "rellu", removed=4)
        (mistake,) = await findings(told, 2)
        assert mistake.range.start == at(TEXT, "relu")
        actions = await client.text_document_code_action_async(
            types.CodeActionParams(document, mistake.range, types.CodeActionContext([mistake]))
        )
        assert [action.edit.changes[uri][0].new_text for action in actions] == ["relu"]
        change(client, uri, 3, at(TEXT, "relu").line, at(TEXT, "relu").character, "relu  ", removed=5)
        assert [f for f in await findings(told, 3) if f.severity is types.DiagnosticSeverity.Error] == []
        edits = await client.text_document_formatting_async(
            types.DocumentFormattingParams(document, types.FormattingOptions(4, True))
        )
        assert "relu(h)" in edits[0].new_text


def test_an_editor_session(tmp_path):
    asyncio.run(whole_session(tmp_path / "net.nnef"))


PARAM = "7767517\n3 3\nInput x 0 1 x 0=8 1=8 2=3\nReLU act 1 1 x h\nPooling pool 1 1 h y 0=0 1=2 2=2\n"
PNNX = "7767517\n2 1\npnnx.Input in 0 1 x #x=(1,3)f32\nF.relu act 1 1 x y $input=x\n"
PROTOTXT = """name: "net"
input: "data"
input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }
layer {
  name: "act"
  type: "ReLU"
  bottom: "data"
  top: "y"
}
"""


async def layers_session(path: Path, text: str, op_type: str, operator: str, broken: tuple[str, str]) -> None:
    uri = path.as_uri()
    document = types.TextDocumentIdentifier(uri)
    async with editor(path, text) as (client, told):
        await findings(told, 1)
        found = await client.text_document_hover_async(types.HoverParams(document, at(text, op_type)))
        assert operator in found.contents.value
        symbols = await client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
        assert "act" in {symbol.name for symbol in symbols}
        right, wrong = broken
        token_at = at(text, right)
        change(client, uri, 2, token_at.line, token_at.character, wrong, removed=len(right))
        assert any(f.severity is types.DiagnosticSeverity.Error for f in await findings(told, 2))


@pytest.mark.parametrize(
    ("name", "text", "op_type", "operator", "broken"),
    [
        pytest.param("net.param", PARAM, "ReLU", "Relu", ("1 1 x h", "1 4 x h"), id="ncnn"),
        pytest.param("net.pnnx.param", PNNX, "F.relu", "Relu", ("1 1 x y", "1 4 x y"), id="pnnx"),
        pytest.param("net.prototxt", PROTOTXT, "ReLU", "Relu", ("bottom:", "bottom {{"), id="caffe"),
    ],
)
def test_lists_of_layers(tmp_path, name, text, op_type, operator, broken):
    asyncio.run(layers_session(tmp_path / name, text, op_type, operator, broken))


def large(count: int) -> str:
    lines = ["version 1.0;", "", "graph large(x) -> (y)", "{", "    x = external(shape = [1, 8, 16, 16]);"]
    before = "x"
    for number in range(count):
        lines.append(f"    h{number} = conv({before}, 1.0, 0.0, padding = [(1, 1), (1, 1)]);")
        before = f"h{number}"
    return "\n".join([*lines, f"    y = relu({before});", "}", ""])


def test_keystroke_in_5000_lines_takes_less_than_100_ms(tmp_path):
    from pygls.workspace import TextDocument

    from graphport.lsp.nnef_tokens import TokenKind
    from graphport.lsp.server import OpenDocument

    uri = (tmp_path / "large.nnef").as_uri()
    document, text = TextDocument(uri, large(5000), 1), OpenDocument(uri)
    text.update(document.source, 1)
    spent: list[float] = []
    for number in range(9):
        start = time.process_time()
        token_at = types.Range(types.Position(1000 + number, 4), types.Position(1000 + number, 4))
        document.apply_change(types.TextDocumentContentChangePartial(range=token_at, text="z"))
        text.update(document.source, 2 + number)
        names = list_completions(text.tokens, 1000 + number, 4)
        spent.append(time.process_time() - start)
        assert f"zh{995 + number}" in [name for name, kind, _ in names if kind is TokenKind.VALUE]
    assert sorted(spent)[4] < 0.1
