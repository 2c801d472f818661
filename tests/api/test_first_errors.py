"""The mistakes of a first hour: each error says what was given, what is allowed and what to write instead."""

from __future__ import annotations

import asyncio
import contextlib
import io
from contextvars import ContextVar
from typing import Any

import pytest

from stampede_guard import (
    CacheRoute,
    Policy,
    PolicyError,
    StampedeGuard,
    StampedeMiddleware,
    cached_many,
    locked_cache,
)
from stampede_guard.api.urls import store_from_url
from stampede_guard.errors import Misuse, UrlError
from stampede_guard.stores.cluster import ClusterStore
from stampede_guard.stores.redis import RedisStore
from stampede_guard.stores.sentinel import SentinelStore

guard = StampedeGuard.from_url("memory://")
untyped: Any = locked_cache
of_guard: Any = guard.locked_cache
many: Any = cached_many
many_of_guard: Any = guard.cached_many


TENANT: ContextVar[str] = ContextVar("tenant")


async def quality(project: int) -> int:
    return project


class TestDecorators:
    @pytest.mark.parametrize("decorate", [untyped, of_guard])
    def test_seconds_without_their_name_are_told_their_name(self, decorate: Any) -> None:
        with pytest.raises(Misuse, match=r"takes its options by name: write locked_cache\(ttl=300\)"):
            decorate(300)

    @pytest.mark.parametrize(
        ("decorate", "name"),
        [
            (untyped, "locked_cache"),
            (of_guard, "locked_cache"),
            (many, "cached_many"),
            (many_of_guard, "cached_many"),
        ],
    )
    def test_a_decorator_without_parentheses_asks_for_them(self, decorate: Any, name: str) -> None:
        with pytest.raises(Misuse, match=rf"write @{name}\(ttl=300\) above quality\(\), with parentheses"):
            decorate(quality)

    def test_that_holds_for_methods_of_a_class(self) -> None:
        with pytest.raises(Misuse, match=r"above quality\(\), with parentheses"):
            untyped(staticmethod(quality))

    def test_a_guard_in_the_first_place_is_told_where_it_goes(self) -> None:
        with pytest.raises(Misuse, match=r"@guard.locked_cache\(ttl=300\), or locked_cache\(guard=guard"):
            untyped(guard)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"stale_tl": 60}, r"no such field \(do you mean stale_ttl\?\); the fields are"),
            ({"tag": ("project:7",)}, r"no such field \(do you mean tags\?\)"),
            ({"encryption": object()}, r"it belongs to the guard: StampedeGuard.from_url\(..., encryption="),
            ({"hooks": ()}, "it belongs to the guard"),
            ({"context": "tenant"}, r"not a str: write context=\(tenant,\)"),
            ({"context": TENANT}, r"not a ContextVar: write context=\(tenant,\)"),
            ({"context": ("tenant",)}, "takes ContextVars themselves.*not 'tenant'"),
            ({"key": 7}, "key= is a template such as .*, or a function of the same parameters .*, not a int"),
        ],
    )
    def test_an_option_that_cannot_be_is_told_where_it_goes(
        self, options: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(Misuse, match=words):
            of_guard(ttl=60, **options)(quality)

    def test_anything_else_is_told_that_options_have_names(self) -> None:
        with pytest.raises(Misuse, match="by name"):
            untyped("key")


class TestGuards:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"policy": {"ttl": 3}}, r"not a dict: write policy=Policy\(ttl=300\)"),
            ({"namespace": None}, "namespace=None is not allowed"),
        ],
    )
    def test_what_a_guard_cannot_be_made_of_is_told(self, options: dict[str, Any], words: str) -> None:
        with pytest.raises(Misuse, match=words):
            StampedeGuard.from_url("memory://", **options)


class TestNames:
    def test_the_beginning_of_one_name_means_it(self) -> None:
        with pytest.raises(PolicyError, match=r"stale=10 .*do you mean stale_ttl\?"):
            of_guard(ttl=1, stale=10)(quality)

    def test_the_options_of_a_function_are_listed_beside_the_fields(self) -> None:
        with pytest.raises(
            PolicyError, match=r"the fields are compression, .*; the other options are .*tags.*version"
        ):
            of_guard(ttl=1, tug=1)(quality)

    def test_one_route_alone_is_told_its_brackets(self) -> None:
        route: Any = CacheRoute("/a", ttl=1)
        with pytest.raises(PolicyError, match=r"takes a tuple.*: write routes=\[CacheRoute\(\.\.\.\)\]"):
            StampedeMiddleware(quality, guard=guard, routes=route)  # type: ignore[arg-type]

    def test_a_noun_has_its_article_and_a_class_of_a_script_its_name_alone(self) -> None:
        async def of(thing: Any) -> int:
            return 1

        cached = of_guard(ttl=1)(of)
        with pytest.raises(Misuse, match=r"'thing' of .* is an object and cannot"):
            cached.key(object())
        with pytest.raises(Misuse, match=r"is a TextIOWrapper and cannot"):
            cached.key(io.TextIOWrapper(io.BytesIO()))


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "words"),
        [
            ("localhost:6379", r"'localhost:6379' has no scheme: write redis://localhost:6379"),
            ("cache.internal", r"'cache.internal' has no scheme: write redis://cache.internal"),
            ("//h:1", r"has no scheme: write redis://h:1"),
            ("", r"'' has no scheme: write for example redis://localhost:6379/0"),
            ("memory:", r"'memory:' has no // after its scheme: write memory://"),
            (
                "redis:/localhost/0",
                r"'redis:/localhost/0' has no // after its scheme: write redis://localhost/0",
            ),
            ("redis:u:pw@h:1/0", r"'\.\.\.@h:1/0' has no // .*: write redis://...@h:1/0"),
            (
                "redis:user:pa/ss@host",
                r"'\.\.\.@host' has no // after its scheme: write redis://\.\.\.@host$",
            ),
            ("redis:localhost?password=hunter2", r"'redis:localhost' has no // .*: write redis://localhost$"),
            ("redis:6379", r"'redis:6379' has no scheme: write redis://redis:6379"),
            ("redis://localhost:port", r"a port of 1 to 65535, as in .*: got 'localhost:port'"),
            ("redis://localhost:70000/0", r"got 'localhost:70000'"),
            ("redis://localhost:0", r"got 'localhost:0'"),
            ("redis://[::1", r"got '\[::1'"),
            ("redis://h1:1,h2:2", r"one host.*got 'h1:1,h2:2' .several hosts: redis\+cluster://"),
            ("redis://h/shop", r"database in the store URL must be a number, as in .*: got 'shop'"),
            ("redis://h?no_such_option=1", r"option of the store URL is unknown: .*no_such_option"),
            (
                "unix:///run/redis.sock?no_such_option=1",
                r"option of the store URL is unknown: .*no_such_option",
            ),
            ("redis://h?ssl_ca_certs=ca.pem", r"unknown: .*ssl_ca_certs.*; for TLS write rediss://"),
            ("valkey+ring://h", r"unknown scheme 'valkey\+ring' .*memory://, redis://"),
        ],
    )
    def test_what_was_given_and_what_is_allowed_is_said(self, url: str, words: str) -> None:
        with pytest.raises(UrlError, match=words):
            StampedeGuard.from_url(url)

    @pytest.mark.parametrize("given", [None, b"redis://h", 6379])
    def test_what_is_no_text_is_told_so(self, given: Any) -> None:
        with pytest.raises(UrlError, match=f"not a {type(given).__name__}"):
            StampedeGuard.from_url(given)

    @pytest.mark.parametrize(
        "url",
        [
            "user:secret@host:6379",
            "host=h user=u password=secret dbname=d",
            "host=h sslpassword = 'secret'",
            "redis://:secret@h:port",
            "redis://:sec/secret@h:1",
            "redis://:sec#secret@h:1",
            "redis://:secret@h/shop",
            "redis://:secret@h1,h2",
        ],
    )
    def test_a_password_is_not_shown(self, url: str) -> None:
        with pytest.raises(UrlError) as caught:
            StampedeGuard.from_url(url)
        assert "sec" not in str(caught.value)

    @pytest.mark.parametrize(
        ("url", "kind"),
        [
            ("valkey://u:p@h:7/3", RedisStore),
            ("valkeys://u:p@h:7/3", RedisStore),
            ("valkey+cluster://h1,h2", ClusterStore),
            ("valkeys+sentinel://h1/m", SentinelStore),
            ("REDIS://h", RedisStore),
            (" redis://h\n", RedisStore),
        ],
    )
    def test_valkey_is_redis_by_another_name(self, url: str, kind: type) -> None:
        assert type(store_from_url(url)) is kind

    async def test_with_an_s_it_is_tls(self) -> None:
        found: list[Any] = [store_from_url(f"{scheme}://u:p@h:7/3") for scheme in ("valkeys", "rediss")]
        one, other = (store.connect() for store in found)
        assert type(one) is type(other)
        assert (one.host, one.port, one.db, one.username) == ("h", 7, 3, "u")


class TestPolicies:
    def test_no_time_at_all_is_told_how_to_do_without_a_cache(self) -> None:
        with pytest.raises(PolicyError) as caught:
            Policy(ttl=0)
        text = str(caught.value)
        assert text.startswith(
            "ttl=0 is not allowed: it must be a number of seconds between 0.001 and 316224000"
        )
        assert 'mode="off"' in text

    def test_a_number_in_quotes_is_told_both_ways_to_write_it(self) -> None:
        with pytest.raises(PolicyError, match=r'a text needs a unit: write 300 or "300s"'):
            Policy(stale_ttl="300")


class TestComputations:
    @pytest.mark.parametrize("mode", ["on", "shadow", "bypass", "off"])
    async def test_a_plain_function_is_told_how_to_become_one_that_can_be_awaited(self, mode: Any) -> None:
        async with StampedeGuard.from_url("memory://", policy=Policy(mode=mode)) as guard:
            words = r"get_or_compute\(key, compute\) awaits .* a int cannot be awaited: write `async def`"
            with pytest.raises(Misuse, match=words):
                await guard.get_or_compute("k", lambda: 5)  # type: ignore[arg-type,return-value]

    async def test_whatever_can_be_awaited_will_do(self) -> None:
        async with StampedeGuard.from_url("memory://") as guard:
            assert await guard.get_or_compute("k", lambda: asyncio.sleep(0, "value")) == "value"


class TestResources:
    @pytest.mark.parametrize("given", [5, contextlib.nullcontext(), None], ids=["int", "opened", "none"])
    @pytest.mark.parametrize("decorator", [of_guard, many_of_guard])
    def test_what_is_no_factory_is_told_so_at_decoration(self, decorator: Any, given: Any) -> None:
        async def products(ids: list[int], db: Any) -> dict[int, str]:
            return {}

        words = r"takes a factory, .* not a \w+: write a function without parentheses, .*'db': open_db"
        with pytest.raises(Misuse, match=words):
            decorator(resources={"db": given})(products)
