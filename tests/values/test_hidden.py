"""A secret that a cached result had to leave out: it shows its mask, and has no content that anything could read."""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import pickle
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

from stampede_guard import Misuse, StampedeGuard
from stampede_guard.values.codec import codec_for
from stampede_guard.values.parts.parts import text_of

MASK = "*" * 10


class Account(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    key: pydantic.SecretStr
    raw: pydantic.SecretBytes


REAL = Account(key="correct-horse", raw=b"correct-horse")  # type: ignore[arg-type]


class Shown(pydantic.BaseModel):
    key: pydantic.SecretStr

    @pydantic.field_serializer("key", when_used="json")
    def shown(self, key: pydantic.SecretStr) -> str:
        return key.get_secret_value()


class OwnSecret(pydantic.SecretStr):
    pass


class Others(pydantic.BaseModel):
    own: OwnSecret
    generic: pydantic.Secret[str]


USES: list[Callable[[Any], Any]] = [
    lambda secret: secret.get_secret_value(),
    lambda secret: hmac.compare_digest(secret.get_secret_value(), MASK),
    lambda secret: hmac.compare_digest(secret.get_secret_value(), MASK.encode()),
    lambda secret: hmac.new(secret.get_secret_value(), b"", "sha256").digest(),
    lambda secret: hashlib.sha256(secret.get_secret_value()),
    lambda secret: secret.get_secret_value() == MASK,
    lambda secret: secret.get_secret_value() != MASK.encode(),
    lambda secret: hash(secret.get_secret_value()),
    lambda secret: secret.get_secret_value() in {MASK, MASK.encode()},
    lambda secret: "*" in secret.get_secret_value(),
    lambda secret: "".join(["Bearer ", secret.get_secret_value()]),
    lambda secret: b"".join([b"Bearer ", secret.get_secret_value()]),
    lambda secret: secret.get_secret_value().strip(),
    lambda secret: secret.get_secret_value().encode("utf-8", errors="strict"),
    lambda secret: secret.get_secret_value().hex(),
    lambda secret: "Bearer {}".format(secret.get_secret_value()),  # noqa: UP032
    lambda secret: "%s" % secret.get_secret_value(),  # noqa: UP031
    lambda secret: f"Bearer {secret.get_secret_value()}",
    lambda secret: str(secret.get_secret_value()),
    lambda secret: len(secret.get_secret_value()),
    lambda secret: [*secret.get_secret_value()],
    lambda secret: json.dumps(secret.get_secret_value()),
    lambda secret: pickle.dumps(secret.get_secret_value()),
    lambda secret: copy.copy(secret.get_secret_value()),
    len,
    hash,
    lambda secret: secret in {pydantic.SecretStr(MASK), pydantic.SecretBytes(MASK.encode())},
    lambda secret: secret == pydantic.SecretStr(MASK),
    lambda secret: secret.__class__.__mro__[2](MASK) == secret,
    text_of,
]


def twice(annotation: Any, value: Any) -> list[Any]:
    codec = codec_for(annotation)
    data = codec.encode(value)
    assert b"correct-horse" not in data
    return [codec.decode(data), codec.decode(data)]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("annotation", [Any, Account], ids=str)
def test_every_use_of_a_secret_that_was_not_stored_says_so(
    annotation: Any, use: Callable[[Any], Any]
) -> None:
    held = twice(annotation, REAL)[0]
    for secret in (held.key, held.raw, copy.deepcopy(held).key, pickle.loads(pickle.dumps(held)).raw):
        with pytest.raises(Misuse, match="was not stored"):
            use(secret)


@pytest.mark.parametrize("use", USES[1:24])
def test_what_stands_for_the_content_is_no_text_for_code_in_c(use: Callable[[Any], Any]) -> None:
    """`SecretStr.get_secret_value(secret)` passes by the method of the object."""

    class Bare:
        def __init__(self, secret: Any) -> None:
            self.secret = secret

        def get_secret_value(self) -> Any:
            return pydantic.SecretStr.get_secret_value(self.secret)

    for secret in twice(Account, REAL)[0].__dict__.values():
        with pytest.raises((Misuse, TypeError)):
            use(Bare(secret))
        assert isinstance(secret._secret_value, (str, bytes, bytearray, memoryview)) is False


@pytest.mark.parametrize("annotation", [Any, Account], ids=str)
def test_a_secret_that_was_not_stored_shows_its_mask_as_any_other(annotation: Any) -> None:
    for held in (one for back in twice(annotation, REAL) for one in (back, copy.deepcopy(back))):
        assert (str(held), repr(held)) == (str(REAL), repr(REAL))
        assert held.model_dump_json() == REAL.model_dump_json()
        assert held.model_dump(mode="json") == REAL.model_dump(mode="json")
        assert (str(held.key), f"{held.raw}", bool(held.key)) == (MASK, str(REAL.raw), True)
        assert isinstance(held.key, pydantic.SecretStr) and isinstance(held.raw, pydantic.SecretBytes)
        assert Account.model_validate(held.model_dump()) == held
        assert json.loads(pydantic.TypeAdapter(Any).dump_json(held.key)) == MASK


@pytest.mark.parametrize("annotation", [Any, Account], ids=str)
def test_models_with_secrets_that_were_not_stored_are_equal_and_copied_and_stored_again(
    annotation: Any,
) -> None:
    one, other = twice(annotation, REAL)
    assert (
        one == other == copy.deepcopy(one) == pickle.loads(pickle.dumps(other)) == twice(annotation, one)[0]
    )
    assert len({one, other}) == 1
    assert one.key != "correct-horse" and one.key != MASK


def test_json_that_would_show_a_secret_is_an_error() -> None:
    held = twice(Any, Shown(key="correct-horse"))[0]  # type: ignore[arg-type]
    with pytest.raises(Exception, match="was not stored"):
        held.model_dump_json()


async def test_callers_of_a_function_never_get_the_mask_as_a_text() -> None:
    async with StampedeGuard.from_url("memory://", namespace="hidden") as guard:

        @guard.locked_cache(ttl=60)
        async def account() -> Account:
            return REAL

        @guard.locked_cache(ttl=60)
        async def others() -> Others:
            return Others(own="correct-horse", generic="correct-horse")  # type: ignore[arg-type]

        for source in ("computed", "hit"):
            found = await account.with_info()
            assert found.source == source
            with pytest.raises(Misuse, match="encryption="):
                hmac.compare_digest(found.value.key.get_secret_value(), MASK)
            # Classes of the application, whose mask may depend on the content, are served as they are, and not stored.
            other = await others.with_info()
            assert other.source == "computed"
            assert (
                other.value.own.get_secret_value()
                == other.value.generic.get_secret_value()
                == "correct-horse"
            )
