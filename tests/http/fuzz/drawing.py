"""What a seed means: the options of a cache, what its application says of each path, and a list of steps."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from stampede_guard import CacheRoute

__all__ = [
    "Ask", "Case",
    "MINE", "LANG", "ROWS", "ROUTE_TTL", "SEARCH", "Said", "URLS", "drawn", "meaning", "place_of", "said_of",
]  # fmt: skip

MINE, LANG, ROWS = "/mine", "/lang", "/rows"
"""Routes: private entries, one cookie in the key, QUERY by its body."""
ROUTE_TTL = 20
SEARCH = ("/s", "/s?a=1&u=1", "/s?u=2&a=1", "/s?a=2&b=1", "/s?b=1&a=2")
"""Its responses say which part of the query matters (No-Vary-Search), each in its way."""
RULES = ("", 'params=("u")', 'except=("a")', "key-order", 'key-order, params=("u" "b")')
URLS = ("/a", "/a", "/a?x=1", "/items/1", "/items/2", MINE, LANG, ROWS, *SEARCH)
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
    search: str = ""
    """One of `RULES`, on the path of `SEARCH`."""
    stale: str = ""
    """A directive about stale responses."""
    fails: bool = False
    """It answers 503 instead."""

    def window(self, name: str) -> int | None:
        """Seconds of a directive about stale responses."""
        key, _, seconds = self.stale.partition("=")
        return int(seconds) if key == name else None


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
    near: float = 0.0
    """`l1_ttl`, in seconds."""

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
        search=chance.choice(RULES),
        stale=chance.choice(
            (
                "",
                "",
                "",
                "stale-while-revalidate=20",
                "stale-if-error=20",
                "must-revalidate",
                "stale-if-error=0",
            )
        ),
        fails=chance.random() < 0.12,
    )


def place_of(url: str) -> str:
    """What the application knows under one name: all queries of `SEARCH` are one."""
    return "/s" if url in SEARCH else url


def meaning(url: str, rule: str) -> str:
    """What is left of a URL under a rule (the URL Standard's equivalence, and the draft's section 6)."""
    path, _, query = url.partition("?")
    if path != "/s" or not rule:
        return url
    pairs = [tuple(pair.split("=")) for pair in query.split("&") if pair]
    if "params" in rule:
        pairs = [(name, value) for name, value in pairs if f'"{name}"' not in rule]
    if "except" in rule:
        pairs = [(name, value) for name, value in pairs if f'"{name}"' in rule]
    return f"{path} {sorted(pairs) if 'key-order' in rule else pairs}"


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
        fields["cache-control"] = chance.choice(
            ("no-cache", "max-age=0", "only-if-cached", "max-stale=10", "min-fresh=10")
        )
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
            return ("say", place_of(url), said_of(chance))
        case "clock":
            return ("clock", chance.choice((1, 1, 3, 4, 10, 25)))
        case "change":
            return ("change", url)
        case "unsafe":
            group = chance.choice(("", "", *GROUPS))
            return (
                "unsafe",
                chance.choice(("PUT", "POST", "DELETE", "ANSWERED")),
                url,
                group,
                chance.randrange(2),
            )
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
        "stale_if_error": chance.choice((0, 0, 15)),
        **({"private_to": private_to} if everywhere else {}),
    }
    begin = [("say", url, said_of(chance)) for url in dict.fromkeys(map(place_of, URLS))]
    known, near = chance.choice((0.0, 0.1, 0.3)), chance.choice((0.0, 0.0, 0.0, 8.0))
    urls = (
        list(SEARCH) if chance.random() < 0.2 else chance.sample(URLS[: -len(SEARCH)], chance.randint(1, 3))
    )
    steps = [_step(chance, urls, known) for _ in range(chance.randint(10, 40))]
    return Case(seed, options, (*begin, *steps), private_to, everywhere, ignores, near)
