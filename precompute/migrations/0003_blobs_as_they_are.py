"""PostgreSQL keeps blobs as they come: they are compressed already."""

from typing import Any, ClassVar

from django.db import migrations


def keep_as_they_are(apps: Any, schema_editor: Any) -> None:
    """Of rows that are written from now on."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE precompute_summarypack ALTER COLUMN blob SET STORAGE EXTERNAL")


class Migration(migrations.Migration):
    dependencies: ClassVar[list[Any]] = [("precompute", "0002_aggregation_definition")]

    operations: ClassVar[list[Any]] = [migrations.RunPython(keep_as_they_are, migrations.RunPython.noop)]
