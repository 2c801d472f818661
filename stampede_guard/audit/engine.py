"""From files to findings: prefilter, parse, rules, suppressions. Uses several processes for many files."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, islice

from stampede_guard.audit.files.paths import relative
from stampede_guard.audit.files.reading import Unreadable, decode, read
from stampede_guard.audit.files.suppressions import NAME_OF_UNUSED, UNUSED, Suppressions
from stampede_guard.audit.finding import Confidence, Finding, SkippedFile, confident
from stampede_guard.audit.prefilter import Text
from stampede_guard.audit.results import ResultCache
from stampede_guard.audit.rule import Rule
from stampede_guard.audit.rules import all_rules
from stampede_guard.audit.source.builder import build
from stampede_guard.audit.workers import shared

_CHUNK = 64  # files per task of a process
_PARALLEL_FROM = 300  # files: with fewer, starting processes costs more than it saves
# So few files are always parsed, so that a file with a syntax error is always reported.
_FEW = 100
_NAMES_US = re.compile(rb"noqa\s*:[^\n]*SG\d", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What is audited, and how strictly. `codes` are full codes; None means every rule."""

    codes: frozenset[str] | None = None
    # Codes selected in full: their findings are shown whatever their confidence.
    named: frozenset[str] = frozenset()
    least: Confidence = "medium"
    parse_all: bool = False
    # Whether useless suppressions are findings (SG000).
    unused: bool = True
    # The folder of results of earlier runs; None: no results are kept.
    cache_dir: str | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        return _rules(self.codes)

    def shows(self, finding: Finding) -> bool:
        return finding.code in self.named or confident(finding, self.least)

    def graded(self, finding: Finding) -> Finding:
        """Who selects a rule by its full code is warned of each finding, unless the rule only informs."""
        if finding.level == "information" and finding.code in self.named and finding.code in _warning_codes():
            return replace(finding, level="warning")
        return finding


@cache
def _warning_codes() -> frozenset[str]:
    return frozenset(rule.code for rule in all_rules() if rule.level == "warning")


@cache
def _rules(codes: frozenset[str] | None) -> tuple[Rule, ...]:
    return tuple(rule for rule in all_rules() if codes is None or rule.code in codes)


@cache
def _results(options: AuditOptions) -> ResultCache | None:
    if options.cache_dir is None:
        return None
    what = [sorted(rule.code for rule in options.rules), sorted(options.named), options.least, options.unused]
    return ResultCache(options.cache_dir, repr(what))


@dataclass(kw_only=True)
class AuditResult:
    """The result of a run. `files` counts all files, `parsed` those that passed the prefilter."""

    findings: list[Finding] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    suppressed: int = 0
    files: int = 0
    parsed: int = 0

    def add(self, other: AuditResult) -> None:
        self.findings += other.findings
        self.skipped += other.skipped
        self.suppressed += other.suppressed
        self.files += other.files
        self.parsed += other.parsed


def audit(
    paths: Iterable[str],
    options: AuditOptions | None = None,
    *,
    jobs: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> AuditResult:
    """Audits files (see `discovery` for folders). `jobs` are processes; the default is one per CPU."""
    rest, options = iter(paths), options or AuditOptions()
    results = _results(options)
    if results is not None and not results.prepare():
        options = replace(options, cache_dir=None)
    first = list(islice(rest, _PARALLEL_FROM))
    if len(first) <= _FEW:
        options = replace(options, parse_all=True)
    jobs = jobs or os.cpu_count() or 1
    serial = jobs == 1 or len(first) < _PARALLEL_FROM
    chunks = _chunks(chain(first, rest))
    all_rules()  # before a fork: otherwise each process would import them again
    outcome = AuditResult()
    judge = partial(_judge_files, options=options)
    for part in map(judge, chunks) if serial else shared(judge, chunks, jobs, lost=_lost):
        outcome.add(part)
        if progress is not None:
            progress(part.files)
    outcome.findings.sort()
    outcome.skipped.sort()
    return outcome


def _chunks(files: Iterator[str]) -> Iterator[list[str]]:
    while chunk := list(islice(files, _CHUNK)):
        yield chunk


def _lost(path: str) -> AuditResult:
    return AuditResult(
        files=1, skipped=[SkippedFile(path=relative(path), reason="the process that read it has died")]
    )


def _judge_files(files: list[str], options: AuditOptions) -> AuditResult:
    outcome = AuditResult()
    collecting = gc.isenabled()
    gc.disable()  # all objects of a syntax tree are alive: searching it for garbage costs a third of the time
    try:
        for path in files:
            outcome.add(_judge_file(path, options))
    finally:
        if collecting:
            gc.enable()
        gc.collect(1)
    return outcome


def _judge_file(path: str, options: AuditOptions) -> AuditResult:
    try:
        data = read(path)
    except Unreadable as reason:
        return AuditResult(files=1, skipped=[SkippedFile(path=relative(path), reason=str(reason))])
    return audit_source(relative(path), data, options)


def audit_source(path: str, data: bytes, options: AuditOptions | None = None) -> AuditResult:
    """Audits one source text; `path` only appears in the report."""
    outcome, broken = AuditResult(files=1), False
    try:
        _judge(outcome, path, data, options or AuditOptions())
    except Unreadable as reason:
        said = str(reason)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        broken = True
        said = f"this Python cannot parse it: {_said(error)}{f' (line {line})' if line else ''}"
    except (RecursionError, MemoryError):
        said = "nested too deeply"
    except Exception as error:  # a bug in a rule costs one file, not the run
        said = f"a rule failed on it: {error!r}"
    else:
        return outcome
    return AuditResult(
        files=1, parsed=outcome.parsed, skipped=[SkippedFile(path=path, reason=said, broken=broken)]
    )


def _judge(outcome: AuditResult, path: str, data: bytes, options: AuditOptions) -> None:
    """Raises the errors of reading, parsing and the rules."""
    text = Text(data)
    rules = [rule for rule in options.rules if rule.may_apply(text)]
    names_us = b"noqa" in data and _NAMES_US.search(data) is not None
    if not rules and not names_us and not options.parse_all:
        if not data.isascii():
            decode(data)
        return
    results = _results(options)
    key = results.key(path, data) if results is not None else ""
    known = results.load(key) if results is not None else None
    if known is not None:
        outcome.findings, outcome.suppressed = known
        outcome.parsed = 1
        return
    source = decode(data)
    found: list[Finding] = []
    followed: dict[tuple[str, str], str | None] = {}
    if rules or options.parse_all:
        module = build(path, source)
        outcome.parsed = 1
        found = [finding for rule in rules for finding in rule.findings(module)]
        followed = module.memo.get("followed", {}).copy()
        module.release()
    wanted = names_us or (bool(found) and b"noqa" in data)
    suppressions = Suppressions.of(source) if wanted else Suppressions()
    # A finding with too low a confidence to be shown still needs its suppression, for runs that show it.
    left = [finding for finding in found if not suppressions.covers(finding)]
    outcome.suppressed = len(found) - len(left)
    outcome.findings = [options.graded(finding) for finding in left if options.shows(finding)]
    outcome.findings += _unused(path, suppressions, options)
    if results is not None:
        results.store(key, outcome.findings, outcome.suppressed, followed)


def _unused(path: str, suppressions: Suppressions, options: AuditOptions) -> list[Finding]:
    judged = {rule.code for rule in options.rules} if options.unused else set()
    return [
        Finding(
            path=path,
            line=line,
            column=1,
            end_line=line,
            code=UNUSED,
            name=NAME_OF_UNUSED,
            message=f"this line suppresses {code}, which is no longer found here",
            confidence="high",
            scope="process",
        )
        for line, code in suppressions.unused()
        if code in judged
    ]


def _said(error: SyntaxError | ValueError) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)
