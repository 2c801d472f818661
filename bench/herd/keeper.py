"""The keeper outlives the runner by a moment, and ends whatever the runner started.

It is a process of its own because nothing inside a process can answer SIGKILL. It hears on its standard
input, a line each, what to end (`watch GROUP SIGNAL`), what has ended (`forget GROUP`), and which directories
go too (`remove PATH`). The runner is gone when the input ends or, since a forked child may hold a copy of the
pipe, when the parent's id changes. Standard library only: it is started by path, without site-packages.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time

_LOOK_AT_PARENT = 0.5
_PATIENCE = 8.0


class Keeper:
    """The processes and folders to end, in the order in which they were started."""

    def __init__(self) -> None:
        self.groups: dict[int, int] = {}
        self.directories: list[str] = []

    def hear(self, line: str) -> None:
        verb, _, rest = line.strip().partition(" ")
        if verb == "watch":
            group, number = rest.split()
            self.groups[int(group)] = int(number)
        elif verb == "forget":
            self.groups.pop(int(rest), None)
        elif verb == "remove":
            self.directories.append(rest)

    def end_everything(self) -> None:
        for group, number in reversed(self.groups.items()):
            _end_group(group, number)
        for directory in self.directories:
            shutil.rmtree(directory, ignore_errors=True)


def _end_group(group: int, number: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    try:
        os.killpg(group, number)
        os.killpg(group, signal.SIGCONT)  # a paused server cannot act on anything else
        while time.monotonic() < deadline and not _is_zombie(group):
            os.killpg(group, 0)
            time.sleep(0.02)
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _is_zombie(pid: int) -> bool:
    """Ended but not reaped, which may last in a container. False if it is unknown."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    keeper = Keeper()
    parent = int(sys.argv[1])
    pending = b""
    while True:
        ready, _, _ = select.select([0], [], [], _LOOK_AT_PARENT)
        if not ready:
            if os.getppid() != parent:
                break  # only now: a runner that died early may have said more than was heard yet
            continue
        heard = os.read(0, 65536)
        if not heard:
            break
        *lines, pending = (pending + heard).split(b"\n")
        for line in lines:
            keeper.hear(line.decode())
    keeper.end_everything()


if __name__ == "__main__":
    main()
