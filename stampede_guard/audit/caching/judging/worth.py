"""How much a herd costs, in points: what a reviewer comments on, and what he lets pass.

The facts are those that told the two apart on fills of many projects, each judged by what the other projects showed.
No single fact did.
"""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.caching.accesses import Access
from stampede_guard.audit.caching.judging.misses import Effort, Span, miss
from stampede_guard.audit.finding import Level
from stampede_guard.audit.source.model import Function, Module, inside, owner_class, position
from stampede_guard.audit.source.routes import routes
from stampede_guard.audit.source.words import last, names_in, path, words

# From so many points on, a finding is a warning.
_WARNED = 3
_MUCH, _SOME = 12, 8  # calls that do some work
# Where each call computes, and not only a herd.
_EACH_TIME = 2
_FOR_ONE = 6  # points: hardly two callers have the same key at the same time
_LISTS = 3  # queries for more than one row
_DAY = 86_400  # seconds
_DEPTH = 3
_NEAREST = 3  # the last parts of a path

_WEB = re.compile(
    r"view|route|api|endpoint|controller|handler|resource|rest|context_processor|templatetag", re.I
)
_VIEW = re.compile("View|API|Resource|Handler")
_ASIDE_PLACES = re.compile(
    r"admin|manage|command|script|migrat|cron|etl|cli\b|celery|digest|mailing|"
    r"(?:^|/)(?:metrics|prometheus|health\w*)\.py$",
    re.I,
)
_FEW_PLACES = frozenset(
    "admin admins administration backoffice staff commands scripts script migrations alembic".split()
)
# In `tasks/views.py` these are what the pages show.
_ASIDE_WORK = re.compile(r"task|job|worker|bot|consumer", re.I)
_WHOLE = re.compile(
    r"stat(?:istic)?s|popular|top_|rank|summary|leaderboard|dashboard|total|analytics|trending|metrics|tree|"
    r"graph|heatmap|report|similar|recommend|timeline|aggregat",
    re.I,
)
_USER = re.compile(
    r"user|(?<!db_)session(?!_?(?:factory|maker|local))|account|member|"
    # Those of a chain of blocks are nobody's.
    r"token(?!_?(?:ids?|names?|symbols?|suppl|pric|box|pool|pair|address|count|metadata|contract))|email|profile|owner|tenant|workspace|"
    r"customer|viewer|permission",
    re.I,
)
_USERS = frozenset("user account member profile customer viewer session".split())
_TEXTS = frozenset(
    "q query search search_term search_query term text phrase keyword keywords prompt question".split()
)
_QUERIES = ("request.GET", "request.args", "request.query_params", "request.query", "request.POST")
_HTTP_CACHES = frozenset(("http_cache", "max_age", "s_maxage"))
# The names of one thing of many: `order_id`, `slug`.
_ONE = re.compile(r"(?:^|_)(?:id|pk|slug|uuid|guid|hash|name|ip|key|address|url|height|number)$")
# What most frameworks hand in: no part of a key that callers choose.
_HANDED = frozenset(("self", "cls", "request", "db", "session", "redis", "cache", "client"))
_STAFF = re.compile(r"admin|is_staff|staff_|superuser|moderator|permission_required|roles?_required", re.I)
_STAFF_WORDS = frozenset("admin admins staff superuser moderator moderators".split())
_STAFF_TOLD = re.compile(
    r"\bfor (?:the |all )?(?:admin|staff|moderator)|\b(?:admin|administrator|staff|moderator)s? only", re.I
)
# Every user who is logged in passes the other tests.
_ROLE = re.compile(r"user\.(?:is|has)_(?!authenticated|active|anonymous|verified|valid|usable)\w+$")
_FIRST = 3  # statements that may turn callers away
_ROW_BASES = re.compile(r"^(?:Base|\w*Model|\w*Document|Entity)$")


def level_of(
    module: Module,
    function: Function | None,
    *,
    key: tuple[ast.expr, ...] = (),
    between: tuple[ast.expr, ast.expr] | None = None,
    lifetime: ast.expr | None = None,
    asked_by: tuple[Module, Function] | None = None,
) -> Level:
    """A warning if a reviewer would probably comment on the herd of this function.

    Without a key, its parameters are the key. `between` are the read and the write: a miss is what lies between them.
    `lifetime` is the call that may name how long an entry lives. `asked_by` has it computed, if it is another one.
    """
    if function is None:
        return "information"
    found = facts(module, function, key, between, lifetime)
    if asked_by is not None:
        found["serving"] |= int(serves(*asked_by) or _is_of_view(asked_by[1]))
    return "warning" if sum(found.values()) >= _WARNED else "information"


def level_unless_little(module: Module, function: Function, *, lifetime: ast.expr | None) -> Level:
    """Information only if it is seen that a miss costs little, or that few wait for it.

    For a cache on an endpoint that joins no callers at all: its work may be in a file that is not in sight.
    """
    found = facts(module, function, (), None, lifetime)
    little = any(found[fact] < 0 for fact in ("rows", "aside", "user", "text", "sent"))
    return "information" if little and sum(found.values()) < _WARNED else "warning"


def level_of_fill(module: Module, function: Function, read: Access, write: Access) -> Level:
    if _computes_what_is_given(function):
        return "warning"  # like a decorator: one definition for all that its callers compute
    return level_of(module, function, key=read.key, between=(read.call, write.call), lifetime=write.call)


def _computes_what_is_given(function: Function) -> bool:
    """`get_or_run(key, load)`, which calls `load`. `with session_factory() as session` only opens something."""
    given = function.parameters - {"self", "cls"}
    opened = [item.context_expr for block in function.withs for item in block.items]
    return any(
        isinstance(call.func, ast.Name) and call.func.id in given and call not in opened
        for call in function.calls
    )


def costs_little(module: Module, function: Function, read: Access, write: Access) -> bool:
    """Whether even a miss at each call costs little: one row, the entry of one user, or no work that shows."""
    found = facts(module, function, read.key, (read.call, write.call), write.call)
    if found["rows"] + found["user"] + found["text"] + found["sent"] < 0:
        return True
    return not _computes_what_is_given(function) and sum(found.values()) < _EACH_TIME


def facts(
    module: Module,
    function: Function,
    key: tuple[ast.expr, ...],
    between: tuple[ast.expr, ast.expr] | None,
    lifetime: ast.expr | None,
) -> dict[str, int]:
    """The points of each fact: the work of a miss, who waits for it, and how many share a key."""
    made = miss(module, function, _span(function, between))
    said, chosen = _named(module, function, key)
    one = -bool(chosen) - any(map(_ONE.search, chosen))
    return {
        **_work(function, made),
        "serving": int(serves(module, function) or _is_of_view(function)),
        "aside": -9 if _is_for_staff(function) else -3 * is_aside(module),
        # Another service is slow, and so callers of one key meet there.
        "apart": 0 if made.remote else -2 if _is_of_row(function) else one,
        "fronted": 0 if made.remote else -2 * _is_kept_by_browsers(function),
        "user": -_FOR_ONE * (any(map(_USER.search, said)) or _is_of_user(function)),
        "text": -4 * (not _TEXTS.isdisjoint(said) or _asks_for_a_text(function)),
        "sent": -_FOR_ONE * (bool(key) and _is_posted(function, chosen)),
        "day": -_lasts_a_day(module, lifetime),
    }


def _work(function: Function, made: Effort) -> dict[str, int]:
    return {
        "sums": 2 * bool(made.sums),
        "remote": 2 * bool(made.remote),
        "repeated": int(bool(made.repeated)),
        "lists": int(made.queries - made.rows >= _LISTS),
        "some": int(made.calls >= _SOME),
        "much": 2 * (made.own >= _MUCH),
        "whole": int(_WHOLE.search(function.name) is not None and not made.is_one_count),
        "rows": -2 * (made.rows >= made.queries > 0 and not made.remote and not made.sums),
    }


def serves(module: Module, function: Function) -> bool:
    """Whether requests wait for it, by the name of its file, its decorators or its parameters."""
    if routes(function.node):
        return True
    return _WEB.search(_place(module)) is not None or "request" in function.parameters


def _place(module: Module) -> str:
    """The file with its nearest folders: what is above them names the project, and not what the file does."""
    return "/".join(module.path.replace("\\", "/").split("/")[-_NEAREST:])


def is_aside(module: Module) -> bool:
    """Whether the file is for administrators, commands, tasks or monitoring, by its name."""
    place = _place(module)
    if _ASIDE_PLACES.search(place):
        return True
    return _ASIDE_WORK.search(place) is not None and not _WEB.search(place.rpartition("/")[2])


def is_for_few(module: Module, function: Function | None) -> bool:
    """Whether only administrators or commands run the code, by the names of its file and of the functions around it."""
    folders, _, file = _place(module).rpartition("/")
    named = {part for place in (*folders.split("/"), file.removesuffix(".py")) for part in words(place)}
    if not _FEW_PLACES.isdisjoint(named):
        return True
    return function is not None and any(map(_is_for_staff, function.chain()))


def _is_for_staff(function: Function) -> bool:
    """`admin_totals`, "Totals for admins.", `@admin_required`, or `if not user.is_staff: abort(403)` at first."""
    cls = owner_class(function)
    named = {*words(function.name), *(words(cls.name) if cls is not None else ())}
    if not _STAFF_WORDS.isdisjoint(named) or _STAFF_TOLD.search(_told(function)):
        return True
    if any(_STAFF.search(ast.unparse(decorator)) for decorator in function.node.decorator_list):
        return True
    return any(
        isinstance(first, ast.If)
        and not first.orelse
        and _asks_for_a_role(first.test)
        and _leaves(first.body[-1])
        for first in function.node.body[:_FIRST]
    )


def _told(function: Function) -> str:
    """The first line of its docstring."""
    return (ast.get_docstring(function.node) or "").partition("\n")[0]


def _asks_for_a_role(test: ast.expr) -> bool:
    """`not user.is_staff`, `not user.is_editor and not user.is_author`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=asked):
            said = ast.unparse(asked)
            return _STAFF.search(said) is not None or _ROLE.search(said) is not None
        case ast.BoolOp(op=ast.And(), values=values):
            return all(map(_asks_for_a_role, values))
        case _:
            return False


def _leaves(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return last(path(node.value.func)) == "abort"
    return isinstance(node, ast.Return | ast.Raise)


def _is_kept_by_browsers(function: Function) -> bool:
    """`@view_config(http_cache=3600)`, `@cache_control(max_age=60)`: browsers and proxies keep the page, too."""
    return any(
        last(path(decorator.func)) == "cache_control"
        or any(keyword.arg in _HTTP_CACHES for keyword in decorator.keywords)
        for decorator in function.node.decorator_list
        if isinstance(decorator, ast.Call)
    )


def _asks_for_a_text(function: Function) -> bool:
    """A view that reads `request.GET.get("q")`: its page is kept for each text."""
    return any(
        isinstance(call.func, ast.Attribute)
        and path(call.func.value).endswith(_QUERIES)
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value in _TEXTS
        for call in function.calls
    )


def _is_posted(function: Function, chosen: set[str]) -> bool:
    """A route for POST only, whose key is made of more than its address: of what one caller sends."""
    asked = [
        (last(path(decorator.func)), _address(decorator))
        for decorator in function.node.decorator_list
        if isinstance(decorator, ast.Call) and _address(decorator).startswith("/")
    ]
    sent = chosen - {name for _verb, address in asked for name in re.findall(r"\w+", address)}
    return bool(sent) and {verb for verb, _address in asked} == {"post"}


def _address(route: ast.Call) -> str:
    """`"/orders/{order}"`, the first argument of a route."""
    given = route.args[0] if route.args else None
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""


def _is_of_view(function: Function) -> bool:
    cls = owner_class(function)
    return cls is not None and _VIEW.search(cls.name) is not None


def _is_of_user(function: Function) -> bool:
    """A method of one user: `User.feed`. `UserService.feed` is not."""
    cls = owner_class(function)
    return cls is not None and "self" in function.parameters and not _USERS.isdisjoint(words(cls.name)[-1:])


def _is_of_row(function: Function) -> bool:
    """A method of one row of a table."""
    cls = owner_class(function)
    return (
        cls is not None
        and "self" in function.parameters
        and any(_ROW_BASES.search(last(path(base))) for base in cls.bases)
    )


def _span(function: Function, between: tuple[ast.expr, ast.expr] | None) -> Span | None:
    """From the read to the end of the write, if both are in the function and in this order."""
    if between is None or not all(inside(node, function.node) for node in between):
        return None
    start, end = position(between[0]), (between[1].end_lineno or 0, between[1].end_col_offset or 0)
    return (start, end) if start < end else None


def _named(module: Module, function: Function, key: tuple[ast.expr, ...]) -> tuple[set[str], set[str]]:
    """The names in the key, and the parameters among them.

    A parameter with a default does not count: callers that leave it out share a key. A constant key names nobody.
    """
    chosen = _required(function) - _HANDED
    if not key:
        return chosen, chosen
    if _is_fixed(module, function, key):
        return set(), set()
    names = _names(function, key)
    return names, names & chosen


def _required(function: Function) -> set[str]:
    spec = function.node.args
    given = [*spec.posonlyargs, *spec.args]
    first = {argument.arg for argument in given[: len(given) - len(spec.defaults)]}
    pairs = zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
    return first | {argument.arg for argument, default in pairs if default is None}


def _is_fixed(module: Module, function: Function, key: tuple[ast.expr, ...]) -> bool:
    """`"top_accounts"`, or a name of such a text."""
    constants = {
        name for _node, bound, value in function.bindings if isinstance(value, ast.Constant) for name in bound
    }
    constants |= {name for name, value in module.values.items() if isinstance(value, ast.Constant)}
    return all(
        isinstance(node, ast.Constant)
        or (isinstance(node, ast.Name) and node.id in constants)
        or (isinstance(node, ast.JoinedStr) and all(isinstance(part, ast.Constant) for part in node.values))
        for node in key
    )


def _names(function: Function, key: tuple[ast.expr, ...]) -> set[str]:
    """The names of a key, and what they were made from."""
    names = {name for part in key for name in _all_names(part)}
    for _ in range(_DEPTH):
        more = {
            name
            for _node, bound, value in function.bindings
            if names & set(bound)
            for name in _all_names(value)
        }
        if more <= names:
            break
        names |= more
    return names


def _all_names(node: ast.expr) -> set[str]:
    attributes = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
    return (
        names_in(node)
        | attributes
        | {str(inner.value) for inner in ast.walk(node) if isinstance(inner, ast.Constant)}
    )


def _lasts_a_day(module: Module, call: ast.AST | None) -> bool:
    if not isinstance(call, ast.Call):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(number(module, value) >= _DAY for value in given)


def number(module: Module, node: ast.expr) -> float:
    """The value of a number, a product of numbers, or a constant of the module; 0 if it is something else."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return number(module, left) * number(module, right)
        case ast.Name(id=name) if name in module.values and module.values[name] is not node:
            known = module.values[name]
            return 0.0 if isinstance(known, ast.Name) else number(module, known)
        case _:
            return 0.0
