"""The public names and their signatures, as text: `docs/api.txt`. A test compares it with the code.

    python -m scripts.api_snapshot          # writes it anew

Griffe reads the source, so nothing is imported. A change of this text is a change that users see: CHANGELOG.md has a
line about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import griffe

__all__ = ["SNAPSHOT", "Change", "changes", "public_api", "public_modules"]

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOT = ROOT / "docs" / "api.txt"
PUBLIC = (
    "stampede_guard",
    "stampede_guard.errors",
    "stampede_guard.events",
    "stampede_guard.leases",
    "stampede_guard.jobs",
    "stampede_guard.observe",
    "stampede_guard.stores",
    "stampede_guard.testing",
    "stampede_guard.integrations",
    "stampede_guard.api.keywords",  # the options of guards and decorators
    "stampede_guard.http.requests.settings",  # those of the middleware
)
"""The modules from whose `__all__` users import. Integrations: each module of the room."""


class Change(NamedTuple):
    """`kind`: added, removed or changed. `path`: the public name with its module."""

    kind: str
    path: str

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.kind}: {self.path}"


def public_api() -> str:
    """One line per public name and per public member of a public class, sorted."""
    lines: set[str] = set()
    for module in public_modules():
        for name in module.exports or ():
            lines.update(_told(f"{module.path}.{name}", module[str(name)]))
    return "".join(f"{line}\n" for line in sorted(lines))


def public_modules() -> Iterator[griffe.Module]:
    """The modules from which users import, read from their source."""
    package = griffe.load("stampede_guard", search_paths=[str(ROOT)], resolve_aliases=True)
    return _modules(package)


def changes(before: str, after: str) -> list[Change]:
    """What differs, by name."""
    old, new = _by_path(before), _by_path(after)
    return [
        *(Change("changed", path) for path in old if path in new and old[path] != new[path]),
        *(Change("removed", path) for path in old if path not in new),
        *(Change("added", path) for path in new if path not in old),
    ]


def _modules(package: griffe.Module) -> Iterator[griffe.Module]:
    for path in PUBLIC:
        found = package if path == "stampede_guard" else package[path.removeprefix("stampede_guard.")]
        yield found
        if path.endswith(".integrations"):
            yield from found.modules.values()


def _told(path: str, one: griffe.Object | griffe.Alias) -> Iterator[str]:
    if one.is_alias:
        try:
            one = one.final_target
        except griffe.AliasResolutionError:
            yield path  # of another package
            return
    if one.is_function:
        yield f"{path}{_signature(one)}"
    elif one.is_class:
        yield f"{path}{_constructor(one)}"
        for name, member in sorted(one.all_members.items()):
            if not name.startswith("_"):
                yield from _told(f"{path}.{name}", member)
    elif one.is_attribute:
        kind = getattr(one, "annotation", None)
        yield f"{path}: {kind}" if kind is not None else path


def _constructor(kind: griffe.Class) -> str:
    made = kind.all_members.get("__init__")
    if made is None:
        return ""
    made = made.final_target if made.is_alias else made
    return _signature(made) if made.is_function else ""


def _signature(function: griffe.Function) -> str:
    parts: list[str] = []
    for one in function.parameters:
        if one.name in ("self", "cls"):
            continue
        kind = one.kind
        star = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(
            kind, ""
        )
        if kind is griffe.ParameterKind.keyword_only and not any(part.startswith("*") for part in parts):
            parts.append("*")
        default = f" = {one.default}" if one.default is not None and not star else ""
        annotation = f": {one.annotation}" if one.annotation is not None else ""
        parts.append(f"{star}{one.name}{annotation}{default}")
    returns = f" -> {function.returns}" if function.returns is not None else ""
    return f"({', '.join(parts)}){returns}"


def _by_path(text: str) -> dict[str, str]:
    """Each line by its name: what stands before the first parenthesis or colon. Overloads share one."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        path = line.partition("(")[0].partition(":")[0]
        found[path] = found.get(path, "") + line
    return found


if __name__ == "__main__":
    SNAPSHOT.write_text(public_api(), "utf-8")
    print(f"{len(SNAPSHOT.read_text('utf-8').splitlines())} public names in {SNAPSHOT.relative_to(ROOT)}")
