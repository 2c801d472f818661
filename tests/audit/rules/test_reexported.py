"""A cache decorator is found behind the project's own imports, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from stampede_guard.audit import audit
from stampede_guard.audit.finding import Finding

SETUP = "from cashews import cache\ncache.setup('mem://')\n"
SUBCLASS = (
    "from aiocache.decorators import cached as _theirs\n"
    "class cached(_theirs):\n    def __init__(self, ttl=60):\n        super().__init__(ttl=ttl)\n"
)
FUNCTION = "\n@{decorator}\nasync def rates() -> list[int]:\n    return await load()\n"


def project(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        place = folder / f"{name.replace('__', '/')}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    return folder


def found(place: Path) -> list[Finding]:
    return audit([str(place)]).findings


@pytest.mark.parametrize(
    ("importing", "decorator"),
    [
        ("from shop import cache", 'cache(ttl="1h")'),
        ("from shop import cache as kept", 'kept(ttl="1h")'),
        ("from shop import cache", 'cache.early(ttl="1h")'),
        ("import shop", 'shop.cache(ttl="1h")'),
        ("from .caching import cache", 'cache(ttl="1h")'),
        ("from shop.own import cache", 'cache(ttl="1h")'),
    ],
)
def test_cashews_is_found_behind_the_project(tmp_path: Path, importing: str, decorator: str) -> None:
    project(
        tmp_path / "shop",
        caching="from . import cache\n",
        own="from cashews import Cache\ncache = Cache()\n",
        views=importing + FUNCTION.format(decorator=decorator),
    )
    (tmp_path / "shop" / "__init__.py").write_text(SETUP, "utf-8")
    assert [finding.code for finding in found(tmp_path / "shop" / "views.py")] == ["SG103"]


def test_a_subclass_of_the_decorator_has_its_fault(tmp_path: Path) -> None:
    views = "from shop.decorator import cached" + FUNCTION.format(decorator="cached(ttl=60)")
    project(tmp_path / "shop", decorator=SUBCLASS, views=views)
    (finding,) = found(tmp_path / "shop" / "views.py")
    assert finding.code == "SG102" and finding.fix is None
    assert "another file of the project" in finding.no_fix


@pytest.mark.parametrize(
    "decorator",
    [
        SUBCLASS + "    def __call__(self, function):\n        return locked(function)\n",
        SUBCLASS.replace("cached as", "cached_stampede as"),
        "from functools import cache as cached\n",
        "def cached(ttl):\n    return locked(ttl)\n",
        "from shop.views import cached\n",  # a circle
    ],
)
def test_a_decorator_with_a_call_of_its_own_is_not_the_library_s(tmp_path: Path, decorator: str) -> None:
    views = "from shop.decorator import cached" + FUNCTION.format(decorator="cached(ttl=60)")
    project(tmp_path / "shop", decorator=decorator, views=views)
    assert found(tmp_path / "shop" / "views.py") == []


def test_a_lock_is_seen_behind_the_project(tmp_path: Path) -> None:
    views = "from shop.setup import cache" + FUNCTION.format(decorator='cache(ttl="1h", lock=True)')
    project(tmp_path / "shop", setup=SETUP, views=views)
    assert found(tmp_path / "shop" / "views.py") == []


def test_the_file_is_parsed_among_many(tmp_path: Path) -> None:
    views = "from shop.setup import cache" + FUNCTION.format(decorator='cache(ttl="1h")')
    project(tmp_path / "shop", setup=SETUP, views=views)
    others = [str(tmp_path / "shop" / "setup.py")] * 150
    assert len(audit([*others, str(tmp_path / "shop" / "views.py")], jobs=1).findings) == 1


def test_django_s_cache_is_found_behind_the_project(tmp_path: Path) -> None:
    views = "from shop.kept import cache\ndef rate(pk):\n"
    views += "    return cache.get_or_set(f'rate:{pk}', lambda: load(pk), 60)\n"
    project(tmp_path / "shop", kept="from django.core.cache import cache\n", views=views)
    assert [finding.code for finding in found(tmp_path / "shop" / "views.py")] == ["SG105"]


@pytest.mark.parametrize(
    ("body", "codes"), [("SELECT pg_advisory_xact_lock(1)", []), ("CREATE ...", ["SG405"])]
)
def test_an_imported_effect_is_followed(tmp_path: Path, body: str, codes: list[str]) -> None:
    main = (
        "from fastapi import FastAPI\nfrom shop.tables import init_db\n"
        "async def lifespan(app: FastAPI):\n    await init_db(app)\n    yield\n"
    )
    tables = f"async def init_db(app):\n    await app.execute('{body}')\n"
    project(tmp_path / "shop", tables=tables, main=main)
    assert [finding.code for finding in found(tmp_path / "shop" / "main.py")] == codes


@pytest.mark.parametrize(
    ("importing", "used", "codes"),
    [
        ("from shop.stores import redis_client", "redis_client.get('a')", ["SG404"]),
        ("from shop.stores import redis_client as kept", "kept.get('a')", ["SG404"]),
        ("from .stores import redis_client", "redis_client.get('a')", ["SG404"]),
        ("from shop import redis_client", "redis_client.get('a')", ["SG404"]),
        ("from shop.stores import get_redis", "get_redis().get('a')", ["SG404"]),
        ("from shop.stores import other_redis", "await other_redis.get('a')", []),
        ("from shop.stores import other_redis", "other_redis.get('a')", []),
        ("from shop.stores import redis_key", "redis_key.strip()", []),
    ],
)
def test_a_synchronous_client_of_another_file_blocks_a_coroutine(
    tmp_path: Path, importing: str, used: str, codes: list[str]
) -> None:
    project(
        tmp_path / "shop",
        stores="import redis\nimport redis.asyncio as later\nredis_client = redis.Redis(host='a')\n"
        "other_redis = later.Redis()\nredis_key = 'rates'\n"
        "def get_redis():\n    return redis_client\n",
        views=f"{importing}\n\nasync def rates():\n    return {used}\n",
    )
    (tmp_path / "shop" / "__init__.py").write_text("from .stores import redis_client\n", "utf-8")
    assert [finding.code for finding in found(tmp_path / "shop" / "views.py")] == codes


FLASK_CACHE = "from flask_caching import Cache\nstore = Cache()\n"
OWN_CACHE = (
    "class Base:\n    def cached(self, timeout):\n        return locked(self, timeout)\n"
    "class Store(Base):\n    pass\nstore = Store()\n"
)
VIEW = "from shop import store\n\n@app.route('/totals')\n@store.cached(timeout=5)\ndef totals():\n    return load()\n"


@pytest.mark.parametrize(
    ("package", "view", "confidences"),
    [
        (FLASK_CACHE, VIEW, ["high"]),
        (FLASK_CACHE.replace("Cache()", "Own()") + "class Own(Cache): ...\n", VIEW, ["high"]),
        (OWN_CACHE, VIEW.replace("store", "cache"), []),
        ("from redis import Redis\n", VIEW.replace("store", "cache"), ["medium"]),
        (
            "",
            f"import flask\n{OWN_CACHE}{VIEW}".replace("from shop import store\n", "").replace(
                "store", "cache"
            ),
            [],
        ),
    ],
)
def test_flask_caching_is_found_behind_the_project(
    tmp_path: Path, package: str, view: str, confidences: list[str]
) -> None:
    name = "cache" if "cache.cached" in view else "store"
    project(tmp_path / "shop", views=view)
    (tmp_path / "shop" / "__init__.py").write_text(package.replace("store", name), "utf-8")
    assert [f.confidence for f in found(tmp_path / "shop" / "views.py") if f.code == "SG104"] == confidences
