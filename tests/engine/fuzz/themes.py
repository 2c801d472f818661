"""What a seed may have besides: batches, modes, several event loops, a node that is away.

Each theme changes a case that was drawn before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from stampede_guard.errors import PolicyError
from stampede_guard.policy import Policy
from tests.engine.fuzz.case import BEGIN, Action, Case, Key

__all__ = ["THEMES", "themed"]

Theme = Callable[[Case, Random], Case]


def themed(case: Case) -> Case:
    """Two of three cases have a theme, some two."""
    chance = Random(f"{case.seed} themes")
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2))):
        name = chance.choice(list(THEMES))
        if name not in case.themes:
            case = replace(THEMES[name](case, chance), themes=(*case.themes, name))
    return case


def _of_kinds(case: Case, chance: Random, kinds: tuple[str, ...]) -> Case:
    """The same moments, and other things that happen then."""
    actions = [
        action if action.kind == "close" else _as(action, chance.choice(kinds), case)
        for action in case.actions
    ]
    return replace(case, actions=tuple(actions))


def _as(action: Action, kind: str, case: Case) -> Action:
    return replace(action, kind=kind, bound=case.keys[action.key].bound or kind == "single")


def _with_fields(case: Case, change: Callable[[Key], dict[str, Any]]) -> Case:
    """`change`: the new fields of a key. They must be allowed together."""
    keys = {}
    for name, key in case.keys.items():
        fields = key.fields | change(key)
        Policy(**fields)
        keys[name] = replace(key, fields=fields)
    return replace(case, keys=keys)


def _lasting(case: Case, chance: Random, what: tuple[str, ...]) -> Case:
    """Weather that lasts, at any moment of the case, beside the one that it has."""
    length = max((action.at for action in case.actions), default=0.0) + 1.0
    windows = []
    for guard in case.guards:
        at = BEGIN
        for _ in range(chance.randint(1, 3)):
            at += chance.uniform(0.0, length / 2)
            ends = at + chance.choice((0.1, 0.5, 1.0, 2.5))
            windows.append((at, ends, guard, chance.choice(what)))
            at = ends
    return replace(case, weather=replace(case.weather, windows=windows))


# --- faces ----------------------------------------------------------------------------------------


def many(case: Case, chance: Random) -> Case:
    """Ids of one batched function instead of keys."""
    like = next(iter(case.keys.values()))
    fields = {name: value for name, value in like.fields.items() if name != "soft_timeout"}
    ids = ("m1", "m2", "m3")
    tags = chance.choice(((), ("t",)))
    keys = {id: Key(id, fields, tags, like.uncacheable, False, like.own_ttl, many=True) for id in ids}
    kinds = ("many",) * 6 + ("many refresh", "many invalidate", *(("invalidate_tag",) if tags else ()))
    actions = []
    for action in case.actions:
        asked = tuple(chance.sample(ids, chance.choice((1, 2, 2, 3))))
        kind = "close" if action.kind == "close" else chance.choice(kinds)
        outcome = "absent" if chance.random() < 0.1 else action.outcome
        actions.append(
            replace(action, kind=kind, key=asked[0], ids=asked, fields={}, outcome=outcome, bound=False)
        )
    return replace(case, keys=keys, actions=tuple(actions), most=chance.choice((500, 500, 2)))


def tenants(case: Case, chance: Random) -> Case:
    """Each key twice more: of two tenants."""
    keys = dict(case.keys)
    for name, key in case.keys.items():
        if not key.many:
            for tenant in ("x", "y"):
                keys[f"{tenant}/{name}"] = replace(key, name=f"{tenant}/{name}", tenant=tenant)
    actions = [
        replace(
            action, key=chance.choice((action.key, *("x/" + action.key, "y/" + action.key)[: len(keys) - 1]))
        )
        if not action.ids
        else action
        for action in case.actions
    ]
    return replace(case, keys=keys, actions=tuple(actions))


# --- what changes from outside --------------------------------------------------------------------


def modes(case: Case, chance: Random) -> Case:
    """Operators and programs switch modes while calls run."""
    actions = list(case.actions)
    many = any(key.many for key in case.keys.values())
    if chance.random() < 0.3 and not many:
        actions = [
            replace(each, kind="single", bound=True) if each.kind == "get" and chance.random() < 0.5 else each
            for each in actions
        ]
    length = max((action.at for action in actions), default=0.0)
    for _ in range(chance.randint(1, 6)):
        at, guard = chance.uniform(0.0, length), chance.choice(case.guards)
        kind = chance.choice(("mode", "mode", "switch"))
        mode = chance.choice(("on", "on", "shadow", "shadow", "bypass", "off", ""))
        action = Action(at, guard, next(iter(case.keys)), kind, mode=mode)
        if kind == "switch" and mode:
            sample = chance.choice((None, None, 0.3, 0.7)) if mode in ("on", "shadow") and not many else None
            action = replace(action, sample=sample, lasting=chance.choice((None, 1.0, 3.0)))
        actions.append(action)
    case = replace(case, actions=tuple(sorted(actions, key=lambda each: each.at)))
    if chance.random() < 0.2:
        # Longer than a switch lasts.
        at = BEGIN + chance.uniform(0.0, length)
        windows = [(at, at + 20.0, guard, "fail") for guard in case.guards]
        case = replace(case, weather=replace(case.weather, windows=windows))
    return case


def rollout(case: Case, chance: Random) -> Case:
    """Each guard has a policy of its own, as while a new version is deployed."""
    policies: dict[str, dict[str, Any]] = {}
    times = chance.random() < 0.5
    for guard in case.guards:
        policies[guard] = {
            "wait_timeout": chance.choice((0.1, 0.3, 1.0, 5.0)),
            "fallback_limit": chance.choice((0, 1, 2)),
            "uncacheable_limit": chance.choice((1, 2)),
            "inline_bytes": chance.choice((0, 16_384)),
        }
        if times:
            policies[guard]["lease_ttl"] = chance.choice((0.9, 1.5, 3.0))
            policies[guard]["fallback_timeout"] = chance.choice((0.5, 2.0, 25.0))
    return replace(case, policies=policies)


# --- moments that the others seldom have ----------------------------------------------------------


def bound(case: Case, chance: Random) -> Case:
    """Requests end while they compute, beside other computations of uncacheable keys."""
    always = chance.random() < 0.7
    keys = {
        name: replace(key, bound=not key.many, uncacheable=True, never=always)
        for name, key in case.keys.items()
    }
    fields = {
        "uncacheable_limit": chance.choice((1, 1, 2)),
        "uncacheable_ttl": 10.0,
        "lease_ttl": 0.9,
        "compute_timeout": chance.choice((0.5, 1.0)),
        "wait_timeout": chance.choice((0.3, 5.0)),
        "early_beta": 0.0,
    }
    case = _with_fields(replace(case, keys=keys), lambda _: fields)
    if not any(key.many for key in keys.values()):
        case = _of_kinds(case, chance, ("get",) * 8 + ("refresh",))
    actions = [
        replace(each, after=chance.uniform(0.0, 1.0), work=(chance.uniform(0.0, 1.0), 0.0))
        if chance.random() < 0.4 and each.kind != "close"
        else each
        for each in case.actions
    ]
    return replace(case, actions=tuple(actions), calm=False)


def near(case: Case, chance: Random) -> Case:
    """Copies in the process, whose messages are late, or lost while a guard is deaf."""
    l1_ttl = chance.choice((0.5, 3.0))
    # A bound of the policy: a copy lives no longer than its value.
    case = _with_fields(case, lambda key: {"l1_ttl": min(l1_ttl, key.fields["ttl"])})
    if not any(key.many for key in case.keys.values()):
        kinds = ("get", "get", "get", "peek", "peek", "invalidate", "set", "refresh", "invalidate_tag")
        case = _of_kinds(case, chance, kinds)
    return _lasting(case, chance, ("deaf",)) if chance.random() < 0.5 else case


def outage(case: Case, chance: Random) -> Case:
    """The store is away in the middle: values seen before, invalidations that wait, and what is computed meanwhile."""
    case = _with_fields(case, lambda _: {"ttl": 5.0})
    if not any(key.many for key in case.keys.values()):
        case = _of_kinds(
            case, chance, ("get",) * 6 + ("invalidate", "invalidate", "invalidate_tag", "set", "refresh")
        )
    return _lasting(case, chance, ("fail", "fail", "fail", "refuse", "refuse writes"))


def lingering(case: Case, chance: Random) -> Case:
    """Old values, refreshed early or in the background; callers that wait a moment for the new one."""
    soft = chance.choice((0.0, 0.05, 0.3))
    fields = {"ttl": chance.choice((0.3, 1.0)), "stale_ttl": 10.0, "l1_ttl": 0.0}

    def change(key: Key) -> dict[str, Any]:
        early = 0.0 if key.bound else 20.0
        return fields | {"early_beta": early} | ({} if key.many else {"soft_timeout": soft})

    case = _with_fields(case, change)
    if any(key.many for key in case.keys.values()):
        return case
    return _of_kinds(case, chance, ("get",) * 7 + ("peek", "refresh", "invalidate"))


def several_tags(case: Case, chance: Random) -> Case:
    """One tag of all entries, and one of each."""
    keys = {name: replace(key, tags=("t", f"of {key.name[-1]}")) for name, key in case.keys.items()}
    if any(key.many for key in keys.values()):
        return case
    case = _of_kinds(replace(case, keys=keys), chance, ("get",) * 6 + ("invalidate_tag",) * 3 + ("refresh",))
    return replace(
        case,
        actions=tuple(
            replace(each, tag=chance.choice(keys[each.key].tags)) if each.kind == "invalidate_tag" else each
            for each in case.actions
        ),
    )


def crossing(case: Case, chance: Random) -> Case:
    """Data change while they are computed, or when they have just been; the next caller comes after that."""
    if any(key.many for key in case.keys.values()):
        return case
    keys = {name: replace(key, tags=("t",), bound=False) for name, key in case.keys.items()}
    fields = {"ttl": 5.0, "wait_timeout": 5.0, "compute_timeout": 60.0, "inline_bytes": 16_384}
    case = _with_fields(replace(case, keys=keys), lambda _: fields)
    actions, at = [], 0.0
    for _ in range(chance.randint(1, 4)):
        key = chance.choice(list(keys))
        computes, changes = chance.choice(case.guards), chance.choice(case.guards)
        asks = chance.choice((computes, changes, chance.choice(case.guards)))
        kind = chance.choice(("get", "get", "get", "bypass"))
        change = chance.choice(("invalidate", "invalidate_tag", "invalidate_tag", "set"))
        seconds = chance.choice((0.0, 0.5, 0.5, 1.0))
        actions += [
            Action(at, computes, key, kind, work=(0.0, seconds)),
            Action(at + chance.uniform(0.05, 0.5), changes, key, change),
            Action(at + chance.uniform(0.1, 1.0), asks, key, kind, work=(0.0, 0.1)),
        ]
        at += chance.uniform(0.3, 2.5)
    case = replace(case, actions=tuple(sorted(actions, key=lambda each: each.at)), calm=True)
    return _lasting(case, chance, ("fail", "fail", "refuse writes")) if chance.random() < 0.6 else case


def unchanged(case: Case, chance: Random) -> Case:
    """Computations find the old value unchanged, as with `If-None-Match`, whoever invalidates it meanwhile."""
    if any(key.many for key in case.keys.values()):
        return case
    fields = {"ttl": chance.choice((0.3, 1.0)), "stale_ttl": 10.0}
    case = _with_fields(case, lambda _: fields)
    kinds = ("get",) * 6 + (
        "refresh",
        "refresh",
        "single",
        "invalidate",
        "invalidate",
        "invalidate_tag",
        "peek",
    )
    case = _of_kinds(case, chance, kinds)
    actions = tuple(
        replace(each, outcome="unchanged") if chance.random() < 0.7 else each for each in case.actions
    )
    return replace(case, actions=actions)


def mute(case: Case, chance: Random) -> Case:
    """Messages are lost, and nobody knows: the poll and the short life of copies are all that is left."""
    weather = replace(case.weather, lost=0.0, unanswered=0.0, refused=0.0, late=0.0)
    case = _with_fields(case, lambda _: {"l1_ttl": chance.choice((0.0, 0.5, 0.5))})
    return _lasting(replace(case, weather=weather), chance, ("mute",))


FIELDS: dict[str, tuple[Any, ...]] = {
    "ttl": (0.3, 5.0),
    "stale_ttl": (1.0, 10.0),
    "error_ttl": (0.0, 1.0),
    "lease_ttl": (0.9, 3.0),
    "poll_interval": (0.1, 0.4),
    "compute_timeout": (0.5, 60.0),
    "fallback_limit": (0, 1, 2),
    "fallback_timeout": (0.5, 25.0),
    "uncacheable_ttl": (0.0, 10.0),
    "uncacheable_limit": (1, 16),
    "l1_ttl": (0.0, 0.5),
    "early_beta": (0.0, 20.0),
    "max_passengers": (2, 10_000),
    "inline_bytes": (0, 16_384),
    "share": (False, True),
}


def mixed(case: Case, chance: Random) -> Case:
    """Calls of one key have different policies: they come from several places of one program."""
    if any(key.many for key in case.keys.values()):
        return case
    names = chance.sample(list(FIELDS), chance.randint(1, 5))
    actions = []
    for action in case.actions:
        bound = action.bound or chance.random() < 0.3
        fields = action.fields | {
            name: chance.choice(FIELDS[name]) for name in names if chance.random() < 0.6
        }
        with contextlib.suppress(PolicyError):
            Policy(**(case.keys[action.key].fields | fields))
            early = {"early_beta": 0.0} if bound and "early_beta" in fields else {}
            action = replace(action, fields=fields | early, bound=bound)
        actions.append(action)
    return replace(case, actions=tuple(actions))


# --- what a process and a store are made of -------------------------------------------------------


def loops(case: Case, chance: Random) -> Case:
    """Each process has several event loops, as one with a thread for background work, or with plain functions."""
    if any(key.many for key in case.keys.values()):
        return case
    if chance.random() < 0.6:
        case = chance.choice((crossing, crossing, outage, near))(case, chance)
    count = chance.choice((2, 2, 3))
    actions = tuple(replace(action, loop=chance.randrange(count)) for action in case.actions)
    return replace(case, actions=actions, loops=count)


def nodes(case: Case, chance: Random) -> Case:
    """A cluster, of which one node is away: what is on the others takes no notice."""
    if any(key.many for key in case.keys.values()):
        return case
    count = chance.choice((2, 3))
    weather, node = case.weather, f"n{chance.randrange(count)}"
    if chance.random() < 0.7:
        weather = replace(weather, lost=0.0, unanswered=0.0, refused=0.0, late=0.0)
    windows = [f"{what} {node}" for what in ("fail", "fail", "refuse", "refuse writes")]
    return _lasting(replace(case, nodes=count, weather=weather), chance, tuple(windows))


THEMES: dict[str, Theme] = {
    "crossing": crossing,
    "many": many,
    "tenants": tenants,
    "modes": modes,
    "rollout": rollout,
    "bound": bound,
    "near": near,
    "outage": outage,
    "lingering": lingering,
    "several tags": several_tags,
    "unchanged": unchanged,
    "mute": mute,
    "mixed": mixed,
    "loops": loops,
    "nodes": nodes,
}
