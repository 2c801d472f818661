"""Fields of a policy from the environment: their order, mistakes, and names that mean nothing."""

from __future__ import annotations

import copy
import dataclasses
import logging
import pickle
import subprocess
import sys
from datetime import timedelta

import pytest

from stampede_guard import Policy, PolicyError, StampedeGuard, configure, locked_cache
from stampede_guard.api.environment import policy_variables
from tests.support.inside import policy_of


@pytest.fixture(autouse=True)
def no_default_guard() -> None:
    configure(None)


async def quality(project: int) -> int:
    return project


def guard_with(policy: Policy | None = None) -> StampedeGuard:
    return StampedeGuard.from_url("memory://", namespace="environment", policy=policy)


def test_every_field_that_makes_sense_as_a_text_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {field.name for field in dataclasses.fields(Policy)}
    assert fields - policy_variables().keys() == {"mode", "share"}
    texts = {
        "STAMPEDE_GUARD_TTL": "10m", "STAMPEDE_GUARD_STALE_TTL": "1h30m", "STAMPEDE_GUARD_WAIT_TIMEOUT": "250ms",
        "STAMPEDE_GUARD_ERROR_TTL": "5", "STAMPEDE_GUARD_FALLBACK_LIMIT": "0", "STAMPEDE_GUARD_EARLY_BETA": "1.5",
        "STAMPEDE_GUARD_SAMPLE": "0.25", "STAMPEDE_GUARD_STRICT": "true", "STAMPEDE_GUARD_L1_TTL": "",
    }  # fmt: skip
    for name, text in texts.items():
        monkeypatch.setenv(name, text)
    policy = guard_with().policy
    assert (policy.ttl, policy.stale_ttl, policy.wait_timeout, policy.error_ttl) == (600, 5400, 0.25, 5)
    assert (policy.fallback_limit, policy.early_beta, policy.sample, policy.strict) == (0, 1.5, 0.25, True)
    assert policy.l1_ttl == 0, "an empty variable counts as not set"


def test_the_decorator_comes_first_then_the_guard_then_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_TTL", "10m")
    monkeypatch.setenv("STAMPEDE_GUARD_STALE_TTL", "20m")
    monkeypatch.setenv("STAMPEDE_GUARD_ERROR_TTL", "30s")
    # Given on purpose, although it is the built-in default.
    guard = guard_with(Policy(ttl=60, stale_ttl=7))
    assert (guard.policy.ttl, guard.policy.stale_ttl, guard.policy.error_ttl) == (60, 7, 30)
    assert guard.policy.wait_timeout == Policy().wait_timeout
    policy = policy_of(guard.locked_cache(stale_ttl=9)(quality))
    assert (policy.ttl, policy.stale_ttl, policy.error_ttl) == (60, 9, 30)


def test_a_bare_decorator_is_checked_against_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_STALE_TTL", "1m")

    @locked_cache(soft_timeout=0.5, name="environment.bare")
    async def bare(project: int) -> int:
        return project

    assert policy_of(bare).stale_ttl == 60


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("STAMPEDE_GUARD_TTL", "soon", r"\$STAMPEDE_GUARD_TTL='soon' is not allowed: .*\"10m\""),
        ("STAMPEDE_GUARD_TTL", "-5", r"\$STAMPEDE_GUARD_TTL='-5' is not allowed"),
        ("STAMPEDE_GUARD_TTL", "0", r"\$STAMPEDE_GUARD_TTL='0' is not allowed"),
        ("STAMPEDE_GUARD_MAX_PASSENGERS", "1e3", r"\$STAMPEDE_GUARD_MAX_PASSENGERS='1e3' .*whole number"),
        ("STAMPEDE_GUARD_STRICT", "maybe", r"\$STAMPEDE_GUARD_STRICT='maybe' .*True or False"),
        ("STAMPEDE_GUARD_SAMPLE", "half", r"\$STAMPEDE_GUARD_SAMPLE='half' .*between 0 .* and 1"),
        ("STAMPEDE_GUARD_LEASE_TTL", "0.3", r"poll_interval=0.4 .*\$STAMPEDE_GUARD_LEASE_TTL='0.3'"),
    ],
)
def test_a_bad_value_is_an_error_that_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, said: str
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(PolicyError, match=said):
        guard_with()


def test_a_field_that_the_program_sets_is_not_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_TTL", "soon")
    assert guard_with(Policy(ttl=timedelta(minutes=5))).policy.ttl == 300


def test_a_policy_stays_the_same_value_when_it_is_copied_or_sent() -> None:
    given = Policy(ttl=60)
    assert given == Policy() and hash(given) == hash(Policy())
    assert given.given == {"ttl"} and given.replace(stale_ttl=1).given == {"ttl", "stale_ttl"}
    for same in (copy.copy(given), copy.deepcopy(given), pickle.loads(pickle.dumps(given))):
        assert same == given
        assert guard_with(same).policy == given and same.replace(ttl=5).ttl == 5


def test_a_name_that_means_nothing_is_warned_of_once_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_WAIT_TIMEOT", "secret-5")
    monkeypatch.setenv("STAMPEDE_GUARD_SHARE", "1")
    for name in ("SERVICE_HOST", "SERVICE_PORT", "PORT", "PORT_6379_TCP_ADDR", "REDIS_SERVICE_PORT_TLS"):
        monkeypatch.setenv(f"STAMPEDE_GUARD_{name}", "10.0.0.1")
    with caplog.at_level(logging.WARNING, "stampede_guard"):
        guard_with()
        guard_with()
    assert [record.message for record in caplog.records] == [
        "$STAMPEDE_GUARD_SHARE has no meaning for stampede_guard: set share= in the program",
        "$STAMPEDE_GUARD_WAIT_TIMEOT has no meaning for stampede_guard (do you mean $STAMPEDE_GUARD_WAIT_TIMEOUT?)",
    ]


def test_the_command_reads_the_same_variables(valkey_url: str, namespace: str) -> None:
    def command(**variables: str) -> subprocess.CompletedProcess[str]:
        given = [
            sys.executable,
            "-m",
            "stampede_guard",
            "invalidate",
            "=report",
            "-n",
            namespace,
            "--url",
            valkey_url,
        ]
        return subprocess.run(given, env=variables, capture_output=True, text=True, check=False)

    wrong = command(STAMPEDE_GUARD_COMPUTE_TIMEOUT="soon", STAMPEDE_GUARD_TLL="5m")
    assert wrong.returncode == 2
    assert "$STAMPEDE_GUARD_COMPUTE_TIMEOUT='soon' is not allowed" in wrong.stderr
    assert (
        "$STAMPEDE_GUARD_TLL has no meaning for stampede_guard (do you mean $STAMPEDE_GUARD_TTL?)"
        in wrong.stderr
    )
