"""Herds without callers, and those of a few administrators, are information. The other files of the project decide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stampede_guard.audit.command import main

FILL = """from django.core.cache import cache
from shop.models import Order


def totals():
    found = cache.get("totals")
    if found is None:
        found = Order.objects.values("day").annotate(sold=Sum("price")).aggregate(Max("sold"))
        cache.set("totals", found, 60)
    return found
"""


def told(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """The level and the message of the finding."""
    given = arguments or ("--select", "SG2", str(folder))
    main([*given, "--output-format", "json", "--no-cache", "--no-config"])
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    return finding["level"], finding["message"]


def project(folder: Path, files: dict[str, str]) -> Path:
    """A project with the fill and other files."""
    folder = folder / "site"  # the tests' own folders have telling names
    for name, text in {"pyproject.toml": "", "shop/views_data.py": FILL, **files}.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


def test_a_fill_that_a_page_uses_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    used = "from shop.views_data import totals\n\ndef page(request):\n    return render(totals())\n\nurls = [page]\n"
    level, message = told(project(tmp_path, {"shop/pages.py": used}), capsys)
    assert level == "warning"
    assert "uses it" not in message


@pytest.mark.parametrize(
    "others",
    [
        {"shop/pages.py": "from shop.views_data import totals\n"},
        {"shop/pages.py": "from shop import views_data\n"},
        {
            "shop/pages.py": "import shop.views_data\n",
            "tests/test_totals.py": "from shop.views_data import totals\n\ndef test_it():\n    assert totals()\n",
        },
        # What uses it is itself not used.
        {
            "shop/pages.py": "from shop.views_data import totals\n\ndef page():\n    return totals()\n",
            "shop/urls.py": "import shop.pages\n",
        },
        {
            "shop/pages.py": '"""totals() is slow."""\nimport shop.views_data\n\nlog("totals failed for this day")\n'
        },
    ],
)
def test_a_fill_that_nothing_uses_is_information_that_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], others: dict[str, str]
) -> None:
    level, message = told(project(tmp_path, others), capsys)
    assert (level, message.endswith("(nothing in this project uses it)")) == ("information", True)


def test_a_file_that_nothing_imports_may_be_started_or_be_for_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(project(tmp_path, {}), capsys)[0] == "warning"


@pytest.mark.parametrize(
    "others",
    [
        {"shop/templates/page.html": "{{ totals }}"},
        {"shop/settings.py": 'CONTEXT = ["shop.views_data.totals"]\n'},
        {"shop/__init__.py": "from shop.views_data import totals\n"},
        {"shop/views_data.py": FILL.replace("def totals", "@app.task\ndef totals")},
        {"shop/views_data.py": FILL.replace("\ndef totals():", "\nclass Page(View):\n  def totals(self):")},
        # A file that cannot be parsed may use it.
        {"shop/pages.py": "from shop.views_data import totals\nprint totals()\n"},
    ],
)
def test_what_a_framework_or_a_text_may_call_stays_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], others: dict[str, str]
) -> None:
    level, message = told(project(tmp_path, others), capsys)
    assert (level, "uses it" in message) == ("warning", False)


@pytest.mark.parametrize(
    "others",
    [
        {
            "shop/admin.py": "from shop.views_data import totals\n\n@register\ndef page(_):\n    return totals()\n"
        },
        {"shop/pages.py": "@staff_member_required\ndef page(request):\n    return totals()\n"},
        {"shop/management/commands/report.py": "def handle():\n    print(totals())\n\nhandle()\n"},
        {
            "shop/sums.py": "from shop.views_data import totals\n\ndef both():\n    return totals(), 1\n",
            "shop/admin.py": "from shop.sums import both\n\n@register\ndef page(request):\n    return both()\n",
        },
    ],
)
def test_a_fill_of_administrators_is_information(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], others: dict[str, str]
) -> None:
    level, message = told(project(tmp_path, others), capsys)
    assert level == "information"
    assert message.endswith("(only pages of administrators, commands or tests use it)")


def test_callers_outside_the_audited_folder_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project(tmp_path, {"jobs/pages.py": "from shop.views_data import totals\n\nshow(totals())\n"})
    assert told(folder, capsys, "--select", "SG2", str(folder / "shop"))[0] == "warning"


def test_of_a_single_file_nobody_knows_the_callers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project(tmp_path, {"shop/pages.py": "import shop.views_data\n"})
    assert told(folder, capsys, "--select", "SG2", str(folder / "shop" / "views_data.py"))[0] == "warning"


def test_a_rule_that_is_selected_in_full_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project(tmp_path, {"shop/pages.py": "import shop.views_data\n"})
    assert told(folder, capsys, "--select", "SG201", str(folder))[0] == "warning"
