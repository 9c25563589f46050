"""Tables of the core. Only stores/database.py and stores/definitions.py read and write them."""

from django.db import models
from django.db.models import Q


class SummaryPack(models.Model):
    """A summary of 1 to 240 panes of one aggregation. Never updated, except to set it aside."""

    aggregation_id = models.CharField(max_length=128)
    first_end_ms = models.BigIntegerField(help_text="End of its first pane, milliseconds since the epoch.")
    last_end_ms = models.BigIntegerField(help_text="End of its last pane, milliseconds since the epoch.")
    panes = models.BinaryField(help_text="Ends, seen entries, plans and flags of its panes (stores/pane_index.py).")
    blob = models.BinaryField(help_text="The summary (stores/blob.py).")
    size_bytes = models.BigIntegerField(help_text="Length of panes and blob.")
    damaged = models.BooleanField(default=False, help_text="Set aside: its bytes could not be read.")

    class Meta:
        constraints = [  # noqa: RUF012 (Django's way)
            models.UniqueConstraint(
                fields=["aggregation_id", "last_end_ms"], condition=Q(damaged=False), name="one_pack_per_last_end"
            )
        ]


class AggregationDefinition(models.Model):
    """An aggregation that was not written in the config."""

    aggregation_id = models.CharField(max_length=128, primary_key=True)
    content = models.BinaryField(help_text="The definition (definitions.py) as JSON.")


class Install(models.Model):
    """One row, from when a cluster's first logs were made: logs that are missing later were lost."""

    begun_ms = models.BigIntegerField(help_text="When that was, milliseconds since the epoch.")


class NodeInstall(models.Model):
    """One row: the install of the single node whose summaries are here."""

    install_id = models.CharField(max_length=64, help_text="As in its data_dir.")
