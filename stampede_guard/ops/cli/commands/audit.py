"""`stampede-guard audit ...`: passes its arguments on unchanged, because the audit parses its own options."""

from __future__ import annotations

import typer

from stampede_guard.audit.command import main

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    @app.command(
        "audit",
        context_settings={
            "allow_extra_args": True,
            "ignore_unknown_options": True,
            "help_option_names": ["--help-of-program"],
        },
    )
    def audit(context: typer.Context) -> None:
        """Find unlocked caches in source code; `explain SG201` describes a rule."""
        raise typer.Exit(main(context.args))
