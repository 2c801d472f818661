"""The core keeps its promises in every interleaving.

Checked in every world that can be reached:

* Computations under a lease or a fallback's token never exceed 1 + what happened. One more is allowed for each fault
  of `world.FAULTS` (a lost reply, an evicted waiter set, a lost message, a crash of a process that computes nothing:
  none), for an invalidation that hits a stored outcome or a computation that could still be stored, for a computation
  that stores nothing (private failure, not to be stored, abandoned), for a publication that was given up, and for a
  refresh.
* `refresh()` is answered only with what is computed after its call. Its wait for an older computation ends with that.
* A flight that was told of a living holder computes without the store only after a while, and then it does.
* A slow flight is remembered while its holder computes. A process keeps nothing that it has itself invalidated.
* A flight that is let through, because a value could not be stored, is not counted. At most `uncacheable_limit`
compute so at
  once, nobody is made to wait while there is room, and no mark from before an invalidation lets anybody through.
* Nothing older than the fence, than the stored value, or than an invalidation that has returned is stored.
* Nobody is served a value, or a failure that was published, from before an invalidation that had returned when he
  came; except by a flight that works without the store.
* Tokens grow; the same flight, asking again, gets the same token unless it was fenced.
* From everywhere a world can be reached, by what happens by itself, in which all callers are served and every flight
  has landed. No circle of moves can be walked without a timer. Where nothing was broken nobody depends on a timer:
  neither on a poll nor on the end of a lease.
"""

from __future__ import annotations

import os
from collections import deque

import pytest

from tests.core.model import Model
from tests.core.search import Search
from tests.core.setups import DEEP, ONE_AT_A_TIME, QUICK, UNSTORABLE
from tests.core.successors import Successors
from tests.core.tagged import TagModel
from tests.core.world import FAULTS, Setup

SETUPS = QUICK + (DEEP if os.environ.get("STAMPEDE_SEARCH") == "deep" else ())


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_every_interleaving_keeps_the_promises(setup: Setup) -> None:
    result = Search(setup).run()
    print(result)
    assert result.counterexample is None, result.counterexample


@pytest.mark.parametrize(
    "model",
    [
        Model(Setup(callers=1, faults=2, kinds=FAULTS - {"lose"}, renewals=True)),
        Model(Setup(faults=1, kinds=frozenset({"lose", "restart"}), clock_goes_on=False, timed=True)),
        Model(Setup(callers=3, processes=3, events=1, event_kinds=UNSTORABLE, policy=ONE_AT_A_TIME)),
        Model(Setup(callers=1, pending=1, invalidations=1, refreshes=1, puts=1)),
        TagModel(Setup(callers=1, invalidations=1, faults=1, kinds=frozenset({"evict_tag", "crash"}))),
    ],
    ids=lambda model: str(model.setup),
)
def test_a_remembered_move_leads_where_the_model_leads(model: Model) -> None:
    successors = Successors(model)
    queue = deque([successors.start()])
    known = set(queue)
    while queue and len(known) < 3_000:
        packed = queue.popleft()
        world = successors.world(packed)
        moves = model.common_moves(world)
        for number, process in enumerate(world.processes):
            moves += model.moves_of(number, process, world)
        following = successors.of(packed)
        assert {move: successors.world(after) for move, after in following} == {
            move: model.make(world, move) for move in moves
        }
        assert len(following) == len(moves)
        new = {after for _, after in following} - known
        known |= new
        queue += new


def test_a_counterexample_is_told_as_numbered_moves() -> None:
    # Two more computations than one: the bound is broken on purpose.
    from tests.core.mutations import MUTATIONS

    mutation = MUTATIONS["re-read removed"]
    result = Search(mutation.setup, mutation.core).run()
    assert result.counterexample is not None
    lines = result.counterexample.splitlines()
    assert [int(line.split(".")[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert "arrive" in lines[0]
