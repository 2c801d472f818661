"""The bars of durations: where each stands."""

from __future__ import annotations

from stampede_guard.ops.console.bars import FEWEST, Bars


def run(seconds: float | None, outcome: str = "completed") -> dict[str, object]:
    return {"seconds": seconds, "outcome": outcome, "slot": 0.0}


def test_the_longest_run_is_below_the_top_and_the_newest_stands_at_the_right() -> None:
    made = Bars([run(1.0), run(4.0)], width=300, height=100)
    assert made.top == 5.0
    assert [(bar.height, bar.y) for bar in made.bars] == [(20.0, 80.0), (80.0, 20.0)]
    assert made.bars[-1].x == 300 - 300 / FEWEST


def test_a_run_without_a_duration_is_still_seen() -> None:
    (bar,) = Bars([run(None, "missed")]).bars
    assert bar.height > 0


def test_a_limit_is_drawn_only_within_the_figure() -> None:
    assert Bars([run(4.0)], limit=2.5, height=100).line == 50.0
    assert Bars([run(4.0)], limit=10.0).line is None
    assert Bars([]).bars == []
