"""A real client talks to `audit --lsp` over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

import stampede_guard.audit.editor as room
from stampede_guard.audit.command import main
from stampede_guard.audit.editor import documents

SOURCE = """from django.core.cache import cache


def orders():
    count = "ü𝄞" and cache.get("orders")
    return count


def returns(day):
    count = cache.get(day)
    if not count:
        count = count_returns(day)
        cache.set(day, count, 60)
    return count
"""
WAIT = 30  # seconds


class Editor:
    """An editor: what it was told of each document."""

    def __init__(self) -> None:
        self.client = LanguageClient("test", "1")
        self.told: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(given: lsp.PublishDiagnosticsParams) -> None:
            self.told.put_nowait(given)

    async def diagnostics(self) -> dict[str | int | None, lsp.Diagnostic]:
        async with asyncio.timeout(WAIT):
            given = await self.told.get()
        return {diagnostic.code: diagnostic for diagnostic in given.diagnostics}


@pytest.fixture
async def editor(tmp_path: Path) -> AsyncIterator[Editor]:
    editor = Editor()
    await editor.client.start_io(sys.executable, "-m", "stampede_guard.audit", "--lsp")
    asked = lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), root_uri=tmp_path.as_uri())
    async with asyncio.timeout(WAIT):
        await editor.client.initialize_async(asked)
    editor.client.initialized(lsp.InitializedParams())
    yield editor
    async with asyncio.timeout(WAIT):
        await editor.client.shutdown_async(None)
    editor.client.exit(None)
    await editor.client.stop()


async def test_an_editor_gets_diagnostics_explanations_and_fixes(editor: Editor, tmp_path: Path) -> None:
    client, path = editor.client, tmp_path / "orders.py"
    uri = path.as_uri()
    client.text_document_did_open(
        lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "python", 1, SOURCE))
    )
    found = await editor.diagnostics()
    assert set(found) == {"SG201", "SG205"}
    assert found["SG205"].range.start == lsp.Position(10, 7)
    assert found["SG201"].source == "stampede-guard"

    document = lsp.TextDocumentIdentifier(uri)
    told: Any = await client.text_document_hover_async(lsp.HoverParams(document, lsp.Position(10, 8)))
    assert "**SG205 falsy-miss**" in told.contents.value and "audit.md#sg205" in told.contents.value
    nothing = await client.text_document_hover_async(lsp.HoverParams(document, lsp.Position(0, 0)))
    assert nothing is None

    asked = lsp.CodeActionParams(document, found["SG205"].range, lsp.CodeActionContext([]))
    offered: Any = await client.text_document_code_action_async(asked)
    fix, suppression = offered
    assert (
        fix.title.startswith("SG205: fix (review: ") and suppression.title == "SG205: suppress on this line"
    )
    (edit,) = fix.edit.changes[uri]
    assert edit.new_text == "    if count is None:\n" and edit.range.start.line == 10

    lines = SOURCE.splitlines(keepends=True)
    lines[10] = edit.new_text
    everything = lsp.TextDocumentContentChangeWholeDocument("".join(lines))
    client.text_document_did_change(
        lsp.DidChangeTextDocumentParams(lsp.VersionedTextDocumentIdentifier(uri=uri, version=2), [everything])
    )
    assert set(await editor.diagnostics()) == {"SG201"}
    client.text_document_did_close(lsp.DidCloseTextDocumentParams(document))
    assert await editor.diagnostics() == {}


async def test_an_editor_sees_the_settings_of_the_project(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.stampede-guard.audit]\nignore = ["SG2"]\n', "utf-8")
    uri = (tmp_path / "orders.py").as_uri()
    opened = lsp.TextDocumentItem(uri, "python", 1, SOURCE)
    editor.client.text_document_did_open(lsp.DidOpenTextDocumentParams(opened))
    assert await editor.diagnostics() == {}


def test_without_pygls_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Another test of this process may have loaded it.
    monkeypatch.delitem(sys.modules, "stampede_guard.audit.editor.server", raising=False)
    monkeypatch.delattr(room, "server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls", None)
    assert main(["--lsp"]) == 2
    assert "stampede-guard[lsp]" in capsys.readouterr().err


@pytest.mark.parametrize("mark", ["\x0c", "\u2028", "\x85", "\x0b", "\x1c"])
def test_an_edit_counts_lines_as_an_editor_does(mark: str) -> None:
    """A form feed or U+2028 ends no line."""
    text = f"# a{mark}b\nfrom aiocache import cached\n\n\n@cached(ttl=60)\nasync def rates() -> int:\n    return 1\n"
    [finding] = [one for one in documents.findings("/nowhere/mod.py", text) if one.code == "SG102"]
    fix, suppression = documents.fixes("/nowhere/mod.py", text, finding)
    lines = text.split("\n")
    for offered in (fix, suppression):
        edit = offered.edit
        after = "\n".join(lines[: edit.first]) + "\n" + edit.text + "\n".join(lines[edit.last :])
        assert after.startswith(f"# a{mark}b\nfrom ") and after.endswith(
            "async def rates() -> int:\n    return 1\n"
        )
    assert suppression.edit.text == "@cached(ttl=60)  # noqa: SG102\n"
