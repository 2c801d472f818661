"""A file that is requested in parts, behind the cache: RFC 9111, 3.3 and 3.4."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import pytest

from stampede_guard.http.parts.spans import MOST_SPANS
from stampede_guard.http.requests.stored import HttpCodec, StoredResponse
from stampede_guard.http.spec.ranges import ByteSpan
from tests.http.fleet import App, Fleet, cached, start, status_of

BODY = bytes(range(256)) * 4


class File(App):
    """Serves `body` and its ranges, as a file server does. `asked`: the Range and the If-Range of each call."""

    def __init__(self, body: bytes = BODY, **fields: str) -> None:
        super().__init__()
        self.body = body
        self.fields = cached(etag='"a"', content_type="x/y") | fields
        self.asked: list[tuple[str | None, str | None]] = []
        self.obeys_if_range = True
        self.handler = self.serve

    async def serve(self, scope: Any, receive: Any, send: Any, number: int) -> None:
        told = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.asked.append((told.get("range"), told.get("if-range")))
        size, changed = (
            len(self.body),
            told.get("if-range", self.fields.get("etag")) != self.fields.get("etag"),
        )
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", told.get("range", ""))
        if match is None or (changed and self.obeys_if_range):
            await start(send, self.fields | {"content-length": str(size)})
            await send({"type": "http.response.body", "body": self.body})
            return
        first, last = match.groups()
        begin = int(first) if first else max(0, size - int(last))
        end = min(int(last), size - 1) if first and last else size - 1
        if begin >= size:
            await start(send, {"content-range": f"bytes */{size}"}, 416)
            await send({"type": "http.response.body", "body": b""})
            return
        await self.part(send, begin, end)

    async def part(self, send: Any, begin: int, end: int) -> None:
        told = f"bytes {begin}-{end}/{len(self.body)}"
        await start(send, self.fields | {"content-range": told}, 206)
        await send({"type": "http.response.body", "body": self.body[begin : end + 1]})


async def get(fleet: Fleet, begin: int, end: int, **fields: Any) -> str:
    """The Cache-Status of a range, which must be right."""
    answer = await fleet.get(range=f"bytes={begin}-{end}", **fields)
    assert (answer.status, answer.get("content-range")) == (206, f"bytes {begin}-{end}/{len(BODY)}")
    assert answer.body == BODY[begin : end + 1]
    assert answer.get("content-length") in (None, str(end + 1 - begin))
    return status_of(answer)


async def test_parts_of_one_body_are_stored_together_and_serve_what_lies_within_them() -> None:
    async with Fleet(app := File()) as fleet:
        for begin, end in [(0, 99), (900, 1023), (400, 499)]:
            assert "hit" not in await get(fleet, begin, end)
        for begin, end in [(0, 99), (10, 20), (900, 1023), (1023, 1023), (400, 499), (401, 410)]:
            assert "; hit" in await get(fleet, begin, end)
        assert app.calls == 3
        last = await fleet.get(range="bytes=-100")
        assert (last.body, last.get("content-type")) == (BODY[-100:], "x/y")
        assert "; hit" in status_of(last)
        assert "fwd=partial" in await get(fleet, 90, 110)
        assert "; hit" in await get(fleet, 0, 110)


async def test_the_last_missing_bytes_make_a_complete_response() -> None:
    async with Fleet(app := File()) as fleet:
        for begin, end in [(512, 1023), (0, 255), (256, 511)]:
            await get(fleet, begin, end)
        whole = await fleet.get()
        assert (whole.status, whole.body, whole.get("content-length")) == (200, BODY, "1024")
        assert whole.get("content-range") is None
        assert "; hit" in status_of(whole)
        assert app.calls == 3


@pytest.mark.parametrize(
    ("stored", "missing"),
    [
        ([(0, 99)], "bytes=100-"),
        ([(100, 1023)], "bytes=0-99"),
        ([(0, 99), (900, 1023)], "bytes=100-899"),
        ([(0, 99), (200, 299)], "bytes=100-"),
        ([(200, 299), (900, 1023)], "bytes=0-899"),
        ([(200, 299)], None),
    ],
)
async def test_a_request_for_the_whole_asks_the_application_for_the_missing_bytes_only(
    stored: list[tuple[int, int]], missing: str | None
) -> None:
    async with Fleet(app := File()) as fleet:
        for begin, end in stored:
            await get(fleet, begin, end)
        whole = await fleet.get()
        assert (whole.status, whole.body) == (200, BODY)
        assert app.asked[len(stored) :] == [(missing, '"a"' if missing else None)]
        assert "; hit" in status_of(await fleet.get())


@pytest.mark.parametrize("etag", ['"a"', 'W/"a"', ""])
@pytest.mark.parametrize("asked", ["bytes=0-", "bytes=0-1023", "bytes=-2000"])
async def test_a_part_with_all_bytes_is_a_complete_response(asked: str, etag: str) -> None:
    """Browsers ask for a video by `bytes=0-`."""
    async with Fleet(app := File(etag=etag)) as fleet:
        part = await fleet.get(range=asked)
        assert (part.status, part.get("content-range"), part.body) == (206, "bytes 0-1023/1024", BODY)
        whole = await fleet.get()
        assert (whole.status, whole.body, whole.get("content-range")) == (200, BODY, None)
        assert "; hit" in status_of(whole)
        assert "; hit" in await get(fleet, 5, 9)
        assert app.calls == 1


async def test_a_part_with_all_bytes_that_may_lack_fields_stays_a_part() -> None:
    async with Fleet(app := File()) as fleet:
        await get(fleet, 0, 1023, if_range='"a"')
        assert "; hit" not in status_of(await fleet.get())
        assert app.asked[1:] == [(None, None)], "the whole, without a question for bytes beyond the end"


@pytest.mark.parametrize("obeys", [True, False])
async def test_another_validator_replaces_all_parts(obeys: bool) -> None:
    async with Fleet(app := File()) as fleet:
        app.obeys_if_range = obeys
        for begin, end in [(0, 99), (900, 1023)]:
            await get(fleet, begin, end)
        app.fields["etag"] = '"b"'
        await get(fleet, 400, 499)
        assert "; hit" not in await get(fleet, 0, 99), "of the old body"
        app.fields["etag"] = '"c"'
        whole = await fleet.get()
        assert (whole.status, whole.body) == (200, BODY)


@pytest.mark.parametrize(
    "change",
    [
        {"etag": 'W/"a"'},
        {"etag": "a"},
        {"etag": ""},
        {"content-type": "x/z"},
        {"content-encoding": "gzip"},
        {"vary": "accept"},
    ],
)
async def test_what_shows_another_body_replaces_all_parts(change: dict[str, str]) -> None:
    async with Fleet(app := File()) as fleet:
        await get(fleet, 0, 99)
        app.fields |= change
        await get(fleet, 400, 499)
        assert "; hit" not in await get(fleet, 0, 99)


@pytest.mark.parametrize("etag", ['W/"a"', ""])
async def test_parts_without_a_strong_validator_replace_each_other(etag: str) -> None:
    async with Fleet(File(etag=etag)) as fleet:
        await get(fleet, 0, 99)
        await get(fleet, 400, 499)
        assert "; hit" in await get(fleet, 400, 450)
        assert "; hit" not in await get(fleet, 0, 99)


async def test_fields_that_the_new_part_omits_stay_and_the_others_are_its_own() -> None:
    async with Fleet(app := File(x_one="1", x_two="1")) as fleet:
        await get(fleet, 0, 99)
        del app.fields["content-type"], app.fields["x_one"]
        app.fields["x_two"] = "2"
        await get(fleet, 400, 499)
        found = await fleet.get(range="bytes=0-9")
        assert [found.get(name) for name in ("content-type", "x_one", "x_two")] == ["x/y", "1", "2"]


async def test_a_new_part_renews_the_stored_ones() -> None:
    async with Fleet(app := File()) as fleet:
        await get(fleet, 0, 99)
        fleet.clock.advance(50)
        await get(fleet, 400, 499)
        fleet.clock.advance(50)
        assert "; hit" in await get(fleet, 0, 99)
        fleet.clock.advance(50)
        calls = app.calls
        await get(fleet, 0, 99)
        assert app.calls == calls + 1, "stale"


async def test_stale_parts_are_validated_together() -> None:
    async with Fleet(app := File()) as fleet:
        await get(fleet, 0, 99)
        await get(fleet, 400, 499)

        async def unchanged(scope: Any, receive: Any, send: Any, number: int) -> None:
            assert (b"if-none-match", b'"a"') in scope["headers"]
            await start(send, cached(etag='"a"'), 304)
            await send({"type": "http.response.body", "body": b""})

        fleet.clock.advance(90)
        app.handler = unchanged
        assert "fwd=stale" in await get(fleet, 410, 420)
        assert "; hit" in await get(fleet, 0, 99)
        assert "; hit" in await get(fleet, 400, 499)
        assert app.calls == 3


async def test_an_invalidation_ends_all_parts() -> None:
    async with Fleet(File()) as fleet:
        await get(fleet, 0, 99)
        await get(fleet, 400, 499)
        await fleet.middlewares[0].purge(url="http://example.test/")
        await get(fleet, 600, 699)
        assert "; hit" not in await get(fleet, 0, 99)


async def test_a_herd_on_two_ranges_in_two_processes_is_two_calls() -> None:
    async with Fleet(app := File(), processes=2) as fleet:
        await get(fleet, 0, 9)
        app.calls = 0
        herds = fleet.herd(10, range="bytes=100-199") + fleet.herd(10, range="bytes=400-499")
        answers = [await one for one in herds]
        assert {answer.body for answer in answers[:10]} == {BODY[100:200]}
        assert {answer.body for answer in answers[10:]} == {BODY[400:500]}
        assert app.calls == 2
        assert "; hit" in await get(fleet, 0, 9)


# ---- hostile -----------------------------------------------------------------------------------------


async def test_parts_have_bounds_in_number_and_bytes() -> None:
    async with Fleet(app := File(), max_body_bytes=600) as fleet:
        for begin in range(0, 1024, 40):
            await get(fleet, begin, begin)
        calls = app.calls
        hits = ["; hit" in await get(fleet, begin, begin) for begin in range(0, 1024, 40)]
        assert app.calls > calls and hits.count(True) <= MOST_SPANS
        await get(fleet, 0, 399)
        await get(fleet, 500, 899)
        assert "; hit" in await get(fleet, 500, 899)
        assert "; hit" not in await get(fleet, 0, 399)
        await fleet.get()
        assert app.asked[-1] == (None, None), "the whole is too large, so nothing is asked for in vain"


async def test_bytes_that_contradict_stored_ones_replace_them() -> None:
    async with Fleet(app := File()) as fleet:
        await get(fleet, 0, 99)
        app.body = b"x" * len(BODY)
        answer = await fleet.get(range="bytes=50-199")
        assert answer.body == b"x" * 150
        assert (await fleet.get(range="bytes=0-9")).body == b"x" * 10


@pytest.mark.parametrize(
    "told",
    [
        "bytes 400-499/2048",
        "bytes 400-499/*",
        "bytes 400-500/1024",
        "bytes 400-498/1024",
        "bytes 300-399/1024",
        "bytes 0-99/1024",
    ],
)
async def test_a_wrong_content_range_changes_no_stored_byte(told: str) -> None:
    """It goes to its own client as it came. At most it replaces the parts; it never joins them."""
    async with Fleet(app := File()) as fleet:
        await get(fleet, 0, 99)
        await get(fleet, 900, 1023)

        async def wrong(scope: Any, receive: Any, send: Any, number: int) -> None:
            await start(send, app.fields | {"content-range": told}, 206)
            await send({"type": "http.response.body", "body": b"?" * 100})

        app.handler = wrong
        answer = await fleet.get(range="bytes=400-499")
        assert (answer.status, answer.body, answer.get("content-range")) == (206, b"?" * 100, told)
        app.handler = app.serve
        assert (await fleet.get()).body == BODY
        for begin, end in [(0, 99), (900, 1023), (500, 600)]:
            await get(fleet, begin, end)


async def test_several_ranges_in_one_response_are_not_stored() -> None:
    async with Fleet(app := File()) as fleet:
        await get(fleet, 0, 99)

        async def several(scope: Any, receive: Any, send: Any, number: int) -> None:
            kind = {"content-type": "multipart/byteranges; boundary=x", "content-range": "bytes 100-199/1024"}
            await start(send, app.fields | kind, 206)
            await send({"type": "http.response.body", "body": b"-" * 100})

        app.handler = several
        for asked in ("bytes=100-149,160-199", "bytes=100-199"):
            answer = await fleet.get(range=asked)
            assert (answer.status, answer.body) == (206, b"-" * 100)
        app.handler = app.serve
        await get(fleet, 100, 199)


async def test_a_request_for_several_ranges_gets_the_whole() -> None:
    async with Fleet(app := File()) as fleet:
        await get(fleet, 0, 99)
        await get(fleet, 900, 1023)
        answer = await fleet.get(range="bytes=0-9,900-909")
        assert (answer.status, answer.body) == (200, BODY)
        assert app.asked[-1] == ("bytes=100-899", '"a"'), "it is answered like a request for the whole"


async def test_if_range_with_another_tag_is_not_answered_from_parts() -> None:
    async with Fleet(File()) as fleet:
        await get(fleet, 0, 99)
        await get(fleet, 900, 1023)
        assert "; hit" in await get(fleet, 0, 9, if_range='"a"')
        other = await fleet.get(range="bytes=0-9", if_range='"b"')
        assert (other.status, other.body) == (200, BODY)


async def test_an_application_that_ignores_if_range_answers_its_client_as_it_likes() -> None:
    async with Fleet(app := File()) as fleet:
        app.obeys_if_range = False
        await get(fleet, 0, 99)
        await get(fleet, 900, 1023)
        await get(fleet, 400, 499, if_range='"b"')


@pytest.mark.parametrize("status", [416, 304])
async def test_a_refusal_of_a_range_that_the_client_did_not_ask_for_is_not_its_answer(status: int) -> None:
    async with Fleet(app := File()) as fleet:
        await get(fleet, 0, 99)

        async def refuses(scope: Any, receive: Any, send: Any, number: int) -> None:
            if any(name == b"range" for name, _ in scope["headers"]):
                await start(send, cached(etag='"a"'), status)
                await send({"type": "http.response.body", "body": b""})
            else:
                await app.serve(scope, receive, send, number)

        app.handler = refuses
        whole = await fleet.get()
        assert (whole.status, whole.body) == (200, BODY)


async def test_a_validated_part_is_cut_for_the_request_that_validated_it() -> None:
    async with Fleet(app := File()) as fleet:
        await get(fleet, 0, 99)

        async def unchanged(scope: Any, receive: Any, send: Any, number: int) -> None:
            await start(send, cached(etag='"a"'), 304)
            await send({"type": "http.response.body", "body": b""})

        fleet.clock.advance(90)
        app.handler = unchanged
        await get(fleet, 10, 20)
        assert "; hit" in await get(fleet, 10, 20)


async def test_a_range_has_no_meaning_for_head() -> None:
    async with Fleet(File()) as fleet:
        await get(fleet, 0, 99)
        await get(fleet, 900, 1023)
        for asked in ("bytes=0-99", "bytes=0-9", "bytes=900-1023"):
            answer = await fleet.get(method="HEAD", range=asked)
            assert "; hit" not in status_of(answer)


def test_a_version_without_several_parts_does_not_decode_them() -> None:
    one = StoredResponse(206, (), b"0189", 0.0, 1.0, (), part=(0, 1, 10))
    several = msgspec.structs.replace(one, spans=(ByteSpan(0, 1), ByteSpan(8, 9)))
    codec = HttpCodec()
    assert codec.encode(one)[:2] != codec.encode(several)[:2]
    for stored in (one, several):
        assert codec.decode(codec.encode(stored)) == stored


async def test_two_processes_add_parts_to_one_entry_of_a_server(valkey_url: str, namespace: str) -> None:
    async with Fleet(app := File(), processes=2, on=valkey_url, namespace=namespace) as fleet:
        for number, (begin, end) in enumerate([(512, 1023), (0, 199), (300, 511)]):
            await get(fleet, begin, end, process=number % 2)
        for process in (0, 1):
            assert "; hit" in await get(fleet, 10, 199, process=process)
            assert "; hit" in await get(fleet, 300, 900, process=process)
        herd = await asyncio.gather(*fleet.herd(20))
        assert {(answer.status, answer.body) for answer in herd} == {(200, BODY)}
        assert app.asked[3:] == [("bytes=200-299", '"a"')]


@pytest.mark.parametrize("fresh", [False, True])
async def test_a_download_that_goes_on_gets_the_whole_of_a_file_that_has_changed(fresh: bool) -> None:
    app = File()
    async with Fleet(app) as fleet:
        await get(fleet, 0, 9)
        app.body, app.fields["etag"] = bytes(reversed(BODY)), '"b"'
        fleet.clock.advance(0 if fresh else 61)
        asked = {"cache_control": "no-cache"} if fresh else {}
        answer = await fleet.get(range="bytes=5-9", if_range='"a"', **asked)
        assert (answer.status, answer.body, answer.get("etag")) == (200, app.body, '"b"')


async def test_a_download_goes_on_if_its_file_is_the_same() -> None:
    app = File()
    async with Fleet(app) as fleet:
        await get(fleet, 0, 9)
        fleet.clock.advance(61)
        await get(fleet, 5, 9, if_range='"a"')
        assert len(app.asked) == 2
