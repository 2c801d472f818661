from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import aiohttp
import fastapi
import httpx
import msgspec
import pytest
import starlette.exceptions
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from stampede_guard.errors import ComputeFailed, ComputeTimeout, Overloaded, StoreUnavailable, WaitTimeout
from stampede_guard.values import errorclasses, failures
from stampede_guard.values.failures import decode_failure, encode_failure, register_failure


class OutOfStock(Exception):
    def __init__(self, article: str, left: int) -> None:
        super().__init__(f"{left} left of {article}")
        self.article = article
        self.left = left


class SoldOut(OutOfStock):
    pass


class NotFound(fastapi.HTTPException):
    def __init__(self) -> None:
        super().__init__(404, "no such project")


class Personal(Exception):
    status_code = 403


@pytest.fixture
def registry() -> Iterator[None]:
    known = dict(failures._registered), dict(failures._readers)
    yield
    for table, before in zip((failures._registered, failures._readers), known, strict=True):
        table.clear()  # type: ignore[attr-defined]
        table.update(before)  # type: ignore[attr-defined]


def elsewhere(error: BaseException) -> Exception:
    """The error as another process sees it."""
    data = encode_failure(error)
    assert data is not None
    return decode_failure(data)


@pytest.mark.parametrize("kind", [fastapi.HTTPException, starlette.exceptions.HTTPException])
@pytest.mark.parametrize(
    ("status", "detail", "headers"),
    [
        (404, None, None),
        (404, "no such project", {}),
        (409, "", {"Retry-After": "3", "X-Reason": "é"}),
        (422, {"errors": [{"loc": ["a", 1], "ok": False, "share": 0.5}]}, {"X": "y"}),
        (500, ["a", None], None),
    ],
)
def test_an_http_exception_keeps_its_class_status_detail_and_headers(
    kind: Any, status: int, detail: Any, headers: Any
) -> None:
    original = kind(status, detail, headers)
    error: Any = elsewhere(original)
    assert type(error) is kind
    assert (error.status_code, error.detail, error.headers) == (status, original.detail, original.headers)


def test_a_subclass_of_an_http_exception_arrives_as_itself_and_else_as_the_class_it_derives_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Any FastAPI application has a handler for HTTPException, so the local class would be found by that.
    monkeypatch.setattr(errorclasses, "_handled", [])

    class Local(NotFound):
        pass

    assert type(elsewhere(NotFound())) is NotFound
    error: Any = elsewhere(Local())
    assert type(error) is fastapi.HTTPException
    assert (error.status_code, error.detail) == (404, "no such project")


@pytest.mark.parametrize(
    "error",
    [
        fastapi.HTTPException(401),
        fastapi.HTTPException(403, "not yours"),
        starlette.exceptions.HTTPException(401),
        Personal(),
        ExceptionGroup("several", [ValueError(), fastapi.HTTPException(403)]),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        SystemExit(1),
        WaitTimeout("this process is shutting down"),
        Overloaded("1000 flights"),
        ExceptionGroup("several", [ValueError(), Overloaded("1000 flights")]),
        GeneratorExit(),
        BaseExceptionGroup("several", [asyncio.CancelledError()]),
    ],
    ids=repr,
)
def test_what_speaks_of_one_caller_or_of_one_process_never_leaves_it(error: BaseException) -> None:
    assert encode_failure(error) is None


def test_a_registered_type_still_does_not_cross_with_403(registry: None) -> None:
    register_failure(Personal, lambda error: {}, lambda content: Personal())
    assert encode_failure(Personal()) is None


@pytest.mark.parametrize(
    "original",
    [
        ComputeTimeout("ran longer than 60 s"),
        ComputeFailed("ValueError", "bad input"),
    ],
    ids=repr,
)
def test_our_own_errors_arrive_as_themselves(original: Exception) -> None:
    error = elsewhere(original)
    assert type(error) is type(original)
    assert (str(error), error.args) == (str(original), original.args)
    assert type(elsewhere(error)) is type(original)


@pytest.mark.parametrize(
    "original",
    [
        ValueError(object()),
        StoreUnavailable("away"),
        StopAsyncIteration(1),
        UnicodeEncodeError("ascii", "é", 0, 1, "no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_cannot_be_rebuilt_arrives_as_compute_failed_with_its_type_and_message(
    original: Exception,
) -> None:
    error = elsewhere(original)
    assert isinstance(error, ComputeFailed)
    assert (error.type_name, error.message) == (type(original).__name__, str(original))


def test_each_caller_gets_an_error_of_its_own() -> None:
    data = encode_failure(ValueError("x"))
    assert data is not None
    assert decode_failure(data) is not decode_failure(data)


@pytest.mark.parametrize(
    ("message", "arrives"), [("x " * 10_000, "x " * 250), ("half \ud800 pair", "half ? pair")]
)
def test_a_message_is_cut_and_made_printable(message: str, arrives: str) -> None:
    error = elsewhere(ValueError(message))
    assert isinstance(error, ComputeFailed)
    assert error.message == arrives


def test_an_error_that_cannot_be_printed_arrives_with_its_type() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    error = elsewhere(Unprintable())
    assert isinstance(error, ComputeFailed)
    assert (error.type_name, error.message) == ("Unprintable", "")


@pytest.mark.parametrize(
    "detail", [object(), {"a": object()}, "x" * 100_000], ids=["object", "nested", "large"]
)
def test_a_detail_that_cannot_travel_leaves_type_and_message(detail: Any) -> None:
    error = elsewhere(fastapi.HTTPException(400, detail))
    assert isinstance(error, ComputeFailed)
    assert error.type_name == "HTTPException"


def test_a_registered_type_arrives_as_itself_and_so_do_its_subclasses(registry: None) -> None:
    register_failure(
        OutOfStock,
        lambda error: {"article": error.article, "left": error.left},
        lambda content: OutOfStock(content["article"], content["left"]),
    )
    for original in (OutOfStock("tea", 3), SoldOut("tea", 3)):
        error = elsewhere(original)
        assert type(error) is OutOfStock
        assert (error.article, error.left) == ("tea", 3)


def test_a_registration_that_fails_leaves_type_and_message(registry: None) -> None:
    def broken(given: Any) -> Any:
        raise RuntimeError("broken")

    register_failure(OutOfStock, broken, lambda content: OutOfStock("", 0))
    assert isinstance(elsewhere(OutOfStock("tea", 3)), ComputeFailed)
    register_failure(OutOfStock, lambda error: {}, broken)
    assert isinstance(elsewhere(OutOfStock("tea", 3)), ComputeFailed)
    register_failure(OutOfStock, lambda error: {}, lambda content: "no error")  # type: ignore[arg-type, return-value]
    assert isinstance(elsewhere(OutOfStock("tea", 3)), ComputeFailed)


def test_a_process_that_does_not_know_a_type_gets_compute_failed(registry: None) -> None:
    register_failure(OutOfStock, lambda error: {}, lambda content: OutOfStock("", 0))
    data = encode_failure(OutOfStock("tea", 3))
    assert data is not None
    failures._readers.clear()
    error = decode_failure(data)
    assert isinstance(error, ComputeFailed)
    assert (error.type_name, error.message) == ("OutOfStock", "3 left of tea")


def test_a_process_without_fastapi_gets_compute_failed() -> None:
    data = encode_failure(fastapi.HTTPException(404, "no such project"))
    script = (
        "import sys\n"
        "sys.modules['fastapi'] = None\n"
        "from stampede_guard.values.failures import decode_failure\n"
        f"print(repr(decode_failure({data!r})))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "ComputeFailed('HTTPException', '404: no such project')"


@given(st.binary(max_size=100))
@example(b"")
@example(b"null")
@example(b"[" * 100_000)
@example(b'{"type": 3}')
@example(b'{"type": "X", "kind": "fastapi"}')
@example(b'{"type": "X", "kind": "fastapi", "content": {"status": "404", "detail": null, "headers": null}}')
@example(b'{"type": "X", "kind": "fastapi", "content": {"status": 99999, "detail": null, "headers": null}}')
@example(b'{"type": "X", "kind": "Overloaded", "content": {"message": "", "retry_after": "soon"}}')
@example(b'{"type": "X", "kind": "os.system", "content": {}}')
def test_bytes_that_are_not_a_failure_are_a_failure_nonetheless(data: bytes) -> None:
    assert isinstance(decode_failure(data), ComputeFailed)


contents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.sampled_from(["", "failed", "timeout", "WaitTimeout", "Overloaded", "fastapi", "starlette", "x"]),
    contents,
)
def test_a_failure_with_any_content_decodes_to_an_exception_that_can_be_printed(
    kind: str, content: Any
) -> None:
    data = msgspec.json.encode({"type": "X", "message": "m", "kind": kind, "content": content})
    error = decode_failure(data)
    assert isinstance(error, Exception)
    assert isinstance(str(error), str)


class KeywordOnly(Exception):
    def __init__(self, *, shelf: int, reason: str = "empty") -> None:
        super().__init__(f"shelf {shelf} is {reason}")
        self.shelf, self.reason = shelf, reason


def test_an_error_whose_parameters_are_keywords_arrives_as_itself() -> None:
    arrived = decode_failure(encode_failure(KeywordOnly(shelf=7)) or b"")
    assert isinstance(arrived, KeywordOnly)
    assert (str(arrived), arrived.shelf, arrived.reason) == ("shelf 7 is empty", 7, "empty")


def test_an_error_with_a_request_arrives_as_compute_failed_without_its_headers() -> None:
    headers = {"Authorization": "Bearer sesame"}
    asked = aiohttp.RequestInfo(
        URL("http://api/v1?key=sesame"), "GET", CIMultiDictProxy(CIMultiDict(headers)), URL("http://api/v1")
    )
    request = httpx.Request("GET", "http://api/v1", headers=headers)
    for error in (
        aiohttp.ClientResponseError(asked, (), status=404, message="Not Found"),
        httpx.HTTPStatusError("Not Found", request=request, response=httpx.Response(404, request=request)),
        httpx.ReadTimeout("Not Found in time", request=request),
    ):
        data = encode_failure(error)
        assert data is not None
        assert b"sesame" not in data
        arrived = decode_failure(data)
        assert isinstance(arrived, ComputeFailed)
        assert (arrived.type_name, arrived.status_code) == (type(error).__name__, None)
        assert "Not Found" in arrived.message
