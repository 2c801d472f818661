"""Encryption of stored values: the methods that a user's own class must have."""

from __future__ import annotations

from typing import Protocol

from stampede_guard.errors import Misuse

__all__ = ["Encryption", "checked_encryption"]


class Encryption(Protocol):
    """For `StampedeGuard(..., encryption=...)`: values and failures are encrypted before they leave this process.

    `key` is the entry's complete name. Bind it as associated data: then a ciphertext that is copied to another entry
    cannot be decrypted there. Both methods run on the event loop and must not block. Use authenticated encryption
    (AES-GCM, for example): `decrypt` must raise for bytes that were changed, not return something else.
    """

    def encrypt(self, body: bytes, key: str) -> bytes:
        """The bytes to store. If it raises, the error is logged; the value is served to its callers but not stored."""
        ...

    def decrypt(self, body: bytes, key: str) -> bytes:
        """The bytes that `encrypt` was given. If it raises anything, the call is a miss."""
        ...


def checked_encryption(given: object) -> Encryption:
    """Raises `Misuse` for an object that lacks one of the two methods."""
    for method in ("encrypt", "decrypt"):
        if isinstance(given, type) or not callable(getattr(given, method, None)):
            what = given.__name__ if isinstance(given, type) else type(given).__name__
            raise Misuse(
                f"encryption={what} is not allowed: give an object with encrypt(body: bytes, key: str) -> bytes and "
                "decrypt(body: bytes, key: str) -> bytes; docs/values.md has one to copy"
            )
    result: Encryption = given  # type: ignore[assignment]
    return result
