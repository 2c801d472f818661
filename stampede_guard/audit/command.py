"""The command line: `stampede-guard audit ...` and `stampede-guard explain CODE`.

Both are plain functions of their arguments, so any command line can call them. `main(arguments)` and
`explain_main(arguments)` return the exit code: 0 clean or information only, 1 findings or a syntax error, 2 misuse or,
with --strict, skipped files.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.metadata
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stampede_guard.audit import editor, fixing, watching
from stampede_guard.audit.callers import toned
from stampede_guard.audit.config import Config, Misconfigured, load, load_file, selected
from stampede_guard.audit.engine import AuditOptions, AuditResult, audit, audit_source
from stampede_guard.audit.files import baseline, changes, suppressions
from stampede_guard.audit.files.discovery import Discovery, Patterns
from stampede_guard.audit.files.elsewhere import allowed
from stampede_guard.audit.files.paths import common_folder, relative
from stampede_guard.audit.files.project import with_project
from stampede_guard.audit.files.starters import without_elected
from stampede_guard.audit.files.uses import counted, once_per_file
from stampede_guard.audit.finding import CONFIDENCES, plural, printable
from stampede_guard.audit.reports import FORMATS
from stampede_guard.audit.reports.explain import explain, listing
from stampede_guard.audit.reports.guides import guide_lines
from stampede_guard.audit.reports.progress import ProgressBar
from stampede_guard.audit.reports.statistics import statistics
from stampede_guard.audit.reports.text import has_rich, rich_text
from stampede_guard.audit.results import default_folder

CLEAN, FOUND, MISUSED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """`audit`: returns the exit code. Reports go to stdout, errors to stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["explain"]:
        return explain_main(given[1:])
    try:
        options = _parsed(given)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        return _run(options)
    except (Misconfigured, changes.NoSuchRevision, FileNotFoundError, ValueError, OSError) as error:
        said = (
            f"no such file or folder: {error}"
            if type(error) is FileNotFoundError and not error.errno
            else str(error)
        )
        sys.stderr.write(f"audit: {printable(said)}\n")
        return MISUSED
    except KeyboardInterrupt:
        return 130


def explain_main(arguments: Sequence[str]) -> int:
    """`explain`: a rule's documentation, or the list of rules."""
    if not arguments:
        sys.stdout.write(listing())
        return CLEAN
    for code in arguments:
        try:
            sys.stdout.write(explain(code))
        except KeyError:
            sys.stderr.write(f"audit: {code!r} is not a rule; without an argument, all rules are listed\n")
            return MISUSED
    return CLEAN


def _parsed(given: Sequence[str] | None) -> argparse.Namespace:
    """A mistyped option is refused with the nearest one."""
    parser = _parser()
    options, unknown = parser.parse_known_args(given)
    for option in unknown:
        known = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(option.partition("=")[0], known, n=1)
        hint = f" (do you mean {near[0]}?)" if near else ""
        parser.error(f"unrecognized arguments: {option}{hint}")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stampede-guard audit", description="Finds every unlocked cache, and related faults."
    )
    add = parser.add_argument
    add("paths", nargs="*", default=["."], help="files and folders; - reads standard input")
    add("--output-format", choices=sorted(FORMATS), default="text")
    add("--output-file", metavar="FILE", help="write the report there instead of to standard output")
    add(
        "--select",
        action="append",
        default=[],
        metavar="CODES",
        help="only these codes, beginnings of codes, or names",
    )
    add(
        "--extend-select",
        action="append",
        default=[],
        metavar="CODES",
        help="these codes, too; a full code shows all its findings, whatever their confidence",
    )
    add("--ignore", action="append", default=[], metavar="CODES")
    add("--min-confidence", choices=CONFIDENCES, help="default: medium")
    add("--exclude", action="append", default=[], metavar="PATTERN")
    add("--include-tests", action="store_true", help="audit tests too")
    add("--baseline", metavar="FILE", help="report only findings that are not in this file")
    add("--write-baseline", metavar="FILE", help="write the present findings to this file")
    add("--changed-since", metavar="REV", help="report only lines changed since a revision")
    add("--add-noqa", action="store_true", help="write a suppression for every finding")
    add("--fix", action="store_true", help="apply the safe fixes (needs the extra [audit])")
    add("--unsafe-fixes", action="store_true", help="with --fix: also apply fixes that you must review")
    add("--diff", action="store_true", help="with --fix: show the changes, and write nothing")
    add("--stdin-filename", metavar="PATH", default="stdin.py")
    add("--exit-zero", action="store_true", help="exit 0 even with findings")
    add("--strict", action="store_true", help="exit 2 when files were skipped")
    add("--jobs", type=_positive, metavar="N", help="processes; default: one per CPU")
    add("--config", metavar="FILE", help="a pyproject.toml; default: the nearest above")
    add("--no-config", action="store_true")
    add("--no-cache", action="store_true", help="neither read nor keep results of earlier runs")
    add("--cache-dir", metavar="FOLDER", help="where results are kept; default: the user's folder of caches")
    add("--statistics", action="store_true", help="print only the number of findings of each rule")
    add("--lsp", action="store_true", help="serve an editor over standard input and output (extra [lsp])")
    add("--watch", action="store_true", help="audit again whenever a file changes, until interrupted")
    add("--version", action="version", version=f"stampede-guard audit {_version()}")
    return parser


def _version() -> str:
    try:
        return importlib.metadata.version("stampede-guard")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _run(given: argparse.Namespace) -> int:
    if given.lsp:
        editor.serve()
        return CLEAN
    config = _config(given)
    ignored = _listed(given.ignore) or config.ignore
    codes, named = selected(
        _listed(given.select) or config.select,
        ignored,
        (*config.extend_select, *_listed(given.extend_select)),
    )
    least = given.min_confidence or config.min_confidence
    unused = suppressions.UNUSED not in (code.upper() for code in ignored)
    options = AuditOptions(codes=codes, named=named, least=least, unused=unused)
    if not given.no_cache:
        options = replace(options, cache_dir=given.cache_dir or default_folder())
    if given.fix or given.diff:
        return _fix(given, config, options)
    outcome = _found(given, config, options, _stdin(given))
    if given.write_baseline is not None:
        baseline.write(given.write_baseline, outcome.findings, config.folder)
        sys.stderr.write(
            f"audit: {plural(len(outcome.findings), 'finding')} remembered in {given.write_baseline}\n"
        )
        return CLEAN
    if given.add_noqa:
        sys.stderr.write(f"audit: {suppressions.add(outcome.findings)} lines suppressed\n")
        return CLEAN
    _write(given, outcome)
    if given.watch:
        _watch(given, config, options)
    return _code(given, outcome)


def _watch(given: argparse.Namespace, config: Config, options: AuditOptions) -> None:
    """Reports again after each change, until interrupted. Standard input never changes."""
    if given.paths == ["-"]:
        raise Misconfigured("--watch needs files, not standard input")
    for changed in watching.changes(lambda: _discovery(given, config).files(given.paths), time.sleep):
        sys.stderr.write(f"audit: {plural(len(changed), 'file')} changed\n")
        _write(given, _found(given, config, options, None))
        sys.stdout.flush()


def _code(given: argparse.Namespace, outcome: AuditResult) -> int:
    if given.strict and outcome.skipped:
        return MISUSED
    failing = any(finding.level == "warning" for finding in outcome.findings)
    failing = failing or any(skipped.broken for skipped in outcome.skipped)
    return FOUND if failing and not given.exit_zero else CLEAN


def _fix(given: argparse.Namespace, config: Config, options: AuditOptions) -> int:
    """Fixes files and reports the remaining findings. With --diff it only shows, and its exit code is 1 if there is
    a diff.
    """
    fixing.require_libcst()
    data = _stdin(given)
    outcome = _found(given, config, options, data)
    how = {"diff": given.diff, "unsafe": given.unsafe_fixes}
    if data is not None:
        path = relative(given.stdin_filename)
        after = fixing.fix_text(outcome, data, path, with_project([], [path]), **how)
        changed = after != data
    else:
        after = None
        files = with_project(list(_discovery(given, config).files(given.paths)), given.paths)
        changed = fixing.fix_files(outcome, files, **how) > 0
    for line in guide_lines(outcome.findings):
        sys.stderr.write(f"audit: {line}\n")
    if given.diff:
        return FOUND if changed and not given.exit_zero else CLEAN
    left = _found(given, config, options, after)
    if data is None:
        _write(given, left)
    return _code(given, left)


def _stdin(given: argparse.Namespace) -> bytes | None:
    return sys.stdin.buffer.read() if given.paths == ["-"] else None


def _found(
    given: argparse.Namespace, config: Config, options: AuditOptions, data: bytes | None
) -> AuditResult:
    """The findings to report, after all options that leave findings out."""
    outcome = _judge(given, config, options, data)
    outcome.findings = [finding for finding in outcome.findings if not config.ignores(finding)]
    if given.changed_since is not None:
        lines = changes.changed_lines(given.changed_since)
        outcome.findings = [finding for finding in outcome.findings if changes.touches(finding, lines)]
    known = given.baseline or config.baseline
    if known is not None and given.write_baseline is None:
        outcome.findings = baseline.new(outcome.findings, baseline.read(known), config.folder)
    return outcome


def _config(given: argparse.Namespace) -> Config:
    if given.no_config:
        return Config()
    if given.config is not None:
        return load_file(Path(given.config))
    # The working directory may belong to another project, or to none, as an editor's does. So search from the
    # audited paths.
    judged = [os.path.dirname(given.stdin_filename)] if given.paths == ["-"] else given.paths
    here, there = Path.cwd(), common_folder(judged)
    inside = any(Path(os.path.abspath(path)).is_relative_to(here) for path in judged)
    return load((here, there) if inside else (there, here))


def _listed(values: list[str]) -> tuple[str, ...]:
    return tuple(code.strip() for value in values for code in value.split(",") if code.strip())


def _judge(
    given: argparse.Namespace, config: Config, options: AuditOptions, data: bytes | None
) -> AuditResult:
    if data is not None:
        if any(patterns.cover(given.stdin_filename) for patterns in _excluded(given, config)):
            return AuditResult()
        path = relative(given.stdin_filename)
        outcome = audit_source(path, data, replace(options, parse_all=True, cache_dir=None))
        if given.fix or given.diff:
            outcome.findings = allowed(outcome.findings, with_project([], [path]))
        return outcome
    discovery = _discovery(given, config)
    with ProgressBar(shown=sys.stderr.isatty()) as progress:
        outcome = audit(
            progress.watch(discovery.files(given.paths)), options, jobs=given.jobs, progress=progress.advance
        )
    whole = any(os.path.isdir(path) for path in given.paths)
    found = counted(outcome.findings, progress.files, whole=whole)
    files = with_project(progress.files, given.paths) if given.fix or given.diff else progress.files
    found = toned(without_elected(found, progress.files), progress.files, given.paths, named=options.named)
    outcome.findings = allowed(found, files)
    outcome.skipped = sorted([*outcome.skipped, *discovery.skipped])
    return outcome


def _discovery(given: argparse.Namespace, config: Config) -> Discovery:
    return Discovery(
        exclude=_excluded(given, config),
        include_tests=given.include_tests or config.include_tests,
    )


def _excluded(given: argparse.Namespace, config: Config) -> tuple[Patterns, Patterns]:
    return config.excluded, Patterns(_listed(given.exclude))


def _write(given: argparse.Namespace, outcome: AuditResult) -> None:
    outcome = replace(outcome, findings=once_per_file(outcome.findings))
    if given.statistics:
        _say(statistics(outcome))
    elif given.output_file is not None:
        Path(given.output_file).write_text(FORMATS[given.output_format](outcome), "utf-8")
    elif given.output_format == "text" and sys.stdout.isatty() and has_rich():
        sys.stdout.write(rich_text(outcome, width=shutil.get_terminal_size().columns))
    else:
        _say(FORMATS[given.output_format](outcome))


def _say(report: str) -> None:
    """If the terminal cannot show a character, print its number instead."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(report.encode(encoding, "backslashreplace").decode(encoding))
