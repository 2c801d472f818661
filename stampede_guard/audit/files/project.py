"""The project that a file belongs to: a fix must know who uses a name, also if it is told of one file only."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from stampede_guard.audit.files.discovery import FOREIGN, Discovery

# Templates, and what starts programs.
_TEXTS = (
    *(".html", ".htm", ".xml", ".txt", ".j2", ".jinja", ".jinja2", ".mako", ".pt"),
    *(".toml", ".cfg", ".ini", ".yml", ".yaml", ".json", ".sh", ".env", "Procfile", "Dockerfile", "Makefile"),
)
_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg")


def with_project(files: list[str], paths: list[str]) -> list[str]:
    """The files, and all others of the projects of these paths: tests, too, and what the run leaves out."""
    known = {os.path.realpath(file) for file in files}
    found = list(files)
    for root in sorted({_root(Path(os.path.abspath(path))) for path in paths}):
        # A text that was never saved has no folder. Of everybody's folders, nobody knows what belongs together.
        if not root.is_dir() or root in _common_places():
            continue
        for file in Discovery(include_tests=True).files([str(root)]):
            real = os.path.realpath(file)
            if real not in known:
                known.add(real)
                found.append(file)
    return found


def texts_of(paths: list[str]) -> Iterator[str]:
    """The templates and tables of settings of the projects of these paths: they may name functions, too."""
    for root in sorted({_root(Path(os.path.abspath(path))) for path in paths}):
        if root in _common_places():
            continue
        for folder, inner, names in os.walk(root):
            inner[:] = [name for name in inner if name not in FOREIGN]
            yield from (os.path.join(folder, name) for name in names if name.endswith(_TEXTS))


def _common_places() -> set[Path]:
    return {Path.home(), *Path.home().parents, Path(tempfile.gettempdir())}


def _root(path: Path) -> Path:
    """The repository of a file; else the folder that describes its package; else the one above its packages."""
    folder = path if path.is_dir() else path.parent
    above = [folder, *folder.parents]
    # A home folder is no project, whatever lies there.
    above = above[: above.index(Path.home())] if Path.home() in above else above[:-1]
    for markers in ((".git",), _MARKERS):
        for one in above:
            if any((one / marker).exists() for marker in markers):
                return one
    while (folder / "__init__.py").exists() and folder != folder.parent:
        folder = folder.parent
    return folder
