"""What other files of the run say of a name or a key that a fix would change."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import replace
from pathlib import Path

from stampede_guard.audit.files.reading import Unreadable, decode, read
from stampede_guard.audit.finding import Finding
from stampede_guard.audit.source.newer import parse


def allowed(findings: list[Finding], files: list[str]) -> list[Finding]:
    """The findings. Where another file forbids the fix, they say what is done instead, or why there is none."""
    said = _saying(sorted({finding.key for finding in findings if finding.key}), files)
    return [_judged(finding, files, said) for finding in findings]


def _saying(keys: list[str], files: list[str]) -> dict[str, set[str]]:
    """The files that contain each text. Each file is read once."""
    found: dict[str, set[str]] = {key: set() for key in keys}
    for path in files if keys else ():
        try:
            data = read(path)
        except Unreadable:
            continue
        for key in keys:
            if key.encode() in data:
                found[key].add(os.path.realpath(path))
    return found


def _judged(finding: Finding, files: list[str], said: dict[str, set[str]]) -> Finding:
    why = ""
    if finding.private:
        why = forbidden(finding.path, private=finding.private, key="", files=files)
    if not why and finding.key and said[finding.key] - {os.path.realpath(finding.path)}:
        why = _keeps(finding.key)
    if not why:
        return finding
    if finding.otherwise:
        return replace(finding, fix_reasons=finding.otherwise)
    return replace(finding, fix=None, fixable=False, fix_reasons=(), no_fix=why)


def _keeps(key: str) -> str:
    return f"another file uses keys with {key!r}: it would not see the new entries"


def forbidden(path: str, *, private: str, key: str, files: list[str]) -> str:
    """Why a fix of one file must not be made: another file uses the private name, or the text of the key."""
    if private and _used_elsewhere(path, private, files):
        return f"another file uses {private}"
    if key and _is_said_elsewhere(path, key, files):
        return _keeps(key)
    return ""


def _is_said_elsewhere(path: str, text: str, files: list[str]) -> bool:
    """Whether another file contains the text of a key."""
    for other in files:
        if os.path.realpath(other) != os.path.realpath(path):
            try:
                if text.encode() in read(other):
                    return True
            except Unreadable:
                continue
    return False


def _used_elsewhere(path: str, name: str, files: list[str]) -> bool:
    """Whether another file imports the name, or reads it as an attribute."""
    attribute = re.compile(rf"\.{re.escape(name)}\b".encode())
    for other in files:
        if os.path.realpath(other) != os.path.realpath(path):
            try:
                if attribute.search(read(other)):
                    return True
            except Unreadable:
                continue
    return Path(path).stem != "__init__" and needed_elsewhere(path, name, files)


def needed_elsewhere(path: str, name: str, files: list[str]) -> bool:
    """Whether another file takes the name from this one, or may do so. The names of a package are always for others."""
    stem = Path(path).stem
    if stem == "__init__":
        return True
    words = [
        re.compile(rf"\b{re.escape(stem)}\b".encode()),
        re.compile(rf"\*|\b{re.escape(name)}\b".encode()),
    ]
    for other in files:
        if os.path.realpath(other) != os.path.realpath(path):
            try:
                data = read(other)
            except Unreadable:
                continue
            if all(word.search(data) for word in words) and _takes(data, stem, name):
                return True
    return False


def _takes(data: bytes, stem: str, name: str) -> bool:
    """Whether a file imports a name from a module, or reads it from the module. True if the file is no Python."""
    try:
        nodes = list(ast.walk(parse(decode(data))))
    except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError):
        return re.search(rf"\b{re.escape(name)}\b".encode(), data) is not None
    whole = False  # whether the file has the module itself
    for node in nodes:
        match node:
            case ast.ImportFrom(module=module, names=names):
                taken = {alias.name for alias in names}
                if (module or "").rpartition(".")[2] == stem and taken & {name, "*"}:
                    return True
                whole = whole or stem in taken
            case ast.Import(names=names):
                whole = whole or any(alias.name.rpartition(".")[2] == stem for alias in names)
            case ast.Constant(value=str(text)) if stem in text:
                if re.search(rf"\b{re.escape(stem)}[.:]{re.escape(name)}\b", text):
                    return True
                whole = whole or (b"import_module" in data and text.rpartition(".")[2] == stem)
    return whole and any(
        (isinstance(node, ast.Attribute) and node.attr == name)
        or (isinstance(node, ast.Constant) and node.value == name)
        for node in nodes
    )
