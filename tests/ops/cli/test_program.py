"""The command line as a program: help, errors, exit codes, what it imports, and what it keeps to itself."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from urllib.parse import quote

import pytest

import stampede_guard.ops.cli
from stampede_guard.audit.command import main as audit
from stampede_guard.errors import Misuse
from stampede_guard.ops.cli.commands import COMMANDS
from stampede_guard.ops.cli.secrets import shown, without_secrets
from stampede_guard.ops.cli.texts import body_text, bytes_text, parse_seconds, seconds_text
from tests.ops.cli.conftest import PASSWORD, ROOT, Operator


def test_help_lists_every_command(operator: Operator) -> None:
    told = operator.run("--help")
    assert told.code == 0
    assert [name for name in COMMANDS if f"  {name} " not in told.out] == []


@pytest.mark.parametrize("command", COMMANDS)
async def test_every_command_has_help(operator: Operator, command: str) -> None:
    told = await operator.call(command, "--help")
    assert told.code == 0
    assert PASSWORD not in told.out


async def test_what_does_not_exist_is_exit_code_2(operator: Operator) -> None:
    assert (await operator.call("nope")).code == 2
    assert (await operator.call("keys", "--nope")).code == 2
    assert (await operator.call("--version")).out.startswith("stampede_guard ")


@pytest.mark.parametrize("command", ["keys", "doctor", "mode"])
async def test_without_a_url_it_says_how_to_give_one(operator: Operator, command: str) -> None:
    told = await operator.call(command, STAMPEDE_GUARD_URL="", REDIS_URL="")
    assert told.code == 2
    assert "write --url redis://host:6379/0, or set $STAMPEDE_GUARD_URL" in told.err


@pytest.mark.parametrize("command", [["keys"], ["doctor"], ["mode"], ["show", "=a"], ["invalidate", "=a"]])
async def test_memory_is_out_of_reach_and_said_to_be(operator: Operator, command: list[str]) -> None:
    told = await operator.call(*command, "--url", "memory://")
    assert told.code == 2
    assert "give the URL of a" in told.err


async def test_a_server_that_is_not_there_is_exit_code_1(operator: Operator) -> None:
    told = await operator.call("keys", "--url", f"redis://u:{PASSWORD}@127.0.0.1:1/0")
    assert told.code == 1
    assert "cannot be reached" in told.err
    told = await operator.call("keys", "--json", "--url", f"redis://u:{PASSWORD}@127.0.0.1:1/0")
    assert "cannot be reached" in told.json["error"]


async def test_a_wrong_password_is_refused_and_not_repeated(operator: Operator) -> None:
    url = operator.url.replace(PASSWORD, "wrong-" + PASSWORD)
    told = await operator.call("keys", "--url", url)
    assert told.code == 1
    assert "refuses this client" in told.err


async def test_a_url_that_cannot_be_read_is_told_without_its_password(operator: Operator) -> None:
    for url in (
        f"redis://:{PASSWORD}@host:port/0",
        f"redis+cluster://:{PASSWORD}@ho st:1",
        f"http://u:{PASSWORD}@h",
    ):
        told = await operator.call("doctor", "--url", url)
        assert told.code == 2, told


def test_the_list_of_commands_imports_none_of_them(operator: Operator) -> None:
    program = (
        "import sys; from stampede_guard.ops.cli.app import app; "
        "from typer.testing import CliRunner; r = CliRunner().invoke(app, ['--help']); "
        "print(r.exit_code, [m for m in sys.modules if m == 'redis' or '.cli.commands.' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "0 []"
    listed = " ".join(operator.run("--help").out.split())
    for command, summary in COMMANDS.items():
        assert f"{command} {summary}" in listed


def test_no_command_needs_more_than_its_own_module() -> None:
    program = (
        "import sys; from stampede_guard.ops.cli.app import app; "
        "from typer.testing import CliRunner; r = CliRunner().invoke(app, ['explain', 'shop:=a']); "
        "print(r.exit_code, [m for m in ('redis', 'stampede_guard.api.guard', 'stampede_guard.stores.console.console') "
        "if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "0 []"


def test_without_its_packages_it_says_what_to_install() -> None:
    program = (
        "import importlib.util as u; find = u.find_spec; "
        "u.find_spec = lambda name, *a: None if name == 'typer' else find(name, *a); "
        "from stampede_guard.ops.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert (
        done.stderr
        == "The command line needs two more packages: pip install '.[cli]' in a clone of the repository\n"
    )


def test_the_installed_command_is_the_same_program() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    module, _, name = project["scripts"]["stampede-guard"].partition(":")
    assert getattr(importlib.import_module(module), name) is stampede_guard.ops.cli.main


SECRET = "p@ss/w:rd?#"


@pytest.mark.parametrize(
    "url",
    [
        f"redis://user:{SECRET}@host:6379/0",
        f"rediss://:{quote(SECRET, safe='')}@host/0?ssl_password={quote(SECRET, safe='')}",
        f"redis+sentinel://h:1,h:2/m/0?sentinel_password={quote(SECRET, safe='')}",
        f"redis+cluster://u:{quote(SECRET, safe='')}@h:1,h:2",
        f"REDIS://user:{SECRET}@host:6379/0",
        f"user:{SECRET}@host:6379",
        f" //user:{SECRET}@host:6379",
        f"redis:/user:{SECRET}@host:6379",
        f"redis:user:{SECRET}@host:6379",
        f"host=h user=u password={SECRET} dbname=d",
        f"host=h password = '{SECRET}'",
        f"rediss://h/0?ssl_keyfile_password={quote(SECRET, safe='')}",
    ],
)
def test_no_form_of_a_password_is_shown(url: str) -> None:
    for text in (
        shown(url),
        without_secrets(f"cannot use {url} with {SECRET} or {quote(SECRET, safe='')}", url),
    ):
        assert SECRET not in text
        assert quote(SECRET, safe="") not in text


def test_nor_that_of_another_url_in_a_librarys_error() -> None:
    said = (
        "Error 111 connecting to REDIS://user:s3cret-word@other:1 (was rediss+sentinel://u:s3cret-word@h:2)"
    )
    assert without_secrets(said, "redis://h:1") == (
        "Error 111 connecting to REDIS://user:***@other:1 (was rediss+sentinel://u:***@h:2)"
    )


def test_a_long_text_takes_no_longer_than_its_length() -> None:
    """Each letter of a long word began a search of its own: minutes for this one."""
    word = "a" * 1_000_000
    assert without_secrets(word, word) == word


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59, "59 s"),
        (600, "10 min"),
        (7200, "2.0 h"),
        (200_000, "2.3 d"),
        (None, "for ever"),
    ],
)
def test_times_are_written_for_people(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("366d", 366 * 86_400)]
)
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "1y", "1h30", "53w", "367d", "1e9", "nan", "m", "1" * 40])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(Misuse, match="write 90s, 30m, 2h or 1d"):
        parse_seconds(text)


def test_bodies_are_shown_as_what_they_are() -> None:
    assert body_text(b'{"a": 1}', complete=True) == '{\n  "a": 1\n}'
    assert body_text(b"\x81\xa1a\x01", complete=True) == "{'a': 1}"
    assert body_text(b"\xc1\xff", complete=True) == r"b'\xc1\xff'"
    assert body_text(b"abc", complete=False).endswith("... (cut)")
    assert [bytes_text(size) for size in (5, 2048, 3 * 1024**2)] == ["5 B", "2.0 KiB", "3.0 MiB"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("kyes",), "do you mean keys?"),
        (("doctr",), "do you mean doctor?"),
        (("xyzzy",), "there are doctor, keys"),
        (("leases", "shwo", "import"), "do you mean show?"),
        (("keys", "--namespce", "shop"), "--namespace"),
        (("mode", "shop.quality", "of"), "'off'"),
    ],
)
async def test_what_is_mistyped_gets_a_suggestion(
    operator: Operator, typed: tuple[str, ...], meant: str
) -> None:
    told = await operator.call(*typed)
    assert told.code == 2
    assert meant in " ".join(told.err.split())


def test_so_does_a_mistyped_option_of_the_audit(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(["--selct=SG101", "."]) == 2
    assert "unrecognized arguments: --selct=SG101 (do you mean --select?)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url", ["user:s3cret-word@h:6379", "//user:s3cret-word@h", "redis:/user:s3cret-word@h"]
)
@pytest.mark.parametrize("command", [("leases", "list"), ("jobs", "list"), ("keys",), ("doctor",)])
async def test_a_url_without_its_scheme_is_refused_without_its_password(
    operator: Operator, command: tuple[str, ...], url: str
) -> None:
    told = await operator.call(*command, "--url", url)
    assert told.code == 2 and told.err
    assert "s3cret-word" not in told.out + told.err
