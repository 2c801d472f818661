"""What is tried of each extra, with nothing else installed: a program that uses it, in a process of its own."""

from __future__ import annotations

__all__ = ["EXTRAS"]

_GUARD = """
import asyncio
from stampede_guard import StampedeGuard

guard = StampedeGuard.from_url("memory://", namespace="tried")
"""

EXTRAS = {
    "aiohttp": _GUARD
    + """
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from stampede_guard.errors import Overloaded
from stampede_guard.integrations.aiohttp import install

async def busy(request):
    raise Overloaded("busy")

app = web.Application()
app.router.add_get("/", busy)
install(guard, app)

async def main():
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/")).status == 503

asyncio.run(main())
""",
    "arrow": _GUARD
    + """
import pyarrow

@guard.locked_cache(ttl=60)
async def table() -> pyarrow.Table:
    return pyarrow.table({"a": [1, 2]})

async def main():
    assert (await table()).equals(await table())

asyncio.run(main())
""",
    "audit": """
import pathlib, subprocess, sys, tempfile

with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "app.py")
    code = "@cached(ttl=60)\\nasync def f(a: int) -> int:\\n    return a\\n"
    path.write_text("from aiocache import cached\\n\\n\\n" + code)
    subprocess.run([sys.executable, "-m", "stampede_guard.audit", folder, "--fix", "--no-config"], check=True)
    assert "@locked_cache(ttl=60)" in path.read_text(), path.read_text()
""",
    "lsp": """
import subprocess, sys

body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}'
sent = b"Content-Length: %d\\r\\n\\r\\n%s" % (len(body), body)
command = [sys.executable, "-m", "stampede_guard.audit", "--lsp"]
told = subprocess.run(command, input=sent, capture_output=True, timeout=60).stdout
assert b"hoverProvider" in told, told
""",
    "celery": """
from celery import Celery
from stampede_guard.integrations.celery import exclusive
from stampede_guard.leases import MemoryLeases

app = Celery("tried")
app.conf.task_always_eager = True

@exclusive(MemoryLeases(namespace="tried"), "import")
def both():
    return 7

assert app.task(name="both")(both).delay().get() == 7
""",
    "cli": """
import subprocess, sys

def told(*arguments):
    command = [sys.executable, "-m", "stampede_guard", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

assert "invalidate" in told("--help") and "--match" in told("invalidate", "--help")
""",
    "console": _GUARD
    + """
import subprocess, sys

scope = {
    "type": "http", "method": "GET", "path": "/ops/", "root_path": "/ops", "query_string": b"", "headers": [],
    "scheme": "http", "server": ("127.0.0.1", 80), "client": None,
}

async def main():
    sent = []

    async def send(message):
        sent.append(message)

    await guard.console(allow=lambda request: True)(scope, None, send)
    # The store of this guard is in the process, and the page says so.
    assert sent[0]["status"] == 404 and b"memory://" in sent[1]["body"], sent

asyncio.run(main())
subprocess.run([sys.executable, "-m", "stampede_guard", "console", "--help"], check=True, stdout=subprocess.DEVNULL)
""",
    "compression": _GUARD
    + """
@guard.locked_cache(ttl=60, compression="zstd", compression_min_bytes=10)
async def text() -> str:
    return "x" * 5000

async def main():
    assert await text() == await text() == "x" * 5000

asyncio.run(main())
""",
    "django": """
from django.conf import settings

OURS = {"BACKEND": "stampede_guard.integrations.django.Cache", "LOCATION": "redis://127.0.0.1:1/0"}
settings.configure(CACHES={"default": OURS}, INSTALLED_APPS=["stampede_guard.integrations.django"])

import django

django.setup()

from django.core.cache import cache
from django.core.management import call_command
from stampede_guard.integrations.django import locked_cache

call_command("check")

@locked_cache(ttl=60)
def total(n: int) -> int:
    return n * 10

# Redis is away: computed, and no error.
assert cache.get_or_set("a", lambda: 7) == 7 and total(7) == 70
""",
    "flask": """
from flask import Flask
from stampede_guard.integrations.flask import Stampede

app = Flask("tried")
app.config["STAMPEDE_GUARD_URL"] = "memory://"
stampede = Stampede(app)

@stampede.locked_cache(ttl=60)
def total(n: int) -> int:
    return n * 10

@app.get("/")
def show() -> str:
    return str(total(7))

assert app.test_client().get("/").text == "70"
""",
    "jobs": """
import asyncio
from stampede_guard.jobs import Jobs
from stampede_guard.leases import MemoryLeases

jobs = Jobs(MemoryLeases(namespace="tried"))
ran = []

@jobs.cron("0 3 * * *", tz="Europe/Berlin")
async def nightly() -> None:
    ran.append("nightly")

async def main():
    await jobs.run_now("nightly")
    assert ran == ["nightly"]

asyncio.run(main())
""",
    "litestar": _GUARD
    + """
from litestar import Litestar, get
from stampede_guard.integrations.litestar import StampedePlugin

@get("/")
@guard.locked_cache(ttl=60)
async def show() -> dict[str, int]:
    return {"rows": 7}

app = Litestar([show], plugins=[StampedePlugin(guard)], logging_config=None)
assert any("WaitTimeout" in str(name) for name in app.exception_handlers)
""",
    "otel": _GUARD
    + """
from stampede_guard.observe.otel import OpenTelemetryHook

guard.add_hook(OpenTelemetryHook())

@guard.locked_cache(ttl=60)
async def one() -> int:
    return 1

assert asyncio.run(one()) == 1
""",
    "postgres": """
import asyncpg
from stampede_guard.leases import PostgresLeases

PostgresLeases.from_url("postgresql://127.0.0.1:1/shop", namespace="tried")
""",
    "prometheus": _GUARD
    + """
import prometheus_client
from stampede_guard.observe.prometheus import PrometheusHook

guard.add_hook(PrometheusHook())

@guard.locked_cache(ttl=60)
async def one() -> int:
    return 1

assert asyncio.run(one()) == 1
assert "stampede_guard_" in prometheus_client.generate_latest().decode()
""",
    "quart": _GUARD
    + """
from quart import Quart
from stampede_guard.errors import Overloaded
from stampede_guard.integrations.quart import install

app = Quart("tried")
install(guard, app)

@app.get("/")
async def busy():
    raise Overloaded("busy")

async def main():
    assert (await app.test_client().get("/")).status_code == 503

asyncio.run(main())
""",
    "sqlalchemy": _GUARD
    + """
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker
from stampede_guard.integrations.sqlalchemy import invalidate_on_commit

class Base(DeclarativeBase): ...

class Task(Base):
    __tablename__ = "tasks"
    id: Mapped[int] = mapped_column(primary_key=True)

engine = create_engine("sqlite://")
Base.metadata.create_all(engine)
sessions = sessionmaker(engine)
invalidate_on_commit(sessions, guard, {Task: ("task:{id}",)})

@guard.locked_cache(ttl=60, tags=("task:{id}",))
def seen(id: int) -> int:
    calls.append(id)
    return id

calls = []
seen(7)
with sessions() as session:
    session.add(Task(id=7))
    session.commit()
seen(7)
assert calls == [7, 7], calls
guard.close()
""",
}
"""By extra. The others are for work on the project itself."""
