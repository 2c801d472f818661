"""Flask: an extension, `@stampede.locked_cache` for functions, and `@stampede.cached_view` for whole responses.

    stampede = Stampede()                   # a module of its own; app.config["STAMPEDE_GUARD_URL"] = "redis://..."
    stampede.init_app(app)                  # in the application factory

**Contexts.** A plain function computes in a thread of the guard. It gets an application context of its own, without a
request: see `contexts`. `@guard.locked_cache` of any other guard does, too, as soon as this package is imported.

**Views.** A cached view computes with a request that has nothing but what is in its key: see `views`.
"""

from __future__ import annotations

from stampede_guard.integrations.flask.extension import Stampede

__all__ = ["Stampede"]
