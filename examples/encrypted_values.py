"""Values that the store holds as ciphertext, each bound to its entry; and a change of keys.

    python examples/encrypted_values.py

prints, the first time:

    computing: nothing is stored yet
    in the store: no sign of 'confidential'
    while keys change: {'note': 'confidential'}
    computing: the ciphertext of report:7 is none of report:8
    computing: the old key is gone
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets

import redis.asyncio
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
NONCE = 12


class AesGcm:
    """AES-256-GCM. The first key encrypts, all of them decrypt; a key's name (4 bytes) travels with the ciphertext."""

    def __init__(self, keys: dict[bytes, bytes]) -> None:
        self._keys = {name: AESGCM(key) for name, key in keys.items()}
        self._newest = next(iter(keys))

    def encrypt(self, body: bytes, key: str) -> bytes:
        nonce = secrets.token_bytes(NONCE)
        head = self._newest + nonce
        return head + self._keys[self._newest].encrypt(nonce, body, self._newest + key.encode())

    def decrypt(self, body: bytes, key: str) -> bytes:
        name, nonce, sealed = body[:4], body[4 : 4 + NONCE], body[4 + NONCE :]
        return self._keys[name].decrypt(nonce, sealed, name + key.encode())


def guard_with(**keys: bytes) -> StampedeGuard:
    encryption = AesGcm({name.encode(): key for name, key in keys.items()})
    return StampedeGuard.from_url(URL, namespace="encrypted", encryption=encryption)


async def ask(guard: StampedeGuard, key: str, why: str) -> dict[str, str]:
    async def compute() -> dict[str, str]:
        print("computing:", why)
        return {"note": "confidential"}

    return await guard.get_or_compute(key, compute, ttl=300)


async def main() -> None:
    logging.disable()  # what cannot be decrypted is a warning, too
    k001, k002 = AESGCM.generate_key(256), AESGCM.generate_key(256)  # yours come from a vault
    before, change, after = guard_with(k001=k001), guard_with(k002=k002, k001=k001), guard_with(k002=k002)
    async with before, change, after, redis.asyncio.Redis.from_url(URL) as client:
        await ask(before, "report:7", "nothing is stored yet")
        stored = await client.get("{encrypted:=report:7}:v")
        print("in the store:", "plain text!" if b"confidential" in stored else "no sign of 'confidential'")
        print("while keys change:", await ask(change, "report:7", "never"))

        await client.set("{encrypted:=report:8}:v", stored, px=300_000)
        await ask(change, "report:8", "the ciphertext of report:7 is none of report:8")
        await ask(after, "report:7", "the old key is gone")


if __name__ == "__main__":
    asyncio.run(main())
