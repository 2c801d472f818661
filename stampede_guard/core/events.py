"""The events of a flight. `now` is the driver's clock in seconds; `draw` is uniform in [0, 1)."""

from __future__ import annotations

from typing import NamedTuple

from stampede_guard.core.aboard import Aboard
from stampede_guard.core.asks import Answer, Message
from stampede_guard.core.entry import Reading


class StoreAnswered(NamedTuple):
    answer: Answer
    aboard: Aboard
    now: float
    draw: float


class StoreFailed(NamedTuple):
    """If the command was `sent`, it may still run. `away`: the breaker is open. `late`: a deadline passed.

    `seen`: while it is away, a fresh value that this process saw last, and that it serves to later callers as well.
    """

    away: bool
    aboard: Aboard
    now: float
    draw: float
    sent: bool = True
    late: bool = False
    seen: Reading | None = None


class Heard(NamedTuple):
    message: Message
    aboard: Aboard


class LookAgain(NamedTuple):
    """The poll is due, or a message may be lost. Or the store is back before a computation without it has begun."""

    aboard: Aboard


class ComputationBegan(NamedTuple):
    """The user's function is called; once more if another passenger takes over."""

    now: float


class RenewalRefused(NamedTuple):
    """A renewal found that the lease is another flight's, or gone."""


class ComputationEnded(NamedTuple):
    """`away`: the store is unreachable. A value that is not `storable` is for all passengers only if it is `shared`."""

    body: bytes
    storable: bool = True
    away: bool = True
    shared: bool = True


class ComputationFailed(NamedTuple):
    """`body` is None if the failure must not leave the process."""

    body: bytes | None


class Abandoned(NamedTuple):
    """No passenger can take over: the request of a bound computation has ended, or callers were `refused`."""

    refused: bool = False


class PublishAnswered(NamedTuple):
    """`outdated`: a tag was invalidated during the computation. That raises no fence."""

    stored: bool
    outdated: bool = False


class Delivered(NamedTuple):
    """`answered` is False if a release got no answer."""

    aboard: Aboard
    answered: bool = True


class InvalidatedHere(NamedTuple):
    """`invalidate()` was called in this process. This event and those below fit every phase."""


class OutdatedUpTo(NamedTuple):
    """A value answers only if its token is above `token`. After a `refresh`, the running computation is outdated."""

    token: int
    refresh: bool = False


class Joined(NamedTuple):
    """`has_old`: the caller gets an old value at once. `late`: it has waited a whole deadline for the store."""

    has_old: bool
    patient: bool = False
    late: bool = False


class Crashed(NamedTuple):
    """The driver itself has failed, or was cancelled."""


FromStore = StoreAnswered | StoreFailed | PublishAnswered | Heard | LookAgain
FromComputation = ComputationBegan | RenewalRefused | ComputationEnded | ComputationFailed | Abandoned
Event = FromStore | FromComputation | Delivered | InvalidatedHere | OutdatedUpTo | Joined | Crashed
