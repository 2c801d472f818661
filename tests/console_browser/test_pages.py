"""The console in a real browser: eight workers, one of them killed, a failing job, and what a person clicks.

Needs `chromium` and `chromedriver` (Debian: apt-get install chromium chromium-driver): `make test-console`.
"""

from __future__ import annotations

import select
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from bench.herd.valkey import ValkeyServer
from tests.console_browser.conftest import WORKERS, said

PATIENCE = 60
# What a name of a function, a lease or an error would become if a page ran it.
NAMES_RUN = "main b b, main u, main img, main script"
SCREENS = (
    "",
    "functions",
    "function?name=shop.quality",
    "herds",
    "keys",
    "leases",
    "jobs",
    "job?name=failing",
)


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "window-size=1280,1000",
    ):
        options.add_argument(f"--{argument}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def until(chrome: webdriver.Chrome, holds: Callable[[webdriver.Chrome], object]) -> None:
    WebDriverWait(chrome, PATIENCE, poll_frequency=0.1).until(holds)


def text(chrome: webdriver.Chrome, where: str = "body") -> str:
    """In one step: the parts of a live page are replaced at any moment."""
    return str(chrome.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", where))


CLICK = """
const found = [...document.querySelectorAll(arguments[1] + " button")].find((one) => one.innerText === arguments[0]);
found?.click();
return Boolean(found);
"""

CHOOSE = """
const list = document.querySelector(arguments[0]);
const found = [...(list?.options ?? [])].find((one) => one.text === arguments[1]);
if (found) { list.focus(); found.selected = true; }
return Boolean(found);
"""

# How many pixels of a part lie beyond its frame. Nothing while the part is not there.
BEYOND = """
const part = document.querySelector(arguments[0]);
return part ? [part.scrollWidth - part.clientWidth] : null;
"""


def choose(chrome: webdriver.Chrome, option: str, where: str) -> None:
    """A list that has the focus is not replaced."""
    until(chrome, lambda page: page.execute_script(CHOOSE, where, option))


def click(chrome: webdriver.Chrome, label: str, where: str = "body") -> None:
    until(chrome, lambda page: page.execute_script(CLICK, label, where))
    until(chrome, lambda page: page.title.startswith("Done"))
    assert text(chrome, "h1") == "Done", text(chrome)


def test_pages_are_live(site: str, chrome: webdriver.Chrome) -> None:
    """Without a reload: the numbers come, and they change."""
    chrome.get(site)
    until(chrome, lambda page: "Live." in text(page))
    # The seven that live, and the shop.
    until(chrome, lambda page: f"Live workers\n{WORKERS}" in text(page))
    until(chrome, lambda page: "shop.broken" in text(page, "#wrong"))
    figure = "return document.getElementById('calls').innerHTML"
    before = chrome.execute_script(figure)
    until(chrome, lambda page: page.execute_script(figure) != before)


def test_a_page_says_when_the_store_is_away_and_has_new_numbers_when_it_is_back(
    lone: tuple[ValkeyServer, str], chrome: webdriver.Chrome
) -> None:
    server, address = lone
    chrome.get(address)
    until(chrome, lambda page: "Live." in text(page) and "Hit rate" in text(page))
    for begins_in_trouble in (False, True):
        server.kill()
        until(chrome, lambda page: "Redis is away" in text(page) and "Hit rate" in text(page))
        if begins_in_trouble:
            chrome.refresh()
            assert "Redis is away" in text(chrome)
        server.start()
        until(chrome, lambda page: "Redis is away" not in text(page) and "Hit rate" in text(page))
        assert "no numbers" not in text(chrome)


def test_a_herd_has_a_lane_for_each_worker_and_shows_that_the_holder_was_killed(
    site: str, herd: list[subprocess.Popen[str]], chrome: webdriver.Chrome
) -> None:
    chrome.get(site)
    # Processes that were seen to publish record their herds.
    until(chrome, lambda page: f"Live workers\n{2 * WORKERS}" in text(page))
    for process in herd:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    (told,), _, _ = select.select([process.stdout for process in herd], [], [], PATIENCE)
    (holder,) = (process for process in herd if process.stdout is told)
    assert said(holder) == "computes"
    chrome.get(site + "keys?function=shop.slow")
    until(chrome, lambda page: str(holder.pid) in text(page, "#keys"))
    holder.kill()
    assert {said(process) for process in herd if process is not holder} == {"served"}

    chrome.get(site + "herds?function=shop.slow&only=faults")
    until(chrome, lambda page: "shop.slow" in text(page, "#herds"))
    chrome.get(chrome.execute_script("return document.querySelector('#herds tbody a').href"))
    lanes = "return document.querySelectorAll('#herd rect.lane').length"
    until(chrome, lambda page: page.execute_script(lanes) == WORKERS)
    assert "taken over" in text(chrome, "#herd")
    assert "Computations\n2" in text(chrome, "#herd")


@pytest.mark.parametrize("width", [1280, 400])
def test_no_page_runs_a_name_breaks_its_policy_or_is_wider_than_the_window(
    site: str, chrome: webdriver.Chrome, width: int
) -> None:
    chrome.set_window_size(width, 1000)
    chrome.get_log("browser")
    for screen in SCREENS:
        chrome.get(site + screen)
        assert "This page has no numbers now" not in text(chrome), screen
        assert (
            chrome.execute_script("return document.querySelectorAll(arguments[0]).length", NAMES_RUN) == 0
        ), screen
        wide = chrome.execute_script("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, (screen, wide)
        if screen == "functions":
            # On a phone, a row is a card, and not even the table is scrolled sideways.
            beyond: list[int] = WebDriverWait(chrome, PATIENCE, poll_frequency=0.1).until(
                lambda page: page.execute_script(BEYOND, "#functions .scroll")
            )
            assert width > 640 or beyond <= [0]
    assert [one["message"] for one in chrome.get_log("browser") if one["level"] == "SEVERE"] == []
    chrome.set_window_size(1280, 1000)


def test_a_mode_is_switched_for_the_fleet(site: str, chrome: webdriver.Chrome) -> None:
    chrome.get(site + "function?name=shop.quality")
    choose(chrome, "bypass", "select[name=to]")
    click(chrome, "Switch")
    chrome.get(site + "functions")
    assert "bypass" in text(chrome, "#switches")
    # The workers have read it: a function that is bypassed has no hits.
    chrome.get(site + "function?name=shop.quality")
    until(chrome, lambda page: "Hit rate\n0.0%" in text(page))
    chrome.get(site + "functions")
    click(chrome, "Remove")
    chrome.get(site + "functions")
    assert "None: every function" in text(chrome)


def test_an_entry_is_invalidated(site: str, chrome: webdriver.Chrome) -> None:
    chrome.get(site + "keys?function=shop.kept")
    assert "fresh" in text(chrome, "#keys")
    click(chrome, "Invalidate", "tbody tr")
    chrome.get(site + "keys?function=shop.kept&state=fresh")
    assert "none of them matches" in text(chrome)


def test_a_job_is_run_paused_and_resumed(site: str, chrome: webdriver.Chrome) -> None:
    chrome.get(site + "job?name=failing")
    assert "LookupError" in text(chrome)
    runs = "return document.querySelectorAll('#runs tbody tr').length"
    before = chrome.execute_script(runs)
    click(chrome, "Run now")
    chrome.get(site + "job?name=failing")
    until(chrome, lambda page: page.execute_script(runs) == before + 1)
    click(chrome, "Pause")
    chrome.get(site + "jobs")
    assert "paused by ada" in text(chrome)
    click(chrome, "Resume")
    chrome.get(site + "jobs")
    assert "paused by ada" not in text(chrome)


def test_a_lease_is_taken_away(site: str, chrome: webdriver.Chrome) -> None:
    chrome.get(site + "leases?name=%3Cu%3Enightly%3C%2Fu%3E")
    click(chrome, "Take away now")
    chrome.get(site + "leases?state=held")
    assert "nightly" not in text(chrome)
    chrome.get(site)
    until(chrome, lambda page: "release_lease" in text(page, "#happened"))
