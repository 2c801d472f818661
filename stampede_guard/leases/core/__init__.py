"""The pure decisions of leases: no clock, chance, loop or store. Times and durations arrive as arguments.

`grants` are the rules of a back end, the same for memory, Redis and PostgreSQL; `queue` is the order of those who wait;
`timing` are the durations and what must hold between them; `holding` is what a holder may believe, and does next;
`moves` are the events and commands of that.
"""

from __future__ import annotations
