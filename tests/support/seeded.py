"""Random numbers and ids of a seed, for the thread that plays it. All other threads draw what they would draw anyway.

A test process may have threads of earlier tests. If they took their numbers from the seed's, a seed would not play the
same again.
"""

from __future__ import annotations

import random
import secrets
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

__all__ = ["drawing_beside", "seeded"]

_FUNCTIONS = ("choice", "getrandbits", "randint", "random", "randrange", "sample", "shuffle", "uniform")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The functions of `random`, `uuid.uuid4` and `secrets.token_hex`, in the calling thread."""
    numbers, ids, player = random.Random(seed), random.Random(seed), threading.get_ident()

    def mine(own: Callable[..., Any], others: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*args: Any, **kwargs: Any) -> Any:
            return (own if threading.get_ident() == player else others)(*args, **kwargs)

        return draw

    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (random, name, getattr(numbers, name)) for name in _FUNCTIONS
    ]
    replaced.append((uuid, "uuid4", lambda: uuid.UUID(int=ids.getrandbits(128))))
    replaced.append((secrets, "token_hex", lambda count: ids.randbytes(count).hex()))
    with ExitStack() as stack:
        for place, name, own in replaced:
            stack.enter_context(mock.patch.object(place, name, mine(own, getattr(place, name))))
        yield


@contextmanager
def drawing_beside() -> Iterator[None]:
    """A thread that draws all the time, as one of an earlier test may."""
    ended = threading.Event()

    def draw() -> None:
        while not ended.wait(0.0001):
            random.random()
            uuid.uuid4()
            secrets.token_hex(4)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
