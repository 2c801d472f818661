"""Each rule on real files: `cases/CODE/flagged` must be reported by it, `cases/CODE/clean` must not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stampede_guard.audit import all_rules, audit_source
from stampede_guard.audit.engine import AuditOptions

CASES = Path(__file__).resolve().parents[1] / "cases"
ROOT = Path(__file__).resolve().parents[3]
FLAGGED = sorted(CASES.glob("*/flagged/*.py"))
CLEAN = sorted(CASES.glob("*/clean/*.py"))


def codes(path: Path) -> list[str]:
    code = path.parts[-3]
    outcome = audit_source(path.name, path.read_bytes(), AuditOptions(codes=frozenset((code,)), least="low"))
    assert outcome.skipped == []
    return [finding.code for finding in outcome.findings]


def name(path: Path) -> str:
    return f"{path.parts[-3]}-{path.stem}"


@pytest.mark.parametrize("path", FLAGGED, ids=name)
def test_a_trap_is_reported(path: Path) -> None:
    # every decorated or defining function of the file is a trap of its own
    assert codes(path)


@pytest.mark.parametrize("path", CLEAN, ids=name)
def test_sound_code_is_left_alone(path: Path) -> None:
    assert codes(path) == []


@pytest.mark.parametrize(
    ("case", "count"),
    [
        ("SG103", 3),
        ("SG104", 2),
        ("SG105", 3),
        ("SG106", 2),
        ("SG108", 4),
        ("SG201", 5),
        ("SG202", 3),
        ("SG301", 6),
        ("SG302", 3),
        ("SG304", 3),
        ("SG306", 5),
        ("SG307", 3),
        ("SG308", 2),
        ("SG309", 2),
        ("SG310", 2),
        ("SG311", 2),
        ("SG312", 3),
        ("SG402", 2),
        ("SG404", 1),
        ("SG405", 2),
        ("SG601", 5),
        ("SG603", 3),
        ("SG604", 5),
        ("SG605", 4),
        ("SG607", 3),
        ("SG608", 4),
        ("SG609", 4),
        ("SG610", 3),
        ("SG611", 4),
        ("SG613", 3),
    ],
)
def test_each_trap_of_a_file_is_reported_once(case: str, count: int) -> None:
    largest = max(len(codes(path)) for path in (CASES / case / "flagged").glob("*.py"))
    assert largest == count


def test_every_rule_has_flagged_and_clean_files() -> None:
    wanted = {rule.code for rule in all_rules()}
    assert {path.parts[-3] for path in FLAGGED} == wanted
    assert {path.parts[-3] for path in CLEAN} == wanted


def test_the_rule_for_hand_written_fills_has_a_dozen_of_each() -> None:
    assert len(list((CASES / "SG201" / "flagged").glob("*.py"))) >= 12
    assert len(list((CASES / "SG201" / "clean").glob("*.py"))) >= 12


def test_a_rule_is_registered_by_its_file_and_named_after_it() -> None:
    files = {path.stem for path in Path("stampede_guard/audit/rules").rglob("sg*.py")}
    assert files == {f"{rule.code.lower()}_{rule.name.replace('-', '_')}" for rule in all_rules()}


def test_every_rule_documents_itself_in_full() -> None:
    for rule in all_rules():
        assert re.fullmatch(r"SG\d{3}", rule.code)
        for said in vars(rule.documentation).values():
            assert said.strip(), rule.code


def test_cashews_without_a_lock_is_shown_by_default() -> None:
    source = (CASES / "SG103" / "flagged" / "unprotected.py").read_bytes()
    shown = audit_source("x.py", source).findings
    assert len(shown) == 3


def test_a_falsy_miss_is_shown_only_if_the_code_shows_what_can_be_falsy() -> None:
    source = """
from django.core.cache import cache

def of_the_day(day):
    report = cache.get(day)
    if not report:
        report = quality.report(day)
        cache.set(day, report, 60)
    return report
"""
    counted = source.replace("report", "count")
    codes = frozenset(("SG205",))
    for text, least, found in ((source, "medium", 0), (source, "low", 1), (counted, "medium", 1)):
        outcome = audit_source("x.py", text.encode(), AuditOptions(codes=codes, least=least))  # type: ignore[arg-type]
        assert len(outcome.findings) == found


@pytest.mark.parametrize(
    ("query", "key", "found"),
    [
        ("list(Order.objects.filter(day=day))", "f'orders:{day}'", 0),
        ("list(Order.objects.filter(open=True))", "'orders'", 1),
        ("requests.get(f'https://shop/{day}').json()['orders']", "f'orders:{day}'", 1),
        ("trino.execute(orders_of(day)).fetchall()", "f'orders:{day}'", 1),
    ],
)
def test_a_falsy_miss_of_a_few_own_rows_is_not_shown(query: str, key: str, found: int) -> None:
    source = f"""
def orders_of_the_day(day):
    orders = cache.get({key})
    if not orders:
        orders = {query}
        cache.set({key}, orders, 60)
    return orders
"""
    codes = frozenset(("SG205",))
    for least, count in (("medium", found), ("low", 1)):
        outcome = audit_source("x.py", source.encode(), AuditOptions(codes=codes, least=least))  # type: ignore[arg-type]
        assert len(outcome.findings) == count


_ROW = """
from django.core.cache import cache
from shop.models import Price

def of_the_day(session, day):
    found = cache.get(f"price-{day}")
    if found is None:
        found = Price.objects.get(day=day)
        cache.set(f"price-{day}", found, 60)
    return found
"""


@pytest.mark.parametrize(
    "query",
    [
        "Price.objects.get(day=day)",
        "Price.objects.filter(pk=day).first()",
        "Price.objects.filter(day__pk=day).exists()",
        "Price.objects.get_or_create(day=day, defaults={'sum': 0})[0]",
        "Price.objects.get_or_create()[0]",
        "session.get(Price, day)",
        "session.query(Price).filter_by(day=day).first()",
        "session.query(Price).filter(Price.day == day).one_or_none()",
    ],
)
def test_a_miss_that_asks_for_one_row_is_shown_on_request_only(query: str) -> None:
    source = _ROW.replace("Price.objects.get(day=day)", query).encode()
    assert audit_source("x.py", source).findings == []
    for asked in (AuditOptions(least="low"), AuditOptions(named=frozenset(("SG201",)))):
        assert [(f.code, f.confidence) for f in audit_source("x.py", source, asked).findings] == [
            ("SG201", "low")
        ]


@pytest.mark.parametrize(
    "query",
    [
        "list(Price.objects.filter(day=day))",
        "Price.objects.filter(day=day).order_by('at').first()",
        "Price.objects.filter(day=day).latest()",
        "Price.objects.filter(text__contains=day).first()",
        "Price.objects.filter(Q(day=day) | Q(day=None)).first()",
        "Price.objects.annotate(sum=Sum('items__sum')).get(day=day)",
        "Price.objects.get(day=day).render_pages()",
        "enrich(Price.objects.get(day=day))",
        "[Price.objects.get(day=each) for each in day]",
        "(Price.objects.get(day=day), Price.objects.get(day=day.eve()))",
        "requests.get(f'https://prices/{day}', params={'day': day})",
        "client.get(day, Timeout)",
    ],
)
def test_a_miss_that_costs_more_than_one_row_is_shown(query: str) -> None:
    source = _ROW.replace("Price.objects.get(day=day)", query).encode()
    assert [(f.code, f.confidence) for f in audit_source("x.py", source).findings] == [("SG201", "high")]


def test_an_imported_function_is_judged_by_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    for said, found in (
        (
            "def look(pk):\n    return redis.get(pk)\ndef keep(pk, user):\n    redis.set(pk, user)\n",
            ["SG202"],
        ),
        ("def look(pk):\n    return pk\ndef keep(pk, user):\n    return user\n", []),
    ):
        (tmp_path / "shop" / "cache.py").write_text(f"from app import redis\n{said}", "utf-8")
        source = b"""
from .cache import keep, look

def user(pk):
    found = look(pk)
    if found is None:
        found = db.execute(pk)
        keep(pk, found)
    return found
"""
        outcome = audit_source(str(tmp_path / "shop" / "views.py"), source)
        assert [finding.code for finding in outcome.findings] == found


_ELECTS = """
import asyncio
from app import redis

async def get_cache(key, wait=True):
    found = await redis.get(key)
    if found is not None or not wait:
        return found
    if wait:
        return await _wait_for(key)

async def _wait_for(key):
    if await redis.set(f"lock:{key}", "1", nx=True, ex=10):
        return None
    await asyncio.sleep(0.1)
    return await get_cache(key)

async def set_cache(key, value):
    await redis.set(key, value, ex=60)
"""
_CALLER = """
from .cache import get_cache, set_cache

async def user(pk):
    found = await get_cache(pk)
    if found is None:
        found = await db.execute(pk)
        await set_cache(pk, found)
    return found
"""


@pytest.mark.parametrize(
    ("elects", "caller", "codes"),
    [
        (_ELECTS, _CALLER, []),
        (_ELECTS, _CALLER.replace("get_cache(pk)", "get_cache(pk, wait=False)"), ["SG202"]),
        (_ELECTS.replace(", nx=True", ""), _CALLER, ["SG202"]),
        (_ELECTS.replace("await asyncio.sleep(0.1)", "pass"), _CALLER, ["SG202"]),
        (
            _ELECTS.replace("    return await get_cache(key)", "    await redis.delete(f'lock:{key}')"),
            _CALLER,
            ["SG202"],
        ),
    ],
    ids=["waits", "told-not-to-wait", "no-lease", "no-waiting", "lease-is-freed"],
)
def test_an_imported_getter_that_lets_one_caller_through_is_a_lock(
    tmp_path: Path, elects: str, caller: str, codes: list[str]
) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "cache.py").write_text(elects, "utf-8")
    outcome = audit_source(str(tmp_path / "shop" / "views.py"), caller.encode())
    assert [finding.code for finding in outcome.findings] == codes


def test_no_safe_fix_for_a_client_of_bytes() -> None:
    source = b"""
class Orders:
    def __init__(self, redis):
        self.redis = redis

    def count(self, day):
        count = self.redis.get(day)
        if not count:
            count = count_orders(day)
            self.redis.set(day, count)
        return count
"""
    found = audit_source("x.py", source, AuditOptions(codes=frozenset(("SG205",)))).findings
    assert [finding.fix for finding in found] == ["unsafe"]


def test_the_page_the_cases_and_the_code_name_the_same_rules() -> None:
    page = (ROOT / "docs" / "audit.md").read_text("utf-8")
    in_code = {rule.code: rule.name for rule in all_rules()}
    in_table = dict(re.findall(r"^\| \[(SG\d{3})\]\(#sg\d{3}\) \| ([a-z0-9-]+) \|", page, re.MULTILINE))
    in_headings = dict(re.findall(r"^## (SG\d{3}) ([a-z0-9-]+)$", page, re.MULTILINE))
    anchors = set(re.findall(r'^<a id="(sg\d{3})"></a>$', page, re.MULTILINE))
    folders = {path.name for path in CASES.iterdir() if path.is_dir()}
    assert in_table == in_headings == in_code
    assert anchors == {code.lower() for code in in_code} and folders == set(in_code)


def test_what_the_page_says_of_a_rule_is_what_the_rule_does() -> None:
    page = (ROOT / "docs" / "audit.md").read_text("utf-8")
    rows = re.findall(r"^\| \[(SG\d{3})\].* \| (low|medium|high) \| (process|fleet) \|", page, re.MULTILINE)
    assert {code: (sure, scope) for code, sure, scope in rows} == {
        rule.code: (rule.confidence, rule.scope) for rule in all_rules()
    }


def test_every_code_named_in_the_documentation_exists() -> None:
    known = {rule.code for rule in all_rules()} | {"SG000"}
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")):
        assert set(re.findall(r"\bSG\d{3}\b", path.read_text("utf-8"))) <= known, path


def test_each_form_of_a_miss_of_dogpile_is_seen() -> None:
    source = (CASES / "SG201" / "flagged" / "region_of_dogpile.py").read_bytes()
    found = audit_source("region.py", source, AuditOptions(codes=frozenset({"SG201"}), least="low")).findings
    assert [finding.function for finding in found] == ["a", "b", "c", "d"]
