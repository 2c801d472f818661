"""The actors that `dramatiq_workers` serves."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from tests.integrations.tasks import work

broker = RedisBroker(url=work.URL, namespace=f"{work.NAMESPACE}-dramatiq")
dramatiq.set_broker(broker)

report = dramatiq.actor(work.report, max_retries=0)
exclusive = dramatiq.actor(work.exclusive, max_retries=0)
