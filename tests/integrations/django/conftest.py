"""A Django site in this process, with a namespace and empty tables for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from django.test import override_settings

from tests.integrations.django.shop.settings import caches_at, settings_with


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "shop.sqlite3"
    settings.configure(
        **settings_with(str(path), {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}})
    )
    django.setup()
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", run_syncdb=True, verbosity=0)
    connection.close()
    return path


@pytest.fixture
def site(tables: Path, valkey_url: str, namespace: str) -> Iterator[Any]:
    """The settings of a site whose caches are on the shared server."""
    from django.apps import apps
    from django.core.cache import close_caches
    from django.db import connections

    from tests.integrations.django.shop.urls import gate

    gate.reset()
    with override_settings(CACHES=caches_at(valkey_url, namespace)):
        try:
            yield settings
        finally:
            gate.open()
            close_caches()
            for model in apps.get_models():
                model._base_manager.all().delete()
            connections.close_all()
