"""Forms of code that a search of unparsed text could miss, and texts that could keep it busy for ever."""

from __future__ import annotations

import pytest

from stampede_guard.audit import all_rules
from stampede_guard.audit.prefilter import Text
from tests.audit.test_prefilter import filtered, unfiltered

FORMS = {
    "a definition in a text whose quotes are unclear": (
        "from functools import lru_cache\n"
        'MARK = \'"""\'\n'
        "@lru_cache(maxsize=len('''\n"
        "def g(): pass\n"
        "'''))\n"
        "async def rates(day):\n"
        "    return await ask(day)\n"
    ),
    "another name for Django's cache": (
        "from django.core.cache import caches\n"
        "store = caches['default']\n"
        "def view(request):\n"
        "    store.clear()\n"
    ),
    "the session of Flask": (
        "from flask import session\n"
        "from flask_caching import Cache\n"
        "cache = Cache()\n"
        "@app.route('/')\n"
        "@cache.cached(timeout=60)\n"
        "def page():\n"
        "    return str(session['account'])\n"
    ),
    "a look that wraps": (
        "prices_cache = {}\n"
        "def prices(day, region):\n"
        "    if (day in\n"
        "            prices_cache):\n"
        "        return prices_cache[day]\n"
        "    prices_cache[day] = ask(day, region)\n"
        "    return prices_cache[day]\n"
    ),
    "a name that is not ASCII": (
        "from functools import lru_cache\n"
        "@lru_cache\n"
        "async def über(day):\n"
        "    try:\n"
        "        return requests.get(day).json()\n"
        "    except Exception:\n"
        "        return {}\n"
        "def other():\n"
        "    pass\n"
    ),
    "line ends of an old Mac": (
        "from functools import lru_cache\r@lru_cache\rasync def rates(day):\r    return await ask(day)\r"
    ),
    "a form feed": (
        "from functools import lru_cache\n@lru_cache\n\x0casync def rates(day):\n    return await ask(day)\n"
    ),
    "a signature at the margin": (
        "from functools import lru_cache\n"
        "@lru_cache\n"
        "def rates(\n"
        "day, region\n"
        "):\n"
        "    try:\n"
        "        return requests.get(day).json()\n"
        "    except Exception:\n"
        "        return {}\n"
    ),
    "an argument at the margin": (
        "from functools import lru_cache\n"
        "@lru_cache\n"
        "def rates(day):\n"
        "    connection.execute(\n"
        '"select 1")\n'
        "    yield day\n"
    ),
    "a string that goes on at the margin": (
        "from functools import lru_cache\n"
        "@lru_cache\n"
        "def rates(day):\n"
        '    text = "select 1 \\\n'
        'from x"\n'
        "    try:\n"
        "        return requests.get(day).json()\n"
        "    except Exception:\n"
        "        return {}\n"
    ),
    "two kinds of quotes": (
        "from functools import lru_cache\n"
        "@lru_cache\n"
        "def rates(day):\n"
        "    text = \"\"\" '''\n"
        'select"""\n'
        "    yield text\n"
    ),
    "a definition in the decorator's text": (
        "from functools import lru_cache\n"
        '@lru_cache(maxsize=len("""\n'
        "def g(): pass\n"
        '"""))\n'
        "async def rates(day):\n"
        "    return await ask(day)\n"
    ),
    "brackets around the decorator": (
        "from functools import lru_cache\n"
        "@(lru_cache(maxsize=None))\n"
        "async def rates(day):\n"
        "    return await ask(day)\n"
    ),
    "a name with an annotation": (
        "import functools\n"
        "memo: object = functools.lru_cache(maxsize=None)\n"
        "@memo\n"
        "async def rates(day):\n"
        "    return await ask(day)\n"
    ),
    "a name that may be one of two": (
        "import functools\n"
        "try:\n"
        "    memo = functools.cache\n"
        "except AttributeError:\n"
        "    memo = functools.lru_cache(None)\n"
        "@memo\n"
        "async def rates(day):\n"
        "    return await ask(day)\n"
    ),
    "two statements in a line": (
        "import functools; memo = functools.lru_cache(None)\n"
        "@memo\n"
        "async def rates(day):\n"
        "    return await ask(day)\n"
    ),
    "mixed case in SQL": (
        "from fastapi import FastAPI\n"
        "\n"
        "@app.on_event('startup')\n"
        "async def startup():\n"
        "    await db.execute('Truncate table locks')\n"
    ),
    "a space before the bracket": (
        "import redis\nr = redis.Redis()\ndef forget():\n    r.delete (\n        'user:*'\n    )\n"
    ),
    "a call in the key": (
        "import redis\nr = redis.Redis()\ndef forget(user):\n    r.delete(f'user:{user.key()}:*')\n"
    ),
    "a view of a type": (
        "from functools import cache\n"
        "from django.views.generic import ListView\n"
        "class Pages(ListView[Page]):\n"
        "    @cache\n"
        "    def parent(self):\n"
        "        return Page.objects.get(pk=1)\n"
    ),
    "statistics through a helper": (
        "import redis\n"
        "r = redis.Redis()\n"
        "def load(key):\n"
        "    return requests.get(key).json()\n"
        "def cached_stats(key, work):\n"
        "    found = r.get(key)\n"
        "    if found:\n"
        "        return found\n"
        "    found = work(key)\n"
        "    r.set(key, found, ex=60)\n"
        "    return found\n"
        "def totals(day):\n"
        "    return cached_stats(f'totals:{day}', load)\n"
    ),
    "a lock file of a dict": (
        "import os\n"
        "def begin(self, name):\n"
        "    if self.lock_file[name].exists():\n"
        "        return\n"
        "    self.lock_file[name].write_text(str(os.getpid()))\n"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_no_form_is_lost(form: str) -> None:
    source = FORMS[form]
    assert filtered(source) == unfiltered(source)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_has_a_finding_at_all(form: str) -> None:
    assert unfiltered(FORMS[form])


HOSTILE = [
    *(
        "acheache",
        "locklock",
        "if cache",
        "delete(delete(",
        "global ",
        "cache_",
        "*' ",
        "@cache\n",
        "@cached\n#",
        "'''",
    ),
    *(
        '"""',
        "my_cache[0]",
        "my_cache[[",
        "def f():\n",
        "    ",
        "\r",
        "async ",
        "@(",
        "=(",
        "memo[",
        "a.a",
        '*"',
        "lock_file",
    ),
]


@pytest.mark.parametrize("part", HOSTILE, ids=repr)
def test_a_hostile_text_is_read_to_its_end(part: str) -> None:
    for before in ("", "import redis\ndef f(request):\n    my_cache[0] = 1\n    except Exception\n    "):
        data = (before + part * (100_000 // len(part))).encode()
        text = Text(data)
        assert sum(rule.may_apply(text) for rule in all_rules()) >= 0
