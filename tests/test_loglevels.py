"""No test changes the levels of loggers for the tests after it."""

from __future__ import annotations

import logging

import pytest

from tests.support.loglevels import as_before


@pytest.mark.parametrize("name", [None, "stampede_guard"])
def test_levels_are_as_before_also_after_an_error(name: str | None) -> None:
    logger = logging.getLogger(name)
    before = logger.level
    with pytest.raises(LookupError), as_before():
        logger.setLevel(before + 1)
        raise LookupError
    assert logger.level == before


class TestOfTwoTests:
    """The second one sees what the first one left."""

    def test_one_leaves_a_level(self) -> None:
        logging.getLogger("stampede_guard").setLevel(3)
        assert logging.getLogger("stampede_guard").level == 3

    def test_the_next_one_does_not_see_it(self) -> None:
        assert logging.getLogger("stampede_guard").level != 3
