"""Settings from environment variables. Programs and the command line read them in the same way.

Each field of `Policy` has a variable, except `mode` and `share`: `$STAMPEDE_GUARD_TTL`, `$STAMPEDE_GUARD_WAIT_TIMEOUT`.
A duration is a text such as `10m`, or seconds. The order is: decorator, guard, environment, built-in default.
`$STAMPEDE_GUARD_MODE` is an operator's switch, which comes before the program: see `engine/modes/modes.py`. Whether
callers share an object depends on the code alone.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from typing import Any, Final

from stampede_guard.errors import PolicyError
from stampede_guard.options import nearest
from stampede_guard.policy import Policy

__all__ = [
    "DEFAULT_NAMESPACE",
    "NAMESPACE",
    "NAMESPACE_VARIABLE",
    "NOT_GIVEN",
    "given_namespace",
    "policy_variables",
    "stats_wanted",
    "unknown_variables",
    "warn_of_unknown",
    "with_environment",
]

log = logging.getLogger("stampede_guard")

PREFIX = "STAMPEDE_GUARD_"
NAMESPACE_VARIABLE = "STAMPEDE_GUARD_NAMESPACE"
STATS_VARIABLE = "STAMPEDE_GUARD_STATS"
DEFAULT_NAMESPACE = "default"
NAMESPACE = re.compile(r"[A-Za-z0-9._:-]{1,64}")
"""The namespaces that are allowed."""
NOT_GIVEN: Final[Any] = object()
"""Stands for an option that was not given. None is a mistake: it usually comes from a missing environment variable."""


def given_namespace(namespace: Any) -> tuple[Any, str]:
    """The namespace, and where it comes from: `namespace`, else `$STAMPEDE_GUARD_NAMESPACE`, else `default`.

    An empty variable counts as not set, as on the command line.
    """
    if namespace is not NOT_GIVEN:
        return namespace, f"namespace={namespace!r}"
    named = os.environ.get(NAMESPACE_VARIABLE) or DEFAULT_NAMESPACE
    return named, f"${NAMESPACE_VARIABLE} ({named!r})"


_NOT_AS_TEXT = frozenset({"mode", "share"})
_OTHERS = ("URL", "NAMESPACE", "MODE", "MODES", "LEASES_URL", "STATS", "NAMES_SECRET")
_TESTS = frozenset({"CACHE", "FLOOD", "SERVER", "TEST_URL"})
"""Of this library's own tests and benchmarks."""
_KUBERNETES = re.compile(r"(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT\w*|PORT(?:_\d+_(?:TCP|UDP|SCTP)\w*)?)")
"""Kubernetes sets these for a service called `stampede-guard`."""
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")
_FLAGS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Policy)}
_reported: set[str] = set()


def policy_variables() -> dict[str, str]:
    """The environment variable of each field of `Policy` that has one."""
    names = [field.name for field in dataclasses.fields(Policy)]
    return {name: f"{PREFIX}{name.upper()}" for name in names if name not in _NOT_AS_TEXT}


def with_environment(policy: Policy) -> Policy:
    """The policy, with the environment's values of the fields that it was not given.

    An empty variable counts as not set. Raises `PolicyError`, which names the variable.
    """
    given: frozenset[str] = getattr(policy, "given", frozenset())
    found = {
        field: (variable, text)
        for field, variable in policy_variables().items()
        if field not in given and (text := os.environ.get(variable, "").strip())
    }
    if not found:
        return policy
    fields: Any = {field: _value(field, text) for field, (_, text) in found.items()}
    try:
        return policy.replace(**fields)
    except PolicyError as error:
        if error.field in found:
            variable, text = found[error.field]
            raise PolicyError(f"${variable}", text, error.rule) from None
        # A field that the program set contradicts one of the environment.
        said = ", ".join(f"${variable}={text!r}" for variable, text in found.values())
        raise PolicyError(error.field, error.value, f"{error.rule}; the environment says {said}") from None


def stats_wanted(given: bool | None) -> bool:
    """Whether a guard publishes its sums: as given, else `$STAMPEDE_GUARD_STATS`, else not. Raises `PolicyError`."""
    text = os.environ.get(STATS_VARIABLE, "").strip()
    if given is not None or not text:
        return bool(given)
    wanted = _FLAGS.get(text.lower())
    if wanted is None:
        raise PolicyError(f"${STATS_VARIABLE}", text, "it must be true or false")
    return wanted


def _value(field: str, text: str) -> Any:
    """The value that a text means. A text that means none is returned, and the policy refuses it."""
    default = _DEFAULTS[field]
    if isinstance(default, bool):
        return _FLAGS.get(text.lower(), text)
    if isinstance(default, int):
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else text
    return float(text) if _NUMBER.fullmatch(text) else text


def unknown_variables() -> list[str]:
    """A sentence for each `$STAMPEDE_GUARD_*` that has no meaning, with the nearest that has one. Shows no values."""
    known = [*(f"{PREFIX}{name}" for name in _OTHERS), *policy_variables().values()]
    found = []
    for name in sorted(os.environ):
        rest = name.removeprefix(PREFIX)
        if rest == name or name in known or rest in _TESTS or _KUBERNETES.fullmatch(rest):
            continue
        near = nearest(name, known)
        if rest.lower() in _NOT_AS_TEXT:
            hint = f": set {rest.lower()}= in the program"
        else:
            hint = f" (do you mean ${near}?)" if near else ""
        found.append(f"${name} has no meaning for stampede_guard{hint}")
    return found


def warn_of_unknown() -> None:
    """Warn of each unknown variable, once in this process."""
    for sentence in unknown_variables():
        if sentence not in _reported:
            _reported.add(sentence)
            log.warning("%s", sentence)
