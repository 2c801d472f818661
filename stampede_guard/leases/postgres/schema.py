"""The SQL that creates the tables, for a chosen schema."""

from __future__ import annotations

import re
from importlib.resources import files

from stampede_guard.errors import Misuse

__all__ = ["DEFAULT", "checked", "script"]

DEFAULT = "stampede_guard"


def checked(schema: str) -> str:
    """The schema's name. Raises `Misuse` unless it is a plain identifier."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", str(schema)):
        raise Misuse(
            f"schema={schema!r} is not allowed: write lower-case letters, digits and underscores, such as {DEFAULT!r}"
        )
    return schema


def script(schema: str) -> str:
    """The SQL that creates missing tables in one transaction. A lock admits one process at a time.

    IF NOT EXISTS does not wait. Without the lock, two processes would both find no table, and one would fail.
    """
    text = "".join(
        file.read_text("utf-8")
        for file in sorted(files("stampede_guard.leases.postgres").iterdir(), key=lambda file: file.name)
        if file.name.endswith(".sql")
    )
    lock = "SELECT pg_advisory_xact_lock(hashtextextended('stampede_guard schema', 0));\n"
    text = re.sub(rf"\b{DEFAULT}\.", f"{schema}.", text)
    return lock + text.replace(
        f"CREATE SCHEMA IF NOT EXISTS {DEFAULT};", f"CREATE SCHEMA IF NOT EXISTS {schema};"
    )
