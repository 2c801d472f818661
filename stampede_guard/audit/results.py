"""Results of earlier runs, one file per audited file and set of options.

An entry is used only if all of these are unchanged: the file's bytes, its path, the options, the audit's own code,
this Python, and every file that was followed from it. An entry that cannot be read is ignored and written anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from stampede_guard.audit.caching.imported import place_of
from stampede_guard.audit.finding import Finding

ENTRIES = 50_000  # files of one cache; beyond them, the oldest half is removed
_LARGEST = 1_000_000  # bytes of one entry


class ResultCache:
    """A folder of results. Errors of the file system cost the entry, never the run. Safe for parallel processes:
    an entry is written beside its place and then renamed.
    """

    def __init__(self, folder: str, options: str) -> None:
        self.folder = folder
        self._seed = f"{_code()}\0{sys.version}\0{options}".encode()

    def prepare(self) -> bool:
        """Creates the folder with a .gitignore in it and removes old entries. False if it cannot be written."""
        try:
            os.makedirs(self.folder, exist_ok=True)
            ignore = os.path.join(self.folder, ".gitignore")
            if not os.path.exists(ignore):
                Path(ignore).write_text("*\n", "utf-8")
            self._bound()
        except OSError:
            return False
        return os.access(self.folder, os.W_OK)

    def key(self, path: str, data: bytes) -> str:
        digest = hashlib.blake2b(self._seed, digest_size=16)
        for part in (os.path.abspath(path), path):
            digest.update(part.encode("utf-8", "surrogateescape") + b"\0")
        digest.update(data)
        return digest.hexdigest()

    def load(self, key: str) -> tuple[list[Finding], int] | None:
        """The stored findings, and how many were suppressed. None if there is no valid entry."""
        try:
            with open(self._place(key), "rb") as file:
                raw = file.read(_LARGEST + 1)
            stored = json.loads(raw) if len(raw) <= _LARGEST else None
            if stored is None or stored["key"] != key:
                return None
            if any(_seen(place_of(of, name)) != seen for of, name, seen in stored["followed"]):
                return None
            return [_finding(found) for found in stored["findings"]], int(stored["suppressed"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def store(
        self, key: str, findings: list[Finding], suppressed: int, followed: dict[tuple[str, str], str | None]
    ) -> None:
        """`followed` has the file of each followed import (file, module), or None if there was none."""
        place = self._place(key)
        content = {
            "key": key,
            "followed": [[of, name, _seen(found)] for (of, name), found in followed.items()],
            "findings": [asdict(finding) for finding in findings],
            "suppressed": suppressed,
        }
        with suppress(OSError, ValueError):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            handle, beside = tempfile.mkstemp(dir=os.path.dirname(place), prefix=".new-")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(content, file)
                os.replace(beside, place)
            except BaseException:
                os.unlink(beside)
                raise

    def _place(self, key: str) -> str:
        return os.path.join(self.folder, key[:2], f"{key[2:]}.json")

    def _bound(self) -> None:
        found = [
            (entry.stat().st_mtime_ns, entry.path)
            for room in os.scandir(self.folder)
            if room.is_dir(follow_symlinks=False) and len(room.name) == 2
            for entry in os.scandir(room.path)
        ]
        if len(found) > ENTRIES:
            for _changed, path in sorted(found)[: len(found) - ENTRIES // 2]:
                with suppress(OSError):
                    os.unlink(path)


def _seen(place: str | None) -> list[str]:
    """A followed file, and the hash of its bytes."""
    if place is None:
        return []
    with open(place, "rb") as file:
        return [place, hashlib.blake2b(file.read(), digest_size=16).hexdigest()]


def default_folder() -> str:
    """`stampede_guard/audit` in the user's folder of caches. A folder of the audited project would let that project
    bring its own results.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "stampede_guard", "audit")


def _finding(stored: dict[str, Any]) -> Finding:
    stored["fix_reasons"] = tuple(stored["fix_reasons"])
    stored["cost"] = tuple(stored["cost"])
    stored["otherwise"] = tuple(stored["otherwise"])
    return Finding(**stored)


@cache
def _code() -> str:
    """The hash of the audit's own source: another version gives other results."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
