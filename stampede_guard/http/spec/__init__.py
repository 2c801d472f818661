"""RFC 9111 and its neighbours as pure functions: no clock, no store, no loop. Each names its clause.

Header fields are a tuple of pairs of bytes, names in lower case, in the order in which they came; nothing is decoded
and nothing is lost. Times are seconds: moments since the epoch, durations as they are. What is malformed is treated as
the clause says, and where it says nothing, as the choice that reuses less.
"""
