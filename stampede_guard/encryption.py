"""Encryption of values at rest: what a user's own class must offer."""

from __future__ import annotations

from typing import Protocol

from stampede_guard.errors import Misuse

__all__ = ["Encryption", "checked_encryption"]


class Encryption(Protocol):
    """For `StampedeGuard(..., encryption=...)`: values and failures are encrypted before they leave this process.

    `key` is the entry's complete name. Bind it as associated data: then a ciphertext that somebody copies to another
    entry cannot be decrypted there. Both are called on the event loop and must not block. Authenticated encryption is
    needed (AES-GCM, for example): bytes that were tampered with must raise, not decrypt to something else.
    """

    def encrypt(self, body: bytes, key: str) -> bytes:
        """The bytes to store. What it raises is logged; the value is served to its callers and not stored."""
        ...

    def decrypt(self, body: bytes, key: str) -> bytes:
        """The bytes that `encrypt` was given. Whatever it raises means that there is no value: a miss."""
        ...


def checked_encryption(given: object) -> Encryption:
    """Raises `Misuse` for what has not both methods."""
    for method in ("encrypt", "decrypt"):
        if isinstance(given, type) or not callable(getattr(given, method, None)):
            what = given.__name__ if isinstance(given, type) else type(given).__name__
            raise Misuse(
                f"encryption={what} is not allowed: give an object with encrypt(body: bytes, key: str) -> bytes and "
                "decrypt(body: bytes, key: str) -> bytes; docs/encryption.md has one to copy"
            )
    result: Encryption = given  # type: ignore[assignment]
    return result
