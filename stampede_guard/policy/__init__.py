"""Every number and choice of a cached function and of a guard: see `policy.py` here for the tables."""

from stampede_guard.policy.policy import (
    MOST_MS,
    Limits,
    Mode,
    Policy,
    PolicyFields,
    check_fields,
    checked_limits,
    checked_policy,
)

__all__ = [
    "MOST_MS",
    "Limits",
    "Mode",
    "Policy",
    "PolicyFields",
    "check_fields",
    "checked_limits",
    "checked_policy",
]
