"""What endpoints declare and return. Each case must give the same JSON with the cache as without it.

`main` answers all cases from the store, as another process does, and prints the answers and what it computed.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Optional

import httpx
import pydantic
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from stampede_guard import StampedeGuard
from tests.integration.fastapi.models import (
    SECRET,
    Account,
    Aliased,
    Anything,
    Area,
    Base,
    Camel,
    Cat,
    Checked,
    Codes,
    Colour,
    Dog,
    Doubled,
    DoubledAfter,
    Encoded,
    Extra,
    Frozen,
    Full,
    Hidden,
    Home,
    Kinds,
    Labels,
    Lenient,
    Level,
    LooksAtHidden,
    Masked,
    Mood,
    MoreCodes,
    NoExtra,
    Numbers,
    OwnInit,
    Page,
    Pair,
    Plain,
    Point,
    Point3,
    PostInit,
    PostOut,
    PostRow,
    Private,
    Revalidated,
    Revealing,
    Rights,
    Row,
    Serialized,
    Slotted,
    Stamped,
    Strict,
    Team,
    Tree,
    UserInDB,
    UserOut,
    UserRow,
    Whole,
    Wide,
    WithPosts,
    Wrapped,
)  # fmt: skip

NOON = datetime.datetime(2024, 6, 1, 12, tzinfo=datetime.UTC)
UNANNOTATED: Any = object()


@dataclasses.dataclass(frozen=True)
class Case:
    """`route`: options of `app.get`. `served`: the value cannot be stored, and each caller's flight computes."""

    name: str
    annotation: Any
    make: Callable[[], Any]
    route: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    served: bool = False
    status: int = 200
    reveals: bool = False
    """The declared type itself shows the secret."""

    @property
    def path(self) -> str:
        return "/" + self.name.replace(" ", "-")


def user(kind: type = UserInDB) -> Any:
    return kind(id=7, name="ann")


def row() -> UserRow:
    return UserRow(id=7, name="ann", password=SECRET, posts=[PostRow(id=1, title="first", user=7)])


def loaded() -> UserRow:
    """A row from a database, whose session is still open."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    Base.metadata.create_all(engine)
    session = Session(engine)
    session.add(row())
    session.commit()
    return session.get_one(UserRow, 7)


def large() -> dict[str, Any]:
    return {"id": 7, "name": "ann", "password": SECRET}


def private() -> Private:
    made = Private(name="ann")
    made._password = SECRET
    return made


def hidden() -> Hidden:
    return Hidden(id=1, password=SECRET, note=SECRET)


def masked() -> Masked:
    return Masked(token=SECRET, key=SECRET.encode())  # type: ignore[arg-type]


def moved() -> set[int]:
    """Its copy has another order: a set that has become small keeps its places."""
    made = set(range(200))
    for number in made - {15, 16}:
        made.discard(number)
    return made


OUT = {"response_model": UserOut}
UNSET = {"response_model_exclude_unset": True}

CASES = [
    # --- the declared type filters
    Case("subclass with a secret", UserOut, user),
    Case("another model with more fields", UserOut, lambda: user(Account)),
    Case("exactly what is declared", UserOut, lambda: user(UserOut)),
    Case("list of subclasses", list[UserOut], lambda: [user(), user(UserOut), user(Account)]),
    Case("dict of subclasses", dict[str, UserOut], lambda: {"a": user()}),
    Case("tuple of subclasses", tuple[UserOut, int], lambda: (user(), 1)),
    Case("optional subclass", Optional[UserOut], user),  # noqa: UP045  # as people write it
    Case("optional nothing", UserOut | None, lambda: None),
    Case("nested subclasses", Team, lambda: Team(lead=user(), members=[user()], by_role={"a": user()})),
    Case("union with a subclass", Cat | UserOut, user),
    Case("generic page of subclasses", Page[UserOut], lambda: Page[UserOut](items=[user()], total=1)),
    Case("annotated", Annotated[UserOut, "doc"], user),
    Case("larger dict", UserOut, large),
    Case("list of larger dicts", list[UserOut], lambda: [large(), large()]),
    Case("dict of texts to convert", UserOut, lambda: {"id": "7", "name": "ann"}),
    Case("larger typed dict", list[Row], lambda: [large()]),
    Case("typed dict", Row, lambda: {"id": 1, "name": "a"}),
    Case("object of no library", UserOut, lambda: Plain(id=1, name="a", password=SECRET)),
    Case("orm row", UserOut, row),
    Case("list of orm rows", list[UserOut], lambda: [row()]),
    Case("loaded orm row", UserOut, loaded),
    Case("orm row with a relation", WithPosts, loaded),
    Case("orm row in a model that wants a dict", Team, lambda: {"lead": row()}),
    Case("subclass whose property differs", Area, lambda: Wide(width=2), served=True),
    Case("dataclass subclass", Point, lambda: Point3(1.0)),
    Case("dataclass from a dict", Point, lambda: {"x": 1, "z": SECRET}),
    Case("dataclass from a row", Point, lambda: Plain(x=1.0, y=2.0, tags=[], z=SECRET), served=True, status=500),
    Case("model not valid", UserOut, lambda: {"id": "x"}, served=True, status=500),
    Case("response itself", Lenient, lambda: JSONResponse({"a": 1}, 201), served=True, status=201),
    Case("response under a response model", UNANNOTATED, lambda: JSONResponse({"a": 1}, 201),
         {"response_model": Lenient}, served=True, status=201),
    # --- response_model
    Case("response model without annotation", UNANNOTATED, user, OUT),
    Case("response model for a dict", UNANNOTATED, large, OUT),
    Case("response model for a row", UNANNOTATED, row, OUT),
    Case("response model for a loaded row", UNANNOTATED, loaded, {"response_model": WithPosts}),
    Case("response model for rows", UNANNOTATED, lambda: [row()], {"response_model": list[UserOut]}),
    Case("response model and any", Any, user, OUT),
    Case("response model and a dict annotation", dict[str, Any], lambda: {"id": 1, "name": "a", "b": 2}, OUT),
    Case("response model and another annotation", Account, lambda: user(Account), OUT, reveals=True),
    Case("response model with more than the annotation", UserOut, lambda: Full(id=1, name="a", email="x"),
         {"response_model": Full}, served=True),
    Case("response model none", UNANNOTATED, lambda: user(UserOut), {"response_model": None}),
    Case("response model of a dataclass", UNANNOTATED, lambda: {"x": 1, "z": SECRET}, {"response_model": Point}),
    Case("response model doubled", UNANNOTATED, lambda: {"x": 1}, {"response_model": Doubled}),
    # --- no annotation
    Case("unannotated model", UNANNOTATED, lambda: user(UserOut)),
    Case("unannotated list of models", UNANNOTATED, lambda: {"items": [user(UserOut)], "n": 1}),
    Case("unannotated dataclass", UNANNOTATED, lambda: Point(1.0, tags=["a"])),
    Case("unannotated slotted dataclass", UNANNOTATED, lambda: Slotted(NOON.date())),
    Case("unannotated enums", UNANNOTATED, lambda: [Colour.RED, Level.LOW, Mood.GOOD, Rights.READ]),
    Case("unannotated named tuple", UNANNOTATED, lambda: Pair(1, "a")),
    Case("unannotated generic", UNANNOTATED, lambda: Page[UserOut](items=[user(UserOut)])),
    Case("unannotated kinds", UNANNOTATED, lambda: Kinds(at=NOON)),
    Case("unannotated excluded", UNANNOTATED, hidden),
    Case("unannotated secret", UNANNOTATED, masked),
    Case("unannotated doubled", UNANNOTATED, lambda: DoubledAfter(x=1, inner=[Doubled(x=1)])),
    Case("models in any", dict[str, Any], lambda: {"a": user(UserOut), "b": [Point(1.0)], "c": Colour.RED}),
    Case("models in a bare list", list, lambda: [user(UserOut), {1: Colour.RED}]),
    Case("models in a field of any", Anything, lambda: Anything(content=[user(UserOut)], more={"c": Colour.RED})),
    # --- what is not shown
    Case("excluded", Hidden, hidden),
    Case("excluded in a list", list[Hidden], lambda: [hidden()]),
    Case("excluded and left at its default", Hidden, lambda: Hidden(id=1, password=SECRET)),
    Case("excluded from a dict", Hidden, lambda: {"id": 1, "password": SECRET}),
    Case("secret text", Masked, masked),
    Case("secret text in a dict", dict[str, Masked], lambda: {"a": masked()}),
    Case("empty secret", Masked, lambda: Masked(token="")),  # type: ignore[arg-type]
    Case("revealed secret", Revealing, lambda: Revealing(token=SECRET), reveals=True),  # type: ignore[arg-type]
    Case("computed of an excluded field", LooksAtHidden, lambda: LooksAtHidden(words="abc"), served=True),
    Case("private attributes", Private, private),
    Case("private attributes made at the end", PostInit, lambda: PostInit(name="ANN")),
    # --- what was set, and under which name
    Case("only set", Stamped, lambda: Stamped(id=1), UNSET),
    Case("only set of a dict", Stamped, lambda: {"id": 1}, UNSET),
    Case("only set of a subclass", Team, lambda: Team(lead=user()), UNSET),
    Case("no defaults", Camel, lambda: Camel(first=1, second=2), {"response_model_exclude_defaults": True}),
    Case("no nones", Stamped, lambda: Stamped(id=1, made="1" * 32), {"response_model_exclude_none": True}),  # type: ignore[arg-type]
    Case("by alias", Aliased, lambda: Aliased(user_id=1)),
    Case("by name", Aliased, lambda: Aliased(userId=1, given="x"), {"response_model_by_alias": False}),
    Case("by alias and only set", Aliased, lambda: Aliased(userId=1), UNSET),
    Case("alias generator", Camel, lambda: Camel(FIRST=1)),  # type: ignore[call-arg]
    Case("some fields", Kinds, lambda: Kinds(at=NOON), {"response_model_include": {"at", "price"}}),
    # --- kinds of values
    Case("kinds", Kinds, lambda: Kinds(at=NOON)),
    Case("bytes and durations in another form", Encoded, lambda: Encoded(raw=b"\xff\x00")),
    Case("computed field", Area, lambda: Area(width=3)),
    Case("root model", Numbers, lambda: Numbers([1, 2])),
    Case("list for a root model", Numbers, lambda: [1, "2"]),
    Case("sets and tuples", Labels, lambda: Labels(names=set("abcdefghij"))),
    Case("set whose order changes", Codes, lambda: MoreCodes.model_construct(numbers=moved(), more=1)),
    Case("set in a larger dict", UNANNOTATED, lambda: {"numbers": moved(), "a": 1}, {"response_model": Codes}),
    Case("set of numbers", set[int], lambda: {3, 1, 2}),
    Case("tuple", tuple[int, str], lambda: (1, "a")),
    Case("named tuple", Pair, lambda: Pair(1, "a")),
    Case("dataclass with defaults", Point, lambda: Point(1.0)),
    Case("pydantic dataclass", Checked, lambda: Checked(1)),
    Case("slotted dataclasses", list[Slotted], lambda: [Slotted(NOON.date())]),
    Case("enum", Colour, lambda: Colour.RED),
    Case("enum from its value", Colour, lambda: "red"),
    Case("text enum", Mood, lambda: Mood.GOOD),
    # --- an annotation for type checkers: FastAPI ignores it where there is a response model
    Case("declared as a row", UserRow, row, {"response_model": UserOut}),
    Case("declared as an open row", UserRow, loaded, {"response_model": UserOut}),
    Case("declared as rows", Sequence[UserRow], lambda: [row()], {"response_model": list[UserOut]}),
    Case("declared as an optional row", UserRow | None, lambda: None, {"response_model": UserOut | None}),
    Case("declared as a plain class", Plain, lambda: Plain(id=7, name="ann"), {"response_model": UserOut}),
    Case("literal", Literal["a", "b"], lambda: "a"),
    Case("number from a text", int, lambda: "7"),
    Case("text for a moment", datetime.datetime, lambda: "2024-01-01T00:00:00Z"),
    Case("discriminated", Home, lambda: Home(pet=Dog(breed="pug"), guests=[Cat(), Dog(breed="x")])),
    Case("discriminated from a dict", Home, lambda: {"pet": {"kind": "cat", "lives": 1}}),
    Case("recursive", Tree, lambda: Tree(value=1, children=[Tree(value=2)])),
    Case("extra allowed", Extra, lambda: Extra(id=1, more=[1], at="x")),
    Case("extra forbidden", NoExtra, lambda: NoExtra(x=1)),
    Case("frozen", Frozen, Frozen),
    Case("strict", Strict, lambda: Strict(x=1, day=NOON.date(), pair=(1, "a"), colour=Colour.RED)),
    Case("forward reference", "UserOut", user),
    Case("forward reference in a list", "list[PostOut]", lambda: [PostOut(title="a")]),
    # --- validators and serializers of the application
    Case("validator that doubles", Doubled, lambda: Doubled(x=1)),
    Case("validator that doubles a dict", Doubled, lambda: {"x": 1}),
    Case("validators of inner models", DoubledAfter, lambda: DoubledAfter(x=1, inner=[Doubled(x=3)])),
    Case("validator of the whole model", Wrapped, lambda: Wrapped(x=1)),
    Case("validator of the whole from a dict", Wrapped, lambda: {"x": 1}),
    Case("validator that fastapi repeats", Revalidated, lambda: Revalidated(x=1)),
    Case("validator around a list", list[Annotated[int, pydantic.AfterValidator(lambda x: x * 2)]], lambda: [1]),
    Case("own init", OwnInit, lambda: OwnInit(x=1)),
    Case("field serializer", Serialized, lambda: Serialized(at=NOON)),
    Case("model serializer", Whole, lambda: Whole(x=1)),
]  # fmt: skip

Entered = Callable[[Case], Awaitable[None]]


def endpoint_of(case: Case, entered: Entered) -> Callable[[], Awaitable[Any]]:
    async def endpoint():  # type: ignore[no-untyped-def]
        await entered(case)
        return case.make()

    if case.annotation is not UNANNOTATED:
        endpoint.__annotations__["return"] = case.annotation
    endpoint.__name__ = case.path[1:]
    return endpoint


def app_of(entered: Entered, guard: StampedeGuard | None, *, installed: bool = True) -> tuple[FastAPI, Any]:
    """The application of all cases, and its cached functions by case."""
    app, functions = FastAPI(), {}
    if guard is not None and installed:
        guard.install(app)
    for case in CASES:
        function: Any = endpoint_of(case, entered)
        if guard is not None:
            function = guard.locked_cache(ttl=300, name=case.path[1:])(function)
        functions[case.name] = function
        app.get(case.path, **case.route)(function)
    return app, functions


async def answer(client: httpx.AsyncClient, case: Case) -> tuple[int, str]:
    reply = await client.get(case.path)
    return reply.status_code, reply.text


def client_of(app: FastAPI) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://shop")


async def main(url: str, namespace: str) -> None:
    computed: list[str] = []

    async def entered(case: Case) -> None:
        computed.append(case.name)

    async with (
        StampedeGuard.from_url(url, namespace=namespace) as guard,
        client_of(app_of(entered, guard)[0]) as client,
    ):
        answers = {case.name: await answer(client, case) for case in CASES}
    print(json.dumps({"computed": computed, "answers": answers}))
