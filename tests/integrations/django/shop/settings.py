"""The settings of a small site, for this process or for the environment of a worker."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

__all__ = ["caches_at", "postgres_at", "settings_with"]


def caches_at(url: str, namespace: str, **policy: Any) -> dict[str, Any]:
    """`other` is what another process would be: the same store and namespace, and a guard of its own."""
    backend = "stampede_guard.integrations.django.Cache"
    # A deadline that no busy machine reaches.
    given = {"namespace": namespace, "socket_timeout": 20, "socket_connect_timeout": 20}
    return {
        "default": {"BACKEND": backend, "LOCATION": url, "OPTIONS": given | {"policy": policy}},
        "other": {
            "BACKEND": backend,
            "LOCATION": url,
            "OPTIONS": given | {"policy": policy | {"takeover_gap": 0.24}},
        },
    }


def postgres_at(url: str, name: str) -> dict[str, Any]:
    """`name`: what the server calls the connections of this site."""
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": parts.username,
        "HOST": parts.hostname,
        "PORT": parts.port,
        "ATOMIC_REQUESTS": True,
        "OPTIONS": {"application_name": name[-60:]},
    }


def settings_with(database: str, caches: dict[str, Any]) -> dict[str, Any]:
    return {
        "ALLOWED_HOSTS": ["*"],
        "CACHES": caches,
        "DATABASES": {
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": database, "OPTIONS": {"timeout": 60}}
        },
        "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
        "INSTALLED_APPS": [
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "stampede_guard.integrations.django",
            "tests.integrations.django.shop",
        ],
        "LANGUAGES": [("en", "English"), ("de", "German")],
        "ROOT_URLCONF": "tests.integrations.django.shop.urls",
        "SECRET_KEY": "not a secret",
        "TEMPLATES": [{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
        "USE_TZ": True,
    }
