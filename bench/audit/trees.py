"""The trees that are read: a Python library with all that is installed, and what of it passes the prefilter."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stampede_guard.audit.files.reading import Unreadable, read
from stampede_guard.audit.prefilter import Text
from stampede_guard.audit.rules import all_rules

__all__ = ["Tree", "passing", "whole"]


@dataclass(frozen=True)
class Tree:
    """A folder made for the occasion, so that every tool sees the same files and none its own settings."""

    name: str
    folder: Path
    files: int
    size: int  # bytes


def whole(folder: Path, sources: list[Path] | None = None) -> Tree:
    """Copies every .py file of the sources; by default of the standard library and of site-packages."""
    for number, source in enumerate(sources or _installed()):
        for path in _python_files(source):
            _place(path, folder / f"part{number}" / path.relative_to(source))
    return _counted("everything", folder)


def passing(tree: Tree, folder: Path) -> Tree:
    """Those files of a tree that no rule can tell to be harmless by their text: each of them is parsed."""
    rules = all_rules()
    for path in _python_files(tree.folder):
        try:
            text = Text(read(str(path)))
        except Unreadable:
            continue
        if any(rule.may_apply(text) for rule in rules):
            _place(path, folder / path.relative_to(tree.folder))
    return _counted("all of it parsed", folder)


def _installed() -> list[Path]:
    paths = sysconfig.get_paths()
    return [Path(paths["stdlib"]), Path(paths["purelib"])]


def _python_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        # site-packages inside a library is a separate tree. Files that pytest and pip left are not counted.
        folders[:] = [name for name in folders if name not in ("site-packages", "__pycache__")]
        yield from (Path(parent, name) for name in names if name.endswith(".py"))


def _place(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path.resolve(), target)
    except OSError:
        shutil.copyfile(path, target)


def _counted(name: str, folder: Path) -> Tree:
    sizes = [path.stat().st_size for path in _python_files(folder)]
    return Tree(name, folder, len(sizes), sum(sizes))
