"""`make figures`: every figure of the pages, measured one benchmark after the other. The machine must do nothing else.

    python -m bench.figures                          # about an hour
    python -m bench.figures --only micro scale       # these, the other figures stay
    python -m bench.figures --only micro --quick     # to try the mechanism: tables on the screen, no page is changed
    python -m bench.figures --write                  # measures nothing: the pages, from the records

Each part becomes a file in bench/figures/records, with the commit, the date and the load of the machine, and from there
tables and pictures in the pages. A part that cannot be measured leaves its record and its figures as they are.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.figures.parts import PARTS, Part
from bench.figures.places import PLACES, write
from bench.figures.record import RECORDS, ROOT, Record, digest, load_all

OUT = ROOT / "results" / "figures"
CODE = ("stampede_guard", "bench", "constraints.txt")
_EVERY = 2.0  # seconds between looks at the load


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0; 1 if a part could not be measured or broke a promise, 2 for uncommitted code."""
    options = _parse(arguments)
    if options.write:
        _say_written(write(load_all()))
        return 0
    if not options.quick and (changed := uncommitted()):
        print(
            f"commit first, because figures are stamped with a commit: {', '.join(changed)}", file=sys.stderr
        )
        return 2
    failed, broken = list[str](), list[str]()
    for name in options.only:
        record, is_short = measured(name, PARTS[name], quick=options.quick)
        if record is None:
            failed.append(name)
        elif options.quick:
            _show(record)
        else:
            print(f"{name}: {record.write(RECORDS).relative_to(ROOT)}", flush=True)
            _say_written(write(load_all()))
        if is_short:
            broken.append(name)
    if failed:
        print(f"NOT MEASURED: {', '.join(failed)}", file=sys.stderr)
    if broken:
        print(f"A PROMISE IS BROKEN, see the table: {', '.join(broken)}", file=sys.stderr)
    return int(bool(failed or broken))


def measured(name: str, part: Part, *, quick: bool) -> tuple[Record | None, bool]:
    """Run the part's command and draw its pictures. None if it failed; and whether its figures break a promise."""
    out = OUT / name
    out.mkdir(parents=True, exist_ok=True)
    (out / part.figures).unlink(missing_ok=True)
    print(f"== {name}: {' '.join(part.command(out, quick=quick))}", flush=True)
    with _load() as load:
        ended = subprocess.run(part.command(out, quick=quick), cwd=ROOT, check=False)
    if not (out / part.figures).exists() or (ended.returncode != 0 and not part.whole_if_written):
        return None, False
    figures = part.read(out)
    pictures = {}
    for path, draw in part.pictures.items():
        target = out / Path(path).name if quick else ROOT / path
        draw(figures, out, target)
        pictures[path] = digest(target)
    record = Record(
        part=name,
        commit=_git("rev-parse", "--short", "HEAD"),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        load=(min(load), max(load)),
        figures=figures,
        pictures=pictures,
    )
    return record, ended.returncode != 0


@contextmanager
def _load() -> Iterator[list[float]]:
    """The load averages, from before the first command until after the last."""
    seen, ended = [os.getloadavg()[0]], threading.Event()

    def look() -> None:
        while not ended.wait(_EVERY):
            seen.append(os.getloadavg()[0])

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()
        seen.append(os.getloadavg()[0])


def uncommitted() -> list[str]:
    """Changed files whose content decides the figures. The records themselves and the pages are none."""
    lines = _git("status", "--porcelain", "--", *CODE).splitlines()
    paths = [line.split(maxsplit=1)[1] for line in lines]
    return [
        path
        for path in paths
        if not path.startswith("bench/figures/records") and path.endswith((".py", ".lua", ".txt"))
    ]


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.rstrip()


def _show(record: Record) -> None:
    record.write(OUT / "records")
    for name, place in PLACES.items():
        if place.parts == (record.part,):
            print(f"\n-- {name}, {place.page}\n\n{place.rendered({record.part: record})}\n")


def _say_written(pages: Sequence[str]) -> None:
    print(f"written: {', '.join(pages) or 'nothing changed'}", flush=True)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.figures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=list(PARTS),
        default=list(PARTS),
        metavar="PART",
        help=f"of {', '.join(PARTS)}",
    )
    parser.add_argument(
        "--quick", action="store_true", help="small runs; the pages and records stay as they are"
    )
    parser.add_argument(
        "--write", action="store_true", help="measure nothing: write the recorded figures into the pages"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
