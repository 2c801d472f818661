"""The decisions, without any I/O: what a store's scripts do, and what a flight does next.

Nothing here awaits, reads a clock, draws a random number or logs. Time, draws and ids arrive as arguments. So the
whole protocol can be searched exhaustively (`tests/core/`), and tests compare each store with the same functions.

`entry`    what a store keeps for one key
`scripts`  the six atomic steps on an entry; `stores/lua/*.lua` are their twins
`flight`   one computation of one key in one process: `decide(state, event, policy)`;
           its words are in `states`, `events` and `commands`
`caller`   what one caller gets when its patience ends
`breaker`  when the store counts as away
"""
