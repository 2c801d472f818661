"""Modes by name: from a caller, or from the environment."""

from __future__ import annotations

import os
from typing import Any, get_args

from stampede_guard.errors import PolicyError
from stampede_guard.policy import Mode

__all__ = ["MODE_VARIABLE", "checked_mode", "mode_from_environment"]

MODE_VARIABLE = "STAMPEDE_GUARD_MODE"


def checked_mode(mode: Any) -> Mode | None:
    """Raises `PolicyError` for what is no mode. None = as somebody else says."""
    if mode is not None and mode not in get_args(Mode):
        raise PolicyError("mode", mode, f"it must be None or one of {', '.join(get_args(Mode))}")
    result: Mode | None = mode
    return result


def mode_from_environment() -> Mode | None:
    text = os.environ.get(MODE_VARIABLE, "")
    if not text:
        return None
    if text not in get_args(Mode):
        raise PolicyError(f"${MODE_VARIABLE}", text, f"it must be one of {', '.join(get_args(Mode))}")
    return checked_mode(text)
