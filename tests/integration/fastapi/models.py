"""What endpoints return in the cases: models, rows, records. All of them are known by name in every process."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import ipaddress
import pathlib
import uuid
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretBytes, SecretStr
from sqlalchemy import ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from typing_extensions import TypedDict

T = TypeVar("T")
SECRET = "hunter2-of-nobody-else"
"""What must be in no answer and not in the store."""


class UserOut(BaseModel):
    id: int
    name: str


class UserInDB(UserOut):
    password: str = SECRET


class Full(UserOut):
    email: str


class Account(BaseModel):
    """Not related to `UserOut`, and with more fields."""

    id: int
    name: str
    password: str = SECRET


class Team(BaseModel):
    lead: UserOut
    members: list[UserOut] = []
    by_role: dict[str, UserOut] = {}


class Base(DeclarativeBase):
    pass


class UserRow(Base):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    password: Mapped[str] = mapped_column(default=SECRET)
    posts: Mapped[list[PostRow]] = relationship()


class PostRow(Base):
    __tablename__ = "posts"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    user: Mapped[int] = mapped_column(ForeignKey("users.id"))


class PostOut(BaseModel):
    title: str


class WithPosts(UserOut):
    model_config = ConfigDict(from_attributes=True)
    posts: list[PostOut]


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Mood(enum.StrEnum):
    GOOD = "good"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.5
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Point3(Point):
    z: str = SECRET


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    at: datetime.date
    colour: Colour = Colour.RED


@pydantic.dataclasses.dataclass
class Checked:
    x: int
    y: Annotated[int, Field(ge=0)] = 3


class Row(TypedDict):
    id: int
    name: str


class Pair(NamedTuple):
    left: int
    right: str


class Hidden(BaseModel):
    id: int
    password: str = Field(exclude=True)
    note: str | None = Field(None, exclude=True)


class Masked(BaseModel):
    token: SecretStr
    key: SecretBytes = SecretBytes(b"")


class Revealing(BaseModel):
    token: SecretStr

    @pydantic.field_serializer("token", when_used="json")
    def shown(self, token: SecretStr) -> str:
        return token.get_secret_value()


class LooksAtHidden(BaseModel):
    words: str = Field(exclude=True)

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def length(self) -> int:
        return len(self.words)


class Area(BaseModel):
    width: int

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.width * 2


class Wide(Area):
    @property
    def area(self) -> int:
        return self.width * 1000


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    user_id: int = Field(alias="userId")
    shown: str = Field("s", serialization_alias="Shown")
    read: str = Field("r", validation_alias="given")


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=lambda name: name.upper(), populate_by_name=True)
    first: int
    second: int = 2


class Kinds(BaseModel):
    at: datetime.datetime
    day: datetime.date = datetime.date(2024, 2, 29)
    took: datetime.timedelta = datetime.timedelta(seconds=90)
    price: decimal.Decimal = decimal.Decimal("1.10")
    ident: uuid.UUID = uuid.UUID(int=7)
    raw: bytes = b"raw"
    path: pathlib.PurePosixPath = pathlib.PurePosixPath("/a")
    address: ipaddress.IPv4Address = ipaddress.IPv4Address("127.0.0.1")
    colour: Colour = Colour.RED
    link: pydantic.HttpUrl = pydantic.HttpUrl("https://example.org/a")


class Encoded(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_timedelta="float")
    raw: bytes
    took: datetime.timedelta = datetime.timedelta(milliseconds=1500)


class Doubled(BaseModel):
    """A validator that must not run again: 1, 2, 4, 8."""

    x: int

    @pydantic.field_validator("x", mode="before")
    @classmethod
    def double(cls, value: Any) -> Any:
        return value * 2 if isinstance(value, int) else value


class DoubledAfter(BaseModel):
    x: Annotated[int, pydantic.AfterValidator(lambda value: value + 1)]
    inner: list[Doubled] = []


class Wrapped(BaseModel):
    x: int = 0

    @pydantic.model_validator(mode="before")
    @classmethod
    def count(cls, data: Any) -> Any:
        return {**data, "x": data.get("x", 0) + 1} if isinstance(data, dict) else data


class Revalidated(BaseModel):
    """FastAPI runs this validator again, with and without a cache."""

    model_config = ConfigDict(revalidate_instances="always")
    x: int

    @pydantic.field_validator("x")
    @classmethod
    def double(cls, value: int) -> int:
        return value * 2


class OwnInit(BaseModel):
    x: int

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "x": given["x"] + 1})


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    x: int
    day: datetime.date
    pair: tuple[int, str]
    colour: Colour


class Private(BaseModel):
    name: str
    _password: str = PrivateAttr(default="")
    _seen: list[int] = PrivateAttr(default_factory=list)


class PostInit(BaseModel):
    name: str
    _lower: str = PrivateAttr(default="")

    def model_post_init(self, context: Any) -> None:
        self._lower = self.name.lower()

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def lower(self) -> str:
        return self._lower


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: int


class Stamped(BaseModel):
    id: int
    made: uuid.UUID = Field(default_factory=uuid.uuid4)
    note: str | None = None


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Page(BaseModel, Generic[T]):
    items: list[T]
    total: int = 0


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    breed: str


class Home(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    guests: list[Cat | Dog] = []


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Anything(BaseModel):
    content: Any
    more: dict[str, Any] = {}


class Labels(BaseModel):
    names: set[str]
    fixed: frozenset[int] = frozenset({1, 2})
    pair: tuple[int, ...] = (1, 2)


class Codes(BaseModel):
    numbers: set[int]


class MoreCodes(Codes):
    more: int = 1


class Serialized(BaseModel):
    at: datetime.datetime

    @pydantic.field_serializer("at")
    def year(self, at: datetime.datetime) -> int:
        return at.year


class Whole(BaseModel):
    x: int

    @pydantic.model_serializer
    def shown(self) -> dict[str, Any]:
        return {"whole": self.x}


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    x: int = 1


class NoExtra(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int


class Lenient(BaseModel):
    """Any object has what it needs."""

    status_code: int | None = None
    body: Any = None


class Plain:
    """Of no library: only its attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)
