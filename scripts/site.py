"""The documentation as a site: `make docs` writes it to results/site.

1. The pages of docs/ and some of the repository's own are laid together. A link to a file of the repository becomes a
   link to a copy of that file in the site.
2. Behind the reference come the public names, for mkdocstrings: see `scripts.api_snapshot`.
3. Zensical builds the site, in strict mode.
4. Every link and picture of every page must exist in the site, and no page asks another host for anything.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml

from scripts.api_snapshot import public_modules

__all__ = ["build", "lay_together", "pages_of", "wrong_links"]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
CONFIG = ROOT / "mkdocs.yml"
OWN_PAGES = {"bench/peers/README.md": "comparison.md"}
"""Pages outside docs/, and their names in the site."""
APPENDED = {"CHANGELOG.md": "upgrading.md", "SECURITY.md": "guarantees.md"}
"""Files of the repository that are the last section of a page."""

_MERMAID = re.compile(r"^```mermaid\n.*?^```\n", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?P<to>[^)#\s]+)(?P<part>#[^)\s]*)?(?=\))")


def lay_together(results: Path = RESULTS) -> list[Path]:
    """Write all pages to the folder `pages` there. Returns them."""
    pages = results / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    for page in sorted(pages.rglob("*.md")):
        # Diagrams would need a script of another host. The table below each of them has the same.
        text = _MERMAID.sub("", page.read_text("utf-8"))
        page.write_text(_linked(text, ROOT / "docs", pages), "utf-8")
    for name, target in OWN_PAGES.items():
        text = _linked((ROOT / name).read_text("utf-8"), (ROOT / name).parent, pages)
        (pages / target).write_text(text, "utf-8")
    for name, target in APPENDED.items():
        with (pages / target).open("a", encoding="utf-8") as page:
            page.write("\n" + _demoted(_linked((ROOT / name).read_text("utf-8"), ROOT, pages)))
    with (pages / "reference.md").open("a", encoding="utf-8") as page:
        page.write(_public_names())
    return sorted(pages.glob("*.md"))


def build(results: Path = RESULTS) -> None:
    """Write the site to the folder `site` there. Ends the program with what is wrong, if anything is."""
    pages = {page.name for page in lay_together(results)}
    listed = set(pages_of(yaml.safe_load(CONFIG.read_text("utf-8"))["nav"]))
    if listed != pages:
        raise SystemExit(f"mkdocs.yml does not list exactly the pages: {sorted(listed ^ pages)}")
    site = results / "site"
    shutil.rmtree(site, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(_config(results))],
        check=True,
    )
    _link_pages_in(site / "reference.html")
    wrong = wrong_links(site)
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"{len(pages)} pages in {site}: every link leads somewhere, and to no other host by itself")


def _link_pages_in(reference: Path) -> None:
    """Docstrings name pages as the repository has them: `docs/values.md`."""
    text = reference.read_text("utf-8")
    reference.write_text(
        re.sub(r"(?<![\w/>\"])docs/([a-z0-9-]+)\.md", r'<a href="\1.html">docs/\1.md</a>', text), "utf-8"
    )


def _config(results: Path) -> Path:
    """The configuration; for another folder, a copy that names that folder."""
    if results == RESULTS:
        return CONFIG
    told = CONFIG.read_text("utf-8").replace("results/", "").replace("paths: [.]", f"paths: [{ROOT}]")
    copy = results / "mkdocs.yml"
    copy.write_text(told, "utf-8")
    return copy


def _linked(text: str, folder: Path, pages: Path) -> str:
    """The page with links that work in the site. `folder`: where the page is in the repository."""

    def replaced(found: re.Match[str]) -> str:
        to, part = found["to"], found["part"] or ""
        if urlsplit(to).scheme:
            return found[0]
        path = (folder / to).resolve()
        if path.is_relative_to(ROOT / "docs"):
            return f"{path.relative_to(ROOT / 'docs')}{part}"
        name = str(path.relative_to(ROOT))
        if name in APPENDED:
            return APPENDED[name] + (part or f"#{_title(path).lower().replace(' ', '-')}")
        return f"{OWN_PAGES[name]}{part}" if name in OWN_PAGES else _copied(path, name, pages)

    return _LINK.sub(replaced, text)


def _title(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")


def _demoted(text: str) -> str:
    """The page as a section of another one: each heading one level lower."""
    parts = re.split(r"(^```.*?^```)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else re.sub(r"(?m)^#", "##", part) for part in parts)


def _copied(path: Path, name: str, pages: Path) -> str:
    """A copy of a file of the repository, as text; a picture as it is. Of a folder: the list of its files."""
    target = pages / "files" / (name if path.suffix in (".png", ".svg") else f"{name}.txt")
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        tracked = subprocess.run(
            ["git", "ls-files", name], cwd=ROOT, capture_output=True, text=True, check=True
        )
        target.write_text(tracked.stdout, "utf-8")
    else:
        target.write_bytes(path.read_bytes())
    return str(target.relative_to(pages))


def _public_names() -> str:
    """Each module that users import from, and what it exports."""
    parts = ["\n## Public names\n"]
    for module in public_modules():
        if module.exports:
            names = ", ".join(sorted(map(str, module.exports)))
            parts.append(
                f"### `{module.path}`\n\n::: {module.path}\n    options:\n      members: [{names}]\n"
            )
    return "\n".join(parts)


def pages_of(nav: object) -> Iterator[str]:
    match nav:
        case str():
            yield nav
        case list():
            for one in nav:
                yield from pages_of(one)
        case dict():
            for one in nav.values():
                yield from pages_of(one)


class _Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = {""}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.ids.update(value for name in ("id", "name") if (value := told.get(name)))
        if tag == "a" and (link := told.get("href")):
            self.links.append(link)
        if tag in ("script", "img", "iframe", "source", "video", "object") and (source := told.get("src")):
            self.loads.append(source)
        if (
            tag == "link"
            and told.get("rel") not in ("canonical", "next", "prev")
            and (source := told.get("href"))
        ):
            self.loads.append(source)


def wrong_links(site: Path) -> list[str]:
    """Links that lead nowhere, and files that a page loads from another host."""
    pages: dict[Path, _Page] = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = page = _Page()
        page.feed(path.read_text("utf-8"))
    wrong: list[str] = []
    for path, page in pages.items():
        name = path.relative_to(site)
        wrong += [f"{name} loads {load}" for load in page.loads if urlsplit(load).netloc]
        for link in (*page.links, *page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or name.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                wrong.append(f"{name} links to {link}, which does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                wrong.append(f"{name} links to {link}, and that page has no such place")
    return wrong


if __name__ == "__main__":
    build()
