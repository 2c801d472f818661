"""Worker processes that get commands and report what they saw."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

__all__ = ["Crew"]


class Crew:
    """Processes with warm connections. They end with us, whatever ends us: their standard input closes."""

    def __init__(self, url: str, namespace: str, size: int, *, module: str = "bench.micro.worker") -> None:
        command = [sys.executable, "-m", module, url, namespace]
        self._members = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(size)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members:
            assert member.stdin is not None and member.stdout is not None
            member.stdin.close()
        for member in self._members:
            try:
                member.wait(15)
            except subprocess.TimeoutExpired:
                member.kill()
                member.wait()
            assert member.stdout is not None
            member.stdout.close()

    def warm(self) -> None:
        """One after the other, so that each connects everything for a key of its own."""
        for number in range(len(self._members)):
            self._tell(number, do="warm", key=f"warm:{number}")
            self._hear(number)

    def tell_all(self, **command: Any) -> None:
        for number in range(len(self._members)):
            self._tell(number, **command)

    def hear_all(self) -> list[dict[str, Any]]:
        """One line of each. Raises `RuntimeError` when one has died."""
        return [self._hear(number) for number in range(len(self._members))]

    def _tell(self, number: int, **command: Any) -> None:
        stdin = self._members[number].stdin
        assert stdin is not None
        stdin.write(json.dumps(command) + "\n")
        stdin.flush()

    def _hear(self, number: int) -> dict[str, Any]:
        stdout = self._members[number].stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise RuntimeError(f"worker {number} has died; what it said stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer
