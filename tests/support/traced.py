"""How much of a test is measured for coverage: its beginning.

A tracer makes Python two to three times as slow. A flood, a fuzz or a thousand seeds reach almost all of their lines in
the first moment, and then the same lines again. So the tracer of a test stops when its process has computed for a
while. The next test has it again. What a test does and asserts stays the same.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

try:
    import coverage
except ModuleNotFoundError:  # an environment without it measures nothing
    coverage = None  # type: ignore[assignment]

__all__ = ["measured", "without_children"]

SECONDS = 0.25
"""Of computing, with the tracer."""

PROGRAMS = ("tests/bench/", "tests/integration/test_herd.py", "tests/soak/", "tests/test_example")
"""Their processes are the programs of `bench` and `examples`, and the soak's. They reach no line of the package that
the tests of `chaos` and `integration` do not reach, and each spends more on the tracer than on its work."""

_CHILDREN = "COVERAGE_PROCESS_CONFIG"
"""coverage.py starts in each Python process that finds this in its environment."""


@contextmanager
def measured() -> Iterator[None]:
    """Stop the tracer of this process, if it has one, after `SECONDS` of computing, and start it again at the end."""
    tracer = coverage.Coverage.current() if coverage is not None else None
    if tracer is None:
        yield
        return

    def stop(*_: object) -> None:
        # A tracer that was stopped within a call and goes on outside of it would mistake one file for another. Stopped
        # and started in this way it is a new one.
        tracer.stop()

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
        if coverage.Coverage.current() is not tracer:
            tracer.start()


@contextmanager
def without_children(path: str) -> Iterator[None]:
    """Processes that the tests of these files start are not measured."""
    if not path.startswith(PROGRAMS):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(_CHILDREN, raising=False)
        yield
