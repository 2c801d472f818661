"""The tables, as the SQL that is shipped, in the schema that is wanted."""

from __future__ import annotations

import re
from importlib.resources import files

from stampede_guard.errors import Misuse

__all__ = ["DEFAULT", "checked", "script"]

DEFAULT = "stampede_guard"


def checked(schema: str) -> str:
    """Raises `Misuse` for what is no plain identifier."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", str(schema)):
        raise Misuse(
            f"schema={schema!r} is not allowed: write lower-case letters, digits and underscores, such as {DEFAULT!r}"
        )
    return schema


def script(schema: str) -> str:
    """Creates what is missing, in one transaction, one process at a time.

    Two at once would both find nothing, and one would fail: IF NOT EXISTS does not wait.
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
