"""The language server: what an editor asks, answered from the words of a text and from what was found out of it.

Words are read at once with every keystroke, and only where the text has changed; so is the statement that is being
typed, by itself. Reading the text as a model takes longer and is done beside, when nobody has typed for a moment; the
last answer stays until there is a better one.
"""

from __future__ import annotations

import re
import sys
import threading
from copy import copy
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from graphport.core.diagnostics import DiagnosticError, Source
from graphport.core.version import __version__
from graphport.lsp import layers, nnef, statement
from graphport.lsp.findings import Analysis, analysed, as_lsp, meant, missing
from graphport.lsp.positions import column, range_of, units
from graphport.lsp.words import Kind, Words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphport.lsp.words import Place

IDLE = 0.03
"""Seconds without a keystroke after which a text is read as a model."""
_SWITCH = 0.001  # a keystroke does not wait for the reading that goes on beside it
_MOST_COMPLETIONS = 200
_BEGUN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
_LEGEND = [kind.value for kind in Kind]
_COMPLETIONS = {
    Kind.KEYWORD: types.CompletionItemKind.Keyword,
    Kind.TYPE: types.CompletionItemKind.TypeParameter,
    Kind.OPERATION: types.CompletionItemKind.Function,
    Kind.PARAMETER: types.CompletionItemKind.Property,
    Kind.VALUE: types.CompletionItemKind.Variable,
}


class Text:
    """A text that is open in the editor."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.path = unquote(urlparse(uri).path)
        self.format: str | None = None
        self.version: int | None = None
        self.lines: list[str] = []
        self.words = Words()
        self.analysis = Analysis()
        self.published: list[types.Diagnostic] = []
        self.timer: threading.Timer | None = None

    def update(self, source: str, version: int | None) -> None:
        """Take another version of the text."""
        self.version = version
        self.lines = source.split("\n")
        self.format = layers.format_of(self.path, source)
        if self.format == "nnef":
            self.words.update(self.lines)

    def reread(self, before: Sequence[str]) -> bool:
        """Read the statements that differ from the lines before; whether that could be done without the whole text.

        What was told of other lines stays, where these stand now.
        """
        if self.format != "nnef" or not self.analysis.facts:
            return False
        first, stop_before, stop = statement.changed(before, self.lines)
        place = statement.bounds(self.words, first, stop)
        found = None if place is None else statement.read(self.words, *place, self.analysis.facts)
        if found is None:
            return False
        moved = stop - stop_before
        self.published = [
            *(_moved(each, moved if each.range.start.line >= stop_before else 0) for each in self.published
              if not found.first <= each.range.start.line <= found.last - moved),
            *self._own(found),
        ]  # fmt: skip
        self.analysis = Analysis(self.analysis.version, self.analysis.findings, {**self.analysis.facts, **found.facts})
        return True

    def _own(self, found: statement.Statements) -> Iterator[types.Diagnostic]:
        """Findings of statements where they stand in the text; what is found behind the last one is told at its end."""
        lines, down = found.text.split("\n"), found.first - found.above
        end = types.Position(found.last, units(self.lines[found.last], len(self.lines[found.last])))
        for finding in found.findings:
            stated = _moved(as_lsp(finding, lines), down)
            if stated.range.start.line > found.last:
                stated.range = types.Range(end, end)
            yield stated

    def place(self, position: types.Position) -> Place | None:
        """The word at a position."""
        if self.format != "nnef" or position.line >= len(self.lines):
            return None
        return self.words.at(position.line, column(self.lines[position.line], position.character))

    def location(self, place: Place) -> types.Location:
        """A word as an editor finds it."""
        return types.Location(self.uri, range_of(self.lines, place.line, place.word.start, place.word.stop))


class Server(LanguageServer):
    """The server, and the texts that are open."""

    def __init__(self) -> None:
        super().__init__("graphport", __version__)  # pyright: ignore[reportUnknownMemberType]
        self.texts: dict[str, Text] = {}
        self.reading = threading.Lock()  # one text at a time: versions that are typed meanwhile are left out

    def take(self, uri: str) -> None:
        """Take the present version of a text, and read it as a model when nobody types any more."""
        document = self.workspace.get_text_document(uri)
        text = self.texts.setdefault(uri, Text(uri))
        before = text.lines
        text.update(document.source, document.version)
        if text.timer is not None:
            text.timer.cancel()
        if before and text.reread(before):
            self._tell(text, document.version)
        text.timer = threading.Timer(IDLE, self._analyse, (text, document.source, document.version))
        text.timer.daemon = True
        text.timer.start()

    def _analyse(self, text: Text, source: str, version: int | None) -> None:
        with self.reading:
            if text.format is None or text.version != version:
                return
            try:
                found = analysed(source, text.path, version, text.format)
            except DiagnosticError as error:
                found = Analysis(version, error.diagnostics)
        if text.version != version:
            return
        # A text that cannot be read keeps the shapes that it had.
        text.analysis = found if found.facts else Analysis(version, found.findings, text.analysis.facts)
        text.published = [as_lsp(finding, text.lines) for finding in found.findings]
        self._tell(text, version)

    def _tell(self, text: Text, version: int | None) -> None:
        """Tell the editor what is known of a version of a text."""
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(text.uri, text.published, version))
        capabilities = self.client_capabilities.workspace
        if capabilities is not None and capabilities.inlay_hint and capabilities.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)


def _moved(finding: types.Diagnostic, down: int) -> types.Diagnostic:
    """A finding so many lines further down."""
    if not down:
        return finding
    start, end = finding.range.start, finding.range.end
    place = types.Range(
        types.Position(start.line + down, start.character), types.Position(end.line + down, end.character)
    )
    moved = copy(finding)
    moved.range = place
    return moved


def make() -> Server:
    """A server that answers everything below; `start_io` lets it speak."""
    server = Server()
    for name, answer in _ANSWERS.items():
        server.feature(name)(answer)
    server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=["(", ",", "="]))(
        _complete
    )
    server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))(_rename)
    legend = types.SemanticTokensLegend(_LEGEND, ["declaration"])
    server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, legend)(_tokens)
    server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, legend)(_tokens)
    return server


def main() -> None:
    """Serve an editor over standard input and output."""
    sys.setswitchinterval(_SWITCH)
    make().start_io()


def _opened(server: Server, params: types.DidOpenTextDocumentParams) -> None:
    server.take(params.text_document.uri)


def _changed(server: Server, params: types.DidChangeTextDocumentParams) -> None:
    server.take(params.text_document.uri)


def _saved(server: Server, params: types.DidSaveTextDocumentParams) -> None:
    server.take(params.text_document.uri)


def _closed(server: Server, params: types.DidCloseTextDocumentParams) -> None:
    text = server.texts.pop(params.text_document.uri, None)
    if text is not None and text.timer is not None:
        text.timer.cancel()
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))


def _hover(server: Server, params: types.HoverParams) -> types.Hover | None:
    text = server.texts[params.text_document.uri]
    place = text.place(params.position)
    if place is not None:
        stated = nnef.hover(place, text.words, text.analysis.facts)
    elif text.format in layers.FORMATS:
        stated = layers.hover(text.lines, text.format, params.position.line, _run(text, params.position))
    else:
        stated = None
    return None if stated is None else types.Hover(types.MarkupContent(types.MarkupKind.Markdown, stated))


def _run(text: Text, position: types.Position) -> str:
    """The run of characters at a position that are neither blanks nor quotes."""
    line = text.lines[position.line] if position.line < len(text.lines) else ""
    at = column(line, position.character)
    start, stop = at, at
    while start > 0 and line[start - 1] not in " \t\"':":
        start -= 1
    while stop < len(line) and line[stop] not in " \t\"'\r":
        stop += 1
    return line[start:stop]


def _definition(server: Server, params: types.DefinitionParams) -> types.Location | None:
    text = server.texts[params.text_document.uri]
    place = text.place(params.position)
    if place is None:
        return None
    declared = text.words.declaration(place)
    if declared is not None:
        return text.location(declared)
    home = nnef.home(place.word.text) if place.word.kind is Kind.OPERATION else None
    if home is None:
        return None
    path, line, start = home
    stop = start + len(place.word.text)
    return types.Location(path.as_uri(), types.Range(types.Position(line, start), types.Position(line, stop)))


def _references(server: Server, params: types.ReferenceParams) -> list[types.Location]:
    text = server.texts[params.text_document.uri]
    place = text.place(params.position)
    if place is None:
        return []
    found = text.words.alike(place)
    wanted = params.context.include_declaration
    return [text.location(each) for each in found if wanted or not each.word.declares]


def _highlight(server: Server, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
    text = server.texts[params.text_document.uri]
    place = text.place(params.position)
    return [] if place is None else [types.DocumentHighlight(text.location(p).range) for p in text.words.alike(place)]


def _can_rename(server: Server, params: types.PrepareRenameParams) -> types.Range | None:
    text = server.texts[params.text_document.uri]
    place = text.place(params.position)
    if place is None or place.word.kind not in (Kind.VALUE, Kind.OPERATION) or not text.words.declaration(place):
        return None
    return text.location(place).range


def _rename(server: Server, params: types.RenameParams) -> types.WorkspaceEdit | None:
    text = server.texts[params.text_document.uri]
    place = text.place(params.position)
    if place is None or not params.new_name.isidentifier() or not params.new_name.isascii():
        return None
    edits = [types.TextEdit(text.location(each).range, params.new_name) for each in text.words.alike(place)]
    return types.WorkspaceEdit({text.uri: edits})


def _complete(server: Server, params: types.CompletionParams) -> types.CompletionList:
    text = server.texts[params.text_document.uri]
    if text.format != "nnef" or params.position.line >= len(text.lines):
        return types.CompletionList(is_incomplete=False, items=[])
    at = column(text.lines[params.position.line], params.position.character)
    begun = _BEGUN.search(text.lines[params.position.line][:at])
    letters = begun[0].lower() if begun is not None else ""
    known = nnef.completions(text.words, params.position.line, at - len(letters))
    fitting = [each for each in known if letters in each[0].lower()]
    items = [
        types.CompletionItem(
            name,
            kind=_COMPLETIONS[kind],
            detail=stated or text.analysis.facts.get(name) if kind is Kind.VALUE else stated or None,
            insert_text=f"{name} = " if kind is Kind.PARAMETER else None,
            sort_text=f"{order:05d}",
        )
        for order, (name, kind, stated) in enumerate(fitting[:_MOST_COMPLETIONS])
    ]
    return types.CompletionList(is_incomplete=len(fitting) > len(items), items=items)


def _resolve(server: Server, item: types.CompletionItem) -> types.CompletionItem:
    if item.kind == types.CompletionItemKind.Function:
        stated = nnef.operation(item.label, Words())
        item.documentation = None if stated is None else types.MarkupContent(types.MarkupKind.Markdown, stated)
    del server
    return item


def _format(server: Server, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
    from graphport.formats.nnef.fmt import format_text

    text = server.texts[params.text_document.uri]
    if text.format != "nnef":
        return []
    source = "\n".join(text.lines)
    try:
        laid_out = format_text(Source(text.path, source))
    except DiagnosticError:
        return []
    if laid_out == source:
        return []
    end = types.Position(len(text.lines) - 1, units(text.lines[-1], len(text.lines[-1])))
    return [types.TextEdit(types.Range(types.Position(0, 0), end), laid_out)]


def _actions(server: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    found: list[types.CodeAction] = []
    for finding in params.context.diagnostics:
        text = server.texts[params.text_document.uri]
        place, name, line = text.place(finding.range.start), meant(finding.message), missing(finding.message)
        if name is not None and place is not None:
            title, edit = f"Change {place.word.text} to {name}", types.TextEdit(text.location(place).range, name)
        elif line is not None:
            below = types.Position(text.words.first("version") + 1, 0)
            title, edit = f"Add {line}", types.TextEdit(types.Range(below, below), f"{line}\n")
        else:
            continue
        found.append(
            types.CodeAction(
                title,
                kind=types.CodeActionKind.QuickFix,
                diagnostics=[finding],
                edit=types.WorkspaceEdit({text.uri: [edit]}),
                is_preferred=True,
            )
        )
    return found


def _tokens(
    server: Server, params: types.SemanticTokensParams | types.SemanticTokensRangeParams
) -> types.SemanticTokens:
    text = server.texts[params.text_document.uri]
    lines: Sequence[int] = range(len(text.lines))
    if isinstance(params, types.SemanticTokensRangeParams):
        lines = range(params.range.start.line, min(params.range.end.line + 1, len(text.lines)))
    data: list[int] = []
    last_line, last_start = 0, 0
    for number in lines if text.format == "nnef" else ():
        for word in text.words.of_line(number):
            if word.kind is Kind.SIGN:
                continue
            start = units(text.lines[number], word.start)
            length = units(text.lines[number], word.stop) - start
            data += [
                number - last_line,
                start - (last_start if number == last_line else 0),
                length,
                _LEGEND.index(word.kind),
                int(word.declares),
            ]
            last_line, last_start = number, start
    return types.SemanticTokens(data)


def _hints(server: Server, params: types.InlayHintParams) -> list[types.InlayHint]:
    text = server.texts[params.text_document.uri]
    facts = text.analysis.facts
    found: list[types.InlayHint] = []
    for number in range(params.range.start.line, min(params.range.end.line + 1, len(text.lines))):
        for word in text.words.of_line(number) if text.format == "nnef" else ():
            if word.kind is Kind.VALUE and word.declares and word.text in facts:
                at = types.Position(number, units(text.lines[number], word.stop))
                found.append(types.InlayHint(at, f": {facts[word.text]}", kind=types.InlayHintKind.Type))
    return found


def _outline(server: Server, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    text = server.texts[params.text_document.uri]

    def symbol(name: str, detail: str, kind: types.SymbolKind, first: int, last: int) -> types.DocumentSymbol:
        start, end = types.Position(first, 0), types.Position(last, units(text.lines[last], len(text.lines[last])))
        whole = types.Range(start, end)
        return types.DocumentSymbol(name or detail or "?", kind, whole, whole, detail=detail)

    if text.format in layers.FORMATS:
        found = layers.layers(text.lines, text.format)
        return [symbol(x.name, x.type, types.SymbolKind.Function, x.first, x.last) for x in found]
    return [
        symbol(
            place.word.text,
            text.analysis.facts.get(place.word.text, ""),
            types.SymbolKind.Variable if place.word.kind is Kind.VALUE else types.SymbolKind.Function,
            place.line,
            place.line,
        )
        for place in text.words.declared()
    ]


_ANSWERS: dict[str, Any] = {
    types.TEXT_DOCUMENT_DID_OPEN: _opened,
    types.TEXT_DOCUMENT_DID_CHANGE: _changed,
    types.TEXT_DOCUMENT_DID_SAVE: _saved,
    types.TEXT_DOCUMENT_DID_CLOSE: _closed,
    types.TEXT_DOCUMENT_HOVER: _hover,
    types.TEXT_DOCUMENT_DEFINITION: _definition,
    types.TEXT_DOCUMENT_REFERENCES: _references,
    types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: _highlight,
    types.TEXT_DOCUMENT_PREPARE_RENAME: _can_rename,
    types.COMPLETION_ITEM_RESOLVE: _resolve,
    types.TEXT_DOCUMENT_FORMATTING: _format,
    types.TEXT_DOCUMENT_CODE_ACTION: _actions,
    types.TEXT_DOCUMENT_INLAY_HINT: _hints,
    types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: _outline,
}
