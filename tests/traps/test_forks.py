"""A process that forks while one of its threads holds a lock: the child can do everything."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import stampede_guard
from tests.support.listener import PATIENCE

PROGRAM = """
import asyncio, gc, os, signal, sys, threading, types, warnings
warnings.simplefilter("ignore")
import stampede_guard
from stampede_guard import StampedeGuard, configure, locked_cache
from stampede_guard.api import defaults
from stampede_guard.leases import MemoryLeases
from stampede_guard.testing import counting, seats
import stampede_guard.values.forks
from stampede_guard.engine.threads.locks import PassableLock
from tests.support.inside import plans_of, store_of

os.environ["STAMPEDE_GUARD_URL"] = "memory://"
# One is tried in the first process, the others each in a process of its own that has imported what this one has.
*others, where = sys.argv[1].split(",")
for other in others:
    case = os.fork()
    if case == 0:
        where = other
        break
    _, status = os.waitpid(case, 0)
    assert status == 0, other
guard = StampedeGuard.from_url("memory://", namespace="shop")
tenant = guard.within("alice")

@guard.locked_cache(ttl=60)
def price(product: int) -> int:
    return product

@tenant.locked_cache(ttl=60)
def own_price(product: int) -> int:
    return product

@locked_cache(ttl=60)
def plain(product: int) -> int:
    return product

leases = MemoryLeases(namespace="shop")

async def warmer():
    return leases.warmer(guard, "warm")

if where == "warmer":
    the_warmer = asyncio.run(warmer())
if where != "defaults":
    price(1), own_price(1)

from stampede_guard.engine.flights import reentry

OWNERS = {
    "defaults": lambda: [defaults],
    "reentry": lambda: [reentry],
    "guard": lambda: [guard, *vars(guard).values(), *vars(guard.engine).values()],
    "tenant": lambda: [tenant, *vars(tenant).values()],
    "plans": lambda: [*vars(plans_of(guard)).values(), plans_of(guard)],
    "memory store": lambda: [store_of(guard)],
    "house": lambda: [leases],
    "warmer": lambda: [the_warmer],
    "counting": lambda: [counting],
    "seats": lambda: [seats],
}
KINDS = (type(threading.Lock()), type(threading.RLock()), PassableLock)

def locks_of(owners):
    return {id(lock): lock for owner in owners for lock in vars(owner).values() if isinstance(lock, KINDS)}

async def work():
    @guard.locked_cache(ttl=60)
    async def fresh(product: int) -> int:
        return product
    assert await fresh(2) == 2
    assert await guard.get_or_compute("a:1", lambda: value(), ttl=60) == 3
    assert await tenant.get_or_compute("a:1", lambda: value(), ttl=60) == 3
    await guard.invalidate("a:1")
    @leases.run_exclusive("report")
    async def report() -> int:
        return 4
    assert await report() == 4
    await leases.aclose()
    await guard.aclose()

async def value():
    return 3

def use():
    assert price(5) == 5 and own_price(5) == 5 and plain(5) == 5
    asyncio.run(work())
    with counting.counted(price) as count:
        price(6)
    assert count() == 1

if where == "everything":
    owners = [found for owner, _, _ in stampede_guard.values.forks._renewed.values() if (found := owner()) is not None]
    owners += [owner for name in OWNERS if name != "warmer" for owner in OWNERS[name]()]
else:
    owners = OWNERS[where]()
locks = locks_of(owner for owner in owners if hasattr(owner, "__dict__"))
assert locks, "there is no lock any more: take this case out"
held, gone = threading.Event(), threading.Event()

def hold():
    import contextlib
    with contextlib.ExitStack() as stack:
        for lock in locks.values():
            stack.enter_context(lock)
        held.set()
        gone.wait()

threading.Thread(target=hold, daemon=True).start()
assert held.wait(60), "a lock is gone, or cannot be had"
child = os.fork()
if child == 0:
    signal.alarm(int(sys.argv[2]))
    code = 1
    try:
        use()
        code = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        os._exit(code)
_, status = os.waitpid(child, 0)
gone.set()
use()
print(f"{where}: {os.waitstatus_to_exitcode(status)}", flush=True)
"""

PLACES = [
    "defaults",
    "reentry",
    "guard",
    "tenant",
    "plans",
    "memory store",
    "house",
    "warmer",
    "counting",
    "seats",
    "everything",
]


def test_a_child_forked_while_a_thread_holds_a_lock_can_do_everything() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(PLACES), str(round(PATIENCE))],
        capture_output=True,
        text=True,
        timeout=6 * PATIENCE,
        check=False,
    )
    assert done.stdout.splitlines() == [f"{where}: 0" for where in PLACES], (
        done.returncode,
        done.stderr[-2000:],
    )
    assert done.returncode == 0


def test_every_lock_of_the_package_is_renewed_in_a_child() -> None:
    root = Path(stampede_guard.__file__).parent
    renews = re.compile(r"renew_in_children\(|def leave_the_parents|def _leave_the_parents|def _after_fork")
    made = re.compile(r"(threading\.(Lock|RLock|Condition|Semaphore|BoundedSemaphore)|\bPassableLock)\(\)")
    # Parts of an event loop: a child makes its own, and never asks those of its parent.
    of_one_loop = {"engine/threads/threads.py", "engine/threads/locks.py"}
    inherited = {"api/tenants.py": "leave_the_parents", "engine/modes/resolver.py": "leave_the_parents"}
    for path in sorted(root.rglob("*.py")):
        name = str(path.relative_to(root))
        if name in of_one_loop or name in inherited:
            continue
        text = path.read_text("utf-8")
        # The calls only: rules of the audit write of such locks in their texts.
        calls = [ast.unparse(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        if any(made.fullmatch(call) for call in calls):
            assert renews.search(text), f"{name} makes a lock that a forked child may never get"
