"""The short way of a hit gives the verdict that the long way gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.reuse import verdict

NAMES = (b"no-cache", b"must-revalidate", b"s-maxage", b"public", b"stale-while-revalidate", b"private")
DIRECTIVES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from([None, b"60", b"set-cookie"])), unique_by=lambda d: d[0]
)
SECONDS = st.floats(min_value=0, max_value=100)


@given(directives=DIRECTIVES, age=SECONDS, lifetime=SECONDS)
def test_what_serves_all_is_fresh_for_a_request_that_says_nothing(
    directives: list[tuple[bytes, bytes | None]], age: float, lifetime: float
) -> None:
    stored = StoredResponse(200, (), b"", age=0.0, lifetime=lifetime, directives=tuple(directives))
    if stored.serves_all(age):
        assert verdict(stored.situation(age), ()) == "fresh"
    else:
        assert age >= lifetime or b"no-cache" in dict(directives)
