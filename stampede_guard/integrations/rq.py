"""RQ: a worker whose work horses finish what they began in the background.

RQ forks a process for each job, a work horse. It ends the horse with `os._exit` when the job returns, and that ends
everything that still runs there. A refresh of a stale value runs in the background, so no horse would ever finish one.
"""

from __future__ import annotations

from typing import Any

from rq import Worker

from stampede_guard.engine.threads.portal import end_portal

__all__ = ["DrainingWorker", "Draining"]


class Draining:
    """For a worker class of your own: `class MyWorker(Draining, SpawnWorker)`."""

    def perform_job(self, *args: Any, **kwargs: Any) -> Any:
        """Perform the job. Then a horse gives its flights `drain_timeout` seconds to land, and closes its guards."""
        try:
            return super().perform_job(*args, **kwargs)  # type: ignore[misc]
        finally:
            if self.is_horse:  # type: ignore[attr-defined]
                end_portal()


class DrainingWorker(Draining, Worker):  # type: ignore[misc]
    """`rq worker --worker-class stampede_guard.integrations.rq.DrainingWorker`."""
