"""The pure decisions of leases: no clock, random numbers, event loop or store. Times arrive as arguments.

`grants`   the rules of a back end, the same for memory, Redis and PostgreSQL
`queue`    the order of the waiters
`timing`   the durations, and the conditions between them
`holding`  what a holder may believe, and what it does next
`moves`    the events and commands of `holding`
"""

from __future__ import annotations
