"""A group of commands that names the nearest command for a mistyped one."""

from __future__ import annotations

from typing import Any

import typer.core

from stampede_guard.options import nearest

__all__ = ["Suggesting"]


class Suggesting(typer.core.TyperGroup):
    """For a mistyped option, click names the nearest itself."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            there = self.list_commands(ctx)
            near = nearest(args[0], there)
            hint = f"do you mean {near}?" if near else f"there are {', '.join(there)}"
            ctx.fail(f"No such command: {args[0]} ({hint})")
        return super().resolve_command(ctx, args)
