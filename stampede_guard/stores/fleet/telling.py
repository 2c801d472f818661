"""Tells the fleet's stream what an operator did, from the console or with a command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stampede_guard.values.processplace import this_place

if TYPE_CHECKING:
    from stampede_guard.stores.protocol import Session

__all__ = ["tell_operator"]

LONGEST_SAID = 200
"""Characters of each part."""


async def tell_operator(
    steps: Session, namespace: str, *, what: str, function: str, user: str, said: str, client: str = ""
) -> None:
    """`what`: the action. `said`: what was done, in one sentence. `client`: the address of the user's request, if it
    was one. Raises `StoreError`."""
    line = {
        "kind": "operator",
        "process": str(this_place()),
        "function": function[:LONGEST_SAID],
        "what": what,
        "user": user[:LONGEST_SAID],
        "said": said[:LONGEST_SAID],
    }
    if client:
        line["client"] = client[:LONGEST_SAID]
    await steps.tell(namespace, [(0, json.dumps(line))])
