"""Each rule of the core, left out: the search must find out. A rule that nothing misses would not be needed."""

from __future__ import annotations

import pytest

from tests.core.mutations import MUTATIONS
from tests.core.search import Search
from tests.core.setups import QUICK
from tests.core.world import Setup


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_search_notices_when_a_rule_is_left_out(name: str) -> None:
    mutation = MUTATIONS[name]
    result = Search(mutation.setup, mutation.core).run()
    print(f"{name}: {result}")
    assert result.counterexample is not None, f"{name} was not noticed in {result}"
    assert mutation.finds in result.counterexample.splitlines()[-1]


NOT_SEARCHED_ELSEWHERE = sorted({mutation.setup for mutation in MUTATIONS.values()} - set(QUICK), key=str)


@pytest.mark.parametrize("setup", NOT_SEARCHED_ELSEWHERE, ids=str)
def test_the_unchanged_core_passes_where_the_mutations_fail(setup: Setup) -> None:
    result = Search(setup).run()
    assert result.counterexample is None, result.counterexample
