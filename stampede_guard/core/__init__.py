"""The decisions, without any I/O: what a store's scripts do, and what a flight does next.

Nothing here awaits, reads a clock, draws a random number or logs. Time, draws and ids arrive as arguments. So the
whole protocol can be searched exhaustively (`tests/core/`), and tests compare each store with the same functions.

`entry`    what a store keeps for one key
`scripts`  the atomic steps on an entry; `stores/lua/*.lua` are their twins
`flight`   one computation of one key in one process: `decide(state, event, policy)`;
           its words are in `states`, `changing`, `events`, `commands`, `outcome`, `aboard`
`caller`   how long one caller waits, what it gets when its patience ends, and which flight it may join
`breaker`  when the store counts as away

`decide` returns the next state and one command. The driver (`engine.flights.flight`) executes the command and returns
with the resulting event. Which passengers an outcome may serve (the rule that makes joining safe at any time):

* An answer of the store covers the passengers that joined before the question was sent ("covered"). A later
  passenger may have come after an invalidation that the answer does not know.
* A value or failure in a message covers them too, if its token is not below the fence of the last answer. A message
  "ask again" is always obeyed.
* A refused value goes only to the passengers that joined before its computation began. The same holds for a stored
  value, if an invalidation of this process began during the computation: it may be pending, and unknown to the
  store.
* A value that may not be stored is published as such, without its body. It goes to the passengers that an accepted
  publication covers, like any other value. If it may not be shared, it goes only to the caller whose call was
  computed.

Passengers that are left cause another round, under the same flight.
"""
