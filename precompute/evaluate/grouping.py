"""The groups of aggregation operators."""

from precompute.evaluate.values import Frame
from precompute.labels import METRIC_NAME


def grouping(frame: Frame, labels: tuple[str, ...], without: bool) -> Frame:
    """The labels that make a group's key; `without` drops the metric name too."""
    return frame.drop((*labels, METRIC_NAME)) if without else frame.keep(labels)
