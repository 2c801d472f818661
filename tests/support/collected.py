"""A session of pytest that has collected its tests, and goes on in each process that is forked from it, as a worker's.

To collect takes a worker seconds of computing, also when all tests are imported. Here it is done once, before there is
a worker. `begin` does the rest of what `xdist.remote` does: it tells the controller what was collected, runs the tests
that are sent, and ends the session. What a worker has for itself it gets only then: its streams, its directory, its
tracer, and what a conftest.py prepares in the hook `pytest_worker_begins`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import execnet
import pytest
from _pytest.config import _prepareconfig

if TYPE_CHECKING:
    from xdist.remote import WorkerInteractor

__all__ = ["Collected", "begin", "collect"]


class Collected:
    """The session before it is forked. Not reusable: what it captures and what it measures belongs to one process."""

    def __init__(self, arguments: Sequence[str], plugins: Sequence[object]) -> None:
        self._measures = any(argument.startswith("--cov") for argument in arguments)
        # pytest-cov would erase what others have measured.
        self.config = _prepareconfig([*arguments, *(["--no-cov"] if self._measures else [])], [*plugins])
        self._measures = self._measures and "--no-cov" not in arguments
        _remote().setup_config(self.config, None)
        self.config.workerinput = {}  # type: ignore[attr-defined]  # some plugins ask whether it is there
        self._told = _Told()
        self.config.pluginmanager.add_hookspecs(_Hooks)
        self.config.pluginmanager.register(self._told)

    def collect(self) -> bool:
        """Whether there is a session to go on with. If not, a worker that collects by itself reports why."""
        try:
            self.config._do_configure()
            self.session = pytest.Session.from_config(self.config)
            self.config.hook.pytest_sessionstart(session=self.session)
            self.config.hook.pytest_collection(session=self.session)
        finally:
            self._capture.stop_global_capturing()
        self.config.pluginmanager.unregister(self._told)
        return not self.session.testsfailed

    @property
    def _capture(self) -> Any:
        return self.config.pluginmanager.getplugin("capturemanager")

    def begin(self, channel: execnet.Channel) -> None:
        """Be a worker to the end of its session."""
        config = self.config
        told, _, options, _ = channel.receive()
        os.environ["PYTEST_XDIST_TESTRUNUID"] = told["testrunuid"]
        os.environ["PYTEST_XDIST_WORKER"] = told["workerid"]
        os.environ["PYTEST_XDIST_WORKER_COUNT"] = str(told["workercount"])
        config.workerinput, config.workeroutput = told, {}  # type: ignore[attr-defined]
        if basetemp := options.get("basetemp"):
            config.option.basetemp = basetemp
            config._tmp_path_factory._given_basetemp = Path(basetemp)  # type: ignore[attr-defined]
        self._capture.start_global_capturing()
        self._capture.suspend_global_capture()
        remote = _remote()
        interactor = remote.WorkerInteractor(config, channel)
        remote.interactor = interactor  # it reports errors of its own by this name
        if self._measures:
            _measure(self.session)
        config.hook.pytest_worker_begins(session=self.session)
        interactor.pytest_sessionstart(self.session)
        self._told.tell(interactor)
        interactor.pytest_collection_finish(self.session)
        _finish(self.session)


def _remote() -> Any:
    """What pytest-xdist runs in a worker. pytest is to load its plugins before anybody imports them."""
    return importlib.import_module("xdist.remote")


class _Hooks:
    def pytest_worker_begins(self, session: pytest.Session) -> None:
        """This process is the worker of which `session.config.workerinput` tells. Its items may be put in order."""


class _Told:
    """What a worker tells its controller of the collection. Of warnings pytest itself tells whoever comes later."""

    def __init__(self) -> None:
        self._reports: list[pytest.CollectReport] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._reports.append(report)

    def tell(self, interactor: WorkerInteractor) -> None:
        for report in self._reports:
            interactor.pytest_collectreport(report)


def _measure(session: pytest.Session) -> None:
    """Begin with pytest-cov what `--no-cov` has left out."""
    from pytest_cov.plugin import CovPlugin

    config = session.config
    config.option.no_cov = False
    config.pluginmanager.unregister(name="_cov")
    measuring = CovPlugin(config.option, config.pluginmanager, start=False)
    config.pluginmanager.register(measuring, "_cov")
    measuring.pytest_sessionstart(session)
    measuring.cov_controller.cov._warn_no_data = False  # a worker may get no test


def _finish(session: pytest.Session) -> None:
    """The rest of a session, as pytest itself runs it."""
    config = session.config
    session.exitstatus = pytest.ExitCode.OK
    try:
        config.hook.pytest_runtestloop(session=session)
        if session.testsfailed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    except pytest.Session.Failed:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    except (KeyboardInterrupt, pytest.exit.Exception):
        session.exitstatus = pytest.ExitCode.INTERRUPTED
        config.hook.pytest_keyboard_interrupt(excinfo=pytest.ExceptionInfo.from_current())
    except BaseException:  # as pytest does: the controller is told of whatever it was
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        config.notify_exception(pytest.ExceptionInfo.from_current(), config.option)
    finally:
        os.chdir(session.startpath)
        config.hook.pytest_sessionfinish(session=session, exitstatus=session.exitstatus)
        config._ensure_unconfigure()


_collected: Collected | None = None


def collect(arguments: Sequence[str], plugins: Sequence[object] = ()) -> None:
    """Collect what a run with these `arguments` is to run."""
    global _collected
    collected = Collected(arguments, plugins)
    try:
        good = collected.collect()
    except (Exception, SystemExit, pytest.exit.Exception, pytest.Session.Interrupted):
        good = False
    if good:
        _collected = collected
    else:
        collected.config._ensure_unconfigure()


def begin(channel: execnet.Channel) -> None:
    """Be the worker at the other end of this `channel`. If nothing was collected here, be one that collects."""
    if _collected is not None:
        _collected.begin(channel)
        return
    ordinary = Path(_remote().__file__)
    names = {"__name__": "__channelexec__", "channel": channel}
    exec(compile(ordinary.read_text("utf-8"), str(ordinary), "exec"), names)
