"""The site of the documentation: what its links are held against, and what must not be in it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from bench.herd.lanes import Span, pictured
from scripts import pictures, reference, site

ROOT = Path(__file__).resolve().parent.parent


def test_the_site_has_at_most_25_pages() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    assert 0 < len(list(site.pages_of(config["nav"]))) <= 25, (
        "join two pages: a reader has to choose among them"
    )


def test_the_config_lists_each_page_once_and_asks_no_other_host() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    listed = list(site.pages_of(config["nav"]))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} | set(site.OWN_PAGES.values())
    assert sorted(listed) == sorted(pages)
    assert config["theme"]["font"] is False and config["strict"] is True


def written(folder: Path, **pages: str) -> Path:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return folder


def test_links_that_lead_nowhere_and_files_of_other_hosts_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.png").touch()
    found = site.wrong_links(
        written(
            tmp_path,
            one='<h2 id="here">x</h2><a href="two.html#part">a</a><a href="#here">b</a><img src="there.png">'
            '<a href="https://example.org">allowed: the reader decides</a>',
            two='<p id="part"><a href="one.html#gone">a</a><a href="three.html">b</a><img src="gone.png">'
            '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="//cdn.example/x.css">',
        )
    )
    assert found == [
        "two.html loads https://cdn.example/x.js",
        "two.html loads //cdn.example/x.css",
        "two.html links to one.html#gone, and that page has no such place",
        "two.html links to three.html, which does not exist",
        "two.html links to gone.png, which does not exist",
    ]


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all pages. Tests only read it: to find the public names takes two seconds of computing."""
    folder = tmp_path_factory.mktemp("laid")
    pages = site.lay_together(folder)
    assert {"index.md", "reference.md", "comparison.md"} <= {page.name for page in pages}
    return folder / "pages"


def test_a_link_to_a_file_of_the_repository_leads_to_its_copy(laid: Path) -> None:
    text = (laid / "fastapi.md").read_text("utf-8")
    links = re.findall(r"\]\((files/[^)]+)\)", text)
    assert "files/examples/litestar_app.py.txt" in links
    copy = (laid / "files/examples/litestar_app.py.txt").read_text("utf-8")
    assert copy == (ROOT / "examples/litestar_app.py").read_text("utf-8")
    assert not re.search(r"\]\(\.\./", text)


def test_files_of_the_repository_are_sections_of_a_page(laid: Path) -> None:
    text = (laid / "upgrading.md").read_text("utf-8")
    assert text.startswith("# Upgrading") and "\n## Changelog\n" in text and "\n### 0.1.0" in text
    assert "(upgrading.md#changelog)" in text and "(guarantees.md#supported-versions)" in text


def test_the_reference_has_the_public_names(laid: Path) -> None:
    text = (laid / "reference.md").read_text("utf-8")
    (members,) = re.findall(
        r"^::: stampede_guard\n    options:\n      members: \[(.*)\]$", text, re.MULTILINE
    )
    assert {"StampedeGuard", "locked_cache", "Policy"} <= set(members.split(", "))


def test_the_reference_is_what_the_code_says() -> None:
    text = (ROOT / "docs" / "reference.md").read_text("utf-8")
    assert text == reference.page(), "write it anew: python -m scripts.reference"


def test_the_picture_shows_each_query_and_each_caller_and_says_so_in_words() -> None:
    spans = [Span(0, "query", 0.0, 0.4), Span(0, "wait", 0.0, 0.41), Span(7, "wait", 0.1, 0.42)]
    both = pictured({"incident-fix": [*spans, Span(7, "query", 0.1, 0.5)], "guard": spans})
    picture = ET.fromstring(both)
    assert picture.attrib["aria-label"].endswith("2 queries; stampede_guard: 1 query")
    assert both.count('class="compute"') == 3 and both.count('class="woken"') == 4
    assert "1 query, all served after 420 ms" in both
    assert not re.search(r"https?://(?!www\.w3\.org)", both)


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_the_pictures_are_those_of_the_code_and_say_in_words_what_they_show(name: str) -> None:
    picture = (ROOT / "docs" / name).read_text("utf-8")
    assert picture == pictures.drawn(pictures.PICTURES[name]), "draw it anew: python -m scripts.pictures"
    told = pictures.PICTURES[name].told
    assert ET.fromstring(picture).attrib["aria-label"] == told
    assert f"![{told}]({name})" in (ROOT / "docs" / "how-it-works.md").read_text("utf-8")
    assert "prefers-color-scheme: dark" in picture and not re.search(r"https?://(?!www\.w3\.org)", picture)


def test_the_probes_ask_for_what_the_page_adds_to_the_application() -> None:
    page = (ROOT / "docs" / "deploying.md").read_text("utf-8")
    ((block, _),) = re.findall(r"^```yaml\n(spec:\n(.*?))^```", page, re.DOTALL | re.MULTILINE)
    (container,) = yaml.safe_load(block)["spec"]["containers"]
    asked = {name: probe["httpGet"]["path"] for name, probe in container.items() if name.endswith("Probe")}
    assert asked == {"startupProbe": "/ready", "readinessProbe": "/ready", "livenessProbe": "/live"}
    for path in asked.values():
        assert f'app.add_route("{path}", ' in page


def test_the_site_builds_strictly_and_each_link_leads_somewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.build(tmp_path)
    assert "every link leads somewhere" in capsys.readouterr().out
    built = {path.name for path in (tmp_path / "site").glob("*.html")}
    assert {"index.html", "reference.html", "migrating.html", "comparison.html"} <= built
    reference_page = (tmp_path / "site" / "reference.html").read_text("utf-8")
    assert 'id="stampede_guard.StampedeGuard"' in reference_page
    assert 'see <a href="values.html">docs/values.md</a>' in reference_page
    assert "mermaid" not in (tmp_path / "site" / "how-it-works.html").read_text("utf-8")
