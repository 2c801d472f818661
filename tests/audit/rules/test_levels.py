"""Whether a herd is a warning or information: the work of a miss, who waits for it, and how many share a key."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from stampede_guard.audit import audit
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
        {"compute": "found = Order.objects.aggregate(Sum('price'))", "name": "total_sold"},
        {"compute": "found = Order.objects.count()", "path": "shop/views.py"},
        {"compute": "found = db.query(Order).join(Line).all()", "path": "shop/views.py"},
        {"compute": "found = [[*db.query(Line).filter_by(order=o)] for o in api_client.get()]"},
        {"compute": "found = self.session.get(f'{BASE_URL}/rates').json()", "path": "shop/views.py"},
        {"compute": "found = pd.read_csv(PRICES)", "path": "shop/views.py"},
        # Another service is slow: callers of one key meet there.
        {
            "compute": "found = requests.get(ADDRESS).text",
            "path": "shop/views.py",
            "parameters": ", order_id",
            "key": 'f"order:{order_id}"',
        },
        # Callers that leave the parameter out share a key.
        {
            "compute": "found = db.query(Order).join(Line).all()",
            "path": "shop/views.py",
            "parameters": ", id=None",
        },
        # A token of a chain of blocks is nobody's, and a key without a field is one text.
        {
            "compute": "found = Order.objects.aggregate(Sum('price'))",
            "name": "total_sold",
            "path": "shop/views.py",
            "parameters": ", tokenId",
            "key": 'f"sold:{tokenId}"',
        },
        {"compute": "found = requests.get(ADDRESS).text", "path": "shop/views.py", "key": 'f"user_pages"'},
        # In `tasks/views.py` tasks are what the page shows.
        {"compute": "found = requests.get(ADDRESS).text", "path": "shop/tasks/views.py"},
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
        {"compute": "found = Order.objects.count()", "name": "admin_statistics", "path": "shop/views.py"},
        {"compute": "found = Order.objects.count()", "path": "shop/admin/views.py"},
        {"compute": "found = Order.objects.count()", "path": "shop/web/api/metrics.py"},
        {
            "compute": "found = db.query(Order).join(Line).all()",
            "path": "shop/views.py",
            "parameters": ", q",
            "key": 'f"found:{q}"',
        },
        # A query that is built in many steps is one query.
        {
            "compute": "found = db.query(Order)\n" + "        found = found.filter(True)\n" * 14,
            "path": "shop/views.py",
        },
        {"compute": "found = session.get('basket')", "path": "shop/views.py"},
        # A page of few rows repeats little.
        {"compute": "found = [Line.objects.get(id=o.id) for o in orders[:5]]", "path": "shop/views.py"},
        # A name of sums adds nothing to one COUNT.
        {"compute": "found = Order.objects.filter(paid=True).count()", "name": "total_sold"},
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


def test_only_what_lies_between_the_get_and_the_set_is_a_miss() -> None:
    text = """
    def people(request):
        shown = Person.objects.annotate(Count("orders"))
        tags = cache.get("tags")
        if tags is None:
            tags = list(Tag.objects.all())
            cache.set("tags", tags, 600)
        return render(request, tags, shown, Order.objects.aggregate(Sum("price")))
    """
    options = AuditOptions(least="low", codes=frozenset(("SG201",)))
    source = "from django.core.cache import cache\n" + dedent(text)
    (finding,) = audit_source("shop/views.py", source.encode(), options).findings
    assert finding.level == "information"


MEMO = """
from cache_memoize import cache_memoize

@cache_memoize(300)
def {called}:
    return {made}
"""


@pytest.mark.parametrize(
    ("called", "made", "wanted"),
    [
        ("total_sold()", 'Order.objects.aggregate(Sum("price"))', "warning"),
        ("name_of(shop_id)", "Shop.objects.filter(id=shop_id).first()", "information"),
        ("lines_of(order_id)", "Line.objects.filter(order=order_id).count()", "information"),
        ("lines_of(user)", 'user.lines.annotate(Count("orders"))', "information"),
        ("address()", "OPTIONS.address", "information"),
    ],
)
def test_a_decorated_function_is_judged_by_its_work_and_its_parameters(
    called: str, made: str, wanted: str
) -> None:
    text = MEMO.format(called=called, made=made)
    (finding,) = audit_source("shop/queries.py", text.encode()).findings
    assert (finding.code, finding.level) == ("SG108", wanted)


ROUTE = """
from aiocache import cached
from shop.orders import OrderService, sold, {name}

@router.get("/orders")
@cached(ttl=60)
async def orders(service: OrderService = Depends()):
    return {made}
"""
ORDERS = """
def sold(db):
    return db.query(func.sum(Order.price)).scalar()

def one(db):
    return db.query(Order).first()

@lru_cache
def kept(db):
    return db.query(func.sum(Order.price)).scalar()

class OrderService:
    def all_of_them(self):
        return self.db.query(Order).join(Line).all()
"""


@pytest.mark.parametrize(
    ("name", "made", "wanted"),
    [
        ("sold", "sold(db)", "warning"),
        ("one", "one(db)", "information"),
        ("kept", "kept(db)", "information"),
        ("sold", "OrderService(db).all_of_them()", "warning"),
        ("sold", "service.all_of_them()", "warning"),
    ],
)
def test_functions_of_the_project_that_a_miss_calls_count(
    tmp_path: Path, name: str, made: str, wanted: str
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "orders.py").write_text(ORDERS.lstrip())
    routes = folder / "routes.py"
    routes.write_text(ROUTE.format(name=name, made=made))
    (finding,) = audit([str(routes)]).findings
    assert (finding.code, finding.level) == ("SG102", wanted)


SERVICE = """
from aiocache import cached
from shop.orders import OrderRepository

class Orders:
    def __init__(self, orders: OrderRepository | None = None):
        self.orders = orders or OrderRepository()

    @cached(ttl=60)
    async def shown(self):
        return {made}
"""
REPOSITORY = """
class OrderRepository:
    def sold(self):
        return self.db.fetch_all("SELECT shop, SUM(price) FROM orders JOIN shops GROUP BY shop")

    def names(self):
        with self.db.connection() as conn:
            cursor = conn.cursor()
            cursor.execute("SELECT name FROM shops")
            return cursor.fetchall()

    def all_of_them(self):
        return [self.sold(), *self.names(), *self.names_of_people(), *self.names_of_things()]

    def names_of_people(self):
        return self.db.fetch_all("SELECT name FROM people")

    def names_of_things(self):
        return self.db.fetch_all("SELECT name FROM things")
"""


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ("self.orders.all_of_them()", "warning"),
        ("pool.submit(self.orders.all_of_them).result()", "warning"),
        ("self.orders.names()", "information"),  # one query, and what comes with it
    ],
)
def test_methods_of_what_an_object_keeps_count(tmp_path: Path, made: str, wanted: str) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "orders.py").write_text(REPOSITORY.lstrip())
    service = folder / "service.py"
    service.write_text(SERVICE.format(made=made))
    (finding,) = audit([str(service)]).findings
    assert (finding.code, finding.level) == ("SG102", wanted)


@pytest.mark.parametrize(
    ("computes", "wanted"),
    [("load()", "warning"), ("rates(load)", "information")],
)
def test_a_helper_that_computes_what_it_is_given_is_a_warning(computes: str, wanted: str) -> None:
    assert level(f"found = {computes}", parameters=", load", key='"rates"') == wanted


@pytest.mark.parametrize(
    ("check", "wanted"),
    [
        ("pass", "warning"),
        ("if not request.user.is_authenticated:\n            return None", "warning"),
        ("if not request.user.is_staff:\n            raise Forbidden", "information"),
        ("if not user.is_editor and not user.is_author:\n            return None", "information"),
        ("'Orders for the admin dashboard.'", "information"),
        ("'Orders (staff only).'", "information"),
        ("'Orders that no administrator has seen.'", "warning"),
    ],
)
def test_pages_for_administrators_or_one_role_are_information(check: str, wanted: str) -> None:
    text = """
    from fastapi_cache.decorator import cache

    @router.get("/orders")
    @cache(expire=60)
    async def orders(request):
        {check}
        return db.query(Order).join(Line).group_by(Order.shop).all()
    """
    source = dedent(text.replace("{check}", check))
    (finding,) = audit_source("shop/routes.py", source.encode()).findings
    assert finding.level == wanted


@pytest.mark.parametrize(
    ("decorator", "text", "wanted"),
    [
        ('@view_config(name="orders")', "pass", "warning"),
        ('@view_config(name="orders", http_cache=3600)', "pass", "information"),
        ("@cache_control(max_age=60)", "pass", "information"),
        ("@require_GET", 'shown = request.GET.get("page")', "warning"),
        ("@require_GET", 'shown = request.GET.get("q")', "information"),
    ],
)
def test_pages_that_browsers_keep_or_that_show_a_text_are_information(
    decorator: str, text: str, wanted: str
) -> None:
    source = f"""
    from django.core.cache import cache

    {decorator}
    def orders(request):
        {text}
        found = cache.get("orders")
        if found is None:
            found = Order.objects.annotate(Count("lines"))
            cache.set("orders", found, 60)
        return found
    """
    (finding,) = audit_source("shop/views.py", dedent(source).encode()).findings
    assert (finding.code, finding.level) == ("SG201", wanted)


@pytest.mark.parametrize(
    ("route", "key", "wanted"),
    [
        ('post("/orders")', 'f"orders:{digest(asked)}"', "information"),
        ('post("/orders/{asked}")', 'f"orders:{digest(asked)}"', "warning"),
        ('get("/orders")', 'f"orders:{digest(asked)}"', "warning"),
        ('post("/orders")', '"orders"', "warning"),
    ],
)
def test_entries_of_what_one_caller_sends_are_information(route: str, key: str, wanted: str) -> None:
    source = f"""
    from django.core.cache import cache

    @router.{route}
    def orders(asked):
        found = cache.get({key})
        if found is None:
            found = [requests.get(ADDRESS).text, Order.objects.annotate(Count("lines"))]
            cache.set({key}, found, 60)
        return found
    """
    (finding,) = audit_source("shop/views.py", dedent(source).encode()).findings
    assert (finding.code, finding.level) == ("SG201", wanted)


@pytest.mark.parametrize(
    ("seconds", "wanted"), [("60", "warning"), ("86400", "information")], ids=["a minute", "a day"]
)
def test_a_miss_of_a_helper_is_what_the_given_function_does(seconds: str, wanted: str) -> None:
    source = f"""
    from django.core.cache import cache

    def get_or_load(key, load, seconds):
        found = cache.get(key)
        if found is None:
            found = load()
            cache.set(key, found, seconds)
        return found

    def sold():
        return Order.objects.aggregate(Sum("price"))

    def page(request):
        shown = requests.get(ADDRESS).text, Person.objects.annotate(Count("orders"))
        return render(shown, get_or_load("sold", sold, {seconds}))
    """
    options = AuditOptions(codes=frozenset(("SG202",)))
    (finding,) = audit_source("shop/views.py", dedent(source).encode(), options).findings
    assert (finding.code, finding.level) == ("SG202", wanted)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("clear_cache", "information"),
        ("rebuild_all", "information"),
        ("refresh_prices", "warning"),
        ("clear_orders", "warning"),
    ],
)
def test_who_asks_for_an_empty_store_gets_it(name: str, wanted: str) -> None:
    source = f"import redis\nclient = redis.Redis()\n\ndef {name}():\n    client.flushdb()\n"
    (finding,) = audit_source("shop/prices.py", source.encode()).findings
    assert (finding.code, finding.level) == ("SG611", wanted)


@pytest.mark.parametrize(
    ("parameters", "seconds", "wanted"),
    [
        ("request, order", "600", "information"),
        ("request, order", "30", "warning"),
        ("order", "600", "warning"),
    ],
)
def test_a_lock_that_outlasts_its_request_is_information(parameters: str, seconds: str, wanted: str) -> None:
    source = f"""
    from django.core.cache import cache

    def pay({parameters}):
        if not cache.add("lock:pay", 1, {seconds}):
            return None
        try:
            return charge(order)
        finally:
            cache.delete("lock:pay")
    """
    (finding,) = audit_source("shop/pay.py", dedent(source).encode()).findings
    assert (finding.code, finding.level) == ("SG302", wanted)


@pytest.mark.parametrize(
    ("name", "wanted"), [("once_a_minute_lock", "warning"), ("rate_limited", "information")]
)
def test_a_race_of_a_limited_rate_is_information(name: str, wanted: str) -> None:
    source = f"""
    from django.core.cache import cache

    def {name}(function):
        def wrapper(*args):
            if cache.get("running"):
                return None
            cache.set("running", "1", 60)
            return function(*args)

        return wrapper
    """
    (finding,) = audit_source("shop/rates.py", dedent(source).encode()).findings
    assert (finding.code, finding.level) == ("SG305", wanted)


@pytest.mark.parametrize(
    ("default", "wanted"),
    [
        ("lambda: Order.objects.count()", "warning"),
        ("count_all", "warning"),
        ("lambda: list(Tag.objects.all())", "information"),
    ],
)
def test_a_miss_of_get_or_set_is_its_default(default: str, wanted: str) -> None:
    text = f"""
    from django.core.cache import cache

    def count_all():
        return Order.objects.count()

    def page(request):
        sold = Order.objects.aggregate(Sum("price"))
        return render(request, sold, cache.get_or_set("number", {default}, 60))
    """
    (finding,) = audit_source("shop/views.py", dedent(text).encode()).findings
    assert (finding.code, finding.level) == ("SG105", wanted)


@pytest.mark.parametrize(
    ("key", "parameters", "compute", "wanted"),
    [
        ('"sold"', "", "Order.objects.filter(day=today()).count()", "warning"),
        ('f"sold:{user_id}"', ", user_id", "Order.objects.filter(user=user_id).count()", "information"),
        ('"examples"', "", "list(Example.objects.all())", "information"),
    ],
)
def test_a_falsy_miss_warns_without_a_herd(key: str, parameters: str, compute: str, wanted: str) -> None:
    text = f"""
    from django.core.cache import cache

    def sold(shop{parameters}):
        number = cache.get({key})
        if not number:
            number = {compute}
            cache.set({key}, number, 60)
        return number
    """
    options = AuditOptions(least="low", codes=frozenset(("SG205",)))
    (finding,) = audit_source("shop/numbers.py", dedent(text).encode(), options).findings
    assert finding.level == wanted


FLAG = """
from django.core.cache import cache

def touch(self):
    if cache.get(f"touched:{self.id}"):
        return
    cache.set(f"touched:{self.id}", 1, 300)
    %s

def refresh():
    if not cache.get("fresh"):
        Prices().load()
        cache.set("fresh", 1, 300)
"""


@pytest.mark.parametrize(
    ("work", "wanted"),
    [
        ("return Person.objects.filter(id=self.id).update(seen=now())", "information"),
        ("send_mail(self.address)", "warning"),
    ],
)
def test_a_flag_that_spares_one_update_or_is_set_after_the_work_is_information(
    work: str, wanted: str
) -> None:
    options = AuditOptions(codes=frozenset(("SG305",)))
    touch, refresh = audit_source("shop/people.py", (FLAG % work).encode(), options).findings
    assert (touch.level, refresh.level) == (wanted, "information")


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ("await service.prices()", "warning"),
        ("session.query(Price).first()", "information"),
    ],
)
def test_an_endpoint_under_fastapi_cache_is_a_warning_unless_it_is_seen_to_cost_little(
    made: str, wanted: str
) -> None:
    text = f"""
    from elsewhere import service
    from fastapi_cache.decorator import cache

    @router.get("/prices")
    @cache(expire=60)
    async def prices():
        return {made}
    """
    (finding,) = audit_source("shop/prices.py", dedent(text).encode()).findings
    assert (finding.code, finding.level) == ("SG101", wanted)


@pytest.mark.parametrize(("lifetime", "wanted"), [("60", "information"), ("timeout=300", "warning")])
def test_what_stays_for_a_minute_is_information(lifetime: str, wanted: str) -> None:
    text = f"""
    @cache.memoize({lifetime})
    def feed(board, page=1):
        return [board, page]

    def shown(board):
        return feed(board, page=2)

    def pin(board):
        db.session.add(board)
        cache.delete_memoized(feed, board)
        db.session.commit()
    """
    options = AuditOptions(codes=frozenset(("SG602", "SG603")))
    found = audit_source("shop/boards.py", dedent(text).encode(), options).findings
    assert [(finding.code, finding.level) for finding in found] == [("SG602", wanted), ("SG603", wanted)]


@pytest.mark.parametrize(
    ("made", "wanted"), [("requests.get(ADDRESS).json()", "warning"), ("price * 100", "information")]
)
def test_a_useless_cache_of_a_filter_warns_if_it_asks_anybody(made: str, wanted: str) -> None:
    text = f"@cache_memoize(60)\n@register.filter\ndef cents(price):\n    return {made}\n"
    options = AuditOptions(codes=frozenset(("SG109",)))
    (finding,) = audit_source("shop/tags.py", text.encode(), options).findings
    assert finding.level == wanted


@pytest.mark.parametrize(
    ("path", "wanted"), [("shop/rates.py", "warning"), ("shop/web/metrics.py", "information")]
)
def test_a_stored_failure_warns_where_people_wait(path: str, wanted: str) -> None:
    text = """
    from functools import lru_cache

    @lru_cache
    def rates():
        try:
            return requests.get(ADDRESS).json()
        except requests.RequestException:
            return -1
    """
    options = AuditOptions(codes=frozenset(("SG608",)))
    (finding,) = audit_source(path, dedent(text).encode(), options).findings
    assert finding.level == wanted
