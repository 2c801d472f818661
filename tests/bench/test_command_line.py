"""What a command line means, and what it is told when it means nothing."""

from __future__ import annotations

import pytest

from bench.herd.__main__ import parse
from bench.herd.plan import FULL, QUICK, SMOKE


def test_nothing_given_means_the_quick_run_of_three_modes() -> None:
    plan, _ = parse([])
    assert plan == QUICK
    assert plan.modes == ("local", "incident-fix", "guard")


def test_full_takes_all_modes_with_the_documented_times() -> None:
    plan, _ = parse(["--full"])
    assert plan == FULL
    assert (len(plan.modes), plan.ttl, plan.load.seconds) == (6, 24.0, 75)


def test_modes_keep_their_order_and_are_run_once_each() -> None:
    plan, _ = parse(["--smoke", "--modes", "guard,local,guard"])
    assert plan.modes == ("guard", "local")
    assert plan.ttl == SMOKE.ttl


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--modes", "local,fancy"], "unknown mode 'fancy'; choose from naive, local"),
        (["--users", "8"], "8 users are no herd on eight workers; give 60 or more"),
        (["--users", "many"], "many users are no herd"),
        (["--ttl", "soon"], "'soon' is no number of seconds"),
        (["--ttl", "-3"], "it must be more than 0"),
        (["--ttl", "nan"], "it must be more than 0"),
        (["--seconds", "inf"], "finite"),
        (["--ttl", "300"], "give at least 303 s"),
        (["--quick", "--full"], "not allowed with argument"),
    ],
)
def test_nonsense_is_answered_with_what_to_write_instead(
    given: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(given)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
