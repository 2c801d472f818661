"""The language server: diagnostics while people type, explanations on hover, fixes as code actions.

The protocol is pygls' (the extra `stampede-guard[lsp]`). Nothing is written to standard output but the protocol.
"""

from __future__ import annotations

import importlib.metadata
from urllib.parse import urlsplit

from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from stampede_guard.audit.config import Misconfigured
from stampede_guard.audit.editor import documents
from stampede_guard.audit.finding import Finding
from stampede_guard.audit.reports.guides import page

_SEVERITIES = {
    "high": lsp.DiagnosticSeverity.Warning,
    "medium": lsp.DiagnosticSeverity.Warning,
    "low": lsp.DiagnosticSeverity.Information,
}
_SOURCE = "stampede-guard"


def serve() -> None:
    """Serves one editor over standard input and output until it disconnects."""
    create().start_io()


def create() -> LanguageServer:
    server = LanguageServer(_SOURCE, importlib.metadata.version("stampede-guard"))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: LanguageServer, given: lsp.DidOpenTextDocumentParams) -> None:
        _publish(ls, given.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: LanguageServer, given: lsp.DidChangeTextDocumentParams) -> None:
        _publish(ls, given.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: LanguageServer, given: lsp.DidSaveTextDocumentParams) -> None:
        if given.text_document.uri.endswith("pyproject.toml"):
            documents.forget_settings()
        _publish(ls, given.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: LanguageServer, given: lsp.DidCloseTextDocumentParams) -> None:
        uri = given.text_document.uri
        ls.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(ls: LanguageServer, given: lsp.HoverParams) -> lsp.Hover | None:
        document = ls.workspace.get_text_document(given.text_document.uri)
        found = [f for f in _found(ls, document) if f.line - 1 <= given.position.line < f.end_line]
        if not found:
            return None
        told = "\n\n---\n\n".join(map(documents.explanation, found))
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, told))

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    def actions(ls: LanguageServer, given: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        document = ls.workspace.get_text_document(given.text_document.uri)
        first, last = given.range.start.line, given.range.end.line
        return [
            action
            for finding in _found(ls, document)
            if finding.line - 1 <= last and first < finding.end_line
            for action in _actions(document, finding)
        ]

    return server


def _publish(ls: LanguageServer, uri: str) -> None:
    document = ls.workspace.get_text_document(uri)
    diagnostics = [_diagnostic(document, finding) for finding in _found(ls, document)]
    ls.text_document_publish_diagnostics(
        lsp.PublishDiagnosticsParams(uri, diagnostics, version=document.version)
    )


def _found(ls: LanguageServer, document: TextDocument) -> list[Finding]:
    path = _path(document)
    if not path.endswith((".py", ".pyi", ".pyw")):
        return []
    try:
        return documents.findings(path, document.source)
    except Misconfigured as error:
        ls.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Error, f"stampede-guard audit: {error}"))
        return []


def _path(document: TextDocument) -> str:
    """A document that was never saved has a name without a folder."""
    return (
        uris.to_fs_path(document.uri) or f"{urlsplit(document.uri).path.rpartition('/')[2] or 'untitled'}.py"
    )


def _diagnostic(document: TextDocument, finding: Finding) -> lsp.Diagnostic:
    where = page(finding.code)
    return lsp.Diagnostic(
        range=_range(document, finding),
        message=finding.message,
        severity=lsp.DiagnosticSeverity.Information
        if finding.level == "information"
        else _SEVERITIES[finding.confidence],
        code=finding.code,
        code_description=lsp.CodeDescription(where) if "://" in where else None,
        source=_SOURCE,
    )


def _range(document: TextDocument, finding: Finding) -> lsp.Range:
    """From the finding's column to the end of its first line, in the UTF-16 units of the protocol."""
    lines = document.lines
    text = lines[finding.line - 1].rstrip("\r\n") if finding.line <= len(lines) else ""
    before = text.encode("utf-8", "replace")[: finding.column - 1].decode("utf-8", "replace")
    line = finding.line - 1
    return lsp.Range(lsp.Position(line, _units(before)), lsp.Position(line, _units(text)))


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "replace")) // 2


def _actions(document: TextDocument, finding: Finding) -> list[lsp.CodeAction]:
    return [
        lsp.CodeAction(
            title=fix.title,
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[_diagnostic(document, finding)],
            edit=lsp.WorkspaceEdit(
                changes={
                    document.uri: [
                        lsp.TextEdit(
                            lsp.Range(lsp.Position(fix.edit.first, 0), lsp.Position(fix.edit.last, 0)),
                            fix.edit.text,
                        )
                    ]
                }
            ),
        )
        for fix in documents.fixes(_path(document), document.source, finding)
    ]
