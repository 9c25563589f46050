"""The table that says since when a cluster's install is there."""

from typing import Any, ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar[list[Any]] = [("precompute", "0003_blobs_as_they_are")]

    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="Install",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("begun_ms", models.BigIntegerField(help_text="When that was, milliseconds since the epoch.")),
            ],
        ),
    ]
