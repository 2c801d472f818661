"""What this process did per function, added to the fleet's sums every few seconds.

A hook adds numbers in memory, so a call sends nothing. Each event loop of the guard sends what the process has counted
since the last time, as one script call. The sums contain names of functions and numbers, never a part of a key.

1. The store does not answer. 2. Whether it has added the numbers is unknown. 3. They are not sent again: a sum may lack
numbers after a fault, but nothing is counted twice.
"""
