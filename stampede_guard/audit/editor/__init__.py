"""The audit inside editors: a language server over standard input and output (`--lsp`, the extra `lsp`)."""

from __future__ import annotations


class NeedsPygls(ValueError):
    """pygls is not installed."""


def serve() -> None:
    """Serves one editor until it disconnects. Raises NeedsPygls."""
    try:
        from stampede_guard.audit.editor import server
    except ImportError as error:
        raise NeedsPygls(f"--lsp needs the extra stampede-guard[lsp]: {error}") from error
    server.serve()
