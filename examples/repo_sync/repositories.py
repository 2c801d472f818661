"""Git repositories on disk: what is in them, and what has changed since a commit."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

__all__ = ["changed", "commit_files", "head", "make", "repositories", "text_of"]

NOTHING = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""Git's name of the tree without files: everything has changed since."""
_WORDS = """\
async await lease token slot retry timeout connection pool commit branch merge index vector search chunk file worker
schedule leader fence clock deadline queue cache key value read write open close begin end test page server client
""".split()


def git(repository: Path, *arguments: str) -> str:
    """What git says. Raises `CalledProcessError`."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def repositories(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("*/.git"))


def head(repository: Path) -> str:
    return git(repository, "rev-parse", "HEAD").strip()


def changed(repository: Path, since: str, until: str) -> list[tuple[str, bool]]:
    """Path, and whether it still exists, of what differs between two commits.

    By commits and not by dates: those of git are the author's, and what is pushed late is older than what was seen.
    """
    told = git(repository, "diff", "--name-status", "--no-renames", "-z", since, until).split("\0")
    return [(path, status != "D") for status, path in zip(told[::2], told[1::2], strict=False)]


def text_of(repository: Path, commit: str, path: str) -> str:
    return git(repository, "show", f"{commit}:{path}")


def make(root: Path, name: str, *, files: int, seed: int) -> Path:
    """A repository with its first commit."""
    repository = root / name
    repository.mkdir(parents=True)
    git(repository, "init", "-q", "-b", "main")
    commit_files(repository, [f"docs/page_{number}.md" for number in range(files)], seed=seed)
    return repository


def commit_files(repository: Path, paths: list[str], *, seed: int, delete: str = "") -> str:
    """One commit: these files are written anew, each with some words of its own, 1,000 to 20,000 characters."""
    chance = random.Random(seed)
    for path in paths:
        length, lines, words = chance.randrange(1_000, 20_000), [f"# {path}"], chance.sample(_WORDS, 8)
        while sum(map(len, lines)) < length:
            lines.append(" ".join(chance.choices(words, k=12)))
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text("\n".join(lines) + "\n")
    if delete:
        (repository / delete).unlink()
    git(repository, "add", "--all")
    author = ("-c", "user.name=An Author", "-c", "user.email=author@example.org")
    git(repository, *author, "commit", "-q", "-m", f"{len(paths)} files")
    return head(repository)
