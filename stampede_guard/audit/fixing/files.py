"""Fixes whole files: audits them again, rewrites until nothing is left, and replaces them in one step."""

from __future__ import annotations

import difflib
import io
import os
import re
import stat
import tempfile
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stampede_guard.audit.files.elsewhere import forbidden, needed_elsewhere
from stampede_guard.audit.files.reading import Unreadable, read
from stampede_guard.audit.files.suppressions import Suppressions
from stampede_guard.audit.finding import Finding
from stampede_guard.audit.fixing.apply import CannotApply, apply
from stampede_guard.audit.plan import FixPlan, Lower, Span
from stampede_guard.audit.rule import Rule
from stampede_guard.audit.rules import all_rules
from stampede_guard.audit.source.builder import build
from stampede_guard.audit.source.model import Module

_ROUNDS = 20  # a fix may enable the next one; more rounds than this are an endless loop
_ESCAPES = {chr(number): f"\\{number:03o}" for number in (*range(32), 127)} | {'"': '\\"', "\\": "\\\\"}


class Unfixable(Exception):
    """Why a file stays as it is."""


@dataclass
class Fixed:
    """One file: its bytes before and after, and the codes of its fixes."""

    path: str
    before: bytes
    after: bytes
    codes: list[str] = field(default_factory=list)
    encoding: str = "utf-8"
    # Codes and functions whose fix failed, with the reason.
    refused: list[tuple[str, str, str]] = field(default_factory=list)

    def diff(self) -> bytes:
        """In the format of `diff -u` and `git apply`: only a line feed ends a line."""
        old, new = (_lines(data) for data in (self.before, self.after))
        lines = difflib.unified_diff(old, new, _named("a", self.path), _named("b", self.path))
        text = "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )
        return text.encode("utf-8", "surrogateescape")


def _lines(data: bytes) -> list[str]:
    """Bytes that are no UTF-8 stay as they are."""
    return re.findall(r"[^\n]*\n|[^\n]+", data.decode("utf-8", "surrogateescape"))


def _named(side: str, path: str) -> str:
    """As git writes names: with escapes, in quotes, where a plain name would be unclear."""
    if not any(character in '"\\' or not character.isprintable() for character in path):
        return f"{side}/{path}"
    escaped = "".join(_ESCAPES.get(character, character) for character in path)
    return f'"{side}/{escaped}"'


def fixed_files(
    findings: Iterable[Finding], files: list[str], *, unsafe: bool
) -> Iterator[Fixed | tuple[str, str]]:
    """For each file with a fixable finding: the result, or its path and the reason for no change."""
    by_path: dict[str, set[tuple[str, str]]] = {}
    for finding in findings:
        by_path.setdefault(finding.path, set()).add((finding.code, finding.function))
    for path, wanted in sorted(by_path.items()):
        try:
            before = read(path)
            made = fixed(path, before, wanted, unsafe=unsafe, files=files)
        except (Unfixable, Unreadable) as reason:
            yield path, str(reason)
            continue
        for code, function, why in made.refused:
            yield path, f"{code} in {function}: {why}"
        if made.after != before:
            yield made


def fixed(
    path: str, data: bytes, wanted: set[tuple[str, str]], *, unsafe: bool, files: Iterable[str] = ()
) -> Fixed:
    """One file's bytes after all possible fixes of the findings (code and function). Raises Unfixable."""
    try:
        return _fixed(path, data, wanted, list(files), unsafe=unsafe)
    except Unfixable:
        raise
    except Exception as error:  # a bug in one fix costs its file, not the run
        raise Unfixable(f"the fix failed: {error!r}") from error


def _fixed(path: str, data: bytes, wanted: set[tuple[str, str]], files: list[str], *, unsafe: bool) -> Fixed:
    source, encoding = _decoded(data)
    codes: list[str] = []
    failed: dict[tuple[str, str], str] = {}
    for _ in range(_ROUNDS):
        todo = _todo(path, source, wanted - failed.keys(), unsafe=unsafe)
        if not todo:
            break
        try:
            source = _attempt(path, source, [plan for _key, plan in todo], files)
            codes += [code for (code, _function), _plan in todo]
        except (CannotApply, Unfixable) as error:
            if len(todo) == 1:
                failed[todo[0][0]] = str(error)
                continue
            # One of the fixes failed: try each by itself.
            source, done, bad = _one_by_one(path, source, wanted - failed.keys(), files, unsafe=unsafe)
            codes += done
            failed |= bad
            if not done and not bad:
                raise Unfixable(str(error)) from error
    refused = [(code, function, reason) for (code, function), reason in failed.items()]
    return Fixed(path, data, source.encode(encoding), codes, encoding, refused)


def _one_by_one(
    path: str, source: str, wanted: set[tuple[str, str]], files: list[str], *, unsafe: bool
) -> tuple[str, list[str], dict[tuple[str, str], str]]:
    done: list[str] = []
    bad: dict[tuple[str, str], str] = {}
    while todo := _todo(path, source, wanted - bad.keys(), unsafe=unsafe):
        key, plan = todo[0]
        try:
            source = _attempt(path, source, [plan], files)
            done.append(key[0])
        except (CannotApply, Unfixable) as error:
            bad[key] = str(error)
    return source, done, bad


def _todo(
    path: str, source: str, wanted: set[tuple[str, str]], *, unsafe: bool
) -> list[tuple[tuple[str, str], FixPlan]]:
    """Plans that do not overlap: at most one per function, and none that covers another's place."""
    found: list[tuple[tuple[str, str], FixPlan]] = []
    taken: list[Span] = []
    for finding, plan in _plans(path, source):
        key = (finding.code, finding.function)
        spans = [edit.at for edit in plan.edits if hasattr(edit, "at")]
        if key not in wanted or (plan.reasons and not unsafe):
            continue
        if any(_meet(span, other) for span in spans for other in taken):
            continue
        taken += spans
        found.append((key, plan))
    return found


def _meet(one: Span, other: Span) -> bool:
    first, second = sorted((one, other))
    return (second.line, second.column) < (first.end_line, first.end_column)


def _plans(path: str, source: str) -> Iterator[tuple[Finding, FixPlan]]:
    module = _built(path, source)
    suppressions = Suppressions.of(source) if "noqa" in source else Suppressions()
    for rule in _fixing():
        assert rule.fix is not None
        for hit, finding in rule.judged(module):
            plan, _refused = rule.planned(module, hit)
            if plan is not None and not suppressions.covers(finding):
                yield finding, plan


def _fixing() -> list[Rule]:
    return [rule for rule in all_rules() if rule.fix is not None]


def _built(path: str, source: str) -> Module:
    try:
        return build(path, source.replace("\r\n", "\n").replace("\r", "\n"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unfixable(f"it does not parse: {error}") from error


def _attempt(path: str, source: str, plans: list[FixPlan], files: list[str]) -> str:
    """The text with these plans applied, if each of them removed its finding."""
    plans = [_allowed(path, plan, files) for plan in plans]
    changed = apply(source, plans, keeps=lambda name: needed_elsewhere(path, name, files))
    if len(list(_plans(path, changed))) >= len(list(_plans(path, source))) and not _is_order(plans):
        raise Unfixable("the finding would remain")
    return changed


def _allowed(path: str, plan: FixPlan, files: list[str]) -> FixPlan:
    """The plan, or the other one if another file forbids it. Raises Unfixable if that has to be refused."""
    why = forbidden(path, private=plan.private, key=plan.key, files=files)
    if why and plan.otherwise is not None:
        return plan.otherwise
    if why:
        raise Unfixable(why)
    return plan


def _is_order(plans: list[FixPlan]) -> bool:
    """After a decorator has moved, the next decorator may be reported. Then the number of findings proves nothing."""
    return any(isinstance(edit, Lower) for plan in plans for edit in plan.edits)


# ------------------------------------------------------------------------------------------------ bytes and files


def _decoded(data: bytes) -> tuple[str, str]:
    try:
        encoding, _lines = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding), encoding
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise Unfixable("not in its declared encoding (UTF-8 if it declares none)") from error


def write(fixed: Fixed) -> None:
    """Replaces the file's bytes in one step; mode and links stay. Raises Unfixable."""
    target = os.path.realpath(fixed.path)
    temporary = ""
    try:
        with open(target, "rb") as file:
            if file.read() != fixed.before:
                raise Unfixable("it changed during the fix")
        mode = stat.S_IMODE(os.stat(target).st_mode)
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".stampede-guard-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(fixed.after)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
        temporary = ""
    except OSError as error:
        raise Unfixable(f"it cannot be written: {error.strerror or error}") from error
    finally:
        if temporary:
            os.unlink(temporary)
