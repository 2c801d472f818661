"""`manage.py stampede_guard ...` is `stampede-guard ...` with the URL and the namespace of `settings.CACHES`."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import REMAINDER
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from stampede_guard.integrations.django.settings import CacheSettings

__all__ = ["Command"]


class Command(BaseCommand):
    help = "The command line of stampede_guard: keys, show, invalidate, explain, mode, doctor."
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own name and type

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--cache", default="default", help="the cache of settings.CACHES")
        parser.add_argument("arguments", nargs=REMAINDER, metavar="...", help="what stampede-guard is given")

    def handle(self, *_: Any, cache: str, arguments: list[str], **__: Any) -> None:
        if cache not in settings.CACHES:
            raise CommandError(f"settings.CACHES has no {cache!r}: it has {', '.join(settings.CACHES)}")
        chosen = settings.CACHES[cache]
        given = CacheSettings.of(chosen.get("LOCATION", ""), chosen.get("OPTIONS", {}))
        # Not as arguments: other users of this machine can see them, and the URL may have a password.
        there = {"STAMPEDE_GUARD_URL": given.url, "STAMPEDE_GUARD_NAMESPACE": given.namespace}
        command = [sys.executable, "-m", "stampede_guard", *arguments]
        done = subprocess.run(command, env=os.environ | there, check=False)
        if done.returncode:
            sys.exit(done.returncode)
