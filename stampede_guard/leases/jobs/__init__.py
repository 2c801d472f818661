"""Jobs: each slot of a schedule runs once, on any number of workers whose clocks differ.

Every worker follows every schedule. The first worker that claims a slot in the back end runs it, and the back end's
clock decides. No leader is needed, so no leader can be wrong.
"""

from __future__ import annotations
