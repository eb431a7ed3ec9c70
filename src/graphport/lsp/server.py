"""Language server (LSP) for model texts.

Each change tokenizes the changed lines and checks the edited statements at once. The complete analysis runs in a
background thread after `IDLE_SECONDS` without changes; the previous results stay in use until it finishes.
"""

from __future__ import annotations

import re
import sys
import threading
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from graphport.core.diagnostics import DiagnosticError, Source
from graphport.core.version import __version__
from graphport.lsp import incremental, layer_lists, nnef_completion, outline
from graphport.lsp.diagnostics import Analysis, analyse, proposed_line, proposed_name, to_lsp_diagnostic
from graphport.lsp.nnef_tokens import TokenIndex, TokenKind
from graphport.lsp.positions import code_point_column, range_of, utf16_length
from graphport.lsp.rename import RenameError, check_name, find_occurrences
from graphport.lsp.signatures import find_signature

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphport.lsp.nnef_tokens import LocatedToken

IDLE_SECONDS = 0.03
"""Delay between the last change and the complete analysis, in seconds."""
SWITCH_INTERVAL_SECONDS = 0.001  # requests must not wait for the background analysis
MAX_COMPLETIONS = 200
_IDENTIFIER_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
_LEGEND = [kind.value for kind in TokenKind]
_COMPLETIONS = {
    TokenKind.KEYWORD: types.CompletionItemKind.Keyword,
    TokenKind.TYPE: types.CompletionItemKind.TypeParameter,
    TokenKind.OPERATION: types.CompletionItemKind.Function,
    TokenKind.PARAMETER: types.CompletionItemKind.Property,
    TokenKind.VALUE: types.CompletionItemKind.Variable,
}


class OpenDocument:
    """A document of the editor."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.path = unquote(urlparse(uri).path)
        self.format: str | None = None
        self.version: int | None = None
        self.lines: list[str] = []
        self.tokens = TokenIndex()
        self.analysis = Analysis()
        self.published: list[types.Diagnostic] = []
        self.timer: threading.Timer | None = None

    def update(self, source: str, version: int | None) -> None:
        """Set the text and version of the document."""
        self.version = version
        self.lines = source.split("\n")
        self.format = layer_lists.detect_format(self.path, source)
        if self.format == "nnef":
            self.tokens.update(self.lines)

    def check_changes(self, before: Sequence[str]) -> bool:
        """Check the statements that differ from `before` and return whether that was possible.

        Diagnostics of other lines move with their lines.
        """
        if self.format != "nnef" or not self.analysis.facts:
            return False
        first, stop_before, stop = incremental.find_changed_lines(before, self.lines)
        token_at = incremental.find_statement_lines(self.tokens, first, stop)
        found = None if token_at is None else incremental.check_statements(self.tokens, *token_at, self.analysis.facts)
        if found is None:
            return False
        moved = stop - stop_before
        self.published = [
            *(_shift_lines(each, moved if each.range.start.line >= stop_before else 0) for each in self.published
              if not found.first <= each.range.start.line <= found.last - moved),
            *self._map_to_document(found),
        ]  # fmt: skip
        self.analysis = Analysis(self.analysis.version, self.analysis.findings, {**self.analysis.facts, **found.facts})
        return True

    def _map_to_document(self, found: incremental.StatementCheck) -> Iterator[types.Diagnostic]:
        """Convert diagnostics of the incremental text to locations in the document.

        A diagnostic after the last statement is located at its end.
        """
        lines, down = found.text.split("\n"), found.first - found.above
        end = types.Position(found.last, utf16_length(self.lines[found.last], len(self.lines[found.last])))
        for finding in found.findings:
            detail = _shift_lines(to_lsp_diagnostic(finding, lines), down)
            if detail.range.start.line > found.last:
                detail.range = types.Range(end, end)
            yield detail

    def token_at(self, position: types.Position) -> LocatedToken | None:
        """Return the token at a position."""
        if self.format != "nnef" or position.line >= len(self.lines):
            return None
        return self.tokens.at(position.line, code_point_column(self.lines[position.line], position.character))

    def location(self, token_at: LocatedToken) -> types.Location:
        """Return the LSP location of a token."""
        return types.Location(self.uri, range_of(self.lines, token_at.line, token_at.token.start, token_at.token.stop))


class Server(LanguageServer):
    """The language server and its open documents."""

    def __init__(self) -> None:
        super().__init__("graphport", __version__)  # pyright: ignore[reportUnknownMemberType]
        self.texts: dict[str, OpenDocument] = {}
        self.reading = threading.Lock()  # one analysis at a time; it skips outdated versions

    def update_document(self, uri: str) -> None:
        """Update a document and schedule its complete analysis."""
        document = self.workspace.get_text_document(uri)
        text = self.texts.setdefault(uri, OpenDocument(uri))
        before = text.lines
        text.update(document.source, document.version)
        if text.timer is not None:
            text.timer.cancel()
        if before and text.check_changes(before):
            self._publish(text, document.version)
        text.timer = threading.Timer(IDLE_SECONDS, self._analyse, (text, document.source, document.version))
        text.timer.daemon = True
        text.timer.start()

    def _analyse(self, text: OpenDocument, source: str, version: int | None) -> None:
        with self.reading:
            if text.format is None or text.version != version:
                return
            try:
                found = analyse(source, text.path, version, text.format)
            except DiagnosticError as error:
                found = Analysis(version, error.diagnostics)
        if text.version != version:
            return
        # Values that depend on an error keep the facts of the last correct version.
        has_errors = any(finding.is_error for finding in found.findings)
        facts = {**text.analysis.facts, **found.facts} if has_errors or not found.facts else found.facts
        text.analysis = Analysis(version, found.findings, facts)
        text.published = [to_lsp_diagnostic(finding, text.lines) for finding in found.findings]
        self._publish(text, version)

    def _publish(self, text: OpenDocument, version: int | None) -> None:
        """Publish the diagnostics of a version and refresh the inlay hints."""
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(text.uri, text.published, version))
        capabilities = self.client_capabilities.workspace
        if capabilities is not None and capabilities.inlay_hint and capabilities.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)


def _shift_lines(finding: types.Diagnostic, down: int) -> types.Diagnostic:
    """Return a diagnostic moved down by `down` lines."""
    if not down:
        return finding
    start, end = finding.range.start, finding.range.end
    token_at = types.Range(
        types.Position(start.line + down, start.character), types.Position(end.line + down, end.character)
    )
    moved = copy(finding)
    moved.range = token_at
    return moved


def make_server() -> Server:
    """Return a server with all handlers registered; `start_io` runs it."""
    server = Server()
    for name, answer in _HANDLERS.items():
        server.feature(name)(answer)
    server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=["(", ",", "="]))(
        _complete
    )
    server.feature(types.TEXT_DOCUMENT_SIGNATURE_HELP, types.SignatureHelpOptions(["(", ","]))(_signature_help)
    server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))(_rename)
    legend = types.SemanticTokensLegend(_LEGEND, ["declaration"])
    server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, legend)(_semantic_tokens)
    server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, legend)(_semantic_tokens)
    return server


def main() -> None:
    """Serve an editor over standard input and output."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    make_server().start_io()


def _did_open(server: Server, params: types.DidOpenTextDocumentParams) -> None:
    server.update_document(params.text_document.uri)


def _did_change(server: Server, params: types.DidChangeTextDocumentParams) -> None:
    server.update_document(params.text_document.uri)


def _did_save(server: Server, params: types.DidSaveTextDocumentParams) -> None:
    server.update_document(params.text_document.uri)


def _did_close(server: Server, params: types.DidCloseTextDocumentParams) -> None:
    text = server.texts.pop(params.text_document.uri, None)
    if text is not None and text.timer is not None:
        text.timer.cancel()
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))


def _hover(server: Server, params: types.HoverParams) -> types.Hover | None:
    text = server.texts[params.text_document.uri]
    token_at = text.token_at(params.position)
    if token_at is not None:
        detail = nnef_completion.hover_text(token_at, text.tokens, text.analysis.facts)
    elif text.format in layer_lists.DIALECTS:
        detail = layer_lists.hover_text(text.lines, text.format, params.position.line, _token_at(text, params.position))
    else:
        detail = None
    return None if detail is None else types.Hover(types.MarkupContent(types.MarkupKind.Markdown, detail))


def _token_at(text: OpenDocument, position: types.Position) -> str:
    """Return the run of characters around a position without blanks, quotes and colons."""
    line = text.lines[position.line] if position.line < len(text.lines) else ""
    at = code_point_column(line, position.character)
    start, stop = at, at
    while start > 0 and line[start - 1] not in " \t\"':":
        start -= 1
    while stop < len(line) and line[stop] not in " \t\"'\r":
        stop += 1
    return line[start:stop]


def _definition(server: Server, params: types.DefinitionParams) -> types.Location | None:
    text = server.texts[params.text_document.uri]
    token_at = text.token_at(params.position)
    if token_at is None:
        return None
    declared = text.tokens.declaration(token_at)
    if declared is not None:
        return text.location(declared)
    home = (
        nnef_completion.find_declaration_in_library(token_at.token.text)
        if token_at.token.kind is TokenKind.OPERATION
        else None
    )
    if home is None:
        return None
    path, line, start = home
    stop = start + len(token_at.token.text)
    return types.Location(path.as_uri(), types.Range(types.Position(line, start), types.Position(line, stop)))


def _references(server: Server, params: types.ReferenceParams) -> list[types.Location]:
    text = server.texts[params.text_document.uri]
    token_at = text.token_at(params.position)
    if token_at is None:
        return []
    found = text.tokens.same_name(token_at)
    wanted = params.context.include_declaration
    return [text.location(each) for each in found if wanted or not each.token.declares]


def _highlight(server: Server, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
    text = server.texts[params.text_document.uri]
    token_at = text.token_at(params.position)
    return (
        []
        if token_at is None
        else [types.DocumentHighlight(text.location(p).range) for p in text.tokens.same_name(token_at)]
    )


def _prepare_rename(server: Server, params: types.PrepareRenameParams) -> types.Range | None:
    text = server.texts[params.text_document.uri]
    token_at = text.token_at(params.position)
    is_declared = token_at is not None and bool(find_occurrences(text.tokens, token_at))
    return text.location(token_at).range if token_at is not None and is_declared else None


def _rename(server: Server, params: types.RenameParams) -> types.WorkspaceEdit:
    text = server.texts[params.text_document.uri]
    token_at = text.token_at(params.position)
    found = [] if token_at is None else find_occurrences(text.tokens, token_at)
    if token_at is None or not found:
        raise JsonRpcException("no name that this document declares", types.LSPErrorCodes.RequestFailed)
    if params.new_name == token_at.token.text:
        return types.WorkspaceEdit({})
    try:
        check_name(text.tokens, found[0], params.new_name)
    except RenameError as error:
        raise JsonRpcException(str(error), types.LSPErrorCodes.RequestFailed) from None
    edits = [types.TextEdit(text.location(each).range, params.new_name) for each in found]
    changes = {text.uri: edits}
    if found[0].token.kind is TokenKind.VALUE and text.tokens.is_in_graph(found[0]):
        beside = text.uri.rpartition(".")[0] + ".quant"
        changes |= _rename_in_quantization(server, beside, token_at.token.text, params.new_name)
    return types.WorkspaceEdit(changes)


def _rename_in_quantization(server: Server, uri: str, old: str, new: str) -> dict[str, Sequence[types.TextEdit]]:
    """Return the edits of the quantization file in the same folder, whose keys are names of values."""
    if not Path(unquote(urlparse(uri).path)).is_file() and uri not in server.workspace.text_documents:
        return {}
    lines = server.workspace.get_text_document(uri).source.split("\n")
    entries = ((number, re.match(rf"\s*([\"']){re.escape(old)}\1\s*:", line)) for number, line in enumerate(lines))
    edits = [
        types.TextEdit(range_of(lines, number, entry.end(1), entry.end(1) + len(old)), new)
        for number, entry in entries
        if entry is not None
    ]
    return {uri: edits} if edits else {}


def _complete(server: Server, params: types.CompletionParams) -> types.CompletionList:
    text = server.texts[params.text_document.uri]
    if text.format != "nnef" or params.position.line >= len(text.lines):
        return types.CompletionList(is_incomplete=False, items=[])
    at = code_point_column(text.lines[params.position.line], params.position.character)
    begun = _IDENTIFIER_PREFIX.search(text.lines[params.position.line][:at])
    letters = begun[0].lower() if begun is not None else ""
    known = nnef_completion.list_completions(text.tokens, params.position.line, at - len(letters))
    fitting = [each for each in known if letters in each[0].lower()]
    items = [
        types.CompletionItem(
            name,
            kind=_COMPLETIONS[kind],
            detail=detail or text.analysis.facts.get(name) if kind is TokenKind.VALUE else detail or None,
            insert_text=f"{name} = " if kind is TokenKind.PARAMETER else None,
            sort_text=f"{order:05d}",
        )
        for order, (name, kind, detail) in enumerate(fitting[:MAX_COMPLETIONS])
    ]
    return types.CompletionList(is_incomplete=len(fitting) > len(items), items=items)


def _resolve(server: Server, item: types.CompletionItem) -> types.CompletionItem:
    if item.kind == types.CompletionItemKind.Function:
        detail = nnef_completion.describe_operation(item.label, TokenIndex())
        item.documentation = None if detail is None else types.MarkupContent(types.MarkupKind.Markdown, detail)
    del server
    return item


def _format(server: Server, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
    from graphport.formats.nnef.container.formatter import format_text

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
    end = types.Position(len(text.lines) - 1, utf16_length(text.lines[-1], len(text.lines[-1])))
    return [types.TextEdit(types.Range(types.Position(0, 0), end), laid_out)]


def _code_actions(server: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    found: list[types.CodeAction] = []
    for finding in params.context.diagnostics:
        text = server.texts[params.text_document.uri]
        token_at, name, line = (
            text.token_at(finding.range.start),
            proposed_name(finding.message),
            proposed_line(finding.message),
        )
        if name is not None and token_at is not None:
            title, edit = f"Change {token_at.token.text} to {name}", types.TextEdit(text.location(token_at).range, name)
        elif line is not None:
            below = types.Position(text.tokens.find_line("version") + 1, 0)
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


def _semantic_tokens(
    server: Server, params: types.SemanticTokensParams | types.SemanticTokensRangeParams
) -> types.SemanticTokens:
    text = server.texts[params.text_document.uri]
    lines: Sequence[int] = range(len(text.lines))
    if isinstance(params, types.SemanticTokensRangeParams):
        lines = range(params.range.start.line, min(params.range.end.line + 1, len(text.lines)))
    data: list[int] = []
    last_line, last_start = 0, 0
    for number in lines if text.format == "nnef" else ():
        for token in text.tokens.of_line(number):
            if token.kind is TokenKind.PUNCTUATION:
                continue
            start = utf16_length(text.lines[number], token.start)
            length = utf16_length(text.lines[number], token.stop) - start
            data += [
                number - last_line,
                start - (last_start if number == last_line else 0),
                length,
                _LEGEND.index(token.kind),
                int(token.declares),
            ]
            last_line, last_start = number, start
    return types.SemanticTokens(data)


def _inlay_hints(server: Server, params: types.InlayHintParams) -> list[types.InlayHint]:
    text = server.texts[params.text_document.uri]
    facts = text.analysis.facts
    found: list[types.InlayHint] = []
    for number in range(params.range.start.line, min(params.range.end.line + 1, len(text.lines))):
        for token in text.tokens.of_line(number) if text.format == "nnef" else ():
            if token.kind is TokenKind.VALUE and token.declares and token.text in facts:
                at = types.Position(number, utf16_length(text.lines[number], token.stop))
                found.append(types.InlayHint(at, f": {facts[token.text]}", kind=types.InlayHintKind.Type))
    return found


def _document_symbols(server: Server, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    text = server.texts[params.text_document.uri]
    if text.format in layer_lists.DIALECTS:
        return outline.list_layer_symbols(text.lines, text.format)
    return outline.list_nnef_symbols(text.tokens, text.analysis.facts)


def _folding_ranges(server: Server, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
    text = server.texts[params.text_document.uri]
    if text.format in layer_lists.DIALECTS:
        return outline.list_layer_folds(text.lines, text.format)
    return outline.list_nnef_folds(text.tokens)


def _signature_help(server: Server, params: types.SignatureHelpParams) -> types.SignatureHelp | None:
    text = server.texts[params.text_document.uri]
    line = params.position.line
    if text.format != "nnef" or line >= len(text.lines):
        return None
    found = find_signature(text.tokens, line, code_point_column(text.lines[line], params.position.character))
    if found is None:
        return None
    manuals = "\n\n".join(nnef_completion.operator_manuals("nnef", found.operation))
    parameters = [types.ParameterInformation(found.label[start:stop]) for start, stop in found.parameters]
    signature = types.SignatureInformation(
        found.label,
        documentation=types.MarkupContent(types.MarkupKind.Markdown, manuals) if manuals else None,
        parameters=parameters,
        active_parameter=found.active,
    )
    return types.SignatureHelp([signature], active_signature=0, active_parameter=found.active)


_HANDLERS: dict[str, Any] = {
    types.TEXT_DOCUMENT_DID_OPEN: _did_open,
    types.TEXT_DOCUMENT_DID_CHANGE: _did_change,
    types.TEXT_DOCUMENT_DID_SAVE: _did_save,
    types.TEXT_DOCUMENT_DID_CLOSE: _did_close,
    types.TEXT_DOCUMENT_HOVER: _hover,
    types.TEXT_DOCUMENT_DEFINITION: _definition,
    types.TEXT_DOCUMENT_REFERENCES: _references,
    types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: _highlight,
    types.TEXT_DOCUMENT_PREPARE_RENAME: _prepare_rename,
    types.COMPLETION_ITEM_RESOLVE: _resolve,
    types.TEXT_DOCUMENT_FORMATTING: _format,
    types.TEXT_DOCUMENT_CODE_ACTION: _code_actions,
    types.TEXT_DOCUMENT_INLAY_HINT: _inlay_hints,
    types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: _document_symbols,
    types.TEXT_DOCUMENT_FOLDING_RANGE: _folding_ranges,
}
