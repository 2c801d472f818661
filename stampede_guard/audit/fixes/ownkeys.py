"""`key=lambda self, day: f"sales:{self.id}:{day}"`: the key that the function had, for its decorator."""

from __future__ import annotations

import ast
import builtins
import copy
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.fills import Fill
from stampede_guard.audit.fixes.facts.stores import store_count, stored_before
from stampede_guard.audit.fixes.facts.texts import source
from stampede_guard.audit.plan import NoFix
from stampede_guard.audit.source.model import Function, Module, position
from stampede_guard.audit.source.words import path, words

_LETTERS = 4  # from this length on, a constant part of a key is searched in other files
_DEPTH = 3
# A field of `str.format` that does more than to insert its argument: "{:.1f}", "{0!r}", "{0.day}".
_ROUNDS = re.compile(r"\{\d*[^\d}]")
# `v3:thing:`: whoever changes what is stored counts it up, so it must not get lost.
_VERSION = re.compile(r"(?:^|[^a-z0-9])(?:v|ver|version|rev)[-_:.]?\d+(?![a-z0-9])", re.IGNORECASE)
_HERE_ONLY = frozenset("super locals vars globals __class__".split())
_OF_QUERIES = frozenset(
    "all filter exclude order_by annotate defer only select_related prefetch_related distinct values values_list "
    "reverse union intersection limit offset join".split()
)
# Words of a cache that may be one request's.
_OF_ONE = frozenset("context request req session local g state scope".split())
_PLAIN_METHODS = frozenset("classmethod staticmethod property".split())


def keyed_parameters(fill: Fill) -> set[str] | None:
    """The parameters in the key, each unchanged. None if the key contains anything else than them and plain text:
    a version, the name of a deployment, a rounded number. Such a key stays as it was.
    """
    function, key = fill.function, fill.read.key[0]
    if len(fill.read.key) != 1:
        return None
    if isinstance(key, ast.Name) and key.id not in function.parameters:
        made = [(at, value) for at, names, value in function.bindings if names == [key.id]]
        if len(made) != 1 or store_count(function, key.id) != 1 or not isinstance(made[0][0], ast.Assign):
            return None
        key = made[0][1]
    found: set[str] = set()
    for part in _parts(key):
        if isinstance(part, ast.Name) and part.id in function.parameters:
            found.add(part.id)
        elif not isinstance(part, ast.Constant) or _says_a_version(part):
            return None
    return found if not found & stored_before(function, fill.read.call) else None


def _says_a_version(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and _VERSION.search(str(node.value)) is not None


def parts_from_elsewhere(fill: Fill, known: set[str]) -> set[str]:
    """What the key contains beside these names: a module's variable, or a local name that has several values. Also a
    version in its text.
    """
    left, seen, found = list(fill.read.key), set[str](), set[str]()
    while left:
        part = left.pop()
        called = {
            id(node) for call in ast.walk(part) if isinstance(call, ast.Call) for node in ast.walk(call.func)
        }
        found |= {
            repr(node.value)
            for node in ast.walk(part)
            if isinstance(node, ast.Constant) and _says_a_version(node)
        }
        for node in ast.walk(part):
            if not isinstance(node, ast.Name) or id(node) in called or node.id in known | seen:
                continue
            seen.add(node.id)
            made = [value for _n, names, value in fill.function.bindings if names == [node.id]]
            if len(made) == 1 and store_count(fill.function, node.id) == 1:
                left.append(made[0])
            else:
                found.add(node.id)
    return found


def _parts(key: ast.expr) -> Iterator[ast.expr]:
    match key:
        case ast.JoinedStr(values=values):
            for value in values:
                yield from _parts(value)
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            yield from _parts(value)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _parts(left)
            yield from _parts(right)
        case ast.Call(func=ast.Name(id="str"), args=[inner], keywords=[]):
            yield from _parts(inner)
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(text)) as plain, attr="format"),
            args=args,
            keywords=[],
        ) if not _ROUNDS.search(text):
            yield plain
            for inner in args:
                yield from _parts(inner)
        case _:
            yield key


def own_key(module: Module, function: Function, read: ast.expr, key: ast.expr) -> tuple[str, set[str]]:
    """The code of the lambda, and the local names that it replaces. Raises `NoFix`."""
    spec = function.node.args
    if spec.vararg or spec.kwarg:
        raise NoFix("it takes any number of arguments, and its key has parts that are no parameters")
    replaced: set[str] = set()
    made = _inlined(function, read, copy.deepcopy(key), replaced, _DEPTH)
    if any(
        isinstance(node, ast.Await | ast.NamedExpr | ast.Yield | ast.YieldFrom) for node in ast.walk(made)
    ):
        raise NoFix("its key is computed by a coroutine, which a decorator cannot do")
    inner = {
        node.id for node in ast.walk(made) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names = {node.id for node in ast.walk(made) if isinstance(node, ast.Name)} - inner
    if names & function.parameters & stored_before(function, read):
        raise NoFix("a parameter in the key is changed before the get")
    unseen = names - function.parameters - _global_names(module) - set(dir(builtins))
    if unseen or names & _HERE_ONLY:
        raise NoFix(f"its key uses {min(unseen or names & _HERE_ONLY)}, which a decorator cannot see")
    asked = ", ".join(argument.arg for argument in function.arguments)
    code = _as_written(module, function, key, made)
    return f"key=lambda {asked}: {code}" if asked else f"key=lambda: {code}", replaced


def _as_written(module: Module, function: Function, key: ast.expr, made: ast.expr) -> str:
    """The file's own text, if the key stands there in one piece."""
    of_name = [v for _n, names, v in function.bindings if isinstance(key, ast.Name) and names == [key.id]]
    for node in (key, *of_name):
        text = source(module, node)
        if ast.dump(node) == ast.dump(made) and "\n" not in text:
            return text
    return ast.unparse(made)


def _inlined(function: Function, read: ast.expr, node: ast.expr, replaced: set[str], depth: int) -> ast.expr:
    """The expression with the values of local names in their places."""

    class Values(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            if name.id in function.parameters or not depth or not isinstance(name.ctx, ast.Load):
                return name
            found = [(at, value) for at, names, value in function.bindings if name.id in names]
            if len(found) != 1 or store_count(function, name.id) != 1:
                return name
            at, value = found[0]
            plain = isinstance(at, ast.Assign) and [path(target) for target in at.targets] == [name.id]
            if not plain or at not in function.node.body or position(at) > position(read):
                return name
            replaced.add(name.id)
            return _inlined(function, read, copy.deepcopy(value), replaced, depth - 1)

    done = Values().visit(node)
    assert isinstance(done, ast.expr)
    return done


def _global_names(module: Module) -> set[str]:
    """What a decorator of the file sees. An import inside a function, or for type checkers only, is not seen."""
    found: set[str] = set()
    for statement in module.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def refuse_cache(module: Module, function: Function, receiver: str) -> None:
    """The cache must be shared by all callers, and by all objects. Raises `NoFix`."""
    refuse_of_one_request(receiver)
    if function.cls is not None:
        _refuse_method(module, function, receiver)


def refuse_of_one_request(receiver: str) -> None:
    """`request.cache`, `per_request_cache`: what is kept for one request must not reach another one. Raises `NoFix`."""
    if _OF_ONE & set(words(receiver)):
        raise NoFix("the cache may belong to one request: others would wait for it, or get its values")


def _refuse_method(module: Module, function: Function, receiver: str) -> None:
    """A method may be cached under its own key, unless its object has a cache of its own. Raises `NoFix`."""
    name = function.name
    if name.startswith("__"):
        raise NoFix(f"Python itself calls {name}")
    if function.node.decorator_list and not all(
        path(decorator) in _PLAIN_METHODS for decorator in function.node.decorator_list
    ):
        raise NoFix("it is a method with another decorator, which would see the cached function")
    head, _, attribute = receiver.partition(".")
    if head not in ("self", "cls"):
        return
    cls = function.cls.name if function.cls is not None else ""
    made = module.attributes.get((cls, attribute), [])
    for value, where in made:
        given = where.parameters if where is not None else set()
        if any(isinstance(node, ast.Name) and node.id in given for node in ast.walk(value)):
            made = []
    if not made or "." in attribute:
        raise NoFix("each object is given a cache of its own: objects with other caches would share values")


def is_query(function: Function, value: ast.expr | None, depth: int = _DEPTH) -> bool:
    """Whether the value is a query of an ORM: `rows.filter(...)`, also by a local name, also a slice of it."""
    match value:
        case ast.Call(func=ast.Attribute(attr=method)):
            return method in _OF_QUERIES
        case ast.Subscript(value=inner, slice=ast.Slice()):
            return is_query(function, inner, depth)
        case ast.Name(id=name) if depth:
            return any(
                is_query(function, v, depth - 1) for _n, names, v in function.bindings if names == [name]
            )
        case _:
            return False


def said_in(key: str) -> str:
    """The longest constant text of a key: another file that contains it may delete these keys, or read them."""
    texts = [
        node.value
        for node in ast.walk(ast.parse(key, mode="eval"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    parts = [part for text in texts for part in text.replace("%d", "%s").split("%s")]
    longest = max(parts, key=len, default="")
    return longest if sum(map(str.isalpha, longest)) >= _LETTERS else ""
