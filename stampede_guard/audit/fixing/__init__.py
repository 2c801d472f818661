"""`--fix`: applies plans to files with LibCST, an extra. Only a fix imports it: an audit works without it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.audit.fixing.face import fix_files, fix_text

__all__ = ["NeedsLibCST", "fix_files", "fix_text", "mended", "require_libcst"]


class NeedsLibCST(ValueError):
    """LibCST is not installed."""


def require_libcst() -> None:
    """Raises NeedsLibCST."""
    if find_spec("libcst") is None:
        raise NeedsLibCST("--fix needs LibCST: pip install '.[audit]' in a clone of the repository")


def mended(path: str, text: str, wanted: set[tuple[str, str]], files: list[str]) -> str | None:
    """The text after the fixes of these findings (code and function), safe or not. None if it cannot be fixed."""
    from stampede_guard.audit.fixing.files import Unfixable, fixed

    try:
        return fixed(path, text.encode("utf-8"), wanted, unsafe=True, files=files).after.decode("utf-8")
    except (Unfixable, UnicodeError):
        return None


def __getattr__(name: str) -> Any:
    if name in ("fix_files", "fix_text"):
        from stampede_guard.audit.fixing import face

        return getattr(face, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
