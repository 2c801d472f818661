"""Which files are audited. Folders are walked; git-ignored files and tests are left out; loops are detected."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stampede_guard.audit.files.gitignore import Ignores, above
from stampede_guard.audit.files.paths import relative, seen_from
from stampede_guard.audit.files.reading import Unreadable, read
from stampede_guard.audit.finding import SkippedFile

# Folders that never contain the project's own code. A folder named on the command line is walked all the same.
FOREIGN = frozenset(
    ".git .hg .svn .venv venv .env env .tox .nox .eggs .mypy_cache .ruff_cache .pytest_cache "
    "__pycache__ node_modules "
    "__pypackages__ site-packages .direnv buck-out .ipynb_checkpoints".split()
)
_TEST_FOLDERS = frozenset(("test", "tests", "testing", "__tests__", "unittests", "e2e"))
_TEST_FILE = re.compile(r"(?:test_.*|conftest)\.py")
# `tests.py` and `ab_test.py` may also belong to the program: what they contain decides.
_PERHAPS_TESTS = re.compile(r"(?:.*_tests?|tests?)\.py")
_TESTS = re.compile(
    rb"\b(?:pytest|unittest|TestCase|doctest|hypothesis|nose|def test\w*)\b|^class Test|^\s*assert\b", re.M
)


@dataclass(frozen=True)
class Patterns:
    """Globs, and the folder that they are relative to; None is the working directory."""

    globs: tuple[str, ...] = ()
    folder: str | None = None

    def match(self, path: str) -> bool:
        return bool(self.globs) and self._has(seen_from(self.folder, path))

    def cover(self, path: str) -> bool:
        """Like `matches` for a file that was not found by walking: a folder above it may match."""
        parts = seen_from(self.folder, path).split("/") if self.globs else []
        return any(self._has("/".join(parts[:count])) for count in range(1, len(parts) + 1))

    def _has(self, path: str) -> bool:
        return any(matches(path, glob) for glob in self.globs)


@dataclass
class Discovery:
    """What to look for, and what the walk found."""

    exclude: tuple[Patterns, ...] = ()
    include_tests: bool = False
    skipped: list[SkippedFile] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def files(self, paths: list[str]) -> Iterator[str]:
        """Raises FileNotFoundError for a missing path."""
        given: set[str] = set()
        for path in paths:
            if os.path.isdir(path):
                found: Iterator[str] = self._walk(path, above(Path(path).resolve()), ())
            elif os.path.lexists(path):
                found = iter((path,))
            else:
                raise FileNotFoundError(path)
            for name in found:
                if name not in given:
                    given.add(name)
                    yield name

    def _walk(self, folder: str, ignores: Ignores, inside: tuple[tuple[int, int], ...]) -> Iterator[str]:
        try:
            info = os.stat(folder)
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self.skipped.append(
                SkippedFile(path=relative(folder), reason=f"unreadable: {error.strerror or error}")
            )
            return
        identity = (info.st_dev, info.st_ino)
        if identity in inside:
            self.skipped.append(
                SkippedFile(
                    path=relative(folder), reason="a symbolic link that leads back to a folder above it"
                )
            )
            return
        if identity in self._seen:
            return
        self._seen.add(identity)
        real = os.path.realpath(folder)
        ignores = ignores.entering(real)
        for entry in entries:
            yield from self._entry(entry, f"{real}/{entry.name}", ignores, (*inside, identity))

    def _entry(
        self, entry: os.DirEntry[str], real: str, ignores: Ignores, inside: tuple[tuple[int, int], ...]
    ) -> Iterator[str]:
        try:
            is_folder = entry.is_dir()
        except OSError:
            is_folder = False
        if is_folder:
            if entry.name in FOREIGN or (not self.include_tests and entry.name in _TEST_FOLDERS):
                return
        elif not entry.name.endswith(".py") or (not self.include_tests and _is_test(entry)):
            return
        if ignores.matches(real, is_folder=is_folder) or self._excluded(entry.path):
            return
        if is_folder:
            yield from self._walk(entry.path, ignores, inside)
        else:
            yield entry.path

    def _excluded(self, path: str) -> bool:
        return any(patterns.match(path) for patterns in self.exclude)


def _is_test(entry: os.DirEntry[str]) -> bool:
    return _names_tests(entry.name, entry.path)


def _names_tests(name: str, path: str) -> bool:
    if _PERHAPS_TESTS.fullmatch(name) is None or _TEST_FILE.fullmatch(name):
        return _TEST_FILE.fullmatch(name) is not None
    try:
        data = read(path)
    except Unreadable:
        return False  # the run tells why
    return not data.strip() or _TESTS.search(data) is not None


def is_of_tests(path: str) -> bool:
    """Whether the walk leaves the file out as a test, by its name and its folders in the working directory."""
    folders, _, name = relative(path).rpartition("/")
    return not _TEST_FOLDERS.isdisjoint(folders.split("/")) or _names_tests(name, path)


def matches(path: str, pattern: str) -> bool:
    """`tests/*`, `app/legacy`, `*.py`: a glob on the path, on its last name, or a folder above it."""
    pattern = pattern.removeprefix("./").rstrip("/")
    return (
        fnmatch.fnmatchcase(path, pattern)
        or fnmatch.fnmatchcase(path, f"{pattern}/*")
        or fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)
    )
