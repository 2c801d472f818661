"""Child processes that never outlive us, however we end.

Every child leads a process group of its own, so a Ctrl-C in the terminal reaches only the runner, which then
stops its children in order. What the runner cannot do for itself (SIGKILL, a crash of the interpreter) the
keeper does: see `bench.herd.keeper`. PR_SET_PDEATHSIG would be shorter, but it is Linux only, misses
grandchildren, and fires when the starting *thread* ends.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["Child", "Process", "adopt", "start", "temporary_directory"]


class Process(Protocol):
    """A `subprocess.Popen`, or what is like one."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


@dataclass(frozen=True, slots=True)
class Child:
    """A running process group of ours, and the signal that ends it in good order."""

    process: Process
    end_signal: signal.Signals
    log: Path | None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Signal the whole group. A group that has ended is not an error."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def stop(self, *, patience: float = 10.0) -> None:
        """End in good order, or by SIGKILL after `patience` seconds. A second stop is not an error."""
        self.send(self.end_signal)
        self.send(signal.SIGCONT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self.kill()

    def kill(self) -> None:
        """SIGKILL the whole group at once and reap it."""
        self.send(signal.SIGKILL)
        self.process.wait()
        _link().tell(f"forget {self.pid}")

    def last_words(self, *, lines: int = 15) -> str:
        """The end of the child's log, for an error message."""
        if self.log is None or not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def start(
    command: Sequence[str | os.PathLike[str]],
    *,
    end_signal: signal.Signals = signal.SIGTERM,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
    user: int | None = None,
    group: int | None = None,
) -> Child:
    """Start `command` so that it ends with this process.

    `end_signal` asks it to end in good order. `log` receives both output streams (none: they are discarded). `user` and
    `group` are numeric ids to run as, and only root may set them. Raises `OSError` as `subprocess` does.
    """
    link = _link()
    with contextlib.ExitStack() as stack:
        output: int = subprocess.DEVNULL
        if log is not None:
            output = stack.enter_context(log.open("ab")).fileno()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            cwd=cwd,
            pass_fds=pass_fds,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
            process_group=0,
        )
    child = Child(process, end_signal, log)
    link.watch(child)
    return child


def adopt(process: Process, *, end_signal: signal.Signals, log: Path | None = None) -> Child:
    """End this process, the first of its group, with ours. For one that was not started by `start`."""
    child = Child(process, end_signal, log)
    _link().watch(child)
    return child


def temporary_directory(prefix: str, *, parent: Path | None = None) -> Path:
    """A private directory, in `parent` or where temporary things go, that goes when we do, however we end."""
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    _link().remove_at_end(path)
    return path


class _KeeperLink:
    """Our end of the pipe to the keeper; also ends everything at a normal exit."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._children: list[Child] = []
        self._directories: list[Path] = []
        self._mutex = threading.Lock()
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py")), str(self.owner)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        atexit.register(self._end_everything)

    def watch(self, child: Child) -> None:
        self._children.append(child)
        self.tell(f"watch {child.pid} {int(child.end_signal)}")

    def remove_at_end(self, directory: Path) -> None:
        self._directories.append(directory)
        self.tell(f"remove {directory}")

    def tell(self, line: str) -> None:
        if os.getpid() != self.owner or self._keeper.stdin is None:
            return
        with self._mutex, contextlib.suppress(BrokenPipeError, ValueError):
            self._keeper.stdin.write(f"{line}\n".encode())
            self._keeper.stdin.flush()

    def _end_everything(self) -> None:
        if os.getpid() != self.owner:
            return  # a forked copy of us exits: the children are not its own
        for child in reversed(self._children):
            if child.running:
                child.stop()
        for directory in self._directories:
            shutil.rmtree(directory, ignore_errors=True)
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        self._keeper.wait()


_the_link: _KeeperLink | None = None
_link_mutex = threading.Lock()


def _link() -> _KeeperLink:
    global _the_link
    with _link_mutex:
        if _the_link is None or _the_link.owner != os.getpid():
            _the_link = _KeeperLink()
        return _the_link
