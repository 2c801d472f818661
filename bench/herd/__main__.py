"""`python -m bench.herd`: the production herd, reproduced and cured, with figures and a picture."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import functools
import math
import signal
import sys
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
from redis.exceptions import RedisError
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.herd.measure import measure
from bench.herd.modes import MODES, Mode
from bench.herd.plan import FULL, QUICK, SMOKE, Plan
from bench.herd.report import headline, setting, write_report
from bench.herd.stage import Stage, open_stage
from bench.herd.story import Story, Told, machine
from bench.herd.table import table_so_far, terminal_table
from bench.herd.trial import run_trial

_LOG_WIDTH = 118
_DEFAULT_REPORT = Path("results/herd.html")


def main() -> int:
    """Exit status: 0, 1 if the run failed, 2 for a wrong command line, 130 if it was interrupted."""
    plan, arguments = parse(sys.argv[1:])
    console = Console(width=None if sys.stdout.isatty() else _LOG_WIDTH)
    try:
        # A SIGTERM unwinds everything as Ctrl-C does; what nothing can catch is the keeper's.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        story = asyncio.run(_run(plan, console))
    except KeyboardInterrupt:
        console.print("interrupted; every process has been stopped")
        return 130
    except (RuntimeError, OSError, RedisError, asyncpg.PostgresError) as error:
        console.print(f"[bold red]the herd could not be run:[/] {error}", highlight=False)
        return 1
    _tell(story, arguments, console)
    return 0


async def _run(plan: Plan, console: Console) -> Story:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        setup = progress.add_task("servers", total=None)
        async with open_stage(lambda text: progress.update(setup, description=text)) as stage:
            progress.update(setup, description="servers", total=1, completed=1)
            _tell_calibration(stage, console)
            modes: dict[Mode, Told] = {}
            for mode in plan.modes:
                task = progress.add_task(mode, total=plan.load.duration)
                recording = await run_trial(stage, plan, mode, functools.partial(progress.advance, task))
                modes[mode] = Told(recording, measure(recording, quiet=plan.quiet))
                story = Story(plan, stage, machine(), modes)
                if len(modes) < len(plan.modes):
                    console.print(table_so_far(story))
            return story


def _tell_calibration(stage: Stage, console: Console) -> None:
    calibration = stage.calibration
    console.print(
        f"{stage.database_version}, {stage.redis_version}: the aggregate over {calibration.rows:,} rows "
        f"({calibration.megabytes:.0f} MB) takes {1000 * calibration.solo_seconds:.0f} ms alone",
        highlight=False,
    )
    if not calibration.is_typical:
        console.print(
            "[yellow]warning:[/] outside 300 to 700 ms, so proportions will differ from the story's"
        )
    if not stage.monitored:
        console.print("[yellow]note:[/] this Redis does not allow MONITOR, so its commands are not counted")


def _tell(story: Story, arguments: argparse.Namespace, console: Console) -> None:
    console.print(terminal_table(story))
    for note in story.notes:
        console.print(f"[yellow]note:[/] {note}", highlight=False)
    console.print(setting(story), style="dim", highlight=False)
    console.print(headline(story), style="bold", highlight=False)
    picture = write_report(story, arguments.report)
    console.print(f"report: {arguments.report}   picture: {picture}", highlight=False, soft_wrap=True)
    if arguments.json is not None:
        story.write_json(arguments.json)
        console.print(f"figures: {arguments.json}", highlight=False, soft_wrap=True)


def parse(given: list[str]) -> tuple[Plan, argparse.Namespace]:
    """The plan that a command line means, and its other choices. Exits with status 2 if it makes no sense."""
    parser = _parser()
    arguments = parser.parse_args(given)
    plan: Plan = arguments.plan
    try:
        load = dataclasses.replace(
            plan.load,
            seconds=arguments.seconds or plan.load.seconds,
            users=arguments.users or plan.load.users,
        )
        return (
            dataclasses.replace(
                plan, modes=arguments.modes or plan.modes, ttl=arguments.ttl or plan.ttl, load=load
            ),
            arguments,
        )
    except ValueError as error:
        parser.error(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.herd",
        description="Reproduce the production herd and its cure on a real PostgreSQL and a real Redis.",
        epilog="DATABASE_URL and REDIS_URL name servers to use; without them, private ones are started. "
        "STAMPEDE_GUARD_CACHE is where made data stay between runs.",
    )
    size = parser.add_mutually_exclusive_group()
    for name, plan, text in (
        ("--quick", QUICK, "three modes, about 90 s (the default)"),
        ("--full", FULL, "all six modes, ttl 24 s, 75 s each"),
        ("--smoke", SMOKE, "two modes, short: for continuous integration"),
    ):
        size.add_argument(name, dest="plan", action="store_const", const=plan, help=text)
    parser.set_defaults(plan=QUICK)
    parser.add_argument("--modes", type=_modes, help=f"some of {','.join(MODES)}")
    parser.add_argument("--ttl", type=_seconds, metavar="S", help="lifetime of the entry, in seconds")
    parser.add_argument(
        "--seconds", type=_seconds, metavar="S", help="load per mode once all users are there"
    )
    parser.add_argument("--users", type=_users, metavar="N", help="users, each with a connection; 60 or more")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", default=_DEFAULT_REPORT,
        help=f"the HTML report, with its main picture beside it as .png (default: {_DEFAULT_REPORT})",
    )  # fmt: skip
    return parser


def _modes(text: str) -> tuple[Mode, ...]:
    known = {mode: mode for mode in MODES}
    unknown = [name for name in text.split(",") if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown mode {unknown[0]!r}; choose from {', '.join(MODES)}")
    return tuple(known[name] for name in dict.fromkeys(text.split(",")))  # type: ignore[index]


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds") from None
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} s: it must be more than 0 and finite")
    return value


def _users(text: str) -> int:
    if not text.isdigit() or int(text) < 60:
        raise argparse.ArgumentTypeError(f"{text} users are no herd on eight workers; give 60 or more")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
