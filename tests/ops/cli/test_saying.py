"""What other programs have written into the store cannot steer the terminal of an operator."""

from __future__ import annotations

import json

import pytest

from stampede_guard.ops.cli.saying import json_text, printable
from tests.ops.cli.conftest import Operator

EVIL = "\x1b]0;title\x07\x1b[2Jname\x9b31m\u202egnp\u2069"


@pytest.mark.parametrize("as_json", [False, True])
async def test_a_mode_of_a_hostile_function_is_listed_as_plain_text(
    operator: Operator, as_json: bool
) -> None:
    assert (await operator.call("mode", EVIL, "bypass", "--force")).code == 0
    told = await operator.call("mode", *(["--json"] if as_json else []))
    assert "name" in told.out
    assert all(letter.isprintable() or letter == "\n" for letter in told.out)
    if as_json:
        assert EVIL in told.json, "escaped, and not changed"


async def test_an_error_that_repeats_what_was_given_is_plain_text(operator: Operator) -> None:
    told = await operator.call("jobs", "forget", EVIL)
    assert told.code != 0
    assert all(letter.isprintable() or letter == "\n" for letter in told.out + told.err)


def test_line_ends_and_letters_of_all_scripts_stay() -> None:
    assert (
        printable("a\nb \N{HEBREW LETTER ALEF} \N{GRINNING FACE}")
        == "a\nb \N{HEBREW LETTER ALEF} \N{GRINNING FACE}"
    )
    assert json.loads(json_text({EVIL: [EVIL, 1]})) == {EVIL: [EVIL, 1]}
