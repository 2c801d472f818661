"""`flask stampede ...` is `stampede-guard ...` with the URL and the namespace of the application."""

from __future__ import annotations

import os
import subprocess
import sys

import click
from flask import current_app
from flask.cli import with_appcontext

from stampede_guard.integrations.flask.settings import GuardSettings

__all__ = ["command"]


@click.command("stampede", context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@with_appcontext
def command(arguments: tuple[str, ...]) -> None:
    """The command line of stampede_guard: keys, show, invalidate, explain, mode, doctor."""
    given = GuardSettings.of(current_app)
    # Not as arguments: other users of this machine can see them, and the URL may have a password.
    there = {"STAMPEDE_GUARD_URL": given.url, "STAMPEDE_GUARD_NAMESPACE": given.namespace}
    done = subprocess.run(
        [sys.executable, "-m", "stampede_guard", *arguments], env=os.environ | there, check=False
    )
    sys.exit(done.returncode)
