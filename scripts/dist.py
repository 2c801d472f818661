"""The wheel and the source archive, built twice, and tried as a stranger would.

    python -m scripts.dist            # make dist
    python -m scripts.dist --quick    # without trying each extra alone

1. Two builds in two folders must have the same bytes.
2. `twine check` and `check-wheel-contents` find nothing, and the source archive builds the same wheel.
3. In an empty environment: import, decorate, run the command, and check a program with mypy.
   `dist/sbom.cdx.json` lists what was installed with it (CycloneDX).
4. In an environment of its own for each extra: a program that uses what the extra is for (`scripts.extras`).

`STAMPEDE_GUARD_REPOSITORY=https://host/owner/name` puts the addresses of the project into the archives: hatch_build.py.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

from scripts.extras import EXTRAS

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
CONSTRAINTS = ROOT / "constraints.txt"
NOT_FOR_USERS = {"bench", "dev", "docs", "test"}

PROGRAM = """
import asyncio
from stampede_guard import StampedeGuard

guard = StampedeGuard.from_url("memory://", namespace="tried")
computed: list[int] = []


@guard.locked_cache(ttl="10m")
async def quality(project: int) -> dict[str, int]:
    computed.append(project)
    return {"project": project}


async def main() -> None:
    async with guard:
        found: list[dict[str, int]] = await asyncio.gather(*(quality(7) for _ in range(50)))
    assert found == [{"project": 7}] * 50 and computed == [7]


asyncio.run(main())
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="do not try each extra alone")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        try_core(wheel, Path(folder))
        for extra in () if quick else extras():
            try_extra(wheel, extra, Path(folder))
    print(f"dist/{wheel.name} is good")


def build(folder: Path) -> Path:
    """The wheel in `dist/`, after a second build has made the same bytes."""
    shutil.rmtree(DIST, ignore_errors=True)
    builds = DIST, folder / "again"
    for place in builds:
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place), str(ROOT))
    first, second = ({path.name: digest(path) for path in place.iterdir()} for place in builds)
    if first != second or len(first) != 2:
        raise SystemExit(f"two builds differ:\n  {first}\n  {second}")
    print("two builds have the same bytes:", *(f"\n  {name}  {found}" for name, found in first.items()))
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, DIST.iterdir()))
    (wheel,) = DIST.glob("*.whl")
    check_contents(wheel)
    return wheel


def check_contents(wheel: Path) -> None:
    # W004 is a name that no import statement can have. Django's migrations have such names, and nothing else may.
    run(str(Path(sys.executable).with_name("check-wheel-contents")), "--ignore", "W004", str(wheel))
    with zipfile.ZipFile(wheel) as archive:
        modules = [Path(name).with_suffix("") for name in archive.namelist() if name.endswith(".py")]
    for module in modules:
        if module.parent.name != "migrations" and not all(part.isidentifier() for part in module.parts):
            raise SystemExit(f"the wheel has a module that cannot be imported: {module}")


def try_core(wheel: Path, folder: Path) -> None:
    python = environment(folder / "core", str(wheel))
    program = folder / "program.py"
    program.write_text(PROGRAM, "utf-8")
    run(str(python), str(program))
    run(str(python), "-m", "stampede_guard.audit", str(program))
    list_parts(python)
    told = subprocess.run(
        [str(python.parent / "stampede-guard"), "keys"], capture_output=True, text=True, check=False
    )
    if told.returncode != 2 or "pip install" not in told.stderr:
        raise SystemExit(f"without its extra, the command must say what to install: {told}")
    run(str(python), "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS), "mypy")
    run(str(python), "-m", "mypy", "--strict", "--cache-dir", str(folder / "mypy"), str(program))
    print("the core: imported, decorated, audited, checked by mypy")


def list_parts(python: Path) -> None:
    """Write what the installed library consists of, as a CycloneDX list."""
    command = str(Path(sys.executable).with_name("cyclonedx-py"))
    run(
        command,
        "environment",
        "--output-reproducible",
        "--output-file",
        str(DIST / "sbom.cdx.json"),
        str(python),
    )


def extras() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = project["optional-dependencies"].keys() - NOT_FOR_USERS
    if named != EXTRAS.keys():
        raise SystemExit(
            f"EXTRAS does not have the extras of pyproject.toml: {sorted(named ^ EXTRAS.keys())}"
        )
    yield from sorted(named)


def try_extra(wheel: Path, extra: str, folder: Path) -> None:
    python = environment(folder / extra, f"{wheel}[{extra}]")
    program = folder / f"tried_{extra}.py"
    program.write_text(EXTRAS[extra], "utf-8")
    run(str(python), str(program))
    print(f"the extra {extra}: installed alone, and used", flush=True)


def environment(place: Path, requirement: str) -> Path:
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    run(str(python), "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS), requirement)
    return python


def run(*command: str) -> None:
    # Not in the checkout: there, Python would import the source and not what is installed.
    environ = {**os.environ, "SOURCE_DATE_EPOCH": "315532800", "PYTHONPATH": ""}
    done = subprocess.run(
        command, cwd=tempfile.gettempdir(), env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
