"""Warnings and infos of a query."""

from precompute.evaluate.context import Notes


def test_each_text_stands_once_with_its_kind() -> None:
    notes = Notes()
    for text in ("a", "b", "a"):
        notes.warn(text)
        notes.inform(text)
    assert notes.warnings == ("PromQL warning: a", "PromQL warning: b")
    assert notes.infos == ("PromQL info: a", "PromQL info: b")


def test_more_than_ten_are_counted() -> None:
    notes = Notes()
    for k in range(12):
        notes.warn(str(k))
    for k in range(10):
        notes.inform(str(k))
    warnings, infos = notes.shown()
    assert warnings == (*notes.warnings[:10], "2 more warning annotations omitted")
    assert infos == notes.infos
