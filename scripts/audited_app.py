"""Writes what the audit says of examples/audited_app into its README and the page of the audit.

    python -m scripts.audited_app

The report and the diff are the audit's own output; the herd is run on a Valkey, before `--fix` and after it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.herd.valkey import ValkeyServer

ROOT = Path(__file__).resolve().parent.parent
APP = "examples/audited_app"
PAGES = (ROOT / APP / "README.md", ROOT / "docs" / "audit.md")
BEGIN, END = "<!-- {name}: written by scripts/audited_app.py -->\n", "<!-- end of {name} -->"


def program(*arguments: str, folder: Path = ROOT, url: str = "") -> str:
    """What a Python program prints that runs in a folder, and finds the folder's own modules first."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "REDIS_URL": url}
    environment.pop("STAMPEDE_GUARD_URL", None)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:
        raise RuntimeError(done.stderr)
    return done.stdout


@contextmanager
def copied() -> Iterator[Path]:
    """A folder with the application in it, to be rewritten."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / APP, Path(folder) / APP, ignore=shutil.ignore_patterns("__pycache__"))
        yield Path(folder)


def report() -> str:
    return program("-m", "stampede_guard.audit", APP)


def summary() -> str:
    """The end of the report: its patterns, the dearest first."""
    return "SG101 fastapi-cache-unlocked:" + report().rpartition("\nSG101 fastapi-cache-unlocked:")[2]


def diff() -> str:
    return program("-m", "stampede_guard.audit", APP, "--fix", "--diff")


def beginning(whole: str) -> str:
    """The first file's import and its first endpoint."""
    import_, _, endpoints = whole.partition("\n@@")[2].partition("\n@@")
    first = "\n".join(endpoints.splitlines()[:8])
    return "\n@@".join((whole.partition("\n@@")[0], import_, first))


def herds() -> tuple[str, str]:
    """The line that the herd prints before `--fix`, and after."""
    with ValkeyServer() as before, ValkeyServer() as after, copied() as folder:
        first = program("-m", "examples.audited_app.herd", folder=folder, url=before.url)
        program("-m", "stampede_guard.audit", APP, "--fix", folder=folder)
        return first, program("-m", "examples.audited_app.herd", folder=folder, url=after.url)


def filled(page: str, name: str, text: str, language: str = "text") -> str:
    """The page with a fenced text between the marks of that name, where it has such marks."""
    begin, end = BEGIN.format(name=name), END.format(name=name)
    before, found, rest = page.partition(begin)
    if not found:
        return page
    return f"{before}{begin}\n```{language}\n{text.rstrip()}\n```\n\n{end}{rest.partition(end)[2]}"


def said() -> dict[str, tuple[str, str]]:
    """What stands between the marks, by their names, and in which language; the herds are told by `herds`."""
    whole = diff()
    return {
        "summary": (summary(), "text"),
        "diff": (whole, "diff"),
        "part of the diff": (beginning(whole), "diff"),
    }


def main() -> None:
    before, after = herds()
    texts = {**said(), "herds": (f"before  {before}after   {after}", "text")}
    for path in PAGES:
        page = path.read_text("utf-8")
        for name, (text, language) in texts.items():
            page = filled(page, name, text, language)
        path.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
