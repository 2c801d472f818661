"""The addresses of the project, from one variable: `STAMPEDE_GUARD_REPOSITORY=https://host/owner/name make dist`.

No address is written in this repository, because every copy of it has another. The release workflow sets the variable.
It becomes `[project.urls]`, and the relative links of the README become links to that repository, at the tag of the
version. `stampede-guard audit` reads its links from there, too. Without the variable there are no addresses.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "STAMPEDE_GUARD_REPOSITORY"
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<to>[^)#\s]+)(?P<part>#[^)\s]*)?\)")


class Addresses(MetadataHookInterface):
    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        readme = (root / "README.md").read_text("utf-8")
        repository = os.environ.get(VARIABLE, "").rstrip("/")
        if repository:
            check(repository)
            tag = f"v{version(root)}"
            metadata["urls"] = urls(repository, tag)
            readme = linked(readme, repository, tag)
        else:
            metadata["urls"] = {}
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}


def check(repository: str) -> None:
    """Raises ValueError."""
    parts = urlsplit(repository)
    if (
        parts.scheme != "https"
        or not parts.netloc
        or not parts.path.strip("/")
        or parts.query
        or parts.fragment
    ):
        raise ValueError(
            f"{VARIABLE}={repository!r}: write the repository's address, https://host/owner/name"
        )


def urls(repository: str, tag: str) -> dict[str, str]:
    return {
        "Repository": repository,
        "Documentation": f"{repository}/blob/{tag}/docs",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def linked(readme: str, repository: str, tag: str) -> str:
    """The README as an index shows it, where no file of the repository is beside it."""

    def absolute(found: re.Match[str]) -> str:
        if urlsplit(found["to"]).scheme:
            return found[0]
        kind = "raw" if found["image"] else "blob"
        return (
            f"{found['image']}[{found['text']}]({repository}/{kind}/{tag}/{found['to']}{found['part'] or ''})"
        )

    return _LINK.sub(absolute, readme)


def version(root: Path) -> str:
    text = (root / "stampede_guard" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise ValueError("stampede_guard/__init__.py does not state its __version__")
    return found[1]
