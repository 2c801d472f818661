"""The program: a group that imports each command on demand."""

from __future__ import annotations

from typing import Annotated, Any

import typer
import typer.main

from stampede_guard import __version__
from stampede_guard.api.environment import unknown_variables
from stampede_guard.ops.cli.commands import COMMANDS, load
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.suggesting import Suggesting

__all__ = ["app"]


class Lazy(Suggesting):
    """A group whose commands are those of the table."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The table itself, because a command's own help would import the command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        made = typer.Typer(cls=Suggesting, rich_markup_mode=None, add_completion=False)
        load(cmd_name).register(made)
        command = typer.main.get_command(made)
        command.name = cmd_name
        return command


# Tracebacks never show local variables: these contain URLs with passwords.
app = typer.Typer(
    cls=Lazy,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"stampede_guard {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Inspect and control a stampede_guard cache. Every command takes --help."""
    for sentence in unknown_variables():
        say(f"stampede-guard: {sentence}", err=True)
