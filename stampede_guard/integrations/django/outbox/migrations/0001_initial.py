"""The table of the outbox."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[migrations.operations.base.Operation]] = [
        migrations.CreateModel(
            name="OutboxRow",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("cache", models.TextField()),
                ("tags", models.JSONField()),
                ("written_at", models.DateTimeField(db_index=True)),
            ],
            options={"db_table": "stampede_guard_django_outbox"},
        ),
    ]
