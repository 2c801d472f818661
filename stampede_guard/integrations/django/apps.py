"""The Django app `stampede_guard.integrations.django`: a management command and system checks."""

from __future__ import annotations

from django.apps import AppConfig

from stampede_guard.integrations.django.checks import check_caches, check_models

__all__ = ["StampedeGuardConfig"]


class StampedeGuardConfig(AppConfig):
    name = "stampede_guard.integrations.django"
    label = "stampede_guard"
    verbose_name = "stampede_guard"

    def ready(self) -> None:
        from django.core.checks import Tags, register

        register(check_caches, Tags.caches)
        register(check_models, Tags.models)
