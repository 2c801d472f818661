"""The tutorial, as a reader follows it: its files, its commands, and what they print."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from bench.herd import processes
from bench.herd.valkey import ValkeyServer, free_port

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "ten-minutes.md").read_text("utf-8")
BLOCKS = re.findall(r'^```(python title="([a-z_]+\.py)"|console)\n(.*?)^```', PAGE, re.DOTALL | re.MULTILINE)
PATIENCE = 120.0


class Reader:
    """Does what the page says, in a folder of its own. The page's server and port are replaced by free ones."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.port = free_port()
        self.service: processes.Child | None = None
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("STAMPEDE_GUARD_")},
            "PYTHONPATH": str(ROOT),
        }

    def writes(self, name: str, text: str) -> None:
        assert "redis://localhost:6379/0" in text or "redis" not in text
        text = text.replace("redis://localhost:6379/0", self.url).replace(
            "localhost:8000", f"localhost:{self.port}"
        )
        (self.folder / name).write_text(text, "utf-8")

    def runs(self, command: str) -> str:
        """What the command prints. A service goes on; a second one replaces it."""
        words = shlex.split(command)
        match words[0]:
            case "uvicorn":
                self.serves(words)
                return ""
            case "curl":
                assert words[1:3] == ["-X", "POST"]
                return httpx.post(
                    words[3].replace(":8000", f":{self.port}"), timeout=PATIENCE, trust_env=False
                ).text
            case "export":
                name, equals, value = words[1].partition("=")
                assert (equals, value) == ("=", "redis://localhost:6379/0")
                self.environment[name] = self.url
                return ""
            case "python":
                words = [sys.executable, *words[1:]]
            case "stampede-guard":
                words = [sys.executable, "-m", "stampede_guard", *words[1:]]
            case _:
                raise AssertionError(f"the test cannot run {command}")
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def serves(self, words: list[str]) -> None:
        self.leaves()
        log = self.folder / "log"
        self.service = processes.start(
            [sys.executable, "-m", *words, "--port", f"{self.port}"],
            log=log,
            cwd=self.folder,
            env=self.environment,
        )
        asyncio.run(self._until_it_serves(self.service))

    async def _until_it_serves(self, service: processes.Child) -> None:
        async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(PATIENCE):
            while True:
                assert service.running, service.last_words()
                try:
                    await client.get(f"http://localhost:{self.port}/openapi.json")
                    return
                except httpx.TransportError:
                    await asyncio.sleep(0.05)

    def leaves(self) -> None:
        if self.service is not None:
            self.service.stop()


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Each command of a block, and the lines that it prints."""
    parts = [part.splitlines() for part in re.split(r"^\$ ", text, flags=re.MULTILINE) if part.strip()]
    return [(first, lines) for first, *lines in parts]


def test_each_step_of_the_tutorial_does_what_the_page_says(tmp_path: Path) -> None:
    done = []
    with ValkeyServer() as server:
        reader = Reader(tmp_path, server.url)
        try:
            for _, name, text in BLOCKS:
                if name:
                    reader.writes(name, text)
                    continue
                for command, expected in commands(text):
                    printed = reader.runs(command)
                    for line in expected:
                        # Of a table, the page has the first words.
                        assert " ".join(line.split()) in " ".join(printed.split()), (command, printed)
                    done.append(command)
        except BaseException:
            if reader.service is not None:
                print(reader.service.last_words())
            raise
        finally:
            reader.leaves()
    assert done.count("python visitors.py") == 4 and len(done) == 11


def test_the_tutorial_names_what_it_shows() -> None:
    assert [name for _, name, _ in BLOCKS if name] == ["shop.py", "visitors.py", "shop.py", "test_shop.py"]
    with pytest.raises(AssertionError, match="cannot run rm"):
        Reader(ROOT, "").runs("rm -r /")
