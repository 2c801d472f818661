"""What a key, an event and an error say of an argument: never a secret, and never how to mix up two users."""

from __future__ import annotations

import dataclasses
from contextvars import ContextVar
from typing import Any

import pytest
from fastapi.security import HTTPAuthorizationCredentials
from starlette.datastructures import URL
from starlette.requests import HTTPConnection, Request

from stampede_guard import Policy, StampedeGuard
from stampede_guard.errors import KeyPartError, LeaseTaken, Misuse
from stampede_guard.leases import MemoryLeases
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.values.keys import KeyBuilder
from stampede_guard.values.keys.sensitive import is_sensitive


async def anything(value: Any) -> None: ...


@pytest.mark.parametrize(
    "name",
    ["token", "access_token", "accessToken", "key", "api_key", "apiKey", "APIKey", "password", "passwd", "pw", "secret",
     "auth",
     "client_secret", "authorization", "email", "user_email", "e_mail", "phone", "phone_number", "ssn", "session",
     "session_id", "cookie", "username", "first_name", "user", "iban", "jwt", "X_Auth_Token", "credentials", "ip"],
)  # fmt: skip
def test_a_parameter_with_such_a_name_is_hashed(name: str) -> None:
    assert is_sensitive(name)
    namespace: dict[str, Any] = {}
    exec(f"async def load({name}, other=1): ...", namespace)
    namespace["load"].__module__ = "app"
    build = KeyBuilder(namespace["load"])
    for value in ("x", 7, ("x",), "x" * 99):
        key = build.build((value,), {})
        assert f"{name}=~" in key
        assert "'x" not in key
        assert key == build.build((value,), {}) != build.build(("y",), {})
    assert "'x'" not in str(build.describe(("x",), {}))


@pytest.mark.parametrize(
    "name",
    ["project", "keyboard", "monkey", "tokenizer", "author", "passing", "emailing_list", "phoneme", "user_id",
     "user_count",
     "page", "region", "secretary", "sessions_per_day_limit", "category", "cookiecutter"],
)  # fmt: skip
def test_whole_words_count_only(name: str) -> None:
    assert is_sensitive(name) == name.startswith("sessions_")


def test_named_secrets_and_names_inside_of_records_are_hashed_as_well() -> None:
    @dataclasses.dataclass
    class Login:
        email: str

    async def load(code: str, login: Any = None) -> None: ...

    build = KeyBuilder(load, secret=("code",)).build
    assert "hunter2" not in build(("hunter2",), {})
    for value in (Login("a@b.c"), {"email": "a@b.c"}, {"api_key": "a@b.c"}, [{"token": "a@b.c"}]):
        assert "a@b.c" not in build(("x", value), {})
        assert build(("x", value), {}) != build(("x", str(value)), {})
    with pytest.raises(KeyPartError, match="secret names 'cod'"):
        KeyBuilder(load, secret=("cod",))


HOLDING_SECRETS = [
    "https://a/?token={}", "http://a?api_key={}", "token={}", "Bearer {}", '{{"token": "{}"}}', "a=1&password={}",
]  # fmt: skip


@pytest.mark.parametrize("text", HOLDING_SECRETS)
def test_a_text_that_says_that_it_holds_a_secret_is_hashed(text: str) -> None:
    secret = "zz9zz"
    for value in (text.format(secret), [("token", secret)], frozenset({("api_key", secret)})):
        key = KeyBuilder(anything).build((value,), {})
        assert secret not in key and "~" in key
    assert "'page=7'" in KeyBuilder(anything).build(("page=7",), {})


@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize("text", [*HOLDING_SECRETS, "redis://user:{}@host"])
def test_bytes_are_read_like_the_text_that_they_are(text: str, kind: type) -> None:
    secret = b"zz9zz"
    whole = kind(text.format(secret.decode()).encode())
    for value in (whole, [whole], {"at": whole}, {b"token": kind(secret)}, [(b"api_key", kind(secret))]):
        key = KeyBuilder(anything).build((value,), {})
        assert secret.hex() not in key and "~" in key
    for plain in (b"page=7", b"byte", b"\xff\x00"):
        assert plain.hex() in KeyBuilder(anything).build((plain,), {})


KNOWN_TOKENS = [
    "eyJhbGciOiJI.eyJzdWIi.c2ln", "sk_live_4eC39HqLyjWDarjt", "sk-proj-abc123abc123abc1", "AKIAIOSFODNN7EXAMPLE",
    "ghp_abcdefghijklmnopqrst", "github_pat_abcdefghijklmnopqrst", "glpat-abcdefghijklmnop", "xoxb-1234567890",
    "AIzaabcdefghijklmnopqrstuvwxyz0123456",
]  # fmt: skip


@pytest.mark.parametrize("token", KNOWN_TOKENS)
def test_a_token_that_is_known_by_its_form_is_hashed(token: str) -> None:
    build = KeyBuilder(anything).build
    for value in (
        token,
        [token],
        {"at": token},
        {token: 1},
        f"the {token}",
        f"v1:{token}",
        f"a~b.{token}",
        token.encode(),
        ("model", token),
    ):
        key = build((value,), {})
        assert token not in key and token.encode().hex() not in key and "~" in key
        assert key == build((value,), {})
    assert build((token,), {}) != build((f"{token}x",), {})
    assert token not in KeyBuilder(anything, key=lambda value: f"of {value}").build((token,), {})


@pytest.mark.parametrize(
    "text", ["sk-SK", "sk_SK", "pk-7", "xoxo", "github_stars", "ghost", "AKIA", "task-force-of-twenty-eight"]
)
def test_a_text_that_only_begins_like_a_token_is_readable(text: str) -> None:
    assert f"'{text}'" in KeyBuilder(anything).build((text,), {})


WITH_USERINFO = [
    "redis://user:{}@host", "postgresql://u:{}@h/db", "https://{}@host", "//{}@host", "u:{}@proxy:8080",
    "redis://:{}@h", "amqp://u:{}/odd?marks#in@h", "https%3A%2F%2Fu%3A{}%40h", "https%3a//{}%2540h", "http://{}@h",
    "proxy is http://u:{}@h",
]  # fmt: skip


@pytest.mark.parametrize("text", WITH_USERINFO)
def test_a_url_with_credentials_is_hashed(text: str) -> None:
    secret = "zz9zz"
    url = text.format(secret)
    variable: ContextVar[Any] = ContextVar("upstream", default=url)
    for value in (url, [url], (1, url), {"at": url}, {url: 1}, URL(url), frozenset({url})):
        key = KeyBuilder(anything).build((value,), {})
        assert secret not in key and "~" in key
    for build in (
        KeyBuilder(anything, key=lambda value: value).build,
        KeyBuilder(anything, key=lambda value: ("upstream", value)).build,
        KeyBuilder(anything, context=(variable,)).build,
    ):
        key = build((url,), {})
        assert secret not in key and "~" in key


def test_a_context_variable_that_says_that_it_holds_a_secret_is_hashed() -> None:
    for value in ("token=zz9zz", "Bearer zz9zz", {"password": "zz9zz"}):
        variable: ContextVar[Any] = ContextVar("upstream", default=value)
        assert "zz9zz" not in KeyBuilder(anything, context=(variable,)).build((1,), {})


@pytest.mark.parametrize(
    "text",
    ["ann@example.org", "lodash@4.17", "https://example.org/a", "10:30", "urn:isbn:1", "a//b", "host:5432", "@here"],
)  # fmt: skip
def test_other_addresses_stay_readable(text: str) -> None:
    assert f"'{text}'" in KeyBuilder(anything).build((text,), {})
    assert f"'{text}'" in KeyBuilder(anything).build(([text],), {})


def test_with_key_and_in_context_variables_too() -> None:
    session: ContextVar[str] = ContextVar("user_session", default="hunter2")

    async def load(token: str, page: int) -> None: ...

    async def endpoint(request: Request) -> None: ...

    assert "hunter2" not in KeyBuilder(load, key=lambda token, page: (token, page)).build(("hunter2", 1), {})
    assert "hunter2" not in KeyBuilder(anything, context=(session,)).build((1,), {})
    scope = {"type": "http", "path": "/a", "query_string": b"", "method": "GET",
             "headers": [(b"host", b"shop"), (b"authorization", b"hunter2")]}  # fmt: skip
    by_header = KeyBuilder(endpoint, key=lambda request: request.headers["authorization"])
    assert "hunter2" not in by_header.build((Request(scope),), {})


class CurrentUser:
    pass


class UserSession:
    pass


class Opaque:
    pass


@pytest.mark.parametrize(
    ("name", "value"),
    [("user", Opaque()), ("who", CurrentUser()), ("session", Opaque()), ("token", Opaque()), ("login", UserSession()),
     ("current_user", {"me": Opaque()}), ("credentials", HTTPAuthorizationCredentials), ("tenant", Opaque())],
)  # fmt: skip
def test_nobody_is_told_to_leave_out_who_is_asking(name: str, value: Any) -> None:
    namespace: dict[str, Any] = {}
    exec(f"async def load({name}): ...", namespace)
    namespace["load"].__module__ = "app"
    with pytest.raises(KeyPartError) as caught:
        KeyBuilder(namespace["load"]).build((value,), {})
    assert "unkeyed" not in str(caught.value)
    assert "key=lambda" in str(caught.value)


@pytest.mark.parametrize("kind", [Request, HTTPConnection])
def test_a_request_is_never_left_out_nor_reduced_to_its_path(kind: type) -> None:
    async def alone(request: Any) -> None: ...

    async def beside(page: int, request: Any) -> None: ...

    for function in (alone, beside):
        function.__annotations__["request"] = kind
        with pytest.raises(KeyPartError) as caught:
            KeyBuilder(function)
        text = str(caught.value)
        assert "unkeyed" not in text
        assert "url.path" not in text
        assert '"authorization"' in text


def test_the_safe_cure_comes_first() -> None:
    with pytest.raises(KeyPartError) as caught:
        KeyBuilder(anything).build((Opaque(),), {})
    text = str(caught.value)
    assert 0 < text.index("resources=") < text.index("key=lambda") < text.index("unkeyed=")


VALUES = ["ann@example.org", "Ann Lee", "4711", "+41791234567", "eyJhbGciOi.x", "0f9a8b7c",
          "d290f1ee-6c54-4b01-90e6-d701748f0851",
          "user7319", "ANN", "alice", "alice-lee",
          "alice.lee", "alicelee", "a%40b", "10.0.0.1", "sk_live_4eC39HqLyjWD",
          "2024-06-01", "\u00e9lodie"]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("form", ["{}:report", "{}", "{}:{}"])
async def test_no_event_and_no_error_has_a_value_of_a_key(value: str, form: str) -> None:
    told: list[Any] = []
    guard = StampedeGuard(MemoryStore(), namespace="t", policy=Policy(), hooks=(told.append,))
    key = form.format(value, value)

    async def compute() -> int:
        return 1

    await guard.get_or_compute(key, compute)
    await guard.get_or_compute(key, compute)
    async with guard.single(f"{key}2") as entry:
        await entry.set(1)
    for mistake in (5, lambda: 5):
        with pytest.raises(Misuse) as caught:
            await guard.get_or_compute(f"{key}3", mistake)  # type: ignore[arg-type]
        assert value not in str(caught.value)
    assert {event.function for event in told if hasattr(event, "function")} == {"t:get_or_compute"}
    await guard.get_or_compute(f"{key}4", compute, name="report")
    assert told[-1].function == "t:report"
    await guard.aclose()


async def test_a_name_is_a_text() -> None:
    guard = StampedeGuard(MemoryStore(), namespace="t")
    with pytest.raises(Misuse, match="name="):
        await guard.get_or_compute("k", lambda: 1, name="")  # type: ignore[arg-type, return-value]
    await guard.aclose()


@pytest.mark.parametrize("name", ["ann", "ann:export", "ann@example.org", "export-ann"])
async def test_no_event_about_a_lease_has_a_value_that_its_name_was_made_of(name: str) -> None:
    told: list[Any] = []
    async with MemoryLeases(namespace="t", hooks=(told.append,)) as leases:
        async with leases.hold(name):
            with pytest.raises(LeaseTaken):
                async with leases.hold(name, wait=0):
                    pass

        @leases.run_exclusive("import:nightly")
        async def declared() -> None:
            pass

        await declared()
    assert [event.function for event in told] == ["hold", "hold", "hold", "import", "import"]
