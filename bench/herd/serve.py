"""`python -m bench.herd.serve`: the service of the story in one mode, for a load of your own; Ctrl-C ends it."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import signal
import sys
import uuid
from collections.abc import Callable, Sequence

import asyncpg  # type: ignore[import-untyped]
from redis.exceptions import RedisError

from bench.herd.fleet import Fleet
from bench.herd.modes import HAND_WRITTEN, MODES
from bench.herd.settings import AppSettings
from bench.herd.stage import Stage, open_stage
from bench.herd.story import ABOUT

__all__ = ["main", "serve"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 after Ctrl-C or SIGTERM, 1 if something could not be started, 2 for a wrong command line."""
    options = _parser().parse_args(arguments)
    # A SIGTERM stops the servers as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        asyncio.run(serve(options, lambda text: print(text, flush=True)))
    except KeyboardInterrupt:
        return 0
    except (RuntimeError, OSError, RedisError, asyncpg.PostgresError) as error:
        print(f"the herd's service could not be run: {error}", file=sys.stderr)
        return 1
    return 0


async def serve(options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Start the servers and the workers, say where they are, and wait until the task is cancelled."""
    async with open_stage(say) as stage:
        settings = _settings(options, stage)
        fleet = Fleet(settings, options.workers, port=options.port)
        try:
            await asyncio.to_thread(fleet.start)
            say(_told(options, stage, fleet, settings))
            while True:
                await asyncio.sleep(1.0)
                fleet.forget_dead()
        finally:
            await asyncio.to_thread(fleet.stop)


def _settings(options: argparse.Namespace, stage: Stage) -> AppSettings:
    return AppSettings(
        mode=options.mode,
        database_url=stage.database_url,
        redis_url=stage.redis_url,
        namespace=f"herd-{uuid.uuid4().hex[:12]}",
        ttl=options.ttl,
        stale_ttl=10 * options.ttl,
    )


def _told(options: argparse.Namespace, stage: Stage, fleet: Fleet, settings: AppSettings) -> str:
    return f"""
mode {options.mode}: {ABOUT[options.mode]}
{stage.database_version}, {stage.redis_version}; one query takes {1000 * stage.calibration.solo_seconds:.0f} ms alone
{options.workers} workers answer at {fleet.url}/quality?project=1; the entry expires every {options.ttl:g} s

In another terminal, with Locust's page at http://localhost:8089:

    locust -f bench/locustfile.py --host {fleet.url}
{"" if options.mode in HAND_WRITTEN else _watched(fleet, settings)}
Ctrl-C stops everything."""


def _watched(fleet: Fleet, settings: AppSettings) -> str:
    # An address from the environment may contain a password.
    url = '"$REDIS_URL"' if os.environ.get("REDIS_URL") else settings.redis_url
    return f"""
What the workers do, live, and their metrics for Prometheus, added up:

    stampede-guard console --url {url} --namespace {settings.namespace}
    curl --location {fleet.url}/metrics
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.herd.serve", description=__doc__)
    parser.add_argument("--mode", choices=MODES, default="guard", help="how it caches (default: guard)")
    parser.add_argument(
        "--ttl", type=_seconds, default=24.0, metavar="S", help="lifetime of the entry (24 s)"
    )
    parser.add_argument("--workers", type=int, default=8, metavar="N", help="uvicorn processes (8)")
    parser.add_argument("--port", type=int, default=8000, help="on loopback (8000); 0: any free one")
    return parser


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} s: it must be more than 0 and finite")
    return value


if __name__ == "__main__":
    sys.exit(main())
