"""An encryption that hides nothing and can be told wrong from right."""

from __future__ import annotations

import hashlib

__all__ = ["Rot"]


class Rot:
    """Says of itself which `secret` and which entry made it, and gives nothing back to others."""

    def __init__(self, secret: str = "secret") -> None:
        self.secret = secret
        self.encrypted: list[str] = []
        self.decrypted: list[str] = []

    def _seal(self, key: str) -> bytes:
        return hashlib.sha256(f"{self.secret} {key}".encode()).digest()

    def encrypt(self, body: bytes, key: str) -> bytes:
        self.encrypted.append(key)
        return self._seal(key) + bytes(byte ^ 0x55 for byte in body)

    def decrypt(self, body: bytes, key: str) -> bytes:
        self.decrypted.append(key)
        if body[:32] != self._seal(key):
            raise ValueError("not sealed with this secret for this entry")
        return bytes(byte ^ 0x55 for byte in body[32:])
