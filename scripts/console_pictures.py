"""Makes the pictures of the console in docs/ anew: `python -m scripts.console_pictures`. Takes about a minute.

Eight real workers call three functions. One worker is killed while it computes, and another takes over. Needs Debian's
`chromium` and `chromium-driver`, like `make test-console`.
"""

from __future__ import annotations

import asyncio
import os
import random
import selectors
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bench.herd.valkey import ValkeyServer

ROOT = Path(__file__).resolve().parents[1]
NAMESPACE = "shop"
WORKERS = 8
PATIENCE = 60
SIZE = (1100, 660)


async def work(url: str) -> None:
    """A worker. While it computes what the pictures wait for, it says when that was."""
    from stampede_guard import StampedeGuard

    guard = StampedeGuard.from_url(url, namespace=NAMESPACE)

    @guard.locked_cache(ttl=6, name="reports.quality")
    async def quality(project: int) -> int:
        # After the fleet was told that it computes, and long before it ends.
        await asyncio.sleep(0.2)
        print(time.time(), flush=True)
        await asyncio.sleep(0.25)
        return project

    @guard.locked_cache(ttl=20, stale_ttl=60, name="catalog.prices")
    async def prices(country: str) -> str:
        await asyncio.sleep(0.08)
        return country

    @guard.locked_cache(ttl=40, name="users.profile")
    async def profile(user: int) -> int:
        await asyncio.sleep(0.005)
        return user

    async with guard:
        while True:
            await asyncio.gather(*(quality(7) for _ in range(5)), prices("de"), prices("fr"))
            await asyncio.gather(*(profile(random.randrange(40)) for _ in range(4)))
            await asyncio.sleep(0.05)


def begun(*command: str) -> subprocess.Popen[str]:
    shown = {**os.environ, "LOGNAME": "ada"}
    return subprocess.Popen(
        [sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, env=shown
    )


def killed_while_it_computes(workers: list[subprocess.Popen[str]]) -> None:
    with selectors.DefaultSelector() as reading:
        for worker in workers:
            assert worker.stdout is not None
            reading.register(worker.stdout, selectors.EVENT_READ, worker)
        opened = time.time()
        while True:
            for key, _ in reading.select(PATIENCE):
                # The lines from before the page was opened do not count.
                if float(key.data.stdout.readline()) > opened:
                    key.data.kill()
                    return


def photograph(address: str, workers: list[subprocess.Popen[str]], profile: Path) -> None:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    size = ",".join(map(str, SIZE))
    for argument in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "hide-scrollbars",
        f"window-size={size}",
    ):
        options.add_argument(f"--{argument}")
    options.add_argument(f"--user-data-dir={profile}")
    chrome = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        chrome.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
        )
        patient = WebDriverWait(chrome, PATIENCE, poll_frequency=0.5)
        base = address.partition("?")[0]
        chrome.get(address)
        patient.until(lambda page: _says(page, f"Live workers\n{WORKERS}"))
        killed_while_it_computes(workers)
        chrome.get(f"{base}herds?only=faults&function=reports.quality")
        first = (
            "return [...document.querySelectorAll('#herds tbody tr')].find("
            "(row) => /taken over/.test(row.innerText))?.querySelector('a').href"
        )
        link = patient.until(lambda page: page.execute_script(first))
        patient.until(lambda page: _told(page, link))
        _save(chrome, "console-herd.png")
        chrome.get(f"{base}functions")
        patient.until(lambda page: _says(page, "reports.quality"))
        _save(chrome, "console-functions.png")
    finally:
        chrome.quit()


def _says(page: object, words: str) -> bool:
    return words in page.execute_script("return document.body.innerText")  # type: ignore[attr-defined]


def _told(page: object, link: str) -> bool:
    """Whether every worker but the killed one has told its part."""
    served = (
        "[...document.querySelectorAll('#marks tr')].filter((row) => /callers? served/.test(row.innerText))"
    )
    page.get(link)  # type: ignore[attr-defined]
    return page.execute_script(f"return {served}.length") >= WORKERS - 1  # type: ignore[attr-defined]


def _save(page: object, name: str) -> None:
    path = ROOT / "docs" / name
    page.save_screenshot(str(path))  # type: ignore[attr-defined]
    print(path, path.stat().st_size)


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(work(sys.argv[1]))
        return
    import tempfile

    with ValkeyServer() as server, tempfile.TemporaryDirectory() as profile:
        workers = [begun("scripts.console_pictures", server.url) for _ in range(WORKERS)]
        console = begun(
            "stampede_guard",
            "console",
            "--url",
            server.url,
            "--namespace",
            NAMESPACE,
            "--names",
            "--port",
            "0",
        )
        try:
            assert console.stdout is not None
            line = ""
            while "http://" not in line:
                line = console.stdout.readline()
            photograph(line[line.index("http://") :].strip(), workers, Path(profile))
        finally:
            for process in (console, *workers):
                process.kill()
                process.communicate()


if __name__ == "__main__":
    main()
