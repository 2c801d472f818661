"""The repository's own rules, so that nobody has to remember them."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from bench.herd.valkey import ValkeyServer
from tests.support import forked

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "stampede_guard"
LONGEST_FILE = 400
LONGEST_FUNCTION = 60
LARGEST_ROOM = 15

# Private names of the guard that other objects have, too.
SHARED_NAMES = {"_current", "_functions", "_leaving", "_lock", "_pending", "_store", "_tokens"}

# A path of somebody's machine, or the address of a package index: true in one place only.
_LOCAL = re.compile(
    r"(?<![\w.:/-])/(?:root|home|Users|work|opt/(?!homebrew))/?\w"
    r"|https?://[^\s)\"']*(?:pypi\.|pythonhosted|npmjs|/simple\b)"
    r"|(?:extra-)?index-url|find-links"
)
_PRIVATE = re.compile(r"(?:\b([a-z_]\w*)|[)\]])\.(_[a-z]\w*)")
_PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+")


def modules(folder: Path = PACKAGE) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text("utf-8")


@cache
def parsed(source: str) -> ast.Module:
    """Most rules read every module. Nobody changes what this returns."""
    gc.disable()  # all nodes stay: to search them for garbage takes three times as long as to parse
    try:
        return ast.parse(source)
    finally:
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """800,000 nodes, through which the garbage collector would walk in every test that follows."""
    yield
    parsed.cache_clear()


def functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def tracked() -> list[Path]:
    """What a clone contains; in an unpacked source archive, what was archived."""
    if not (ROOT / ".git").exists():
        return [
            path for path in ROOT.rglob("*") if path.is_file() and "." not in str(path.relative_to(ROOT))[:1]
        ]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_a_file_of_the_package_is_one_noun_and_so_at_most_400_lines() -> None:
    lengths = {name: len(source.splitlines()) for name, source in modules()}
    assert lengths, "no modules found: the rule would hold for nothing"
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_a_function_of_the_package_fits_on_a_screen() -> None:
    too_long = {
        f"{name}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for name, source in modules()
        for node in functions(source)
        if (node.end_lineno or node.lineno) - node.lineno >= LONGEST_FUNCTION
    }
    assert too_long == {}


def test_a_folder_of_the_package_has_at_most_15_modules() -> None:
    rooms = Counter(name.rpartition("/")[0] for name, _source in modules())
    assert {name: count for name, count in rooms.items() if count > LARGEST_ROOM} == {}


SAME_NAME = {
    # Users know both: `stampede_guard.testing.Response`, and the term of RFC 9110.
    "Response",
    # Users know both: `stampede_guard.leases.Lease` protects work; the lease of a flight or a key is the protocol's.
    "Lease",
}


def test_a_class_name_is_defined_once_in_the_package() -> None:
    found: dict[str, set[str]] = {}
    for name, source in modules():
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).add(name)
    assert {
        name: sorted(files) for name, files in found.items() if len(files) > 1 and name not in SAME_NAME
    } == {}


def test_only_a_package_imports_our_own_modules_late() -> None:
    """Late imports keep Redis out of a process that does not use it. Each is in an `__init__`, where it is seen."""
    found = set()
    for name, source in modules():
        if name.endswith("__init__.py"):
            continue
        tree = parsed(source)
        inside = [node for function in functions(source) for node in ast.walk(function)]
        for node in inside:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE.name:
                found.add(f"{name}: {', '.join(alias.name for alias in node.names)}")
            elif isinstance(node, ast.Import):
                found |= {f"{name}: {a.name}" for a in node.names if a.name.split(".")[0] == PACKAGE.name}
        found |= {
            f"{name}: {text.value}"
            for call in ast.walk(tree)
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("import_module")
            for text in ast.walk(call)
            if isinstance(text, ast.Constant) and str(text.value).startswith(PACKAGE.name)
        }
    assert found == set()


def test_the_machine_of_a_flight_stays_small() -> None:
    """States, events, commands and `decide`: a reader has all of it in mind, and so has the search."""
    parts = [PACKAGE / "core" / f"{name}.py" for name in ("states", "events", "commands", "flight")]
    assert sum(len(part.read_text("utf-8").splitlines()) for part in parts) < 500


def test_the_core_awaits_nothing() -> None:
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    found = {
        f"{name}:{node.lineno}"
        for name, source in modules(PACKAGE / "core")
        for node in ast.walk(parsed(source))
        if isinstance(node, waiting)
    }
    assert found == set()


def test_the_rule_of_freshness_is_written_once() -> None:
    def named(node: ast.AST) -> str:
        return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""

    found = [
        name
        for name, source in modules()
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Compare)
        and [named(part) for part in (node.left, *node.comparators)]
        == ["stale_ms", "remaining_ms", "total_ms"]
    ]
    assert found == ["stampede_guard/core/entry.py"]


def test_tests_name_private_attributes_of_the_guard_in_one_file_only() -> None:
    """So a change inside the guard changes one file of the tests."""
    inside = ROOT / "tests" / "support" / "inside.py"
    names = {name for _, name in _PRIVATE.findall(inside.read_text("utf-8"))} - SHARED_NAMES
    assert "_plans" in names
    found = [
        f"{file}: {owner}.{name}"
        for file, source in modules(ROOT / "tests")
        if ROOT / file != inside
        for owner, name in _PRIVATE.findall(source)
        if owner != "self" and (name in names or owner == "guard")
    ]
    assert found == []


DOORS = {
    "engine": {"serve", "refresh", "peek", "set", "invalidate", "invalidate_tag", "watch", "within", "aclose", "close"},
    "hits": {"near", "near_finder", "ask", "ask_all", "hit", "found", "unread"},
    "modes": {
        "of", "of_caller", "samples", "of_all", "set_program", "switch", "bypassed", "bypassed_by", "shadow_report",
    },
    "runs": {"in_thread", "batch", "outdate", "compare_many", "compare_plain"},
    "judged": {
        "read", "compute", "put", "put_grant", "refresh_behind", "last_seen", "is_computing", "replaced", "is_away",
        "now",
    },
    "near": {"find", "ask", "keep"},
    "store": {"is_shared", "is_empty", "health", "check_health", "fresh_for", "note_refusal", "replaced_by", "servers"},
    "tags": {"ask", "hold", "ensure", "local", "moment"},
}  # fmt: skip
"""What faces may ask of `Engine`, and of each of its side doors. A further name needs a reason."""
BESIDE = {
    "engine": {"prefix", "hooks", "runtime", *DOORS} - {"engine"},
    "modes": {"resolver", "settle"},
    "hits": {"prefix"},
}
"""Other public attributes: side doors, what the doors use among themselves, and a way in for tests."""
FACES = ("api", "http", "integrations", "jobs", "leases", "ops", "testing")


def named_in(name: str) -> set[str]:
    """The public names of one door's class."""
    path = PACKAGE / "engine" / ("engine.py" if name == "engine" else f"doors/{name}.py")
    (door,) = [
        node
        for node in parsed(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Engine", "Door"))
    ]
    found = {node.name for node in door.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(door):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                    found.add(target.attr)
                elif isinstance(target, ast.Name) and node in door.body:
                    found.add(target.id)
    return {one for one in found if not one.startswith("_")}


@pytest.mark.parametrize("name", DOORS)
def test_a_door_of_the_engine_has_few_names(name: str) -> None:
    assert named_in(name) == DOORS[name] | BESIDE.get(name, set())
    assert len(DOORS[name]) <= 10


def test_faces_ask_the_engine_only_what_its_doors_offer() -> None:
    found = []
    for face in FACES:
        for name, source in modules(PACKAGE / face):
            for node in ast.walk(parsed(source)):
                if (
                    not isinstance(node, ast.Attribute) or "sqlalchemy" in name
                ):  # which has engines of its own
                    continue
                *_, owner = ast.unparse(node.value).replace("_engine", "engine").split(".")
                if owner == "engine" and node.attr not in DOORS["engine"] | {"prefix", "hooks", *DOORS}:
                    found.append(f"{name}:{node.lineno} {owner}.{node.attr}")
                inside = isinstance(node.value, ast.Attribute) and ast.unparse(node.value.value).endswith(
                    "engine"
                )
                if inside and owner in DOORS and node.attr not in DOORS[owner]:
                    found.append(f"{name}:{node.lineno} {owner}.{node.attr}")
    assert found == []


BEHIND_THE_DOOR = {"_runtimes", "flights", "remembered", "runtime", "session", "take_off"}


def test_faces_use_the_engine_through_its_door() -> None:
    """What `Engine` does not offer is private to it: the session of a store, flights, and the memories of a loop."""
    of_a_face = [one for face in FACES for one in modules(PACKAGE / face)]
    assert of_a_face, "no modules found: the rule would hold for nothing"
    found = [
        f"{name}:{node.lineno} .{node.attr}"
        for name, source in of_a_face
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Attribute) and node.attr in BEHIND_THE_DOOR
    ]
    # A worker of a herd in one process is one more runtime, which a flight there must find.
    assert {place.partition(":")[0] for place in found} <= {"stampede_guard/testing/seats.py"}, found


def test_every_module_of_the_package_says_what_it_is() -> None:
    assert [name for name, source in modules() if not ast.get_docstring(parsed(source))] == []


def test_nothing_tracked_names_a_machine_or_a_package_index() -> None:
    found = []
    for path in tracked():
        if path == Path(__file__).resolve():
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        lines = enumerate(text.splitlines(), 1)
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line[:120]}"
            for number, line in lines
            if _LOCAL.search(line)
        ]
    assert found == []


def test_the_constraints_are_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    stated = [line for line in lines if line and not line.startswith("#")]
    assert stated and [line for line in stated if not _PIN.fullmatch(line)] == []
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in stated]
    assert names == sorted(set(names)), "sorted, each once"


def test_the_version_of_the_package_has_its_part_of_the_changelog() -> None:
    import stampede_guard

    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## {stampede_guard.__version__}" in changelog


ELSEWHERE = {"docs/times.md"}
"""Pages whose blocks are run where what they need is: a PostgreSQL."""
PAGES = [
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if "```python" in path.read_text("utf-8") and str(path.relative_to(ROOT)) not in ELSEWHERE
]


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs_as_it_is_written(
    page: str, own_valkey: ValkeyServer, tmp_path: Path
) -> None:
    """On a server of its own: pages call their functions alike, and one must not find another's values."""
    child = forked.start("tests.documents", str(ROOT / page), own_valkey.url, log=tmp_path / "log")
    try:
        assert child.process.wait(120) == 0, child.last_words(lines=200)
    finally:
        child.kill()


_LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]*)(?:#([^)\s]*))?(?=\))")
_FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


def places(page: Path) -> set[str]:
    """What a link into the page may name: its headings, as the site and GitHub spell them, and its own marks."""
    text = _FENCED.sub("", page.read_text("utf-8"))
    titles = (
        re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)
        for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    )
    plain = (re.sub(r"[^\w\s-]", "", title.replace("`", "")).strip().lower() for title in titles)
    return {re.sub(r"[-\s]+", "-", title) for title in plain} | set(re.findall(r'<a id="([^"]+)"', text))


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in tracked() if path.suffix == ".md"])
def test_each_link_of_a_page_leads_to_a_file_and_a_heading(page: str) -> None:
    wrong = []
    for to, place in _LINK.findall(_FENCED.sub("", (ROOT / page).read_text("utf-8"))):
        target = ((ROOT / page).parent / to).resolve() if to else ROOT / page
        if not target.exists() or (place and target.suffix == ".md" and place not in places(target)):
            wrong.append(f"{to}#{place}" if place else to)
    assert wrong == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 700


def test_an_exception_of_the_floors_is_for_types_only() -> None:
    """`ignore_imports` of a layers contract: upward, such an import names a type and loads nothing."""
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layered = [one for one in contracts if one["type"] == "layers"]
    exceptions = {rule for one in layered for rule in one.get("ignore_imports", []) if ".** -> " not in rule}
    assert exceptions, "no exceptions found: the rule would hold for nothing"
    found = []
    for rule in sorted(exceptions):
        importer, _, imported = rule.partition(" -> ")
        path = ROOT.joinpath(*importer.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        # `if TYPE_CHECKING:` at the top of a module, and nothing else, imports it.
        tree = ast.parse(file.read_text("utf-8"))
        found += [rule for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == imported]
    assert found == []


def test_a_flight_decides_by_its_state_alone() -> None:
    """What a flight knows is in `core.states.FlightState`, where the search sees it: its driver has no flags."""
    tree = ast.parse((PACKAGE / "engine" / "flights" / "flight.py").read_text("utf-8"))
    flags = {
        target.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for target in ast.walk(node)
        if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
        and isinstance(target.value, ast.Name) and target.value.id == "self"
        and isinstance(node.value, ast.Constant | ast.BoolOp | ast.Compare | ast.UnaryOp)
        and not (isinstance(node.value, ast.Constant) and node.value.value is None)
    }  # fmt: skip
    assert flags == set()
