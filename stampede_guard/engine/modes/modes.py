"""Modes: the sources of a function's mode, and their priority.

The operator comes before the program. For each of them, a setting for one function comes before a setting for all:
1. the fleet's switch for this function (`stampede-guard mode NAME bypass`)
2. the fleet's switch for everything (`stampede-guard mode '*' bypass`)
3. this function in `$STAMPEDE_GUARD_MODES`
4. everything in `$STAMPEDE_GUARD_MODES`, or `$STAMPEDE_GUARD_MODE`
5. `function.set_mode(...)`
6. `guard.mode = ...`
7. `mode=` of the policy
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from stampede_guard.durations import advice, seconds
from stampede_guard.engine.plan import UNSETTLED, Plan, Standing
from stampede_guard.errors import Misuse, PolicyError
from stampede_guard.policy import Mode
from stampede_guard.stores.switch import EVERYTHING, LONGEST_TITLE, MOST_SWITCHES, Switch

__all__ = [
    "MODES_VARIABLE",
    "MODE_VARIABLE",
    "Modes",
    "checked_mode",
    "checked_switch",
    "modes_from_environment",
]

MODE_VARIABLE = "STAMPEDE_GUARD_MODE"
MODES_VARIABLE = "STAMPEDE_GUARD_MODES"

LONGEST_SWITCH = 366 * 86_400.0
"""Seconds that a switch of the fleet may last."""
_MODES = ", ".join(get_args(Mode))


@dataclass(frozen=True, slots=True, eq=False)
class Modes:
    """The settings by title or `*`. Never changed, so a plan can keep the mode that it derives from them."""

    fleet: Mapping[str, Switch] = field(default_factory=dict)
    environment: Mapping[str, Switch] = field(default_factory=dict)
    program: Mode | None = None

    @property
    def of_all(self) -> Mode | None:
        """The mode of functions without a setting of their own. None: the mode of their policy."""
        switch = self.fleet.get(EVERYTHING) or self.environment.get(EVERYTHING)
        return switch.mode if switch is not None else self.program

    def mode_of(self, plan: Plan) -> tuple[Mode, float]:
        """The mode of this plan, and the share of its keys."""
        switch = (
            self.fleet.get(plan.title)
            or self.fleet.get(EVERYTHING)
            or self.environment.get(plan.title)
            or self.environment.get(EVERYTHING)
        )
        if switch is not None:
            return switch.mode, plan.policy.sample if switch.sample is None else switch.sample
        return plan.mode or self.program or plan.policy.mode, plan.policy.sample

    def settle(self, plan: Plan) -> Standing:
        """The same, remembered in the plan."""
        own = plan.mode
        mode, sample = self.mode_of(plan)
        # One assignment: several threads may settle the same plan.
        plan.standing = standing = Standing(
            self, mode, sample, shortest=plan.direct and mode == "on" and sample >= 1.0
        )
        # 1. This thread reads the old mode. 2. `set_mode` runs in another thread. 3. The plan would keep the old mode
        # for ever.
        if plan.mode != own:
            plan.standing = UNSETTLED
        return standing

    def with_fleet(self, fleet: Mapping[str, Switch]) -> Modes:
        return replace(self, fleet=fleet)

    def with_program(self, mode: Mode | None) -> Modes:
        return replace(self, program=checked_mode(mode))


def checked_mode(mode: Any) -> Mode | None:
    """Raises `PolicyError` for a value that is not a mode. None: another source decides."""
    if mode is not None and mode not in get_args(Mode):
        raise PolicyError("mode", mode, f"it must be None or one of {_MODES}")
    result: Mode | None = mode
    return result


def checked_switch(title: Any, mode: Any, *, sample: Any, lasting: Any) -> Switch | None:
    """A switch of the fleet; None removes one. Raises `Misuse` and `PolicyError`."""
    # Other names with this sign have a meaning of their own.
    if not isinstance(title, str) or (title.startswith(EVERYTHING) and title != EVERYTHING):
        raise Misuse(f"function={title!r}: write the name of a function, or {EVERYTHING!r} for all")
    if not 0 < len(title) <= LONGEST_TITLE:
        raise Misuse(f"a function's name has 1 to {LONGEST_TITLE} characters, not {len(title)}")
    given = checked_mode(mode)
    if given is None:
        if sample is not None or lasting is not None:
            raise Misuse("sample= and lasting= do not go with mode=None, which removes the switch")
        return None
    if sample is not None:
        if given not in ("on", "shadow"):
            raise Misuse(f"sample= goes with the modes on and shadow, not with {given}")
        if isinstance(sample, bool) or not isinstance(sample, int | float) or not 0 <= sample <= 1:
            raise PolicyError("sample", sample, "it must be a share from 0 to 1")
    left = seconds(lasting)
    if left is not None and (
        isinstance(left, bool) or not isinstance(left, int | float) or not 1 <= left <= LONGEST_SWITCH
    ):
        raise PolicyError(
            "lasting", lasting, f"it must be 1 s to {LONGEST_SWITCH / 86_400:.0f} d{advice(lasting)}"
        )
    return Switch(given, sample, left)


def modes_from_environment() -> Modes:
    """From `$STAMPEDE_GUARD_MODE` and `$STAMPEDE_GUARD_MODES`. Raises `PolicyError`."""
    found: dict[str, Switch] = {}
    for item in filter(None, map(str.strip, os.environ.get(MODES_VARIABLE, "").split(","))):
        title, equals, text = item.rpartition("=")
        switch = Switch.parse(text.strip())
        if not equals or switch is None or not 0 < len(title.strip()) <= LONGEST_TITLE:
            rule = f"write FUNCTION=MODE,*=MODE with modes of {_MODES}, or on:0.1 for a tenth of the keys"
            raise PolicyError(f"${MODES_VARIABLE}", item, rule)
        found[title.strip()] = switch
    if len(found) > MOST_SWITCHES:
        raise PolicyError(f"${MODES_VARIABLE}", f"{len(found)} functions", f"at most {MOST_SWITCHES}")
    text = os.environ.get(MODE_VARIABLE, "")
    if text:
        switch = Switch.parse(text)
        if switch is None or switch.sample is not None:
            raise PolicyError(f"${MODE_VARIABLE}", text, f"it must be one of {_MODES}")
        found.setdefault(EVERYTHING, switch)
    return Modes(environment=found)
