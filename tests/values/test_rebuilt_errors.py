"""Exceptions of other processes: what is rebuilt, and that a record in the store makes no code run."""

from __future__ import annotations

import abc
import concurrent.futures
import contextlib
import dataclasses
import datetime
import enum
import importlib
import importlib.util
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from decimal import Decimal
from http import HTTPStatus
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import UUID

import fastapi
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stampede_guard.errors import ComputeFailed, LeaseTaken, StoreUnavailable
from stampede_guard.values import errorclasses
from stampede_guard.values.codec.likeness import difference
from stampede_guard.values.errorclasses import class_named, look_among
from stampede_guard.values.errorcopies import copy_of
from stampede_guard.values.failures import decode_failure, encode_failure
from tests.support.heap import collect

T = TypeVar("T")
HERE = __name__

ran: list[str] = []
"""The names of code that was run."""


@pytest.fixture(autouse=True)
def nothing_ran() -> Iterator[None]:
    ran.clear()
    yield
    collect()
    assert ran == []


class Plain(Exception):
    pass


class Loud(Exception):
    """Runs code of its own wherever Python lets a class do so."""

    def __init_subclass__(cls) -> None:
        ran.append("__init_subclass__")

    def __new__(cls, *args: Any) -> Loud:
        ran.append("__new__")
        return super().__new__(cls)

    def __init__(self, *args: Any) -> None:
        ran.append("__init__")

    def __setattr__(self, name: str, value: Any) -> None:
        ran.append("__setattr__")

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__"):  # the interpreter itself asks for some of these
            ran.append("__getattribute__")
        return super().__getattribute__(name)

    def __setstate__(self, state: Any) -> None:
        ran.append("__setstate__")

    def __reduce__(self) -> Any:
        ran.append("__reduce__")
        return super().__reduce__()

    @property
    def rows(self) -> Any:
        ran.append("property")
        return None

    @rows.setter
    def rows(self, value: Any) -> None:
        ran.append("setter")

    def __str__(self) -> str:
        ran.append("__str__")
        return ""


class Descriptor:
    def __get__(self, instance: Any, owner: Any) -> Any:
        ran.append("__get__")

    def __set__(self, instance: Any, value: Any) -> None:
        ran.append("__set__")


class Described(Exception):
    field = Descriptor()


class Dying(Exception):
    def __del__(self) -> None:
        ran.append("__del__")


class LoudMeta(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        ran.append("metaclass __call__")
        return super().__call__(*args, **kwargs)

    def __getattribute__(cls, name: str) -> Any:
        ran.append("metaclass __getattribute__")
        return super().__getattribute__(name)


class WithMeta(Exception, metaclass=LoudMeta):
    pass


class Dictionary(Exception):
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        ran.append("__dict__")
        return {}


class NoException:
    def __init__(self) -> None:
        ran.append("NoException")


class Group(ExceptionGroup[Exception]):
    def __new__(cls, *args: Any) -> Group:
        ran.append("group __new__")
        return super().__new__(cls, *args)


class Outer:
    class Inner(Exception):
        pass

    function = print
    alias = os


class Abstract(Exception, abc.ABC):
    @abc.abstractmethod
    def method(self) -> None: ...


class Typed(Exception, Generic[T]):
    pass


class Slotted(Plain):
    __slots__ = ("_hidden", "rows")


class Weak(Exception):
    __slots__ = ("__weakref__", "one")


class Mixed(OSError, LookupError):
    pass


@dataclasses.dataclass
class Record(Exception):
    article: str
    left: int


class Secretive(Exception):
    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self.password = password

    def __str__(self) -> str:
        return "no such user"


class Explained(Exception):
    def __init__(self, token: str) -> None:
        super().__init__("the token is too old")


class InvalidApiKey(Exception):
    pass


class RefusedToken(Exception):
    def __init__(self, value: str) -> None:
        self.value = value

    def __str__(self) -> str:
        return "refused"


class NotFound(fastapi.HTTPException):
    pass


def record(name: Any, module: Any = HERE, **fields: Any) -> bytes:
    """What somebody who can write to the store may put there."""
    return msgspec.json.encode(
        {"type": "X", "message": "m", "made": {"module": module, "name": name, **fields}}
    )


def with_attributes(error: Any, **attributes: Any) -> Any:
    error.__dict__.update(attributes)
    return error


def with_slots(error: Any, **slots: Any) -> Any:
    for name, value in slots.items():
        setattr(error, name, value)
    return error


def noted(error: Any) -> Any:
    error.add_note("a note")
    return error


class State(enum.Enum):
    SOLD = "sold"
    GONE = object()

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise AssertionError("the class was called")


class Size(enum.StrEnum):
    LARGE = "l"


class Rank(enum.IntEnum):
    HIGH = 1
    TOP = 1


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Choices(enum.EnumType):
    """As Django's: more attributes of the class, and the usual way to find them."""

    @property
    def labels(cls) -> list[str]:
        raise AssertionError("the metaclass was asked")


class Sort(enum.StrEnum, metaclass=Choices):
    TEA = "tea"


class Asked(enum.EnumType):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__qualname__", "_member_map_"):
            ran.append("metaclass")
        return super().__getattribute__(name)


class Strange(enum.Enum, metaclass=Asked):
    ONE = 1


ran.clear()


TRAVEL: dict[str, Callable[[], Exception]] = {
    "arguments": lambda: Plain("x", 1, -1.5, True, None, [1, (2, "3")], {"a": {"b": ()}}),
    "values": lambda: Plain(
        UUID(int=1), Decimal("1.10"), datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        datetime.datetime(2026, 1, 2, 3, 4, 5, 6), datetime.date(2026, 1, 2), HTTPStatus.GONE,
    ),
    "attributes": lambda: with_attributes(Plain(), rows=[1], by={"t": 1}, _own="x"),
    "notes": lambda: noted(Plain("x")),
    "slots": lambda: with_slots(Slotted(), _hidden=(1,), rows=[2]),
    "a slot that was never set": lambda: with_slots(Slotted("x"), rows=1),
    "weak": lambda: with_slots(Weak(), one=1),
    "nested class": lambda: Outer.Inner("x"),
    "abstract base": lambda: copy_of(Abstract.__new__(Abstract)) or Plain(),
    "generic": lambda: Typed("x"),
    "dataclass": lambda: Record("tea", 3),
    "key": lambda: KeyError(("a", 1)),
    "value": lambda: ValueError("x"),
    "file": lambda: FileNotFoundError(2, "missing", "a.txt"),
    "two files": lambda: OSError(18, "cross-device", "a", None, "b"),
    "time-out": lambda: TimeoutError("late"),
    "two bases": lambda: Mixed(2, "missing"),
    "import": lambda: ImportError("no x", name="x", path="/x"),
    "name": lambda: NameError("no x", name="x"),
    "group": lambda: ExceptionGroup("two", [Plain("a"), ExceptionGroup("one", [KeyError("b")])]),
    "http": lambda: fastapi.HTTPException(404, {"loc": ["a", 1]}, {"X-A": "1"}),
    "http subclass": lambda: with_attributes(NotFound(404, "no"), rows=(1,)),
    "status in an enum": lambda: fastapi.HTTPException(HTTPStatus.GONE),
    "mutable default": lambda: Plain({}),
    "enums": lambda: with_attributes(
        Plain(State.SOLD, [Size.LARGE]), rows=Rank.HIGH, by={"s": Rank.TOP, "t": (Sort.TEA,)}
    ),
}  # fmt: skip


def fields(error: Any) -> dict[str, Any]:
    names = (
        "errno",
        "strerror",
        "filename",
        "filename2",
        "name",
        "path",
        "msg",
        "rows",
        "_hidden",
        "one",
        "message",
    )
    return {name: getattr(error, name) for name in names if hasattr(error, name)}


@pytest.mark.parametrize("make", TRAVEL.values(), ids=TRAVEL)
def test_an_exception_arrives_with_type_arguments_and_attributes(make: Callable[[], Exception]) -> None:
    original: Any = make()
    data = encode_failure(original)
    assert data is not None
    error: Any = decode_failure(data)
    assert_same(original, error)
    copied = copy_of(error)
    assert copied is not None
    assert_same(original, copied)
    assert error.__cause__ is None and error.__traceback__ is None


def assert_same(original: Any, error: Any) -> None:
    assert type(error) is type(original)
    if isinstance(original, ExceptionGroup):
        assert error.message == original.message
        for one, other in zip(original.exceptions, error.exceptions, strict=True):
            assert_same(one, other)
    else:
        assert difference(list(original.args), list(error.args)) is None
        assert (str(error), repr(error)) == (str(original), repr(original))
    assert difference(vars(original), vars(error)) is None
    assert difference(fields(original), fields(error)) is None


def invalid() -> Exception:
    class Model(pydantic.BaseModel):
        number: int

    try:
        Model(number="x")  # type: ignore[arg-type]
    except pydantic.ValidationError as error:
        return error
    raise AssertionError


class Text(str):
    __slots__ = ()


STAY: dict[str, Callable[[], Exception]] = {
    "an object": lambda: Plain(object()),
    "an object within": lambda: Plain({"a": [object()]}),
    "an attribute": lambda: with_attributes(Plain(), connection=object()),
    "a text of a subclass": lambda: Plain(Text("x")),
    "a key that is no text": lambda: Plain({1: 2}),
    "bytes": lambda: Plain(b"x"),
    "flags together": lambda: Plain(Rights.READ | Rights.WRITE),
    "an enum whose class looks up names itself": lambda: Plain(Strange.ONE),
    "a large number": lambda: Plain(2**70),
    "no number": lambda: Plain(float("nan")),
    "too deep": lambda: Plain(deep(30)),
    "too many": lambda: Plain([0] * 5_000),
    "too long": lambda: Plain("x " * 10_000),
    "a circle": lambda: with_attributes(error := Plain(), me=error),
    "half a character": lambda: Plain("\ud800"),
    "a local time": lambda: Plain(datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))),
    "pydantic": invalid,
    "decoding": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"),
    "syntax": lambda: SyntaxError("x", ("a.py", 1, 1, "a b")),
    "memory": MemoryError,
    "generator": lambda: StopAsyncIteration(1),
    "futures": concurrent.futures.CancelledError,
    "ours": lambda: StoreUnavailable("away"),
    "a lease": lambda: LeaseTaken("x", holder="y", token=1, remaining=2.0),
    "in a group": lambda: ExceptionGroup("x", [Plain("a"), Plain(object())]),
    "a method hidden": lambda: with_attributes(Plain(), add_note="x"),
    "a redirect": lambda: with_attributes(Plain(), headers={"location": "https://x.org/?token=s3cret-value"}),
}  # fmt: skip


def deep(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


@pytest.mark.parametrize("make", STAY.values(), ids=STAY)
def test_what_cannot_travel_whole_arrives_as_compute_failed(make: Callable[[], Exception]) -> None:
    original = make()
    data = encode_failure(original)
    assert data is not None and b'"made":{' not in data
    error = decode_failure(data)
    assert isinstance(error, ComputeFailed) and error.type_name == type(original).__name__


def test_the_status_of_what_cannot_travel_is_kept() -> None:
    for status, arrives in ((404, 404), (HTTPStatus.GONE, 410), ("409", 409), (200, None), ("x", None)):
        data = encode_failure(with_attributes(Plain(object()), status_code=status))
        error = decode_failure(data or b"")
        assert isinstance(error, ComputeFailed) and error.status_code == arrives
        again = decode_failure(encode_failure(error) or b"")
        assert isinstance(again, ComputeFailed) and again.status_code == arrives


def test_a_dying_or_unusual_class_is_never_made() -> None:
    for name in ("WithMeta", "Dictionary", "Dying"):
        assert_nothing_ran(record(name, args=[1], attributes={"a": 1}))


# --- records that somebody else wrote ---------------------------------------------------------------------


def assert_nothing_ran(data: bytes) -> None:
    error = decode_failure(data)
    copied = copy_of(error)
    assert type(error) is ComputeFailed and type(copied) is ComputeFailed
    del error, copied
    collect()
    assert ran == []


@pytest.mark.parametrize("name", ["Loud", "Described", "Group"])
def test_of_a_class_with_code_everywhere_no_code_runs(name: str) -> None:
    members = [{"module": HERE, "name": "Plain"}] if name == "Group" else []
    data = record(
        name, args=[1], attributes={"rows": 1, "field": 2}, notes=["n"], members=members, message="m"
    )
    error = decode_failure(data)
    copied = copy_of(error)
    assert type(error) is globals()[name] and type(copied) is globals()[name]
    # The attributes are there, but what the class defines under their names wins.
    assert vars(BaseException)["__dict__"].__get__(error)["rows"] == 1


@contextlib.contextmanager
def imports_of_this_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The modules that this thread looks for. Other threads of the process may import what they like."""
    here, imported = threading.get_ident(), list[str]()

    class Recorder:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            if threading.get_ident() == here:
                imported.append(name)

    with monkeypatch.context() as patched:
        patched.setattr(sys, "meta_path", [Recorder, *sys.meta_path])
        yield imported


HOSTILE: dict[str, bytes] = {
    "a function": record("system", "os"),
    "a class that is no exception": record("NoException"),
    "a class of the library that is no exception": record("Popen", "subprocess"),
    "an object": record("ran"),
    "a module in a module": record("path.join", "os"),
    "a class in a module in a module": record("exceptions.HTTPException", "fastapi"),
    "a class in a module in a class": record("Outer.alias.error"),
    "a function in a class": record("Outer.function"),
    "another name of a class": record("HTTPException", "fastapi"),
    "an imported class": record("ComputeFailed"),
    "not there": record("Nothing"),
    "a module that is not imported": record("LibraryError", "this_is_not_imported"),
    "a module that can be imported": record("BadZipFile", "antigravity"),
    "the exit": record("SystemExit", "builtins", args=[3]),
    "Ctrl-C": record("KeyboardInterrupt", "builtins"),
    "a cancellation": record("CancelledError", "asyncio.exceptions"),
    "a cancelled future": record("CancelledError", "concurrent.futures._base"),
    "a closed generator": record("GeneratorExit", "builtins"),
    "the end of a generator": record("StopIteration", "builtins", args=[1]),
    "all": record("BaseException", "builtins"),
    "a group of all": record("BaseExceptionGroup", "builtins", members=[{"module": HERE, "name": "Plain"}]),
    "a group of nothing": record("ExceptionGroup", "builtins"),
    "an exit in a group": record("Group", members=[{"module": "builtins", "name": "SystemExit"}]),
    "an error of ours": record("StoreUnavailable", "stampede_guard.errors", args=["x"]),
    "a signal of ours": record("ArgumentsChanged", "stampede_guard.engine.calls"),
    "decoding": record("UnicodeDecodeError", "builtins", fields={"start": -1_000_000_000}),
    "a dunder": record("Plain", attributes={"__class__": "x"}),
    "a cause": record("Plain", attributes={"__cause__": "x"}),
    "a method": record("Plain", attributes={"with_traceback": "x"}),
    "an unknown field": record("OSError", "builtins", fields={"errno ": 1}),
    "a field of another type": record("OSError", "builtins", fields={"errno": "x"}),
    "a list as a number": record("OSError", "builtins", fields={"strerror": ["x"]}),
    "an unknown value": record("Plain", args=[{"z": 1}]),
    "a value of two types": record("Plain", args=[{"t": [], "d": {}}]),
    "a wrong value": record("Plain", args=[{"u": "x"}]),
    "a member that is not there": record("Plain", args=[{"e": [HERE, "State", "LOST"]}]),
    "a member of no enum": record("Plain", args=[{"e": [HERE, "Plain", "args"]}]),
    "an enum that is not imported": record("Plain", args=[{"e": ["this_is_not_imported", "State", "ONE"]}]),
    "an enum whose class looks up names": record("Plain", args=[{"e": [HERE, "Strange", "ONE"]}]),
    "an attribute of an enum": record("Plain", args=[{"e": [HERE, "State", "__class__"]}]),
    "a member that is no text": record("Plain", args=[{"e": [HERE, "State", ["SOLD"]]}]),
    "a huge number": record("Plain", args=[{"n": {}}]),
    "many values": record("Plain", args=[0] * 100_000),
    "a deep value": record("Plain", args=[deep(200)]),
    "many members": record(
        "ExceptionGroup", "builtins", members=[{"module": HERE, "name": "Plain"}] * 20_000
    ),
    "arguments that are no list": record("Plain", args={"a": 1}),
    "notes that are no texts": record("Plain", notes=[1]),
    "a name that is no text": record(["Plain"]),
    "a long name": record("Plain." * 100_000),
    "an empty name": record(""),
    "dots": record("...."),
    "no module": record("Plain", ""),
    "locals": record("local.<locals>.Local"),
    "no record": msgspec.json.encode({"type": "X", "message": "m", "made": 5}),
    "deep members": b'{"type":"X","made":' + b'{"module":"a","name":"b","members":[' * 50_000,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_record_makes_nothing_run_and_nothing_imported(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with imports_of_this_thread(monkeypatch) as imported:
        error = decode_failure(data)
        copy_of(error)
    assert imported == []
    assert_nothing_ran(data)


def test_an_import_in_this_thread_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    with imports_of_this_thread(monkeypatch) as imported, pytest.raises(ImportError):
        importlib.import_module("this_is_not_imported")
    assert imported == ["this_is_not_imported"]


def test_a_module_with_code_for_its_attributes_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Strange(types.ModuleType):
        def __getattribute__(self, name: str) -> Any:
            ran.append("module __getattribute__")
            return super().__getattribute__(name)

    class Impostor:
        def __getattr__(self, name: str) -> Any:
            ran.append("impostor")
            return Plain

        @property
        def __class__(self) -> Any:
            ran.append("__class__")
            return types.ModuleType

    class Dict(dict[str, Any]):
        def __missing__(self, key: str) -> Any:
            ran.append("__missing__")

    asked = types.ModuleType("asked")
    asked.__getattr__ = lambda name: ran.append("PEP 562")  # type: ignore[method-assign]
    for name, module in {
        "asked": asked,
        "strange": Strange("strange"),
        "impostor": Impostor(),
        "none": None,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)  # type: ignore[arg-type]
        assert class_named(name, "Plain") is None
        assert_nothing_ran(record("Plain", name))
    monkeypatch.setitem(sys.modules, "holding", Dict())  # type: ignore[arg-type]
    assert_nothing_ran(record("Plain", "holding"))


def test_a_lazy_module_stays_unloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lazy_shop.py").write_text("class Sold(Exception): pass\nimport lazy_shop_was_loaded")
    monkeypatch.syspath_prepend(tmp_path)
    spec = importlib.util.find_spec("lazy_shop")
    assert spec is not None and spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "lazy_shop", module)
    spec.loader.exec_module(module)
    assert_nothing_ran(record("Sold", "lazy_shop"))  # loading it would raise


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("tdunsyhex") | st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.sampled_from(["Plain", "Loud", "Slotted", "Group", "Dying", "WithMeta", "Described", "NotFound"]),
    st.lists(json_values, max_size=3) | json_values,
    st.dictionaries(st.sampled_from(["rows", "_hidden", "args", "__dict__", "status_code"]), json_values)
    | json_values,
    json_values,
)
def test_any_record_decodes_to_an_exception_and_runs_nothing(
    name: str, args: Any, attributes: Any, other: Any
) -> None:
    data = record(name, args=args, attributes=attributes, fields=other)
    error = decode_failure(data)
    assert issubclass(type(error), Exception)
    copied = copy_of(error)
    assert type(copied) is type(error)
    assert ran == []


# --- classes that are found otherwise ---------------------------------------------------------------------


def local() -> tuple[type[Exception], type[Exception]]:
    class Base(Exception):
        pass

    class Local(Base):
        pass

    return Base, Local


def test_a_local_class_is_found_if_it_or_its_base_has_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errorclasses, "_handled", [])
    base, kind = local()
    data = encode_failure(kind("x")) or b""
    assert isinstance(decode_failure(data), ComputeFailed)
    handled: Any = [404, "x", Exception, WithMeta, base]
    ran.clear()
    look_among(lambda: handled)
    assert type(decode_failure(data)) is kind
    other_base, _ = local()
    handled.append(other_base)  # two classes of one name
    assert isinstance(decode_failure(data), ComputeFailed)
    handled[:] = [kind]
    assert type(decode_failure(data)) is kind
    handled = None
    assert isinstance(decode_failure(data), ComputeFailed)
    assert not any(one() is None for one in errorclasses._handled), "a forgotten application is still asked"


# --- secrets ----------------------------------------------------------------------------------------------

SECRET = "hunter2"


@pytest.mark.parametrize(
    "make",
    [
        lambda: with_attributes(Plain(), authorization=f"Bearer {SECRET}"),
        lambda: with_attributes(Plain(), token=[SECRET, {"a": SECRET}], api_key=(SECRET,), password={"x": SECRET}),
        lambda: with_attributes(Plain(), request={"cookie": SECRET, "headers": {"x-api-key": [SECRET]}}),
        lambda: with_attributes(Plain(), url=f"https://u:{SECRET}@x.org/?token={SECRET}"),
        lambda: with_attributes(Plain(), pin=1234567, otp=1234567, session_id=UUID(int=1234567)),
        lambda: with_attributes(Plain(), auth=("user", SECRET), rows=[("Cookie", f"s={SECRET}")]),
        lambda: with_slots(Slotted(), rows={"password": SECRET}, _hidden=f"token={SECRET}"),
        lambda: with_attributes(Plain(), encryption_key=SECRET, session_key=SECRET, signingKey=SECRET),
        lambda: with_attributes(Plain(), account_key=SECRET, config={"license-key": SECRET, "sshKey": SECRET}),
        lambda: with_attributes(InvalidApiKey(), key=SECRET),
        lambda: RefusedToken(SECRET),
        lambda: Plain(f"signing_key: {SECRET}", f"auth_key={SECRET}"),
        lambda: Plain(f"password={SECRET}", {"secret": SECRET}),
        lambda: Secretive("bob", SECRET),
        lambda: noted(with_attributes(Plain(), __notes__=[f"token={SECRET}"])),
        lambda: KeyError(f"https://x.org/?sig={SECRET}"),
        lambda: FileNotFoundError(2, "missing", f"https://x.org/?token={SECRET}"),
        lambda: ExceptionGroup(f"token={SECRET}", [with_attributes(Plain(), token=SECRET)]),
        lambda: with_attributes(NotFound(404), token=SECRET),
    ],
)  # fmt: skip
def test_no_secret_of_an_exception_travels(make: Callable[[], Exception]) -> None:
    original = make()
    data = encode_failure(original)
    assert data is not None and b'"made":{' in data
    assert (
        SECRET.encode() not in data and b"1234567" not in data and UUID(int=1234567).hex.encode() not in data
    )
    assert str(UUID(int=1234567)).encode() not in data
    assert type(decode_failure(data)) is type(original)


def test_a_key_that_opens_nothing_travels_as_it_is() -> None:
    named = {
        "key": "report:7", "cache_key": "c", "primary_key": 7, "public_key": "p", "partition_key": "q", "monkey": "m",
        "keyboard": "k", "value": "v", "row": {"key": "user:1", "idempotency_key": "i"},
    }  # fmt: skip
    error = decode_failure(encode_failure(with_attributes(Plain(), **named)) or b"")
    assert vars(error) == named
    assert decode_failure(encode_failure(KeyError("report:7")) or b"").args == ("report:7",)


def test_an_argument_under_a_secrets_name_that_the_text_shows_stays() -> None:
    error = decode_failure(encode_failure(Explained("x")) or b"")
    assert error.args == ("the token is too old",)
    secretive: Any = decode_failure(encode_failure(Secretive("bob", SECRET)) or b"")
    assert (secretive.args, secretive.user, secretive.password) == (("bob", "***"), "bob", "***")


# --- old and new processes --------------------------------------------------------------------------------


class OldRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """As the previous version reads and writes it."""

    type: str
    message: str = ""
    kind: str = ""
    content: Any = None


@pytest.mark.parametrize("make", [*TRAVEL.values(), *STAY.values()])
def test_a_process_of_the_previous_version_reads_what_it_knows(make: Callable[[], Exception]) -> None:
    error = make()
    old = msgspec.json.decode(encode_failure(error, id="x") or b"", type=OldRecord)
    assert old.type == type(error).__name__
    if isinstance(error, fastapi.HTTPException):
        assert (old.kind, old.content["status"]) == ("fastapi", error.status_code)
    else:
        assert old.kind == ""


def test_a_record_of_the_previous_version_is_read() -> None:
    error = decode_failure(msgspec.json.encode(OldRecord("Plain", "no")), entry="x")
    assert isinstance(error, ComputeFailed) and (error.args, error.status_code) == (("Plain", "no"), None)
    content = {"status": 404, "detail": "no", "headers": None}
    http = decode_failure(msgspec.json.encode(OldRecord("NotFound", "404: no", "fastapi", content)))
    assert type(http) is fastapi.HTTPException and http.detail == "no"
