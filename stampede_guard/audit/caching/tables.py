"""Tables of a database that are caches, by their names or those of their models: `PageCache.objects.get(url=url)`,
`"SELECT text FROM page_cache WHERE url = :url"`.

A row is looked for, and if there is none, what it keeps is fetched and a row is made. Two callers both fetch; a unique
key only decides whose row stays.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.accesses import Access
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.words import is_cachy, last, path

TABLE = frozenset(("table",))

_MANAGERS = frozenset(("objects", "query"))
_ENDS = frozenset(
    "get first exists last latest earliest one one_or_none scalar scalar_one scalar_one_or_none scalars get_or_none "
    "filter find_one aget afirst aexists".split()
)
_MAKES = frozenset(
    "create acreate update_or_create aupdate_or_create get_or_create aget_or_create insert".split()
)
_READ = re.compile(rb"Cache\w{0,80}\.(?:objects|query|select|get|filter|get_or_none)\b")
_ASKED = re.compile(rb"(?:query|select|get)\(\s*(\w{0,80}Cache\w{0,80})")
_WRITE = re.compile(rb"Cache\w{0,80}(?:\.objects)?(?:\.\w{0,80}create|\.insert)?\(")
# In capitals: `from page_cache import ...` is no query.
_SQL_READ = r"\bSELECT\b[^;]{0,1000}?\bFROM\s+(\w*cache\w*)"
_SQL_WRITE = r"\bINSERT\b[\w\s]{0,40}?\bINTO\s+(\w*cache\w*)"
_SELECTS, _INSERTS = re.compile(_SQL_READ), re.compile(_SQL_WRITE)
_SELECTED, _INSERTED = re.compile(_SQL_READ.encode()), re.compile(_SQL_WRITE.encode())


def tables_in(data: bytes) -> list[int]:
    """The places of reads and writes of tables that a text both asks and makes rows of."""
    of_models = _of_models(data) if b"Cache" in data else []
    return sorted((*of_models, *_of_queries(data))) if b" INTO " in data else of_models


def _of_queries(data: bytes) -> list[int]:
    reads = [(found[1], found.start()) for found in _SELECTED.finditer(data)]
    writes = [(found[1], found.start()) for found in _INSERTED.finditer(data)]
    both = {name for name, _at in reads} & {name for name, _at in writes}
    return [at for name, at in (*reads, *writes) if name in both]


def _of_models(data: bytes) -> list[int]:
    reads = [(_named(data, found.start()), found.start()) for found in _READ.finditer(data)]
    reads += [(found[1], found.start()) for found in _ASKED.finditer(data)]
    if not reads:
        return []
    writes = [(_named(data, found.start()), found.start()) for found in _WRITE.finditer(data)]
    both = {name for name, _at in reads} & {name for name, _at in writes}
    return sorted(at for name, at in (*reads, *writes) if name in both)


def _named(data: bytes, at: int) -> bytes:
    """The whole name around a place inside it."""
    first, end = at, at
    while first and _is_word(data[first - 1]):
        first -= 1
    while end < len(data) and _is_word(data[end]):
        end += 1
    return data[first:end]


def _is_word(byte: int) -> bool:
    return byte == 95 or 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122


def has_tables(module: Module) -> bool:
    known: bool | None = module.memo.get("tables")
    if known is None:
        known = module.memo["tables"] = bool(tables_in(module.source.encode("utf-8", "replace")))
    return known


def table_accesses(module: Module, function: Function) -> Iterator[Access]:
    for call in function.calls:
        query = _query(call)
        if query is not None:
            yield query
            continue
        table = _made(call)
        if table:
            told = [*call.args, *(keyword.value for keyword in call.keywords)]
            value = ast.copy_location(ast.Tuple(elts=told, ctx=ast.Load()), call)
            yield Access(call, "write", table, tuple(told), value, "", TABLE, True)
        elif (table := _asked(module, call)) and last(path(call.func)) in _ENDS:
            asks_only = last(path(call.func)) in ("exists", "aexists")
            key = tuple(_compared(call))
            yield Access(call, "exists" if asks_only else "read", table, key, None, "", TABLE, True)


def _query(call: ast.Call) -> Access | None:
    """`db.fetch_val("SELECT text FROM page_cache WHERE url = :url", {"url": url})`."""
    text = next((_text(argument) for argument in call.args[:1]), "")
    read, write = _SELECTS.search(text), _INSERTS.search(text)
    told = tuple(value for argument in call.args[1:] for value in _values(argument))
    told += tuple(keyword.value for keyword in call.keywords)
    if not told or (read is None) == (write is None):
        return None
    if read is not None:
        return Access(call, "read", read[1], told, None, "", TABLE, True)
    assert write is not None
    value = ast.copy_location(ast.Tuple(elts=list(told), ctx=ast.Load()), call)
    return Access(call, "write", write[1], told, value, "", TABLE, True)


def _text(node: ast.expr) -> str:
    """A query, perhaps inside `text(...)`."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _values(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.Dict(values=values):
            return values
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return elts
        case _:
            return [node]


def are_of_one_row(read: Access, write: Access) -> bool:
    """Whether both name the table, and the new row has a value that the look asked for."""
    asked = {ast.dump(value) for value in read.key}
    return read.receiver == write.receiver and any(ast.dump(value) in asked for value in write.key)


def _made(call: ast.Call) -> str:
    """The model of `PageCache.objects.create(...)`, `PageCache(...)`; "" for anything else."""
    if len(call.keywords) < 2:
        return ""
    dotted = path(call.func)
    owner, _dot, name = dotted.rpartition(".")
    if name in _MAKES:
        return _model(owner.removesuffix(".objects"))
    return _model(dotted)


def _asked(module: Module, call: ast.Call) -> str:
    """The model that the outermost call of a chain asks."""
    around = module.parents.get(call)
    if isinstance(around, ast.Attribute) and isinstance(module.parents.get(around), ast.Call):
        return ""
    here: ast.expr = call
    while isinstance(here, ast.Call | ast.Attribute | ast.Await):
        if isinstance(here, ast.Call):
            name = last(path(here.func))
            table = _model(path(here.args[0])) if here.args and name in ("query", "select", "get") else ""
            if table:
                return table
            inner = here.args[0] if here.args and name in ("execute", "scalar", "scalars") else None
            here = inner if isinstance(inner, ast.Call) else here.func
        elif isinstance(here, ast.Attribute):
            table = _model(path(here.value))
            if table:
                return table if here.attr in _MANAGERS or any(_compared(call)) else ""
            here = here.value
        else:
            here = here.value
    return ""


def _model(dotted: str) -> str:
    name = last(dotted)
    return name if name[:1].isupper() and "Cache" in name and is_cachy(name) and "()" not in dotted else ""


def _compared(call: ast.Call) -> Iterator[ast.expr]:
    """What a look compares with: `url=url`, `PageCache.url == url`, the key of `session.get(PageCache, url)`."""
    for inner in ast.walk(call):
        if isinstance(inner, ast.Compare) and len(inner.ops) == 1 and isinstance(inner.ops[0], ast.Eq):
            yield inner.comparators[0]
        elif isinstance(inner, ast.Call):
            yield from (keyword.value for keyword in inner.keywords if keyword.arg != "defaults")
            if len(inner.args) == 2 and _model(path(inner.args[0])):
                yield inner.args[1]
