"""Run the quick tests on every supported Python found on this machine, and say which were not run.

    python scripts/interpreters.py [--lowest | --tenth | --ready] [tests ...]

Each interpreter gets an environment of its own under `.cache/interpreters`, with the versions of
constraints.txt. `--lowest` takes the running interpreter instead, with the lowest versions of the library's
dependencies that pyproject.toml allows: a floor that nobody stands on is a guess. The exit status is 1 if a
test failed anywhere, 0 otherwise; an interpreter that is not here is listed as NOT RUN and is no failure.

`--tenth` runs a fixed tenth of the whole suite (`tests.support.tenth`) on each further interpreter, that is not on the
running one, all at once and for at most twenty minutes. One that cannot be installed is NOT RUN, too. `--ready` only
makes their environments.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".cache" / "interpreters"
QUICK = ["tests/core", "tests/stores"]
TENTH = [
    *("-p", "tests.support.tenth", "--numprocesses=2", "--dist=worksteal", "--max-worker-restart=0"),
    # What they check does not depend on the Python: the site, the types, the linters.
    *(
        f"--ignore=tests/{name}"
        for name in ("test_site.py", "typing", "audit/test_linter.py", "test_repository.py")
    ),
    # It builds archives, for which these environments have no tools.
    "--deselect=tests/test_published.py::test_the_wheel_holds_nothing_that_a_checker_of_wheels_would_refuse",
    "tests",
]
LONGEST = 1_200.0  # seconds for a tenth: some minutes on a quiet machine
_started: list[subprocess.Popen[str]] = []


def main() -> int:
    parser = argparse.ArgumentParser(description="The quick tests on every supported Python found here.")
    parser.add_argument("--lowest", action="store_true", help="this Python, the lowest allowed dependencies")
    parser.add_argument("--tenth", action="store_true", help="a tenth of the suite on each further Python")
    parser.add_argument("--ready", action="store_true", help="only make the environments of --tenth")
    parser.add_argument("tests", nargs="*", help="what pytest runs instead of its core and store tests")
    given = parser.parse_args()
    if given.tenth or given.ready:
        return tenths(install_only=given.ready)
    tests = given.tests or [*QUICK, *sorted(str(path) for path in (ROOT / "tests").glob("test_*.py"))]
    tests = [name for name in tests if (ROOT / name.partition("::")[0]).exists()]
    if given.lowest:
        results = {"lowest dependencies": run(sys.executable, "lowest", lowest_pins(), tests)}
    else:
        found = {version: interpreter(version) for version in SUPPORTED}
        results = {version: run(path, version, [], tests) for version, path in found.items() if path}
    print("\n" + "\n".join(summary(results, [] if given.lowest else SUPPORTED)))
    return int(any(line.startswith("FAILED") for line in results.values()))


def tenths(*, install_only: bool) -> int:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    further = tuple(version for version in SUPPORTED if version != here)
    results: dict[str, str] = {}
    environments: dict[str, str] = {}
    for version in further:
        if (path := interpreter(version)) is None:
            continue
        try:
            ours = environment(path, f"{version}-all", [], extras="bench,test", more=["pytest-xdist"])
        except subprocess.CalledProcessError as error:
            results[version] = f"NOT RUN: it cannot be installed: {error}"
            continue
        results[version] = "ready"
        environments[version] = ours
    if environments and not install_only:
        # All at once: two workers of one wait for most of the time.
        with ThreadPoolExecutor(len(environments)) as pool:
            try:
                closing = pool.map(lambda ours: bounded(ours, TENTH, seconds=LONGEST), environments.values())
                results.update(zip(environments, closing, strict=True))
            except BaseException:
                break_off()  # the pool waits for them
                raise
    print("\n" + "\n".join(summary(results, further)))
    return int(any(line.startswith("FAILED") for line in results.values()))


def interpreter(version: str) -> str | None:
    """A working Python of this minor version, or None. A shim that starts nothing does not count."""
    for candidate in candidates(version):
        check = f"import sys, venv; sys.exit(sys.version_info[:2] != {tuple(map(int, version.split('.')))})"
        answer = subprocess.run([candidate, "-c", check], capture_output=True, check=False)
        if answer.returncode == 0:
            return candidate
    return None


def candidates(version: str) -> Iterator[str]:
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        yield sys.executable
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from (str(path) for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True))


def lowest_pins() -> list[str]:
    """`redis[hiredis]>=7.2` of pyproject.toml as the pin `redis==7.2`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    floors = [re.fullmatch(r"([\w.-]+)(?:\[.*\])?>=([\w.]+)", line) for line in project["dependencies"]]
    return [f"{floor[1]}=={floor[2]}" for floor in floors if floor]


def run(python: str, name: str, pins: list[str], tests: list[str]) -> str:
    """pytest's closing line, `FAILED` before it if a test failed."""
    print(f"\n== {name}: {python}", flush=True)
    try:
        ours = environment(python, name, pins)
    except subprocess.CalledProcessError as error:
        return f"FAILED to install: {error}"
    command = [ours, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    closing = ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as tested:
        for line in tested.stdout or ():
            print(line, end="", flush=True)
            closing = line.strip("= \n") or closing
    # 5 is "no tests were collected": a mistake here, not a success.
    return closing if tested.returncode == 0 else f"FAILED ({tested.returncode}): {closing}"


def bounded(python: str, arguments: list[str], *, seconds: float) -> str:
    """The same, `FAILED` also after so many seconds. What it printed comes in one piece."""
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    # No pipe: what a test left running would keep it open.
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(
            command, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        ) as tested:
            _started.append(tested)
            try:
                status: int | None = tested.wait(seconds)
            except BaseException as error:
                os.killpg(tested.pid, signal.SIGKILL)  # its workers, too
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                status = None
        said.seek(0)
        lines = said.read().splitlines()
    print("\n".join(lines), flush=True)
    closing = lines[-1].strip("= ") if lines else ""
    if status is None:
        return f"FAILED: broken off after {seconds:g} s"
    return closing if status == 0 else f"FAILED ({status}): {closing}"


def break_off() -> None:
    """End every run of `bounded` that is under way."""
    for tested in _started:
        if tested.poll() is None:
            os.killpg(tested.pid, signal.SIGKILL)


def environment(
    python: str, name: str, pins: list[str], *, extras: str = "test", more: Sequence[str] = ()
) -> str:
    """An environment with the package and what its tests need, made once for each set of requirements."""
    place = PLACE / name
    stated = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {pin.partition("==")[0] for pin in pins}
    lines = [line for line in stated if line.partition("==")[0].lower() not in pinned] + pins
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    stamp, mark = (
        place / ".ready",
        hashlib.sha256("\n".join([python, project, extras, *more, *lines]).encode()).hexdigest(),
    )
    ours = str(place / "bin" / "python")
    if stamp.exists() and stamp.read_text() == mark:
        return ours
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    constraints = place / "constraints.txt"
    constraints.write_text("\n".join(lines) + "\n")
    install = [ours, "-m", "pip", "install", "--quiet", "--constraint", str(constraints)]
    subprocess.run([*install, "--no-compile", *more, "--editable", f"{ROOT}[{extras}]"], check=True)
    stamp.write_text(mark)
    return ours


def summary(results: dict[str, str], wanted: tuple[str, ...] | list[str]) -> Iterator[str]:
    for name in [*wanted, *(name for name in results if name not in wanted)]:
        yield f"{name:>20}  {results.get(name, 'NOT RUN: no such Python on this machine')}"


if __name__ == "__main__":
    sys.exit(main())
