"""What a seed means: the options of a cache, what its application says of each path, and a list of steps."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from stampede_guard import CacheRoute

__all__ = ["Ask", "Case", "MINE", "LANG", "ROWS", "ROUTE_TTL", "Said", "URLS", "drawn", "said_of"]

MINE, LANG, ROWS = "/mine", "/lang", "/rows"
"""Routes: private entries, one cookie in the key, QUERY by its body."""
ROUTE_TTL = 20
URLS = ("/a", "/a", "/a?x=1", "/items/1", "/items/2", MINE, LANG, ROWS)
GROUPS = ("g1", "g2")


@dataclass(frozen=True)
class Said:
    """What the application says of a path. `depends`: on which part of the request, as its fields declare."""

    max_age: int | None = None
    depends: str = ""
    flag: str = ""
    etag: bool = False
    modified: bool = False
    cookie: bool = False
    age: int = 0
    groups: tuple[str, ...] = ()
    ranges: bool = False


@dataclass(frozen=True)
class Ask:
    """One request. `fields` are sent; `condition`: etag, old-etag, any, since, before, if-range, if-range-old."""

    method: str
    url: str
    process: int
    fields: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    condition: str = ""

    def field(self, name: str) -> str:
        return dict(self.fields).get(name, "")

    def cookie(self, name: str) -> str:
        pairs = [pair.partition("=") for pair in self.field("cookie").split("; ")]
        return next((value for key, _, value in pairs if key == name), "")


@dataclass(frozen=True)
class Case:
    seed: int
    options: dict[str, Any]
    steps: tuple[Any, ...]
    private_to: str
    everywhere: bool
    """`private_to` names the user on all paths."""
    ignores: bool
    """All cookies but one are ignored on `LANG`, and who the user is, too."""

    def user(self, ask: Ask) -> str:
        """As `private_to` names it; empty = nobody, or not on this path."""
        if (ask.url != MINE and not self.everywhere) or (ask.url == LANG and self.ignores):
            return ""
        kind, _, name = self.private_to.partition(":")
        return ask.field(name) if kind == "header" else ask.cookie(name)

    def has_language(self, ask: Ask) -> bool:
        """Whether the route of `LANG` applies, which has the cookie in its key."""
        known = ask.field("x-user") or ask.field("authorization") or (ask.cookie("sid") and not self.ignores)
        return not known and not self.options["anonymous_only"]


def said_of(chance: Random) -> Said:
    return Said(
        max_age=chance.choice((5, 30, 30, 100, None)),
        depends=chance.choice(("", "", "", "", "cookie", "language", "private")),
        flag=chance.choice(("", "", "", "", "", "public", "public", "no-store", "no-cache")),
        etag=chance.random() < 0.6,
        modified=chance.random() < 0.4,
        cookie=chance.random() < 0.1,
        age=chance.choice((0, 0, 0, 3)),
        groups=tuple(group for group in GROUPS if chance.random() < 0.3),
        ranges=chance.random() < 0.5,
    )


def _asked(chance: Random, url: str, known: float) -> Ask:
    """`known`: how often a request says who it is from."""
    fields: dict[str, str] = {}
    cookies = []
    if chance.random() < known * (2 if url == MINE else 1):
        cookies.append("sid=" + chance.choice(("anna", "berta")))
    if chance.random() < (0.6 if url == LANG else known / 2):
        cookies.append("lang=" + chance.choice(("de", "en")))
    if cookies:
        chance.shuffle(cookies)
        fields["cookie"] = "; ".join(cookies)
    if chance.random() < known * (2 if url == MINE else 1):
        fields["x-user"] = chance.choice(("anna", "berta"))
    if chance.random() < known / 2:
        fields["authorization"] = "Bearer " + chance.choice(("anna", "berta"))
    if chance.random() < 0.3:
        fields["accept-language"] = chance.choice(("de", "en"))
    if chance.random() < 0.08:
        fields["cache-control"] = chance.choice(("no-cache", "max-age=0", "only-if-cached"))
    process = chance.randrange(2)
    if url == ROWS and chance.random() < 0.8:
        fields["content-type"] = chance.choice(("application/json", "application/json", "text/plain"))
        body = chance.choice((b'{"a": 1, "b": 2}', b'{"b":2,"a":1}', b'{"a": 2}', b""))
        return Ask("QUERY", url, process, tuple(fields.items()), body)
    method = "HEAD" if chance.random() < 0.12 else "GET"
    condition = ""
    if chance.random() < 0.25:
        first = chance.randint(0, 60)
        span = chance.choice((f"{first}-", f"-{first + 1}", f"{first}-{first + chance.randint(0, 30)}", "0-"))
        fields["range"] = f"bytes={span}"
        condition = chance.choice(("", "", "if-range", "if-range-old"))
    elif chance.random() < 0.25:
        condition = chance.choice(("etag", "etag", "old-etag", "any", "since", "before"))
    return Ask(method, url, process, tuple(fields.items()), b"", condition)


def _step(chance: Random, urls: list[str], known: float) -> tuple[Any, ...]:
    url = chance.choice(urls)
    kind = chance.choices(
        ("ask", "say", "clock", "change", "unsafe", "purge", "both"), (70, 5, 10, 4, 4, 4, 3)
    )[0]
    match kind:
        case "ask":
            count = chance.choice((1, 1, 1, 2, 4))
            return ("ask", [_asked(chance, url, known) for _ in range(count)])
        case "say":
            return ("say", url, said_of(chance))
        case "clock":
            return ("clock", chance.choice((1, 1, 3, 4, 10, 25)))
        case "change":
            return ("change", url)
        case "unsafe":
            group = chance.choice(("", "", *GROUPS))
            return ("unsafe", chance.choice(("PUT", "POST", "DELETE")), url, group, chance.randrange(2))
    purge = chance.choice((("url", url), ("prefix", chance.choice(("/items/", "/a", "/"))), ("tag", "g1")))
    step = ("purge", *purge, chance.randrange(2))
    return step if kind == "purge" else ("both", step, [_asked(chance, url, known) for _ in range(2)])


def drawn(seed: int) -> Case:
    chance = Random(f"http {seed}")
    private_to = chance.choice(("header:x-user", "cookie:sid"))
    anonymous = chance.random() < 0.15
    ignores = chance.random() < 0.5
    everywhere = not anonymous and chance.random() < 0.2
    if anonymous:
        private_to = "cookie:sid"
    routes = [
        CacheRoute(MINE, ttl=ROUTE_TTL, private_to=private_to),
        CacheRoute(LANG, ttl=ROUTE_TTL, key_cookies=("lang",), cookies="ignore" if ignores else "bypass"),
        CacheRoute(ROWS, ttl=ROUTE_TTL, methods=("GET", "HEAD", "QUERY")),
    ]
    options = {
        # The others would never see their requests.
        "routes": routes[2:] if anonymous else routes,
        "set_cookie": chance.choice(("refuse", "strip")),
        "anonymous_only": anonymous,
        "json_bodies": chance.random() < 0.5,
        "heuristics": chance.random() < 0.5,
        **({"private_to": private_to} if everywhere else {}),
    }
    begin = [("say", url, said_of(chance)) for url in dict.fromkeys(URLS)]
    urls, known = chance.sample(URLS, chance.randint(1, 3)), chance.choice((0.0, 0.1, 0.3))
    steps = [_step(chance, urls, known) for _ in range(chance.randint(10, 40))]
    return Case(seed, options, (*begin, *steps), private_to, everywhere, ignores)
