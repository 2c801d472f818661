"""Side doors of the engine: what only some faces ask of it. `Engine` has one of each.

`hits`    the shortest path of a call
`modes`   the mode of a call
`runs`    computations that are not simply awaited: in threads, in batches, in mode `shadow`
`judged`  for a face that judges freshness itself
`near`    its copies in the process
`store`   what is known of the store
"""
