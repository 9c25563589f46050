"""The table of aggregations that were not written in the config."""

from typing import Any, ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar[list[Any]] = [("precompute", "0001_summary_pack")]

    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="AggregationDefinition",
            fields=[
                ("aggregation_id", models.CharField(max_length=128, primary_key=True, serialize=False)),
                ("content", models.BinaryField(help_text="The definition (definitions.py) as JSON.")),
            ],
        ),
    ]
