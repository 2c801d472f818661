"""Files in, findings out: prefilter, parse, rules, suppressions; several processes where it pays."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from stampede_guard.audit.builder import build
from stampede_guard.audit.finding import Confidence, Finding, Skipped, confident
from stampede_guard.audit.reading import Unreadable, decode, read
from stampede_guard.audit.rule import Hint, Rule, all_rules
from stampede_guard.audit.suppressions import NAME_OF_UNUSED, UNUSED, Suppressions

_CHUNK = 48  # files handed to a process at once
_PARALLEL_FROM = 150  # files: below, starting processes costs more than it saves
# A handful of files is always parsed, so that a broken one is never passed over in silence.
_FEW = 100
_NAMES_US = re.compile(rb"noqa\s*:[^\n]*SG\d", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is judged, and how strictly. `codes` are full codes; None means every rule."""

    codes: frozenset[str] | None = None
    # Asked for by their full code: shown whatever their confidence.
    named: frozenset[str] = frozenset()
    least: Confidence = "medium"
    parse_all: bool = False

    def rules(self) -> list[Rule]:
        return [rule for rule in all_rules() if self.codes is None or rule.code in self.codes]

    def shows(self, finding: Finding) -> bool:
        return finding.code in self.named or confident(finding, self.least)


@dataclass(kw_only=True)
class Outcome:
    """What a run found. `files` counts the files looked at, `parsed` those the prefilter let through."""

    findings: list[Finding] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    suppressed: int = 0
    files: int = 0
    parsed: int = 0

    def add(self, other: Outcome) -> None:
        self.findings += other.findings
        self.skipped += other.skipped
        self.suppressed += other.suppressed
        self.files += other.files
        self.parsed += other.parsed


def audit(
    paths: Iterable[str],
    options: Options | None = None,
    *,
    jobs: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Judges files (see `discovery` for folders). `jobs` are processes; the default is one per CPU."""
    files = list(paths)
    options = options or Options()
    if len(files) <= _FEW:
        options = Options(codes=options.codes, named=options.named, least=options.least, parse_all=True)
    outcome = Outcome()
    for part in _parts(files, options, jobs or os.cpu_count() or 1):
        outcome.add(part)
        if progress is not None:
            progress(part.files)
    outcome.findings.sort()
    outcome.skipped.sort()
    return outcome


def _parts(files: list[str], options: Options, jobs: int) -> Iterator[Outcome]:
    chunks = list(_chunks(files))
    if jobs == 1 or len(files) < _PARALLEL_FROM:
        yield from (_judge_files(chunk, options) for chunk in chunks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_judge_files, chunks, [options] * len(chunks))


def _chunks(files: list[str]) -> Iterator[list[str]]:
    rest = iter(files)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def _judge_files(files: list[str], options: Options) -> Outcome:
    outcome = Outcome()
    collecting = gc.isenabled()
    gc.disable()  # a syntax tree is all live objects: looking for garbage in it costs a third of the time
    try:
        for path in files:
            outcome.add(_judge_file(path, options))
    finally:
        if collecting:
            gc.enable()
        gc.collect(1)
    return outcome


def _judge_file(path: str, options: Options) -> Outcome:
    shown = relative(path)
    try:
        return audit_source(shown, read(path), options)
    except Unreadable as reason:
        return Outcome(files=1, skipped=[Skipped(path=shown, reason=str(reason))])


def audit_source(path: str, data: bytes, options: Options | None = None) -> Outcome:
    """Judges one source text; `path` is only what is reported."""
    options = options or Options()
    outcome = Outcome(files=1)
    asked: dict[Hint, bool] = {}
    rules = [rule for rule in options.rules() if rule.may_apply(data, asked)]
    try:
        source = decode(data)
        found: list[Finding] = []
        if rules or options.parse_all:
            module = build(path, source)
            outcome.parsed = 1
            found = [finding for rule in rules for finding in rule.findings(module) if options.shows(finding)]
        wanted = b"noqa" in data and (bool(found) or _NAMES_US.search(data) is not None)
        suppressions = Suppressions.of(source) if wanted else Suppressions()
    except Unreadable as reason:
        outcome.skipped.append(Skipped(path=path, reason=str(reason)))
        return outcome
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f" (line {line})" if line else ""
        outcome.skipped.append(
            Skipped(path=path, reason=f"not Python that this Python reads: {_said(error)}{where}")
        )
        return outcome
    except (RecursionError, MemoryError):
        outcome.skipped.append(Skipped(path=path, reason="nested too deeply"))
        return outcome
    except Exception as error:  # a rule's own bug costs one file, not the run
        outcome.skipped.append(Skipped(path=path, reason=f"a rule failed on it: {error!r}"))
        return outcome
    kept = [finding for finding in found if not suppressions.covers(finding)]
    outcome.suppressed = len(found) - len(kept)
    outcome.findings = kept + _unused(path, suppressions, options)
    return outcome


def _unused(path: str, suppressions: Suppressions, options: Options) -> list[Finding]:
    judged = {rule.code for rule in options.rules()}
    return [
        Finding(
            path=path,
            line=line,
            column=1,
            end_line=line,
            code=UNUSED,
            name=NAME_OF_UNUSED,
            message=f"this line suppresses {code}, which is not found here any more",
            confidence="high",
            scope="process",
        )
        for line, code in suppressions.unused()
        if code in judged
    ]


def _said(error: SyntaxError | ValueError) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


def relative(path: str) -> str:
    """As seen from the working directory, with forward slashes."""
    try:
        return os.path.relpath(path).replace(os.sep, "/")
    except ValueError:  # another drive
        return path.replace(os.sep, "/")
