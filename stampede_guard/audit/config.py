"""`[tool.stampede-guard.audit]` in pyproject.toml, and which codes a selection means."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from stampede_guard.audit.files.discovery import Patterns
from stampede_guard.audit.files.suppressions import UNUSED
from stampede_guard.audit.finding import CONFIDENCES, Confidence, Finding
from stampede_guard.audit.rules import all_rules


class Misconfigured(ValueError):
    """An option or setting has no valid meaning."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The table's fields, with dashes in the file. Command line options replace them.

    `folder` is the folder of the file. Paths in the file are relative to it. None is the working directory.
    """

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file_ignores: dict[str, tuple[str, ...]] = field(default_factory=dict)
    min_confidence: Confidence = "medium"
    include_tests: bool = False
    baseline: str | None = None
    folder: str | None = None

    @property
    def excluded(self) -> Patterns:
        return Patterns(self.exclude, self.folder)

    def ignores(self, finding: Finding) -> bool:
        return any(
            Patterns((glob,), self.folder).match(finding.path)
            and any(_means(code, finding.code) for code in codes)
            for glob, codes in self.per_file_ignores.items()
        )


def load(starts: Iterable[Path]) -> Config:
    """Loads the nearest pyproject.toml with such a table, at or above the first of these folders that has one.
    Raises Misconfigured.
    """
    for start in starts:
        for folder in (start, *start.parents):
            path = folder / "pyproject.toml"
            if not path.is_file():
                continue
            if (found := _read(path)) is not None:
                return found
            if (folder / ".git").exists():
                break
    return Config()


def load_file(path: Path) -> Config:
    """Loads this file. Raises Misconfigured, also if the file has no such table."""
    if not path.is_file():
        raise Misconfigured(f"{path} is no file")
    found = _read(path)
    if found is None:
        raise Misconfigured(f"{path} has no [tool.stampede-guard.audit]")
    return found


def _read(path: Path) -> Config | None:
    try:
        stated = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Misconfigured(f"{path} cannot be read: {error}") from error
    table = stated.get("tool", {}).get("stampede-guard", {}).get("audit")
    return None if table is None else parse(table, str(path))


def parse(table: dict[str, Any], where: str) -> Config:
    """Reads the table of the file `where`. Raises Misconfigured."""
    known = {entry.name.replace("_", "-"): entry.name for entry in fields(Config) if entry.name != "folder"}
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise Misconfigured(
            f"{where}: {unknown[0]!r} is not a setting of the audit; the settings are {', '.join(sorted(known))}"
        )
    values: dict[str, Any] = {"folder": os.path.dirname(os.path.abspath(where))}
    for name, value in table.items():
        values[known[name]] = _checked(name, value, where)
    return Config(**values)


def _checked(name: str, value: Any, where: str) -> Any:
    if name in ("select", "extend-select", "ignore", "exclude"):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise Misconfigured(f"{where}: {name} must be a list of strings, not {value!r}")
        return tuple(value)
    if name == "per-file-ignores":
        if not isinstance(value, dict):
            raise Misconfigured(
                f"{where}: {name} must be a table of patterns and lists of codes, not {value!r}"
            )
        return {pattern: _checked("ignore", codes, where) for pattern, codes in value.items()}
    if name == "min-confidence" and value not in CONFIDENCES:
        raise Misconfigured(f"{where}: {name} must be one of {', '.join(CONFIDENCES)}, not {value!r}")
    if name == "include-tests" and not isinstance(value, bool):
        raise Misconfigured(f"{where}: {name} must be true or false, not {value!r}")
    if name == "baseline":
        if not isinstance(value, str):
            raise Misconfigured(f"{where}: {name} must be the name of a file, not {value!r}")
        return os.path.join(os.path.dirname(os.path.abspath(where)), value)
    return value


def selected(
    select: Iterable[str], ignore: Iterable[str], extend: Iterable[str] = ()
) -> tuple[frozenset[str], frozenset[str]]:
    """The selected codes, and those of them that were named in full. Raises Misconfigured if a text matches no
    code.
    """
    codes = {rule.code: rule.name for rule in all_rules()}
    wanted, added = list(select), list(extend)
    if added and not wanted:
        wanted = ["ALL"]
    wanted += added
    chosen = {code for code in codes if not wanted or any(_means(text, code) for text in wanted)}
    named = {
        code
        for code, name in codes.items()
        if any(text.upper() == code or text.lower() == name for text in wanted)
    }
    for text in (*wanted, *ignore):
        if text.upper() != UNUSED and not any(_means(text, code) for code in codes):
            raise Misconfigured(f"{text!r} matches no rule; `explain` lists all rules")
    return frozenset(c for c in chosen if not any(_means(text, c) for text in ignore)), frozenset(named)


def _means(text: str, code: str) -> bool:
    """A code, the beginning of one, a name, or ALL."""
    if text.upper() == "ALL":
        return True
    rule = next((rule for rule in all_rules() if rule.code == code), None)
    return bool(text) and (code.startswith(text.upper()) or (rule is not None and rule.name == text.lower()))
