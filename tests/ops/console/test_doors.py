"""Who may enter the console, and what every answer says to the browser."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stampede_guard import Misuse, StampedeGuard
from stampede_guard.ops.console.access import HEADERS
from stampede_guard.ops.console.app import ConsoleApp
from tests.ops.console.conftest import Browser, mounted

SCANNED = (
    "/.env", "/.git/config", "/wp-login.php", "/admin", "/phpmyadmin/", "/..%2f..%2fetc/passwd", "/static/../app.py",
    "/static/..%2Fapp.py", "/static/%2e%2e/app.py", "/api/", "/api/nothing", "/live/nothing", "/act/", "/openapi.json",
    "/docs", "/metrics", "/server-status", "/static/", "/static/console.css/x", "//evil.test/", "/overview.php",
)  # fmt: skip


async def test_the_console_is_closed_by_default(guard: StampedeGuard) -> None:
    with mounted(guard.console()) as browser:
        for path in ("/", "/api/overview", "/static/console.css", "/live/overview", "/nothing"):
            answer = await browser.see(path)
            assert answer.status_code == 403
            assert "guard.console(allow=" in answer.text


@pytest.mark.parametrize("answer", [False, None, "", 1, object()])
async def test_only_true_or_a_name_lets_a_request_in(guard: StampedeGuard, answer: Any) -> None:
    with mounted(guard.console(allow=lambda request: answer)) as browser:
        assert (await browser.see()).status_code == 403


async def test_every_answer_has_the_headers(browser: Browser) -> None:
    for path in ("/", "/api/overview", "/static/console.css", "/nothing", "/act/mode", "/api/openapi.json"):
        answer = await browser.see(path)
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, path
    assert "unsafe" not in HEADERS["content-security-policy"]


async def test_a_scanner_finds_nothing(browser: Browser) -> None:
    for path in SCANNED:
        answer = await browser.see(path)
        assert answer.status_code in (403, 404, 405), (path, answer.status_code)


async def test_nothing_may_be_done_by_default(browser: Browser) -> None:
    answer = await browser.submit("mode", function="shop.quality", to="off", token="x")
    assert answer.status_code == 403 and "actions=" in answer.text


def test_mistakes_are_refused(guard: StampedeGuard) -> None:
    with pytest.raises(Misuse, match="takes the request"):
        guard.console(allow="admin")  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="fly"):
        guard.console(actions=("fly",))


async def test_another_method_is_told_which_ones_there_are(browser: Browser) -> None:
    answer = await browser.request("TRACE", "/ops/api/overview")
    assert answer.status_code == 405 and "GET" in answer.headers["allow"]


async def test_too_long_a_query_is_refused(browser: Browser) -> None:
    assert (await browser.see("/", x="y" * 20_000)).status_code == 414


@pytest.mark.parametrize("mount", ["/ops", "/deep/er", ""])
async def test_links_stay_below_the_mount_path(guard: StampedeGuard, mount: str) -> None:
    console = guard.console(allow=lambda request: True)
    assert isinstance(console, ConsoleApp)
    with mounted(console, mount) as browser:
        text = (await browser.see()).text
        assert f'href="{mount}/"' in text and f'data-stream="{mount}/live/overview"' in text
        assert f'"{mount}/static/console.css' in text
        assert (await browser.get(f"{mount}/static/console.css")).status_code == 200
    await console.fleet.aclose()


async def test_a_page_that_is_not_in_the_menu_marks_the_page_that_leads_to_it(browser: Browser) -> None:
    text = (await browser.see("/function", name="shop.quality")).text
    assert '<a href="/ops/functions" aria-current="true">Functions</a>' in text
    assert '<p class="quiet crumb"><a href="/ops/functions">Functions</a></p>' in text
    assert (
        '<a href="/ops/functions" aria-current="page">Functions</a>' in (await browser.see("/functions")).text
    )


async def test_a_plain_string_of_actions_is_refused_with_the_words_to_write(guard: StampedeGuard) -> None:
    with pytest.raises(Misuse, match=re.escape("actions='mode': write actions=('mode',)")):
        guard.console(actions="mode")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_cookie_of_a_page_that_came_encrypted_never_travels_in_plain_text(
    browser: Browser, scheme: str
) -> None:
    browser.base_url = f"{scheme}://console.test"  # type: ignore[assignment]
    cookie = (await browser.see()).headers["set-cookie"]
    assert ("Secure" in cookie) is (scheme == "https")
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/ops" in cookie
