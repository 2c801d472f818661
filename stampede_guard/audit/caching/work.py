"""Which expressions cost something: a query, a request, a model. Other calls only change a value's form."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from stampede_guard.audit.source.model import Function, Module, owner_class
from stampede_guard.audit.source.words import last, path, words

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
# Calls that only convert a value, or cost too little for a lock.
_SHAPES = frozenset(
    "str int float bool bytes len repr tuple list dict set frozenset sorted min max abs round "
    "sum any all zip range "
    "dumps loads dump json encode decode hexdigest isoformat strftime timestamp time now utcnow today monotonic "
    "uuid4 uuid1 uuid token_hex token_urlsafe randint random choice format join strip lower upper split replace "
    "getattr isinstance hasattr cast copy deepcopy timedelta total_seconds astuple asdict model_dump "
    "model_dump_json to_json serialize encodebytes b64encode b64decode compress jsonable_encoder "
    "items values keys "
    "get pop Decimal datetime date get_current_time perf_counter hex packb pack to_dict timezone fromtimestamp "
    "from_timestamp generate_code token_bytes randbelow randrange get_random_string generate_otp getrandbits "
    "choices Binary smart_str force_str safe_str".split()
)
# Exceptions: the same names on a database or another machine, `requests.get`, `Model.objects.get`.
_ASKS = re.compile(
    r"requests\.|httpx\.|http|network|urllib|\.objects\b|\.query\b|session\.|client\.|api\.|repo\w*\.|crud\.|service\.",
    re.I,
)
# The same by the words of a project's own name: `_decompress_data(raw)`.
_RESHAPES = frozenset(
    "compress decompress serialize serialise deserialize deserialise unpickle unpack decrypt marshal "
    "unmarshal".split()
)
# `model.encode(text)` is an embedding, `key.encode()` is not.
_ENCODERS = re.compile(r"json|msgpack|msgspec|pickle|base64|coder|codec|serializ|jwt|url", re.I)


GROWS = frozenset("append extend update add insert setdefault".split())


def growing(module: Module, function: Function) -> list[ast.expr]:
    """What is made piece by piece: `rows.append(row)`, `page["rows"].append(row)`, `page[key] = row`, and in a loop
    `total += row.amount`.
    """
    grown = [
        call.func.value
        for call in function.calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in GROWS
    ]
    grown += [store.value for store in function.stores]
    grown += [
        node.target
        for node in ast.walk(function.node)
        if isinstance(node, ast.AugAssign) and any(isinstance(a, _LOOPS) for a in module.up(node))
    ]
    return [_whole(target) for target in grown]


def _whole(target: ast.expr) -> ast.expr:
    while isinstance(target, ast.Subscript):
        target = target.value
    return target


def calls_work(node: ast.AST, free: Collection[ast.AST] = ()) -> bool:
    """Whether an expression calls anything that may cost something."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Await) and inner.value not in free:
            return True
        if isinstance(inner, ast.Call) and inner not in free and is_work(inner):
            return True
    return False


def is_work(call: ast.Call) -> bool:
    dotted = path(call.func)
    name = last(dotted)
    if name == "encode" and any(not isinstance(argument, ast.Constant) for argument in call.args):
        return not _ENCODERS.search(dotted)
    if name == "all" and isinstance(call.func, ast.Attribute) and not call.args:
        return True  # `query.all()`
    said = words(name)
    if not _RESHAPES.isdisjoint(said) or said[:1] == ("random",):
        return False
    if name in _SHAPES:
        return bool(_ASKS.search(dotted)) or (
            name == "get" and (len(call.keywords) > 0 or len(call.args) > 2)
        )
    return not name[:1].isupper() or _args_matter(call)


def property_works(module: Module, function: Function, name: str) -> bool:
    """Whether `self.name` is a property of the class that asks elsewhere."""
    owner, _dot, attribute = name.partition(".")
    cls = owner_class(function)
    if owner not in ("self", "cls") or cls is None:
        return False
    return any(
        made.cls is cls
        and any(last(path(decorator)).endswith("property") for decorator in made.node.decorator_list)
        and any(is_work(call) for call in made.calls)
        for made in module.functions_named(attribute)
    )


def _args_matter(call: ast.Call) -> bool:
    """A constructor without arguments may load something: `Settings()`, `Catalog()`."""
    return not call.args and not call.keywords


def opens_a_file(helper: str) -> bool:
    """`self.cache.read_data(name)`: a store of files that is named after its purpose."""
    said = words(helper)
    return said[:1] == ("read",) and said[-1] in ("data", "file", "text", "bytes", "content")
