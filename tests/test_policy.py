from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from stampede_guard import Limits, Misuse, Policy, PolicyError, StampedeGuard
from stampede_guard.policy import policy as module

OF_LIMITS = {field.name: field.default for field in dataclasses.fields(Limits)}
OF_POLICY = {field.name: field.default for field in dataclasses.fields(Policy)}
FIELDS = OF_POLICY | OF_LIMITS
UNITS = {
    field.name: field.metadata["unit"] for kind in (Policy, Limits) for field in dataclasses.fields(kind)
}
SECONDS = [name for name, unit in UNITS.items() if unit == "s"]
COUNTS = [name for name, unit in UNITS.items() if unit == "count"]
MAY_BE_ZERO = {
    "stale_ttl", "error_ttl", "soft_timeout", "uncacheable_ttl", "drain_timeout", "fallback_limit", "max_handovers",
    "inline_bytes", "last_value_bytes", "l1_ttl", "compression_min_bytes",
}  # fmt: skip


def made(**fields: Any) -> Policy | Limits:
    return Limits(**fields) if OF_LIMITS.keys() & fields.keys() else Policy(**fields)


def refused(**fields: Any) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        made(**fields)
    return caught.value


# --- the table ------------------------------------------------------------------------------------------


def documented() -> dict[str, tuple[str, str, str]]:
    """Default, unit and reason of each row of the module's table."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.*?) ?\| (.+?) \|$", module.__doc__ or "", re.MULTILINE)
    return {name: (default, unit, reason) for name, default, unit, reason in rows}


def test_every_field_is_in_one_of_the_tables_of_defaults_with_a_reason() -> None:
    assert list(documented()) == list(FIELDS)
    assert all(reason for _, _, reason in documented().values())


@pytest.mark.parametrize("name", FIELDS)
def test_the_table_says_the_default_that_the_code_has(name: str) -> None:
    text, unit, _ = documented()[name]
    text = text.strip("`")
    default = FIELDS[name]
    if unit == "bytes":
        number, prefix = re.fullmatch(r"(\d+) (Mi|Ki)B", text).groups()  # type: ignore[union-attr]
        assert int(number) * {"Ki": 1024, "Mi": 1024**2}[prefix] == default
    elif isinstance(default, str):
        assert text == f'"{default}"'
    elif default is None or isinstance(default, bool):
        assert text == str(default)
    else:
        assert float(text) == default
        assert unit == UNITS[name]
        assert (unit == "count") == isinstance(default, int)


@pytest.mark.parametrize("kind", [Policy, Limits])
def test_every_field_has_its_check_beside_its_default(kind: type) -> None:
    assert [field.name for field in dataclasses.fields(kind) if "check" not in field.metadata] == []


# --- nonsense -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), -0.001, "60", None, True, 1e12, [60]])
@pytest.mark.parametrize("name", SECONDS)
def test_what_is_no_sensible_time_is_refused_by_name_value_and_rule(name: str, value: Any) -> None:
    error = refused(**{name: value})
    assert error.field == name
    assert error.value is value
    assert "number of seconds between" in error.rule
    assert str(error).startswith(f"{name}={value!r} is not allowed: ")


@pytest.mark.parametrize("value", [-1, 1.5, "3", None, True])
@pytest.mark.parametrize("name", COUNTS)
def test_what_is_no_count_is_refused_by_name_value_and_rule(name: str, value: Any) -> None:
    error = refused(**{name: value})
    assert (error.field, error.value) == (name, value)
    assert "whole number of at least" in error.rule


@pytest.mark.parametrize("name", SECONDS + COUNTS)
def test_nothing_is_allowed_only_where_it_means_something(name: str) -> None:
    if name in MAY_BE_ZERO:
        assert getattr(made(**{name: 0}), name) == 0
    else:
        assert refused(**{name: 0}).field == name


def test_a_whole_number_of_seconds_is_fine() -> None:
    assert Policy(ttl=300) == Policy(ttl=300.0)


@pytest.mark.parametrize(
    ("fields", "blamed", "rule"),
    [
        (
            {"lease_ttl": 0.2, "takeover_gap": 0.1, "poll_interval": 0.1},
            "lease_ttl",
            "renewal cannot keep up",
        ),
        ({"takeover_gap": 3.0}, "takeover_gap", "below lease_ttl (3 s)"),
        ({"poll_interval": 3.1}, "poll_interval", "not exceed lease_ttl (3 s)"),
        ({"soft_timeout": 1}, "soft_timeout", "give a stale_ttl"),
        ({"soft_timeout": 60, "stale_ttl": 60}, "soft_timeout", "below compute_timeout (60 s)"),
        ({"early_beta": -0.1}, "early_beta", "between 0 and 100"),
        ({"early_beta": 101}, "early_beta", "between 0 and 100"),
        ({"early_beta": float("nan")}, "early_beta", "between 0 and 100"),
        ({"early_beta": True}, "early_beta", "between 0 and 100"),
        ({"early_beta": "1"}, "early_beta", "between 0 and 100"),
        ({"max_value_bytes": 1000}, "inline_bytes", "not exceed max_value_bytes (1000 bytes)"),
        ({"mode": "sometimes"}, "mode", "one of on, shadow, bypass, off"),
        ({"mode": None}, "mode", "one of on, shadow, bypass, off"),
        ({"share": 1}, "share", "True or False"),
        ({"sample": 1.1}, "sample", "between 0 (no key) and 1 (every key)"),
        ({"sample": -0.1}, "sample", "between 0 (no key) and 1 (every key)"),
        ({"sample": float("nan")}, "sample", "between 0 (no key) and 1 (every key)"),
        ({"sample": "10%"}, "sample", "between 0 (no key) and 1 (every key)"),
        ({"sample": True}, "sample", "between 0 (no key) and 1 (every key)"),
    ],
)
def test_fields_that_do_not_fit_together_are_refused_with_the_limit(
    fields: dict[str, Any], blamed: str, rule: str
) -> None:
    error = refused(**fields)
    assert error.field == blamed
    assert rule in error.rule


# --- using it -------------------------------------------------------------------------------------------


def test_a_policy_cannot_be_changed_and_takes_no_positions() -> None:
    policy = Policy()
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.ttl = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        Policy(300)  # type: ignore[call-arg]


def test_replace_changes_what_is_named_and_checks_again() -> None:
    assert Policy(ttl=10, stale_ttl=5).replace(ttl=20) == Policy(ttl=20, stale_ttl=5)
    with pytest.raises(PolicyError, match="ttl=0"):
        Policy().replace(ttl=0)


def test_replace_names_the_fields_that_there_are() -> None:
    with pytest.raises(PolicyError) as caught:
        Policy().replace(tll=300)
    assert caught.value.field == "tll"
    assert all(name in caught.value.rule for name in OF_POLICY)


def test_a_value_exists_for_its_fresh_and_its_stale_time() -> None:
    policy = Policy(ttl=1.5, stale_ttl=0.25)
    assert (policy.ttl_ms, policy.stale_ms, policy.total_ms) == (1500, 250, 1750)


def test_parts_of_a_millisecond_are_rounded_up_so_that_no_time_becomes_none() -> None:
    assert Policy(ttl=0.001).ttl_ms == 1
    assert Policy(ttl=0.0011, stale_ttl=0.0001).total_ms == 3


@pytest.mark.parametrize("field", ["compute_timeout", "wait_timeout", "fallback_timeout", "lease_ttl"])
def test_a_record_outlives_every_computation_that_needs_it(field: str) -> None:
    policy = Policy(**{field: 500.0})
    longest = policy.compute_timeout + policy.wait_timeout + policy.fallback_timeout
    assert policy.record_ms > longest * 1000


# --- two classes ----------------------------------------------------------------------------------------


def test_no_field_is_of_a_function_and_of_a_guard() -> None:
    assert not OF_POLICY.keys() & OF_LIMITS.keys()


@pytest.mark.parametrize("name", OF_LIMITS)
def test_a_limit_given_to_a_function_is_refused_and_the_error_says_where_it_belongs(name: str) -> None:
    guard = StampedeGuard.from_url("memory://")
    with pytest.raises(PolicyError, match=rf"the guard: StampedeGuard.*, limits=Limits\({name}=\.\.\.\)\)"):
        guard.locked_cache(**{name: 1})(documented)


def test_limits_of_another_kind_are_refused_by_the_guard() -> None:
    with pytest.raises(
        Misuse, match=r"limits= is a Limits, not a dict: write limits=Limits\(max_threads=8\)"
    ):
        StampedeGuard.from_url("memory://", limits={"max_threads": 8})  # type: ignore[arg-type]
