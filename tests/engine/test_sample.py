"""A share of entries: stable, growing, and as large as it is said to be."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from stampede_guard.engine.modes.sample import sampled
from stampede_guard.stores.switch import Switch

NAMES = [f"shop:shop.reports:0a1b2c3d4e5f:project={number}" for number in range(4000)]


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
def test_a_share_of_similar_names_is_about_that_share(share: float) -> None:
    assert abs(sum(sampled(name, share) for name in NAMES) / len(NAMES) - share) < 0.03


def test_what_is_in_a_share_is_in_every_larger_one() -> None:
    shares = [0.0, 0.05, 0.1, 0.3, 0.7, 1.0]
    inside = [{name for name in NAMES if sampled(name, share)} for share in shares]
    assert all(smaller < larger for smaller, larger in itertools.pairwise(inside))
    assert (len(inside[0]), len(inside[-1])) == (0, len(NAMES))


def test_every_process_has_the_same_share() -> None:
    program = "from stampede_guard.engine.modes.sample import sampled as s; print([s(f'k{n}', 0.3) for n in range(50)])"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str([sampled(f"k{number}", 0.3) for number in range(50)])


@pytest.mark.parametrize("text", ["bypass", "on", "off", "shadow", "on:0.1", "shadow:0.25", "on:0", "on:1"])
def test_a_switch_is_read_as_it_was_written(text: str) -> None:
    assert str(Switch.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "sometimes", "on:", "on:2", "on:-1", "on:nan", "on:0.1.2", "ON", "on 0.1", "on:" + "1" * 30]
)
def test_what_is_no_switch_is_none(text: str) -> None:
    assert Switch.parse(text) is None
