"""What a miss does: its queries, its requests, and what of it a loop repeats.

Functions that it calls count, too: those of the file, and those of the project that the file imports. A function that
is cached itself does not: its work is done on its own misses.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from stampede_guard.audit.caching.judging.called import called
from stampede_guard.audit.caching.work import is_work
from stampede_guard.audit.source.handed import handed
from stampede_guard.audit.source.model import Function, Module, inside, position
from stampede_guard.audit.source.words import is_cachy, last, names_in, path

# Calls that are followed, one inside the other, and how many functions in all.
_DEPTH = 3
_FUNCTIONS = 24
_FEW = 10  # rows or names that a loop goes through

_ASIDE = re.compile(r"^(?:self\._?)?(?:log|logger|logging|print|\w*(?:cache|redis)\w*)(?:\.|\(|$)", re.I)
_DATABASE = re.compile(
    r"\bobjects\b|(?<!request\.)\b(?:query|session)\b|\b(?:db|cursor|conn|connection|pool|repo|collection)\b|repository|"
    r"mongo|\.execute\w*(?:\(\)|$)|\.(?:fetch_?(?:all|one|row|val)|raw|aggregate|annotate|scalars?)$"
)
# Other services, models, warehouses, programs, and files of tables.
_REMOTE = re.compile(
    r"^requests\.|httpx|aiohttp|urlopen|\bhttp_\w+|http_?client|\.post$|api_?client|[a-z]A(?:pi|PI)\(\)|fetch_json|"
    r"graphql|\bboto|elastic|opensearch|qdrant|openai|anthropic|(?<![a-z])llm|embedding|\bembed(?:_\w+)?$|"
    r"\bpredict|inference|completions?\.|generate_content|bigquery|athena|snowflake|clickhouse|^subprocess\.|"
    r"\bread_(?:csv|parquet|excel|sql\w*)$|load_model$|from_pretrained$|(?:^|\.)(?:download|scrape|crawl)(?:_\w+)?$"
)
_BY_ADDRESS = re.compile(r"(?:session|client|http|api)\w*(?:\(\))?\.(?:get|request|fetch)$", re.I)
_ADDRESS = re.compile(r"url|uri|endpoint|address", re.I)
# The first call of a query on a model or on a relation: `Order.filter(...)`, `user.orders.all()`.
_BEGINS = frozenset(
    "filter all exclude filter_by annotate aggregate order_by select_related values_list get_or_none where find "
    "find_one select count".split()
)
# These add to a query that is still to be sent.
_STEPS = frozenset(
    "all alias asc defer desc distinct exclude execution_options filter filter_by group_by having join limit offset "
    "only options order_by outerjoin prefetch_related select_from select_related subquery using values values_list "
    "where with_entities".split()
)
# These come with a query, and are none themselves.
_AROUND = frozenset(
    "cursor connect connection get_connection acquire release begin commit rollback close flush refresh add "
    "add_all expunge".split()
)
_ANSWERS = frozenset("fetchall fetchone fetchmany fetch_all fetch_one".split())
_JOINS = frozenset(("join", "outerjoin"))
_SUMS = frozenset(
    "aggregate annotate group_by distinct having Sum Avg Count Max Min Window OuterRef Subquery".split()
)
_FUNCTIONS_OF_SQL = re.compile(r"\bfunc\.(?:sum|avg|max|min|count)$")
_ROWS = frozenset(
    "first get get_or_none exists one one_or_none scalar_one scalar_one_or_none scalar latest earliest last fetchone "
    "find_one fetchrow fetchval afirst aget aexists get_object_or_404".split()
)
_ROW_ENDS = _ROWS - {"get", "last", "exists", "latest", "aget", "aexists"}
_SQL_SUMS = re.compile(r"\bSELECT\b.*\b(?:JOIN|GROUP BY|DISTINCT|SUM\(|COUNT\(|AVG\(|MAX\()", re.S | re.I)
_SAYS_SUM = re.compile(
    r"^(?:count|sum|aggregate|rank)_\w|_(?:stats|statistics|totals|summary|counts|leaderboard|rankings?|analytics|trending)$",
    re.I,
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Span = tuple[tuple[int, int], tuple[int, int]]


@dataclass
class Effort:
    """How often a miss does what, as far as the code shows."""

    calls: int = 0
    # Of the calls: in the function itself.
    own: int = 0
    queries: int = 0
    # Of the queries: answered by one row.
    rows: int = 0
    # Joins, groups and aggregates.
    sums: int = 0
    # Of the sums: a plain COUNT of one table.
    counts: int = 0
    remote: int = 0
    # Queries, requests and functions with such inside a loop.
    repeated: int = 0

    @property
    def is_one_count(self) -> bool:
        """`Order.objects.count()`, and nothing else."""
        return self.queries == self.sums == self.counts == 1 and not self.remote and not self.repeated

    def add(self, other: Effort) -> None:
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def miss(module: Module, function: Function, between: Span | None = None) -> Effort:
    """What the function does; with `between`, what it does between a read and a write."""
    return _Counting(module).of(module, function, between, _DEPTH)


class _Counting:
    def __init__(self, asked: Module) -> None:
        self.asked = asked
        self.seen: set[Function] = set()

    def of(self, module: Module, function: Function, between: Span | None, depth: int) -> Effort:
        self.seen.add(function)
        found = Effort()
        calls = [
            call for call in function.calls if between is None or between[0] < position(call) < between[1]
        ]
        parts: set[ast.Call] = set()
        for call in calls:
            if call in parts or _ASIDE.search(path(call.func)):
                continue
            chain = _chain(call)
            parts.update(chain)
            asked = _asked(module, function, call, chain)
            if not asked.remote:
                # `pool.submit(self.orders.totals, day)` makes a call of its own.
                run = next((made for part in chain if (made := handed(part)) is not None), call)
                inner = self._called(module, function, run, depth)
                if inner is not None:
                    inner.own = 0
                    if inner.queries:
                        asked.queries = asked.rows = 0  # a query by its name is what its body sends
                    asked.add(inner)
                elif _says_sum(call):
                    asked.sums += 1
            asked.repeated += bool(asked.queries or asked.remote) and _is_repeated(module, function, call)
            found.add(asked)
        return found

    def _called(self, module: Module, function: Function, call: ast.Call, depth: int) -> Effort | None:
        if not depth or len(self.seen) >= _FUNCTIONS:
            return None
        run = called(self.asked, module, function, call)
        if run is None or run[1] in self.seen or is_cached(run[1]):
            return None
        where, callee = run
        found = self.of(where, callee, None, depth - 1)
        if where is not module:
            found.calls = 0  # what another file does besides its queries is not read as work
        return found


def is_cached(function: Function) -> bool:
    """Whether one of its decorators says cache."""
    return any(
        is_cachy(last(path(decorator.func if isinstance(decorator, ast.Call) else decorator)))
        for decorator in function.node.decorator_list
    )


def _asked(module: Module, function: Function, call: ast.Call, chain: list[ast.Call]) -> Effort:
    """What one statement's call asks for, without the functions that it runs."""
    dotted, names = path(call.func), [last(path(part.func)) for part in chain]
    works = is_work(call) and not (_continues(chain) and names[0] in _STEPS)
    found = Effort(calls=works, own=works)
    if _is_remote(module, chain):
        found.remote = 1
        return found
    counts = names[0] == "count" and not call.args
    sums = counts or not _SUMS.isdisjoint(names) or any(_sums(function, part) for part in chain)
    joins = any(name in _JOINS for name in names) and not _joins_text(chain)
    if _is_query(dotted, chain):
        found.queries = 1
        found.rows = int(not sums and not joins and not _ROWS.isdisjoint(names))
    elif names[0] in _ROW_ENDS:
        found.rows = 1  # `result.scalar_one()`: of a query that was sent before
    elif not _continues(chain) and not dotted.startswith("select()"):
        return found
    found.sums = sums + joins
    found.counts = int(counts and not joins and _SUMS.isdisjoint(names))
    return found


def _is_remote(module: Module, chain: list[ast.Call]) -> bool:
    dotted = path(chain[0].func)
    if _REMOTE.search(module.resolve(chain[0].func)) or _REMOTE.search(dotted):
        return True
    return any(_asks_an_address(part) for part in chain)


def _asks_an_address(call: ast.Call) -> bool:
    """`self.session.get(url)`, `client.request("GET", f"{base_url}/orders")`."""
    if not call.args or not _BY_ADDRESS.search(path(call.func)):
        return False
    asked = call.args[min(len(call.args), 2) - 1] if last(path(call.func)) == "request" else call.args[0]
    return _ADDRESS.search(" ".join(names_in(asked))) is not None or _text(asked).startswith("http")


def _is_query(dotted: str, chain: list[ast.Call]) -> bool:
    """Whether it sends a query, or begins one. `select(...)` is only sent by what gets it."""
    if dotted.startswith(("select()", "sa.select()")):
        return False
    first = chain[-1]
    if first is chain[0] and (
        last(dotted) in _AROUND or (last(dotted) in _ANSWERS and not (first.args or first.keywords))
    ):
        return False
    if _DATABASE.search(dotted):
        # `session.get("name")` reads the session of a browser.
        named = first.args[0] if first.args and last(path(first.func)) == "get" else None
        return not (isinstance(named, ast.Constant) and isinstance(named.value, str))
    match first.func:
        case ast.Attribute(value=ast.Name(id=name), attr=attr):
            return name[:1].isupper() and attr in _BEGINS
        case ast.Attribute(value=ast.Attribute(), attr=attr):
            return attr in _BEGINS and not _joins_text(chain)
        case _:
            return False


def _says_sum(call: ast.Call) -> bool:
    """`count_orders()`, `load_statistics(day)`: a function whose body is not seen."""
    return _SAYS_SUM.search(last(path(call.func))) is not None


def _continues(chain: list[ast.Call]) -> bool:
    """`orders = orders.filter(...)`, `self.orders.join(...)`: a step of a query that another statement began."""
    names = {last(path(part.func)) for part in chain}
    return not names.isdisjoint(_STEPS) and not _joins_text(chain)


def _joins_text(chain: list[ast.Call]) -> bool:
    """`", ".join(names)`, `sep.join(part for part in parts)`."""
    return any(
        last(path(part.func)) == "join"
        and isinstance(part.func, ast.Attribute)
        and (
            isinstance(part.func.value, ast.Constant | ast.JoinedStr)
            or (len(part.args) == 1 and isinstance(part.args[0], (*_COMPREHENSIONS, ast.List)))
        )
        for part in chain
    )


def _sums(function: Function, call: ast.Call) -> bool:
    """`aggregate(total=Sum("price"))`, `query(func.sum(Order.price))`, `execute("SELECT COUNT(*) ...")`."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    bound = [
        value
        for _node, names, value in function.bindings
        if len(names) == 1
        for name in names
        if name in {part.id for part in given if isinstance(part, ast.Name)}
    ]
    texts = [_text(part) for part in (*given, *bound)]
    return any(_SQL_SUMS.search(text) for text in texts) or any(
        last(said) in _SUMS or _FUNCTIONS_OF_SQL.search(said) is not None
        for part in given
        for node in ast.walk(part)
        if isinstance(node, ast.Call)
        for said in (path(node.func),)
    )


def _text(node: ast.expr) -> str:
    """The constant parts of a text, also of an f-string."""
    return " ".join(
        inner.value
        for inner in ast.walk(node)
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    )


def _chain(call: ast.Call) -> list[ast.Call]:
    """The calls of `a.b(...).c(...)`, the last one first."""
    found: list[ast.Call] = []
    here: ast.expr = call
    while isinstance(here, ast.Call | ast.Attribute | ast.Subscript | ast.Await):
        if isinstance(here, ast.Call):
            found.append(here)
            here = here.func
        else:
            here = here.value
    return found


def _is_repeated(module: Module, function: Function, call: ast.Call) -> bool:
    for around in module.up(call):
        if around is function.node:
            return False
        match around:
            case ast.For(iter=once) | ast.AsyncFor(iter=once):
                if not inside(call, once) and not _is_short(function, once):
                    return True
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                if not inside(call, around.generators[0].iter):
                    return True
            case _:
                pass
    return False


def _is_short(function: Function, looped: ast.expr) -> bool:
    """`for order in orders`, where `orders = ...[:5]`: a page of few rows."""
    if isinstance(looped, ast.Name):
        bound = [value for _node, names, value in function.bindings if names == [looped.id]]
        looped = bound[-1] if bound else looped
    match looped:
        case ast.Subscript(slice=ast.Slice(upper=ast.Constant(value=int(most)))):
            return most <= _FEW
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            return len(elts) <= _FEW
        case _:
            return False
