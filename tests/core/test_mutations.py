"""Each rule of the core, left out: the search must find out. A rule that nothing misses would not be needed."""

from __future__ import annotations

import pytest
from tests.core.mutations import MUTATIONS
from tests.core.search import Search


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_search_notices_when_a_rule_is_left_out(name: str) -> None:
    mutation = MUTATIONS[name]
    result = Search(mutation.setup, mutation.core).run()
    print(f"{name}: {result}")
    assert result.counterexample is not None, f"{name} was not noticed in {result}"
    assert mutation.finds in result.counterexample.splitlines()[-1]


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_unchanged_core_passes_where_the_mutation_fails(name: str) -> None:
    result = Search(MUTATIONS[name].setup).run()
    assert result.counterexample is None, result.counterexample
