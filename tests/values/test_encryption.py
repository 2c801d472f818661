"""Values are ciphertext in the store, and belong to their entry: what cannot be decrypted is a miss."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator
from typing import Any

import pydantic
import pytest
import redis.asyncio

from stampede_guard import ComputeFailed, Misuse, Policy, StampedeGuard
from stampede_guard.core.scripts import Found
from stampede_guard.errors import StoreUnavailable, Undecodable
from stampede_guard.stores.encrypted import EncryptedStore
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import FakeClock, FaultyStore, herd
from stampede_guard.values.codec import codec_for
from stampede_guard.values.ownerrors import OWN_ERRORS
from tests.support.asking import POLICY, fill
from tests.support.encryption import Rot
from tests.support.gate import Gate, until
from tests.support.listener import PATIENCE, RecordingListener
from tests.support.sessions import patient
from tests.support.titles import titled


class Encrypted:
    """Guards on one store in memory, each with an encryption of its own."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(clock=self.clock)
        self.made: list[StampedeGuard] = []

    def guard(self, encryption: Any, **fields: Any) -> StampedeGuard:
        policy = Policy(**fields)
        guard = StampedeGuard(self.store, namespace="test", policy=policy, encryption=encryption)
        self.made.append(guard)
        return guard

    def body(self, name: str) -> bytes:
        value = self.store.look(name).value
        assert value is not None
        return value.body


@pytest.fixture
async def encrypted() -> AsyncIterator[Encrypted]:
    made = Encrypted()
    yield made
    for guard in made.made:
        await guard.aclose()


async def secret() -> str:
    return "the secret"


async def other() -> str:
    return "another"


async def test_the_store_holds_ciphertext_and_callers_have_the_value(encrypted: Encrypted) -> None:
    guard = encrypted.guard(Rot())
    assert await guard.get_or_compute("report", secret) == "the secret"
    assert b"secret" not in encrypted.body("test:=report")
    assert await guard.get_or_compute("report", other) == "the secret"


async def test_the_entrys_complete_name_is_what_a_ciphertext_is_bound_to(encrypted: Encrypted) -> None:
    encryption = Rot()
    await encrypted.guard(encryption).get_or_compute("report", secret)
    assert encryption.encrypted == ["test:=report"]


async def test_a_ciphertext_moved_to_another_entry_is_a_miss(
    encrypted: Encrypted, caplog: pytest.LogCaptureFixture
) -> None:
    guard = encrypted.guard(Rot())
    await guard.get_or_compute("mine", secret)
    await guard.get_or_compute("yours", other)
    entries = encrypted.store._entries
    mine, yours = entries["test:=mine"], entries["test:=yours"]
    assert mine.value is not None and yours.value is not None
    entries["test:=yours"] = dataclasses.replace(
        yours, value=dataclasses.replace(yours.value, body=mine.value.body)
    )
    assert await guard.get_or_compute("yours", other) == "another"
    assert await encrypted.guard(Rot()).get_or_compute("yours", secret) == "another"
    assert "cannot be decrypted and counts as a miss: decrypt() raised ValueError" in caplog.text


async def test_what_another_key_encrypted_is_computed_anew_once_by_a_whole_herd(encrypted: Encrypted) -> None:
    await encrypted.guard(Rot("old")).get_or_compute("report", secret)
    guard = encrypted.guard(Rot("new"))
    computed = 0

    async def compute() -> str:
        nonlocal computed
        computed += 1
        await asyncio.sleep(0)
        return "fresh"

    result = await herd(
        lambda: guard.get_or_compute("report", compute), callers=20, workers=4, computes=lambda: computed
    )
    assert (result.computations, set(result.values)) == (1, {"fresh"})


async def test_a_value_from_before_the_encryption_was_turned_on_is_a_miss(encrypted: Encrypted) -> None:
    assert await encrypted.guard(None).get_or_compute("report", secret) == "the secret"
    assert await encrypted.guard(Rot()).get_or_compute("report", other) == "another"


async def test_a_ciphertext_is_a_miss_for_a_guard_without_encryption(encrypted: Encrypted) -> None:
    assert await encrypted.guard(Rot()).get_or_compute("report", secret, type=str) == "the secret"
    assert await encrypted.guard(None).get_or_compute("report", other, type=str) == "another"


async def test_a_failure_is_ciphertext_in_the_store_and_is_read_in_other_processes(
    encrypted: Encrypted,
) -> None:
    async def fail() -> str:
        raise LookupError("customer 4711")

    with pytest.raises(LookupError):
        await encrypted.guard(Rot(), error_ttl=60).get_or_compute("report", fail)
    failure = encrypted.store.look("test:=report").failure
    assert failure is not None and b"4711" not in failure.body and b"LookupError" not in failure.body
    OWN_ERRORS.forget()  # as in another process
    with pytest.raises(LookupError, match="customer 4711"):
        await encrypted.guard(Rot()).get_or_compute("report", secret)
    with pytest.raises(ComputeFailed, match="could not be read"):
        await encrypted.guard(Rot("another")).get_or_compute("report", secret)


async def test_waiters_in_other_processes_are_woken_by_ciphertext(
    valkey_url: str, valkey: redis.asyncio.Redis, namespace: str
) -> None:
    async def no() -> str:
        raise AssertionError("one computes")

    gate, heard = Gate(), []

    async def compute() -> str:
        await gate.hold()
        return "the secret"

    guards = [
        StampedeGuard.from_url(patient(valkey_url), namespace=namespace, encryption=Rot()) for _ in range(2)
    ]
    async with guards[0], guards[1], valkey.pubsub() as listening:
        await listening.psubscribe("stampede_guard:inbox:*")
        first = asyncio.create_task(guards[0].get_or_compute("report", compute))
        await gate.arrival()
        second = asyncio.create_task(guards[1].get_or_compute("report", no))
        key = f"{{{namespace}:=report}}:w"
        async with asyncio.timeout(PATIENCE):
            while not await valkey.exists(key):  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.005)
        gate.open()
        assert await asyncio.gather(first, second) == ["the secret", "the secret"]
        while not any(b"report" in data for data in heard):
            message = await listening.get_message(timeout=60)
            assert message is not None, "no wake-up was ever published"
            if message["type"] == "pmessage":
                heard.append(message["data"])
    assert not [data for data in heard if b"secret" in data]


async def test_stale_values_are_decrypted_as_fresh_ones_are(encrypted: Encrypted) -> None:
    guard = encrypted.guard(Rot(), ttl=10, stale_ttl=100)
    await guard.get_or_compute("report", secret)
    encrypted.clock.advance(11)
    assert await guard.get_or_compute("report", other) == "the secret"
    await until(lambda: not guard.engine.runtime().flights)
    assert await guard.get_or_compute("report", secret) == "another"


async def test_a_mutable_value_is_still_fresh_for_each_caller_of_one_moment(encrypted: Encrypted) -> None:
    guard = encrypted.guard(Rot())

    async def compute() -> list[int]:
        return [1]

    await guard.get_or_compute("report", compute)
    lists = await asyncio.gather(*[guard.get_or_compute("report", compute) for _ in range(5)])
    lists[0].append(2)
    assert lists[1:] == [[1]] * 4


async def test_callers_of_one_moment_share_one_decryption(valkey_url: str, namespace: str) -> None:
    encryption = Rot()
    async with StampedeGuard.from_url(
        patient(valkey_url), namespace=namespace, encryption=encryption
    ) as guard:
        await guard.get_or_compute("report", secret)
        encryption.decrypted.clear()
        values = await asyncio.gather(*[guard.get_or_compute("report", other) for _ in range(20)])
    assert set(values) == {"the secret"}
    assert len(encryption.decrypted) == 1


async def test_values_kept_for_the_stores_absence_expire_by_its_clock_also_behind_an_encryption() -> None:
    clock = FakeClock()
    store = FaultyStore(clock=clock)
    async with StampedeGuard(store, policy=Policy(ttl=10), encryption=Rot()) as guard:
        await guard.get_or_compute("report", secret)
        store.fail()
        await guard.get_or_compute("another", secret)
        assert await guard.get_or_compute("report", other) == "the secret"
        clock.advance(10)
        assert await guard.get_or_compute("report", other) == "another"


async def test_what_a_fallback_finds_is_decrypted() -> None:
    session = EncryptedStore(MemoryStore(), Rot()).open_session(RecordingListener())
    await fill(session, "test:=report", b"the secret")
    found = await session.fallback("test:=report", flight="late", policy=POLICY)
    assert isinstance(found, Found) and found.reading.body == b"the secret"
    await session.aclose()


class Broken(Rot):
    def encrypt(self, body: bytes, key: str) -> bytes:
        raise OSError("the key service said: the secret")


class Texts(Rot):
    def encrypt(self, body: bytes, key: str) -> Any:
        return "text"


@pytest.mark.parametrize("encryption", [Broken(), Texts()], ids=["raises", "returns text"])
async def test_what_cannot_be_encrypted_is_served_and_never_stored_plain(
    encrypted: Encrypted, encryption: Rot, caplog: pytest.LogCaptureFixture
) -> None:
    guard = encrypted.guard(encryption)
    assert await guard.get_or_compute("report", secret) == "the secret"
    assert encrypted.store.look("test:=report").value is None
    assert "so nothing is stored" in caplog.text
    assert "the secret" not in caplog.text
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


@pytest.mark.parametrize("given", [Rot, "key", b"key", object()], ids=titled)
def test_what_is_no_encryption_is_refused_with_what_to_give(given: Any) -> None:
    with pytest.raises(Misuse, match=r"give an object with encrypt\(body: bytes, key: str\) -> bytes"):
        StampedeGuard.from_url("memory://", encryption=given)


class Model(pydantic.BaseModel):
    name: str = "default"


@pytest.mark.parametrize("kind", [Any, str, bytes, dict[str, int], None, Model], ids=str)
@pytest.mark.parametrize("pickle", [False, True])
def test_no_codec_takes_nothing_for_a_value(kind: Any, pickle: bool) -> None:
    # What cannot be decrypted is handed on as an empty body.
    with pytest.raises(Undecodable):
        codec_for(kind, pickle=pickle).decode(b"")


async def test_a_read_that_is_cancelled_or_fails_does_so_through_the_encryption(encrypted: Encrypted) -> None:
    faulty = FaultyStore()
    session = EncryptedStore(faulty, Rot()).open_session(RecordingListener())
    asked = session.read("test:=report")
    asked.cancel()
    assert await session.read("test:=report") is None
    faulty.fail()
    with pytest.raises(StoreUnavailable):
        await session.read("test:=report")
    await session.aclose()
