"""`manage.py check` and `manage.py stampede_guard`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.cache import cache
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.test import override_settings

from stampede_guard.integrations.django import guard_of, locked_cache
from tests.integrations.django.shop.settings import caches_at

pytestmark = pytest.mark.usefixtures("site")
BACKEND = "stampede_guard.integrations.django.Cache"


def found(**cache_settings: Any) -> set[str]:
    with override_settings(CACHES={"default": {"BACKEND": BACKEND, **cache_settings}}):
        return {f"{one.id} {one.msg}" for one in run_checks() if one.id.startswith("stampede_guard.")}


def test_the_checks_find_what_cannot_keep_the_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAMPEDE_GUARD_NAMESPACE", raising=False)
    models = found(LOCATION="redis://localhost", OPTIONS={"namespace": "shop"})
    assert {one.split()[1] for one in models if "W004" in one} == {"shop.Label", "shop.Shop"}
    assert not [one for one in models if "W004" not in one]
    everything = "\n".join(sorted(found(LOCATION="redis://localhost", OPTIONS={"serializer": "pickle"})))
    assert "W001" in everything
    assert "W002" in everything
    local = "django.core.cache.backends.locmem.LocMemCache"
    assert any("W003" in one for one in found(BACKEND=local))


@pytest.mark.parametrize(
    "location", ["localhost:6379", "redis+cluster://a:1,b:2", ["redis://a", "redis://b"]]
)
def test_a_location_that_cannot_work_is_an_error_of_the_checks(location: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match="is one URL that begins with redis://"):
        found(LOCATION=location, OPTIONS={"namespace": "shop"})


@pytest.mark.parametrize(
    "options",
    [
        {"policy": {"wait_timeout": -1}},
        {"policy": {"wait": 1}},
        {"limits": {"max_flight": 1}},
        {"password": "secret"},
    ],
)
def test_an_option_that_cannot_work_is_an_error_of_the_checks(options: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"policy|LOCATION") as told:
        found(LOCATION="redis://localhost", OPTIONS={"namespace": "shop"} | options)
    assert "secret" not in str(told.value)


def test_the_command_has_the_url_and_the_namespace_of_the_settings(
    capfd: pytest.CaptureFixture[str], namespace: str, valkey_url: str
) -> None:
    @locked_cache(ttl=60, name="shop.total")
    def total(shelf: int) -> int:
        return shelf

    total(7)
    cache.set("of_Django_itself", 1)
    call_command("stampede_guard", "keys", "--json")
    output = capfd.readouterr().out
    assert "shop.total" in output
    assert json.loads(output)
    with pytest.raises(SystemExit) as ended:
        call_command("stampede_guard", "explain", f"{namespace}x:nothing")
    assert ended.value.code == 2
    with pytest.raises(CommandError, match="default, other"):
        call_command("stampede_guard", "--cache", "missing", "keys")
    with override_settings(CACHES=caches_at(valkey_url, f"{namespace}-b")):
        capfd.readouterr()
        call_command("stampede_guard", "keys", "--json")
        assert "shop.total" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("option", "meant"),
    [("polcy", "policy"), ("lease_on_mis", "lease_on_miss"), ("socket_timeot", "socket_timeout")],
)
def test_a_misspelt_option_of_the_cache_is_refused_with_the_nearest_one(option: str, meant: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"has no {option} \(do you mean {meant}\?\)"):
        found(LOCATION="redis://localhost", OPTIONS={"namespace": "shop", option: 1})


def test_the_settings_switch_the_sums_of_the_fleet_on(valkey_url: str, namespace: str) -> None:
    given = caches_at(valkey_url, namespace)
    given["other"]["OPTIONS"] = given["other"]["OPTIONS"] | {"stats": True}
    with override_settings(CACHES=given):
        on, off = (guard_of(alias).engine.hooks.any for alias in ("other", "default"))
    assert (on, off) == (True, False)
