"""The laws of a shared cache, judged by what its clients got and which calls the application had.

1. An answer is the application's, for an equal request: its body, or the wanted bytes of it; no body for HEAD and 304.
2. Nobody gets what depended on another user, and no Set-Cookie of another visitor.
3. Nothing from before an invalidation that returned is served after it.
4. A 304 only if the client has what would be served; a 206 only with the version that its If-Range names.
5. Nothing is served after its lifetime, and Age is right to the second.
6. A client that asks for a validated answer gets one.
"""

from __future__ import annotations

import json
import re
from email.utils import parsedate_to_datetime

from tests.http.fuzz.drawing import LANG, MINE, ROUTE_TTL, ROWS, SEARCH, Ask, Case, drawn, meaning
from tests.http.fuzz.scenario import Call, Site, Visit, play, sent

__all__ = ["judged"]


def judged(seed: int) -> tuple[Site, list[str]]:
    site = play(drawn(seed))
    wrong = list(site.errors)
    for visit in site.visits:
        if visit.ask.method in ("GET", "HEAD", "QUERY"):
            wrong += [f"step {visit.step} {visit}: {what}" for what in _of(site, visit)]
    tokens = [visit.fields["set-cookie"] for visit in site.visits if "set-cookie" in visit.fields]
    wrong += [f"{token} was given to two" for token in set(tokens) if tokens.count(token) > 1]
    return site, wrong


def _of(site: Site, visit: Visit) -> list[str]:
    if not visit.complete:
        return ["broken off"]
    if visit.status == 504:
        return [] if visit.ask.field("cache-control") == "only-if-cached" else ["504"]
    if visit.status == 416:
        # It may have no field of the stored response.
        return [] if visit.ask.field("range") else ["416 without a range"]
    if visit.call is None:
        return [] if visit.status == 503 and visit.failing else [f"status {visit.status}"]
    call = site.calls[visit.call - 1]
    found = _of_content(site, visit, call)
    if call.maker != visit.number:
        found += _of_sharing(site.case, visit, call)
        found += _of_time(site, visit, call)
    for step, kind, value in site.fences:
        if call.step < step < visit.step and _reaches(kind, value, call):
            found.append(f"from before the invalidation in step {step}: {call}")
    return found


def _reaches(kind: str, value: str, call: Call) -> bool:
    if kind == "group":
        return value in call.said.groups
    if kind == "prefix":
        return call.ask.url.startswith(value)
    # What is stored for many queries, an unsafe request for one of them invalidates.
    # The answer to a POST is stored for its own URL alone.
    of_many = call.said.search != "" and call.ask.method != "POST"
    return call.ask.url == value or (of_many and {call.ask.url, value} <= set(SEARCH))


def _of_content(site: Site, visit: Visit, call: Call) -> list[str]:
    ask, body, fields = visit.ask, visit.body, visit.fields
    rule = call.said.search
    if meaning(call.ask.url, rule) != meaning(ask.url, rule) or _question(site.case, call.ask) != _question(
        site.case, ask
    ):
        return [f"the answer to another question: {call.ask}"]
    if call.ask.method != ask.method and (ask.method == "QUERY" or call.ask.method == "QUERY"):
        return ["a QUERY's answer to another method"]
    if visit.status == 304:
        return ["304 with a body"] if body else _of_304(visit, call)
    if ask.method == "HEAD":
        length = fields.get("content-length", str(len(call.body)))
        return [f"HEAD: {body!r}, length {length}"] if body or int(length) != len(call.body) else []
    if visit.status == 200:
        if body != call.body:
            return [f"not the body of its call: {call.body!r}"]
        return ["wrong length"] if int(fields["content-length"]) != len(body) else []
    if visit.status != 206:
        return [f"status {visit.status}"]
    told = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", fields["content-range"])
    assert told is not None
    first, last, total = map(int, told.groups())
    begin, _, end = ask.field("range").removeprefix("bytes=").partition("-")
    size = len(call.body)
    wanted = (int(begin), min(int(end or size), size - 1)) if begin else (max(0, size - int(end)), size - 1)
    if (first, last) != wanted or total != size or body != call.body[first : last + 1]:
        return [f"not the wanted bytes {wanted} of {call.body!r}"]
    named = ask.field("if-range")
    etag = fields.get("etag", "") if _has_renewed(call) else call.etag
    return ["206 of another version than If-Range names"] if named and named != etag else []


def _has_renewed(call: Call) -> bool:
    """It has told the fields of a stored response, which keeps those that it omits (RFC 9111, 3.2)."""
    return call.status == 304 or call.ask.method == "HEAD"


def _question(case: Case, ask: Ask) -> object:
    if case.options["json_bodies"] and ask.body and ask.field("content-type") == "application/json":
        return json.dumps(json.loads(ask.body), sort_keys=True)
    return ask.body, ask.field("content-type") if ask.body else ""


def _of_304(visit: Visit, call: Call) -> list[str]:
    named, since = visit.ask.field("if-none-match"), visit.ask.field("if-modified-since")
    if named:
        return [] if named == "*" or call.etag in sent(named) else [f"304, but {call.etag} would be served"]
    if not since:
        return ["304 to no condition"]
    # RFC 9111, 4.3.2: without a Last-Modified, when it was received. A 304 or HEAD without one keeps the stored one.
    has_one = call.said.modified or _has_renewed(call)
    last = call.modified if has_one else call.at
    later = parsedate_to_datetime(since).timestamp() < int(last)
    return ["304, but it was modified later"] if later else []


def _of_sharing(case: Case, visit: Visit, call: Call) -> list[str]:
    """For an answer from the call for another request."""
    ask, made, said = visit.ask, call.ask, call.said
    user, maker = case.user(ask), case.user(made)
    found = []
    if "set-cookie" in visit.fields:
        found.append("another visitor's cookie")
    if said.flag == "no-store":
        found.append("not to be stored")
    if user != maker:
        found.append(f"made for {maker or 'nobody'}, served to {user or 'nobody'}")
    if said.depends == "private" and not user:
        found.append(f"private: {made}")
    if said.depends == "cookie" and ask.field("cookie") != made.field("cookie"):
        found.append(f"another cookie's variant: {made}")
    if said.depends == "language" and ask.field("accept-language") != made.field("accept-language"):
        found.append(f"another language: {made}")
    routed = ask.url == LANG and any(map(case.has_language, (ask, made)))
    if routed and ask.cookie("lang") != made.cookie("lang"):
        found.append(f"another cookie in the key: {made}")
    for_all = said.flag == "public" or said.stale == "must-revalidate"  # RFC 9111, 3.5
    if made.field("authorization") and not for_all and not user:
        found.append("made for a credential, and not said to be for all")
    if (
        said.max_age is None
        and said.flag != "public"
        and made.field("cookie")
        and not user
        and ask.url not in (LANG,)
    ):
        found.append("made with a cookie, and nobody said that it may be stored")
    if case.options["anonymous_only"]:
        known = [one for one in (ask, made) if one.field("cookie") or one.field("authorization")]
        found += [f"{one} is no anonymous request" for one in known]
    return found


def _of_time(site: Site, visit: Visit, call: Call) -> list[str]:
    age = visit.at - call.at + call.said.age
    told = visit.fields.get("age")
    found = []
    if call.step < visit.step or told is not None:
        if told != str(int(age)):
            found.append(f"Age is {told}, not {age}")
    if call.step == visit.step:
        return found
    asked, lifetime = visit.ask.field("cache-control"), _lifetime(site, visit, call)
    if age >= lifetime and age - lifetime >= _staleness(site, visit, call, asked):
        found.append(f"{age} s old, where {lifetime} are allowed: {call}")
    if asked == "min-fresh=10" and lifetime - age < 10 and not visit.failing:
        found.append(f"only {lifetime - age} s left")
    wanted = asked == "no-cache" or (asked == "max-age=0" and age > 0)
    if (wanted and not visit.failing) or call.said.flag == "no-cache":
        found.append("not validated")
    return found


def _staleness(site: Site, visit: Visit, call: Call, asked: str) -> float:
    """Seconds for which it may be served stale (RFC 9111, 4.2.4 and 5.2.1.2; RFC 5861)."""
    said = call.said
    if said.stale == "must-revalidate" or said.flag == "no-cache":
        return 0.0
    allowed: list[float] = [said.window("stale-while-revalidate") or 0]
    if asked == "max-stale=10":
        allowed.append(10.001)
    if visit.failing:
        told = said.window("stale-if-error")
        allowed.append(site.case.options["stale_if_error"] if told is None else told)
    return max(allowed)


def _lifetime(site: Site, visit: Visit, call: Call) -> float:
    said = call.said
    dated = said.modified or (_has_renewed(call) and "last-modified" in visit.fields)
    if said.max_age is not None:
        return said.max_age
    known = any(map(call.ask.field, ("x-user", "authorization", "cookie")))
    if dated and said.flag == "public" and known:
        # Its route does not apply to it.
        return max(ROUTE_TTL, (call.at - call.modified) / 10)
    routes = (ROWS,) if site.case.options["anonymous_only"] else (MINE, LANG, ROWS)
    if call.ask.url in routes:
        return ROUTE_TTL
    return (call.at - call.modified) / 10 if dated and site.case.options["heuristics"] else 0
