"""Jobs: what a schedule says is run once per slot, on any number of workers whose clocks differ.

Every worker follows every schedule; who is first takes the slot in the back end, on the back end's clock. No leader is
needed, and none can be wrong.
"""

from __future__ import annotations
