"""A Flask application in this process, with a namespace of its own for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from stampede_guard.integrations.flask import Stampede

Make = Callable[..., Flask]


@pytest.fixture
def stampede() -> Stampede:
    return Stampede()


@pytest.fixture
def make(stampede: Stampede, valkey_url: str, namespace: str) -> Iterator[Make]:
    """A factory of applications: `make("shop", STAMPEDE_GUARD_URL=...)`."""
    made: list[Flask] = []

    def make(name: str = "shop", **config: Any) -> Flask:
        app = Flask(name, static_folder=None)
        app.secret_key = "not a secret"
        given = {"STAMPEDE_GUARD_URL": valkey_url, "STAMPEDE_GUARD_NAMESPACE": namespace}
        app.config.update(given | config)
        stampede.init_app(app)
        made.append(app)
        return app

    yield make
    for app in made:
        app.extensions["stampede_guard"].guard.close()


@pytest.fixture
def app(make: Make) -> Flask:
    return make()
