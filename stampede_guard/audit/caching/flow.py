"""Where the value of a get goes inside one function: is it tested, is it used, is the stored value made from it?

Bindings are read in source order. The last one before a place counts, but not one in another branch of the same
`if`. That is less than data flow analysis, and enough for code that people write.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from stampede_guard.audit.caching.accesses import Access
from stampede_guard.audit.caching.work import GROWS, calls_work, growing, opens_a_file, property_works
from stampede_guard.audit.source.bound import beside_the_value, bindings_of
from stampede_guard.audit.source.branches import end_of, leaves, missing, raises_on_a_miss
from stampede_guard.audit.source.comprehensions import material, sorts
from stampede_guard.audit.source.model import Function, Module, Tested, inside, position
from stampede_guard.audit.source.words import last, names_in, path, words

# Functions that change their argument.
_COMPLETES = frozenset("merge update fill populate enrich extend apply add attach complete".split())
_EMPTY_DEPTH = 6


class Flow:
    """What happens to the value of one read, in one function."""

    def __init__(
        self, module: Module, function: Function, read: Access, reads: Iterable[Access] = ()
    ) -> None:
        self.module, self.function, self.read = module, function, read
        bound = bindings_of(module, function, read.call)
        self.bindings = sorted(bound, key=lambda one: end_of(one[0], one[2]))
        # Every name that ever held the value or something made from it.
        self.names = self._spread()
        # A read of another cache is not a computation: a local copy of the shared value is not a fill.
        self.beside = beside_the_value(function, read.call) if read.helper else set[str]()
        self.since: tuple[int, int] | None = None
        self.free = {other.call for other in reads if other.sure and not opens_a_file(other.helper)} | {
            read.call
        }
        self.tested = self._tested()
        self.since = self._asked_at()

    # ------------------------------------------------------------------------------------------- the value

    def _spread(self) -> set[str]:
        names: set[str] = set()
        for node, targets, value in self.bindings:
            if inside(self.read.call, value) or (
                names & names_in(value) and position(node) > position(self.read.call)
            ):
                if not isinstance(node, ast.With | ast.AsyncWith):
                    names.update(targets)
        return names

    def mentions(self, node: ast.AST) -> bool:
        return inside(self.read.call, node) or bool(self.names & names_in(node))

    def _tested(self) -> bool:
        for test in self.function.tests:
            condition = test.subject if isinstance(test, ast.Match) else test.test
            if self.mentions(condition) and end_of(condition) >= position(self.read.call):
                return True
        if self.read.what == "read-many":
            return bool(self.names)
        return self.decides_elsewhere()

    def _asked_at(self) -> tuple[int, int]:
        """The place after which a hit saves work. Work before the first test is always done."""
        read = position(self.read.call)
        if self.decides_elsewhere():
            return read
        return max(read, min((position(test) for test in self.asking()), default=read))

    def decides_elsewhere(self) -> bool:
        """Hit or miss is decided without an `if`: `get() or compute()`, KeyError, many keys at once."""
        return self.read.what == "read-many" or (
            self.or_compute() is not None
            or self._misses_by_exception()
            or sorts(self.bindings, self.read.call)
        )

    def asking(self) -> Iterator[Tested]:
        """The tests of the read value, without tests that only unpack it: `loads(raw) if raw else []`."""
        for test in self.function.tests:
            condition = test.subject if isinstance(test, ast.Match) else test.test
            if not self.mentions(condition) or end_of(condition) < position(self.read.call):
                continue
            if not isinstance(test, ast.IfExp) or self._falls_back(test):
                yield test

    def or_compute(self) -> ast.BoolOp | None:
        """`cache.get(key) or compute()`."""
        for node in self.module.up(self.read.call):
            if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
                return node if any(calls_work(value) for value in node.values[1:]) else None
            if isinstance(node, ast.stmt):
                return None
        return None

    def _misses_by_exception(self) -> bool:
        return raises_on_a_miss(self.read.call, self.module.up(self.read.call))

    # ------------------------------------------------------------------------------------------ the stored value

    def derived(self, value: ast.expr, at: ast.AST) -> bool:
        """Whether the stored value is made from the read one: a counter, a refresh of the TTL, an edit in place."""
        return self._derived(value, at, set())

    def _derived(self, value: ast.expr, at: ast.AST, seen: set[ast.AST]) -> bool:
        if inside(self.read.call, value):
            return not self._falls_back(value)
        fresh = {node.target.id for node in ast.walk(value) if isinstance(node, ast.NamedExpr)}
        for name in sorted((material(value) & self.names) - fresh - self.beside):
            bound = self._last_binding(name, at)
            if bound is None:
                continue
            node, source = bound
            if node in seen:
                continue
            if self._edited(name, node, at):
                return True
            if inside(self.read.call, source):
                if not self._falls_back(source):
                    return True
            elif position(node) > position(self.read.call) and self._derived(source, node, seen | {node}):
                return not self._falls_back(source)
        return False

    def _edited(self, name: str, fresh: ast.AST, at: ast.AST) -> bool:
        """Whether a hit also reaches the write, with the read value changed in place: a log, a counter in a dict."""
        before = self._last_binding(name, fresh)
        if before is None or not self._is_got(before[1], name):
            return False
        branch = next((a for a in self.module.up(fresh) if isinstance(a, ast.If)), None)
        if branch is None or inside(at, branch):
            return False
        changed = [
            call.func.value
            for call in self.function.calls
            if isinstance(call.func, ast.Attribute) and call.func.attr in GROWS
        ]
        changed += [store.value for store in self.function.stores]
        return any(
            names_in(target) & {name}
            and position(before[0]) < position(target) < position(at)
            and not inside(target, branch)
            for target in changed
        )

    def _is_got(self, value: ast.expr, name: str) -> bool:
        return inside(self.read.call, value) or bool(names_in(value) & (self.names - {name}))

    def _falls_back(self, value: ast.expr) -> bool:
        """`got or compute()`, `got if got else compute()`: made from the read value only if there is one."""
        match value:
            case ast.BoolOp(op=ast.Or(), values=values):
                return any(calls_work(other) for other in values[1:])
            case ast.IfExp(body=body, orelse=orelse):
                return calls_work(body) or calls_work(orelse)
            case ast.Await(value=inner):
                return self._falls_back(inner)
            case _:
                return False

    def computed(
        self, value: ast.expr, at: ast.AST, depth: int = _EMPTY_DEPTH, seen: frozenset[ast.AST] = frozenset()
    ) -> bool:
        """Whether the stored value was computed. Markers and arguments are not cache fills."""
        if calls_work(value, self.free) or (depth == _EMPTY_DEPTH and self.says_nothing_found(value, at)):
            return True
        if depth == 0:
            return False
        for name in names_in(value):
            if (
                self._grown(name, at)
                or self._completed(name, at, depth)
                or property_works(self.module, self.function, name)
            ):
                return True
            for node, source in self._bindings_before(name, at):
                if node in seen:
                    continue
                waits = isinstance(node, ast.AsyncFor | ast.With | ast.AsyncWith)
                if (
                    waits
                    or self._is_found(node, source, at)
                    or self.computed(source, node, depth - 1, seen | {node})
                ):
                    return True
        return False

    def says_nothing_found(self, value: ast.expr, at: ast.AST) -> bool:
        """A negative entry: `if user is None: cache.set(key, MISSING)`, after the search for the user."""
        branch = next((node for node in self.module.up(at) if isinstance(node, ast.If)), None)
        if branch is None or not any(inside(at, statement) for statement in branch.body):
            return False
        if self._answers(value, branch):
            return True
        if not isinstance(value, ast.Constant | ast.Name | ast.Attribute) or names_in(value) & {
            name for _n, names, _v in self.bindings for name in names
        }:
            return False
        asked = missing(branch.test)
        if asked is None or not isinstance(branch.body[-1], ast.Return | ast.Raise):
            return False
        return any(
            calls_work(source, self.free) and position(node) > position(self.read.call)
            for node, source in self._bindings_before(asked, branch)
        )

    def _is_found(self, node: ast.AST, source: ast.expr, at: ast.AST) -> bool:
        """`for row in query(): if fits(row): found = True`: the constant says what the search found. So does
        `if headers.get("icy"): kind = Kind.STREAM`.
        """
        if not isinstance(source, ast.Constant | ast.Attribute):
            return False
        for around in self.module.up(node):
            if around is self.function.node or inside(at, around):
                return False
            asked = around.iter if isinstance(around, ast.For) else None
            asked = around.test if isinstance(around, ast.If) and not self.mentions(around.test) else asked
            if asked is not None and self.computed(asked, around, 2):
                return True
        return False

    def _answers(self, value: ast.expr, branch: ast.If) -> bool:
        """`if missing: cache.set(key, False); return False`: a query decides between constants."""
        ends = branch.body[-1]
        if isinstance(value, ast.Tuple):
            value = value.elts[-1]  # a helper gets the key with the constant
        if not isinstance(value, ast.Constant) or not isinstance(ends, ast.Return):
            return False
        same = isinstance(ends.value, ast.Constant) and ends.value.value is value.value
        return same and any(
            position(node) > position(self.read.call) and self.computed(source, node, _EMPTY_DEPTH - 1)
            for name in names_in(branch.test)
            for node, source in self._bindings_before(name, branch)
        )

    def _in_loop_of(self, node: ast.AST, at: ast.AST) -> bool:
        """After the loop, what was bound before its `break` is seen."""
        loops = (
            around
            for around in self.module.up(node)
            if isinstance(around, ast.For | ast.AsyncFor | ast.While)
        )
        loop = next(loops, None)
        return loop is not None and inside(at, loop)

    def _bindings_before(self, name: str, at: ast.AST) -> list[tuple[ast.AST, ast.expr]]:
        """What a name may hold at a place, in any branch. Values from before the read do not count."""
        return [
            (node, value)
            for node, targets, value in self.bindings
            if name in targets
            and position(node) < position(at)
            and (self.since is None or end_of(node, value) > self.since)
            and not self.never_followed_by(node, at)
        ]

    def _grown(self, name: str, at: ast.AST) -> bool:
        """Whether it is an empty list or dict that is filled before it is stored, or a sum over a loop."""
        if name in ("self", "cls") or name in self.module.imports:
            return False
        return any(
            path(target) == name
            and position(target) < position(at)
            and (self.since is None or position(target) > self.since)
            for target in growing(self.module, self.function)
        )

    def _completed(self, name: str, at: ast.AST, depth: int) -> bool:
        """`settings = defaults.copy()`, `merge(settings, tenant.settings)`: a function adds what was computed."""
        return any(
            not _COMPLETES.isdisjoint(words(last(path(call.func))))
            and any(isinstance(given, ast.Name) and given.id == name for given in call.args)
            and (self.since or (0, 0)) < position(call) < position(at)
            and any(
                name not in names_in(given) and self.computed(given, call, depth - 1) for given in call.args
            )
            for call in self.function.calls
        )

    def _last_binding(self, name: str, at: ast.AST) -> tuple[ast.AST, ast.expr] | None:
        found: tuple[ast.AST, ast.expr] | None = None
        for node, targets, value in self.bindings:
            if name in targets and position(node) < position(at) and not self.never_followed_by(node, at):
                if found is None or not self._is_default(node, value, at):
                    found = node, value
        return found

    def _is_default(self, node: ast.AST, value: ast.expr, at: ast.AST) -> bool:
        """`if last is None: last = 0`: on a hit, the place sees the read value."""
        branch = self.module.parents.get(node)
        return (
            isinstance(value, ast.Constant)
            and isinstance(branch, ast.If)
            and not inside(at, branch)
            and self.mentions(branch.test)
        )

    def never_followed_by(self, node: ast.AST, at: ast.AST) -> bool:
        """Whether the place can never follow a binding: the binding's branch ends in a return, or the place is in
        `else`.
        """
        for around in self.module.up(node):
            if around is self.function.node:
                return False
            if isinstance(around, ast.If):
                in_body = any(inside(node, s) for s in around.body)
                branch, sibling = (around.body, around.orelse) if in_body else (around.orelse, around.body)
                if not any(inside(node, s) for s in branch):
                    continue
                if any(inside(at, s) for s in sibling):
                    return True
                if not any(inside(at, s) for s in branch) and leaves(branch[-1]):
                    return not isinstance(branch[-1], ast.Break | ast.Continue) or self._in_loop_of(node, at)
        return False

    # ------------------------------------------------------------------------------------------- the paths

    def on_hit_side(self, write: ast.AST) -> bool:
        """`if cached: ... cache.set(...)`: the write runs on a hit, not on a miss."""
        for test in self.function.tests:
            if isinstance(test, ast.If) and any(inside(write, statement) for statement in test.body):
                if self.says_hit(test.test) and position(test) > position(self.read.call):
                    return True
        return any(self._gives_up(test, write) for test in self.function.tests)

    def _gives_up(self, test: ast.AST, write: ast.AST) -> bool:
        """`if not found: return`: the statements after it use the found value."""
        return (
            isinstance(test, ast.If)
            and self._says_miss(test.test)
            and leaves(test.body[-1])
            and position(self.read.call) < position(test) < position(write)
            and not inside(write, test)
            and not self._in_a_hit(test, write)
        )

    def _in_a_hit(self, test: ast.AST, write: ast.AST) -> bool:
        """`if found is not None: if not found: return []`: this asks what the found value is, and the write is
        elsewhere.
        """
        return any(
            isinstance(around, ast.If)
            and around is not test
            and not inside(write, around)
            and self.says_hit(around.test)
            for around in self.module.up(test)
        )

    def _says_miss(self, test: ast.expr) -> bool:
        match test:
            case ast.BoolOp(op=ast.Or(), values=values):
                return any(self._says_miss(value) for value in values)
            case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
                return name in self.names and self._still_got(name, test)
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                return name in self.names and self._still_got(name, test)
            case _:
                return False

    def says_hit(self, test: ast.expr) -> bool:
        match test:
            case ast.BoolOp(op=ast.And(), values=values):
                return any(self.says_hit(value) for value in values)
            case ast.Name(id=name):
                return name in self.names and self._still_got(name, test)
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]
            ):
                return name in self.names and self._still_got(name, test)
            case _:
                return False

    def tells_misses(self) -> bool:
        """Whether some `if` tests only for hit or miss."""
        tests = [test.test for test in self.function.tests if isinstance(test, ast.If)]
        return any(self.says_hit(test) or self._says_miss(test) for test in tests)

    def _still_got(self, name: str, at: ast.AST) -> bool:
        """Whether the name can still hold the read value: `if data is None: data = f()` may be in between."""
        bound = self._last_binding(name, at)
        if bound is None:
            return False
        return inside(self.read.call, bound[1]) or self._derived(bound[1], bound[0], set())
