"""The table that says which single node's summaries these are."""

from typing import Any, ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar[list[Any]] = [("precompute", "0004_install")]

    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="NodeInstall",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("install_id", models.CharField(help_text="As in its data_dir.", max_length=64)),
            ],
        ),
    ]
