"""Whether a herd is a warning or information: the work of a miss, who waits for it, and how many share a key."""

from __future__ import annotations

import pytest

from stampede_guard.audit.engine import AuditOptions, audit_source

FILL = """
def {name}(redis{parameters}):
    found = redis.get({key})
    if found is None:
        {compute}
        redis.set({key}, found, ex={ttl})
    return found
"""
MUCH = f"found = [{', '.join(f'load_{part}()' for part in 'abcdefghijklmn')}]"
ROW = "found = db.execute(select(Page).where(Page.id == id))"


def level(
    compute: str,
    *,
    path: str = "shop/pages.py",
    name: str = "pages",
    parameters: str = "",
    key: str = '"pages"',
    ttl: str = "60",
    named: frozenset[str] = frozenset(),
) -> str:
    text = FILL.format(compute=compute, name=name, parameters=parameters, key=key, ttl=ttl)
    options = AuditOptions(least="low", codes=frozenset(("SG201",)), named=named)
    (finding,) = audit_source(path, text.encode(), options).findings
    return finding.level


@pytest.mark.parametrize(
    "fill",
    [
        {"compute": MUCH},
        {"compute": "found = requests.get(ADDRESS).text", "path": "shop/views.py"},
        {"compute": "found = requests.get(ADDRESS).text", "parameters": ", request"},
        {"compute": "found = count_orders()", "name": "statistics", "path": "shop/routes/orders.py"},
    ],
)
def test_much_work_or_slow_work_that_a_request_waits_for_is_a_warning(fill: dict[str, str]) -> None:
    assert level(**fill) == "warning"


@pytest.mark.parametrize(
    "fill",
    [
        {"compute": "found = load()"},
        {"compute": ROW, "parameters": ", id", "key": 'f"page:{id}"', "path": "shop/views.py"},
        {"compute": MUCH, "parameters": ", user_id", "key": 'f"cart:{user_id}"'},
        {"compute": MUCH, "ttl": "24 * 3600"},
        {"compute": MUCH, "path": "shop/tasks.py"},
        # Folders far above say what the project is called, and not what the file does.
        {"compute": "found = requests.get(ADDRESS).text", "path": "the-api/src/shop/catalog/pages.py"},
    ],
)
def test_little_work_one_user_and_a_long_life_are_information(fill: dict[str, str]) -> None:
    assert level(**fill) == "information"


def test_a_rule_that_is_selected_by_its_full_code_warns() -> None:
    assert level("found = load()", named=frozenset(("SG201",))) == "warning"


@pytest.mark.parametrize(
    ("path", "parameters", "wanted"),
    [
        ("shop/store.py", "", "information"),
        ("shop/store.py", ", request", "warning"),
        ("shop/views.py", "", "warning"),
    ],
)
def test_keys_warns_where_requests_wait(path: str, parameters: str, wanted: str) -> None:
    text = f'def names(redis{parameters}):\n    return redis.keys("user:*")\n'
    (finding,) = audit_source(path, text.encode()).findings
    assert (finding.code, finding.level) == ("SG403", wanted)
