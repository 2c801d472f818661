"""Whether anything uses a finding's function: nobody waits for what nothing calls, few for what administrators see.

Names are searched in all files of the project. A name that two functions share counts as used if one of them is.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from stampede_guard.audit.caching.judging.worth import is_for_few
from stampede_guard.audit.files.discovery import is_of_tests
from stampede_guard.audit.files.project import texts_of, with_project
from stampede_guard.audit.files.reading import Unreadable, decode, read
from stampede_guard.audit.finding import Finding
from stampede_guard.audit.source.builder import build
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.words import is_cachy, last, path

# A herd needs callers that come at once, and an emptied store is missed by them. A wrong key is wrong for one caller.
_JUDGED = ("SG1", "SG2", "SG611")
_HERDS = ("SG1", "SG2")
_MOST = 40  # files with a name: it is a common word, or much used
_STEPS = 2  # callers of callers
_PLAIN_BASES = frozenset("object ABC Protocol Generic".split())
_PLAIN_DECORATORS = frozenset("staticmethod classmethod property cached_property wraps retry".split())
# `app.jobs.refresh`, `shop:load`: a text that may be the path of a function.
_PATH = re.compile(r"[\w.:/-]+")

UNUSED = "nothing in this project uses it"
FOR_FEW = "only pages of administrators, commands or tests use it"


def toned(
    findings: list[Finding], files: list[str], paths: list[str], *, named: frozenset[str]
) -> list[Finding]:
    """The findings. Warnings about functions without callers, or for few, become information that says so.

    Only for whole folders: of single files, nobody knows the callers. Rules `named` in full keep their level.
    """
    judged = [
        finding
        for finding in findings
        if finding.level == "warning" and finding.code.startswith(_JUDGED) and finding.code not in named
    ]
    if not judged or not any(map(os.path.isdir, paths)):
        return findings
    project = _Project(with_project(files, paths), paths)
    project.search({last(finding.function) for finding in judged if finding.function})
    told = {id(finding): project.told(finding) for finding in judged}
    return [
        replace(finding, level="information", message=f"{finding.message} ({why})")
        if (why := told.get(id(finding), ""))
        else finding
        for finding in findings
    ]


@dataclass(frozen=True, eq=False)
class _Use:
    module: Module
    # The outermost function around it.
    inside: Function | None


@dataclass(eq=False)
class _Project:
    files: list[str]
    paths: list[str]
    _built: dict[str, Module | None] = field(default_factory=dict)
    # The files with each name that was searched.
    _places: dict[str, list[str]] = field(default_factory=dict)
    _uses: dict[str, list[_Use] | None] = field(default_factory=dict)

    def search(self, names: set[str]) -> None:
        """Each file is read once for all these names."""
        for name in names:
            self._places[name] = []
        pattern = re.compile(rb"\b(?:%b)\b" % b"|".join(re.escape(name.encode()) for name in sorted(names)))
        for file in self.files if names else ():
            try:
                found = {name.decode() for name in pattern.findall(read(file))}
            except Unreadable:
                continue
            if found and not is_of_tests(file):
                for name in found:
                    self._places[name].append(file)

    def told(self, finding: Finding) -> str:
        """Why few callers or none wait, or ""."""
        module = self._module(finding.path)
        function = _outermost(module, finding.line) if module is not None else None
        if module is None or function is None or _is_registered(function):
            return ""
        if self._is_unused(module, function, _STEPS):
            return UNUSED
        if not finding.code.startswith(_HERDS):
            return ""
        return FOR_FEW if self._is_for_few(module, function, _STEPS) else ""

    def _is_for_few(self, module: Module, function: Function, steps: int) -> bool:
        uses = self._of(module, function) or []
        return bool(uses) and all(
            is_for_few(use.module, use.inside) or (steps > 0 and self._is_between(use, steps)) for use in uses
        )

    def _is_between(self, use: _Use, steps: int) -> bool:
        """Whether the use is in a function that few use, or none."""
        if use.inside is None or _is_registered(use.inside):
            return False
        return self._is_unused(use.module, use.inside, steps - 1) or self._is_for_few(
            use.module, use.inside, steps - 1
        )

    def _is_unused(self, module: Module, function: Function, steps: int) -> bool:
        uses = self._of(module, function)
        if uses is None or not all(self._is_left(use, steps) for use in uses):
            return False
        return bool(uses) or (self._is_imported(module) and not self._is_in_a_text(function.name))

    def _is_imported(self, module: Module) -> bool:
        """Whether another file names the module. Otherwise it may be started, or be for users of a library."""
        stem = os.path.basename(module.path).removesuffix(".py")
        if stem not in self._places:
            self.search({stem})
        return any(os.path.realpath(file) != os.path.realpath(module.path) for file in self._places[stem])

    def _is_left(self, use: _Use, steps: int) -> bool:
        """Whether the use is in a function that itself has no use."""
        return (
            use.inside is not None
            and steps > 0
            and not _is_registered(use.inside)
            and self._is_unused(use.module, use.inside, steps - 1)
        )

    def _of(self, module: Module, function: Function) -> list[_Use] | None:
        """The uses outside the function itself. None: there are too many to read."""
        found = self._named(function.name)
        if found is None:
            return None
        return [use for use in found if use.module is not module or use.inside is not function]

    def _named(self, name: str) -> list[_Use] | None:
        if name not in self._uses:
            self._uses[name] = self._read(name)
        return self._uses[name]

    def _read(self, name: str) -> list[_Use] | None:
        if name not in self._places:
            self.search({name})
        uses: list[_Use] = []
        if len(self._places[name]) > _MOST:
            return None
        for file in self._places[name]:
            module = self._module(file)
            if module is None:
                return None  # it may use the name
            uses += (_Use(module, _outermost(module, line)) for line in _lines(module, name))
        return uses

    def _is_in_a_text(self, name: str) -> bool:
        """Whether a template or a table of settings names it."""
        word = re.compile(rb"\b%b\b" % re.escape(name.encode()))
        for file in texts_of(self.paths):
            try:
                if word.search(read(file)) is not None:
                    return True
            except Unreadable:
                continue
        return False

    def _module(self, file: str) -> Module | None:
        place = os.path.realpath(file)
        if place not in self._built:
            try:
                self._built[place] = build(file, decode(read(file)))
            except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError):
                self._built[place] = None
        return self._built[place]


def _outermost(module: Module, line: int) -> Function | None:
    around = [
        function
        for function in module.functions
        if function.outer is None
        and min([function.node.lineno, *(one.lineno for one in function.node.decorator_list)]) <= line
        and line <= (function.node.end_lineno or 0)
    ]
    return around[-1] if around else None


def _is_registered(function: Function) -> bool:
    """Whether a framework may call it: a decorator that is no cache's, a class that inherits, Python's own names."""
    if function.name.startswith("__") or function.name == "main":
        return True
    decorators = [*function.node.decorator_list, *(function.cls.decorator_list if function.cls else ())]
    for decorator in decorators:
        said = path(decorator.func if isinstance(decorator, ast.Call) else decorator)
        known = last(said) in _PLAIN_DECORATORS or last(said) == "dataclass"
        if not known and not any(is_cachy(part) for part in said.split(".")):
            return True
    bases = function.cls.bases if function.cls is not None else ()
    return any(last(path(base)) not in _PLAIN_BASES for base in bases)


def _lines(module: Module, name: str) -> Iterator[int]:
    """The lines that use the name. An import alone is no use, unless it gives the name to others."""
    exports = os.path.basename(module.path) == "__init__.py"
    said = re.compile(rf"\b{re.escape(name)}\b")
    told = {
        id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)
    }  # a text that stands alone is a comment
    for node in ast.walk(module.tree):
        match node:
            case ast.Name(id=found, ctx=ast.Load()) | ast.Attribute(attr=found, ctx=ast.Load()):
                if found == name:
                    yield node.lineno
            case ast.ImportFrom(names=names):
                if any(one.name == name and (one.asname or exports) for one in names):
                    yield node.lineno
            case ast.Constant(value=str(text)) if id(node) not in told:
                if _PATH.fullmatch(text) and said.search(text):
                    yield node.lineno
            case _:
                pass
