"""How much a herd costs, in points: what a reviewer comments on, and what he lets pass.

The facts are those that told the two apart on fills of 33 projects, each judged by what the other projects showed.
No single fact did.
"""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.caching.work import is_work
from stampede_guard.audit.finding import Level
from stampede_guard.audit.source.model import Function, Module, owner_class
from stampede_guard.audit.source.routes import routes
from stampede_guard.audit.source.words import names_in, path

# From so many points on, a finding is a warning.
_WARNED = 2
_MUCH, _SOME, _LITTLE = 12, 8, 6  # calls that do some work
_QUERIES, _AWAITS = 5, 3
_DAY = 86_400  # seconds
_DEPTH = 3
_NEAREST = 3  # the last parts of a path

_ASIDE = re.compile(r"^(?:self\._?)?(?:log|logger|logging|print|\w*(?:cache|redis)\w*)(?:\.|\(|$)", re.I)
_WEB = re.compile(
    r"view|route|api|endpoint|controller|handler|resource|rest|context_processor|templatetag", re.I
)
_VIEW = re.compile("View|API|Resource|Handler")
_ASIDE_PLACES = re.compile(
    r"admin|manage|command|script|migrat|cron|task|job|worker|etl|cli\b|bot|celery|consumer", re.I
)
_QUERY = re.compile(
    r"\.execute|\.objects\b|\.query\b|fetch_?(?:all|val|row|one)|scalars?\b|session\.|crud|repo\b|repository|\bdb\b|"
    r"cursor|\.filter\(|select\(|queryset|find\(",
    re.I,
)
_SLOW = re.compile(
    r"requests\.|httpx|aiohttp|urlopen|http_?client|\.post\(|api_?client|graphql|boto|elastic|opensearch|qdrant|"
    r"openai|anthropic|llm|embed|predict|inference|aggregate|annotate|Count\(|GROUP BY|group_by|\bJOIN\b|distinct"
)
_WHOLE = re.compile(
    r"stat(?:istic)?s|popular|top_|rank|summary|leaderboard|dashboard|total|analytics|trending|metrics|search|tree|"
    r"graph|heatmap|report|similar|recommend|timeline|aggregat",
    re.I,
)
_ONE = re.compile(
    r"\.first\(|\.one\(|\.get\(id|objects\.get\(|get_object_or_404|\.scalar\(|find_one|one_or_none|exists\(|"
    r"LIMIT 1\b|fetchone|get_by_id|\.get\(pk"
)
_USER = re.compile(
    r"user|session|account|member|token|email|profile|owner|tenant|workspace|customer|viewer|permission", re.I
)


def level_of(
    module: Module, function: Function | None, key: tuple[ast.expr, ...] = (), write: ast.AST | None = None
) -> Level:
    """A warning if a reviewer would probably comment on the herd of this function."""
    if function is None:
        return "information"
    return "warning" if points(module, function, key, write) >= _WARNED else "information"


def points(module: Module, function: Function, key: tuple[ast.expr, ...], write: ast.AST | None) -> int:
    """The work of a miss, who waits for it, and how many share a key."""
    work = _work(function.node)
    called = [module.callee(call, function) for call in work]
    callees = [made for made in called if made is not None and made is not function]
    in_all = len(work) + sum(len(_work(made.node)) for made in callees)
    texts = [ast.unparse(made.node) for made in (function, *callees)]
    text = "\n".join(texts)
    queries = len(_QUERY.findall(text))
    said = " ".join(_names(function, key))
    cls = owner_class(function)
    found = 2 if len(work) >= _MUCH else int(in_all >= _SOME)
    found += bool(serves(module, function) or (cls is not None and _VIEW.search(cls.name)))
    awaits = [node for node in ast.walk(function.node) if isinstance(node, ast.Await)]
    found += bool(len(awaits) >= _AWAITS or queries >= _QUERIES)
    found += bool(_WHOLE.search(function.name) or _SLOW.search(text))
    if queries == 1:
        found -= 2 if in_all <= _LITTLE else 1
    found -= _USER.search(said) is not None
    found -= _lasts_a_day(module, write)
    found -= _ONE.search(texts[0]) is not None
    found -= _ASIDE_PLACES.search(_place(module)) is not None
    return found


def serves(module: Module, function: Function) -> bool:
    """Whether requests wait for it, by the name of its file, its decorators or its parameters."""
    if routes(function.node):
        return True
    return _WEB.search(_place(module)) is not None or "request" in function.parameters


def _place(module: Module) -> str:
    """The file with its nearest folders: what is above them names the project, and not what the file does."""
    return "/".join(module.path.replace("\\", "/").split("/")[-_NEAREST:])


def _work(node: ast.AST) -> list[ast.Call]:
    return [
        inner
        for inner in ast.walk(node)
        if isinstance(inner, ast.Call) and is_work(inner) and not _ASIDE.match(path(inner.func))
    ]


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


def _lasts_a_day(module: Module, write: ast.AST | None) -> bool:
    if not isinstance(write, ast.Call):
        return False
    given = [*write.args[1:], *(keyword.value for keyword in write.keywords)]
    return any(_number(module, value) >= _DAY for value in given)


def _number(module: Module, node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _number(module, left) * _number(module, right)
        case ast.Name(id=name) if name in module.values and module.values[name] is not node:
            known = module.values[name]
            return 0.0 if isinstance(known, ast.Name) else _number(module, known)
        case _:
            return 0.0
