"""The listeners of a back end on a server: it passes on what the server says about leases."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Listeners"]


class Listeners:
    """`freed` and `called`: see `Backend.on_freed` and `Backend.on_called`. `vouched`: names granted to this process
    that the back end may hand over if it no longer sees this process.
    """

    def __init__(self) -> None:
        self.freed: list[Callable[[str], None]] = []
        self.called: list[Callable[[str, int], None]] = []
        self.vouched: set[str] = set()

    def tell_freed(self, name: str) -> None:
        for call in tuple(self.freed):
            call(name)

    def tell_called(self, holder: str, ahead: int) -> None:
        for call in tuple(self.called):
            call(holder, ahead)

    def tell_vouched(self) -> None:
        """The server may no longer see this process. So each holder renews at once and sends its current witness."""
        for name in tuple(self.vouched):
            self.tell_freed(name)
