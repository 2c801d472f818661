"""What `app.config` says about the guard of a Flask application."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.errors import Misuse
from stampede_guard.options import refuse_others
from stampede_guard.policy import Limits, Policy

__all__ = ["PREFIX", "GuardSettings"]

log = logging.getLogger("stampede_guard")

PREFIX = "STAMPEDE_GUARD_"
_KEYS = ("URL", "NAMESPACE", "POLICY", "LIMITS", "MODE")
_DEFAULTS = {"wait_timeout": 20.0}
"""gunicorn stops a sync worker after 30 s."""
_NO_LETTERS = re.compile(r"[^A-Za-z0-9._:-]+")


class GuardSettings(NamedTuple):
    """`mode`: None is the mode of the policy. The URL may have a password: keep it out of logs and arguments."""

    url: str
    namespace: str
    policy: Policy
    limits: Limits
    mode: Any

    @classmethod
    def of(cls, app: Any) -> GuardSettings:
        """Raises `Misuse` for a key of `app.config` that does not exist, and for a value that cannot work."""
        given = {name: value for name, value in app.config.items() if name.startswith(PREFIX)}
        refuse_others("app.config", given, [PREFIX + key for key in _KEYS])
        url = given.get(PREFIX + "URL") or os.environ.get(PREFIX + "URL") or os.environ.get("REDIS_URL")
        named = given.get(PREFIX + "NAMESPACE") or os.environ.get(PREFIX + "NAMESPACE")
        if not url:
            url = "memory://"
            if not app.testing:
                log.warning(
                    'app.config["STAMPEDE_GUARD_URL"] is not set, nor is $STAMPEDE_GUARD_URL or $REDIS_URL. Values are '
                    "kept in this process; other workers are not covered"
                )
        return cls(
            url,
            named or _NO_LETTERS.sub("-", app.name)[:64],
            Policy().replace(**_DEFAULTS | _mapping(given, "POLICY")),
            _limits(_mapping(given, "LIMITS")),
            given.get(PREFIX + "MODE"),
        )

    def guard(self) -> StampedeGuard:
        """Raises `Misuse`, also for a bad URL."""
        made = StampedeGuard.from_url(
            self.url, namespace=self.namespace, policy=self.policy, limits=self.limits
        )
        if self.mode is not None:
            made.mode = self.mode
        return made


def _mapping(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = given.get(PREFIX + key, {})
    if not isinstance(found, Mapping):
        raise Misuse(
            f'app.config["{PREFIX}{key}"] is a dictionary such as {{"wait_timeout": 10}}, not {found!r}'
            if key == "POLICY"
            else f'app.config["{PREFIX}{key}"] is a dictionary such as {{"max_threads": 8}}, not {found!r}'
        )
    return dict(found)


def _limits(given: dict[str, Any]) -> Limits:
    refuse_others(f'app.config["{PREFIX}LIMITS"]', given, Limits.__dataclass_fields__)
    return Limits(**given)
