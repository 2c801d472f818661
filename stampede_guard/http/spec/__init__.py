"""RFC 9111 and related RFCs as pure functions: no clock, no store, no loop. Each names its clause.

Header fields are a tuple of pairs of bytes, with names in lower case, in their original order. Nothing is decoded
and nothing is lost. Times are seconds: moments since the epoch, or durations. Malformed input is treated as the
clause requires. If the clause says nothing, the choice that reuses less is taken.
"""
