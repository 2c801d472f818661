"""Every error of the package: one root, with "you misused it" apart from "the store failed".

StampedeError
|- Misuse                 a mistake in the program; raised at once, with the text to write instead
|  |- PolicyError         a field of Policy or Limits with an invalid value
|  |- UrlError            an invalid store URL
|  |- KeyPartError        a parameter that cannot be part of a key
|  |- UnsupportedValue    a result that cannot be stored and served to others
|  |- ReentrantCall       a computation that waits for itself
|- StoreError             the store did not do what was asked
|  |- StoreUnavailable    not reached, or no answer within the deadline; the outcome may be unknown
|  |  |- StoreMisconfigured  a TLS file or certificate is wrong; the configuration must change
|  |- StoreRefused        the store answered with a refusal (wrong password, missing permission)
|     |- WrongTopology    a URL or client for a cluster with a single server, or the reverse
|- Undecodable            stored bytes that are not a value of this type (handled as a miss)
|- WaitTimeout            the caller's waiting time is over: 503 with Retry-After
|  |- Overloaded          a cap on passengers or computations was reached
|- ComputeTimeout         the computation ran longer than compute_timeout and was cancelled
|- ComputeFailed          the computation failed in another process
|- LeaseTaken             another holder has the lease, for longer than the caller waits
|- LeaseLost              the lease ended before the work that it protected
"""

from __future__ import annotations

from typing import Literal

__all__ = [
    "ComputeFailed",
    "ComputeTimeout",
    "KeyPartError",
    "LeaseLost",
    "LeaseTaken",
    "Misuse",
    "Overloaded",
    "PolicyError",
    "ReentrantCall",
    "StampedeError",
    "StoreError",
    "StoreMisconfigured",
    "StoreRefused",
    "StoreUnavailable",
    "Undecodable",
    "UnsupportedValue",
    "UrlError",
    "WaitTimeout",
    "WrongTopology",
]


RefusalKind = Literal["credentials", "permission", "configuration", "full", "writes", "other"]


class StampedeError(Exception):
    """The root of every error raised by this package."""


class Misuse(StampedeError):
    """The program asked for something that cannot work. The text proposes a correction."""


class PolicyError(Misuse, ValueError):
    """A policy field has an invalid value. `field` is its name, `value` the given value, `rule` the reason."""

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(field, value, rule)
        self.field = field
        self.value = value
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.field}={self.value!r} is not allowed: {self.rule}"


class UrlError(Misuse, ValueError):
    """A store URL has an unknown scheme or an invalid part."""


class KeyPartError(Misuse, TypeError):
    """A parameter has no stable text, so it cannot be part of a key. `parameter` names it."""

    def __init__(self, message: str, *, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter


class UnsupportedValue(Misuse, TypeError):
    """The computation returned a value that cannot be stored. Raised at decoration, and at calls with `strict=True`."""


class ReentrantCall(Misuse, RuntimeError):
    """A computation asked for the same entry that it computes. It would wait for itself for ever.

    Tasks that a computation starts count as part of it, because the library does not know whether it awaits them. A
    task may outlive the computation and call the same entry, directly or through other calls. Start such a task in
    another context: `asyncio.create_task(..., context=contextvars.Context())`.
    """


class StoreError(StampedeError):
    """The store did not do what was asked."""

    late = False
    """Whether the call waited for the whole deadline. The next attempt then waits for a shorter time."""


class StoreUnavailable(StoreError):
    """The store was not reached or did not answer in time. What was sent may still be carried out."""

    def __init__(self, message: str, *, late: bool = False) -> None:
        super().__init__(message)
        self.late = late


class StoreMisconfigured(StoreUnavailable):
    """A TLS file or certificate is wrong, so the store cannot be reached. The error lasts until that is changed."""


class StoreRefused(StoreError):
    """The store answered with a refusal, for example because of a wrong password or a missing permission.

    `may_pass`: the reason is the store's own state (a full disk, missing replicas, no memory), not the client. `kind`
    is the subject: `credentials`, `permission`, `configuration` (TLS, an address), `full` (no memory), `writes` (no
    disk, no replicas), or `other`.
    """

    connecting = False
    """Whether the store refused the connection. If so, any later answer to a command shows that the refusal is over."""

    def __init__(self, message: str, *, may_pass: bool = False, kind: RefusalKind = "other") -> None:
        super().__init__(message)
        self.may_pass = may_pass
        self.kind = kind


class WrongTopology(StoreRefused):
    """The URL or client is for a cluster, and the server is not part of one. Or the reverse."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="configuration")


class Undecodable(StampedeError):
    """Stored bytes are not a value of the expected type. Handled as a miss with a warning."""


class WaitTimeout(StampedeError, TimeoutError):
    """A caller waited as long as the policy allows and got no value. `retry_after` is in seconds."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Overloaded(WaitTimeout):
    """A cap on passengers, flights or local computations was reached; nothing was computed."""


class ComputeTimeout(StampedeError, TimeoutError):
    """The computation ran longer than `compute_timeout` seconds and was cancelled."""


class ComputeFailed(StampedeError):
    """The computation failed elsewhere. `type_name` and `message` are those of the original error.

    `status_code` is the HTTP status that the original had, or None.
    """

    def __init__(self, type_name: str, message: str, *, status_code: int | None = None) -> None:
        super().__init__(type_name, message)
        self.type_name = type_name
        self.message = message
        self.status_code = status_code

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}"


class LeaseTaken(StampedeError, TimeoutError):
    """Another holder has the lease, for longer than the caller waits. `holder`: its readable name."""

    def __init__(self, name: str, *, holder: str, token: int, remaining: float) -> None:
        super().__init__(name, holder, token, remaining)
        self.name = name
        self.holder = holder
        self.token = token
        self.remaining = remaining

    def __str__(self) -> str:
        return (
            f"the lease {self.name!r} is held by {self.holder} (token {self.token}), "
            f"for another {self.remaining:.1f} s if it is not renewed"
        )


class LeaseLost(StampedeError):
    """The lease ended, or is about to, before the work that it protects. Another holder may now do the same work."""

    def __init__(self, name: str, *, token: int, why: str) -> None:
        super().__init__(name, token, why)
        self.name = name
        self.token = token
        self.why = why

    def __str__(self) -> str:
        return f"the lease {self.name!r} (token {self.token}) is lost: {self.why}"
