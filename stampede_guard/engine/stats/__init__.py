"""What this process did per function, added to the fleet's numbers every few seconds.

A hook adds numbers in memory, so a call sends nothing. Each event loop of the guard sends what the process has counted
since the last time, as one script call. The sums contain names of functions and numbers, never a part of a key.

Two readers ask for it. With `stats=True`, sums per minute are kept for `stampede-guard stats`. While a viewer
is open (`stampede-guard top`), sums per five seconds are kept, with the hottest entries and the events. A switch in the
store shows that a viewer is open. Processes read it together with the fleet's modes, so it costs no command. Without a
viewer the hook is absent, and a hit takes its shortest path.

1. The store does not answer. 2. Whether it has added the numbers is unknown. 3. They are not sent again: a sum may lack
numbers after a fault, but nothing is counted twice.
"""
