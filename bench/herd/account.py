"""The account that runs PostgreSQL: our own, or an existing unprivileged one, since PostgreSQL refuses root."""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Account", "server_account"]


@dataclass(frozen=True, slots=True)
class Account:
    """Numeric ids to run a server as; `None` means as ourselves."""

    user: int | None = None
    group: int | None = None

    @property
    def is_other(self) -> bool:
        return self.user is not None

    def may_enter(self, path: Path) -> bool:
        """Whether every directory on the way to `path` lets this account through."""
        if not self.is_other:
            return True
        return all(step.stat().st_mode & stat.S_IXOTH for step in (path, *path.parents))

    def open_to(self, path: Path) -> Path:
        """Let this account enter a directory that we made ourselves."""
        if self.is_other:
            path.chmod(0o755)
        return path

    def give(self, path: Path) -> None:
        """Make this account the owner of a tree that we made ourselves."""
        if self.user is None or self.group is None:
            return
        os.chown(path, self.user, self.group)
        for directory, names, files in os.walk(path):
            for name in (*names, *files):
                os.chown(os.path.join(directory, name), self.user, self.group, follow_symlinks=False)


def server_account() -> Account:
    """Ourselves, unless we are root: then an existing account, since initdb wants a name for its uid."""
    if os.geteuid() != 0:
        return Account()
    entries = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    if not entries:
        raise RuntimeError("PostgreSQL refuses root and this machine has no other account: set DATABASE_URL")
    entry = entries.get("nobody") or next(iter(entries.values()))
    return Account(entry.pw_uid, entry.pw_gid)
