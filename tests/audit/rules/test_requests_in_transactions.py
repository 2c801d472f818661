"""SG603 under Django's setting ATOMIC_REQUESTS: the program's settings decide."""

from __future__ import annotations

from pathlib import Path

import pytest

from stampede_guard.audit import audit_source
from stampede_guard.audit.engine import AuditOptions

_MANAGE = 'import os\nos.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.local")\n'
_SAVES = """
from django.core.cache import cache

class Page:
    def rename(self, name):
        self.name = name
        self.save()
        cache.delete(f"page:{self.pk}")
"""


def found(folder: Path, common: str, source: str) -> list[str]:
    settings = folder / "config" / "settings"
    settings.mkdir(parents=True)
    (folder / "shop").mkdir()
    (folder / "manage.py").write_text(_MANAGE, "utf-8")
    (settings / "local.py").write_text("from .common import *\n", "utf-8")
    (settings / "common.py").write_text(common, "utf-8")
    options = AuditOptions(codes=frozenset(("SG603",)))
    return [
        one.code
        for one in audit_source(str(folder / "shop" / "models.py"), source.encode(), options).findings
    ]


@pytest.mark.parametrize(
    "common",
    [
        'DATABASES["default"]["ATOMIC_REQUESTS"] = True\n',
        'DATABASES = {"default": {"NAME": "shop", "ATOMIC_REQUESTS": True}}\n',
    ],
)
def test_a_deletion_comes_before_the_commit_if_each_request_is_a_transaction(
    tmp_path: Path, common: str
) -> None:
    assert found(tmp_path, common, _SAVES) == ["SG603"]


def test_each_statement_commits_without_the_setting(tmp_path: Path) -> None:
    assert found(tmp_path, 'DATABASES = {"default": {"ATOMIC_REQUESTS": False}}\n', _SAVES) == []


@pytest.mark.parametrize(
    "source",
    [
        _SAVES.replace("cache.delete(", "transaction.on_commit(lambda: cache.delete(").replace('}")', '}"))'),
        _SAVES.replace("        self.save()\n", ""),
        _SAVES.replace("    def rename", "    @transaction.non_atomic_requests\n    def rename"),
        _SAVES.replace("    def rename", "    @shared_task\n    def rename"),
    ],
    ids=["on-commit", "writes-nothing", "not-atomic", "a-task"],
)
def test_what_waits_for_the_commit_is_left_alone(tmp_path: Path, source: str) -> None:
    assert found(tmp_path, 'DATABASES["default"]["ATOMIC_REQUESTS"] = True\n', source) == []


def test_a_receiver_runs_in_the_transaction_of_the_request(tmp_path: Path) -> None:
    source = """
@receiver(post_save, sender=Page)
def changed(sender, instance, **kwargs):
    cache.delete(f"page:{instance.pk}")
"""
    assert found(tmp_path, 'DATABASES["default"]["ATOMIC_REQUESTS"] = True\n', source) == ["SG603"]
