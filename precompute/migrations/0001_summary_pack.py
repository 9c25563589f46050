"""The table of summaries."""

from typing import Any, ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies: ClassVar[list[Any]] = []

    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="SummaryPack",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("aggregation_id", models.CharField(max_length=128)),
                (
                    "first_end_ms",
                    models.BigIntegerField(help_text="End of its first pane, milliseconds since the epoch."),
                ),
                (
                    "last_end_ms",
                    models.BigIntegerField(help_text="End of its last pane, milliseconds since the epoch."),
                ),
                (
                    "panes",
                    models.BinaryField(
                        help_text="Ends, seen entries, plans and flags of its panes (stores/pane_index.py)."
                    ),
                ),
                ("blob", models.BinaryField(help_text="The summary (stores/blob.py).")),
                ("size_bytes", models.BigIntegerField(help_text="Length of panes and blob.")),
                ("damaged", models.BooleanField(default=False, help_text="Set aside: its bytes could not be read.")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("damaged", False)),
                        fields=("aggregation_id", "last_end_ms"),
                        name="one_pack_per_last_end",
                    )
                ],
            },
        ),
    ]
