"""docs/shapes.md: how much of the code is one mode's alone."""

from collections.abc import Iterable, Iterator, Sequence

from tests.running import ROOT
from tests.shapes.counted import Counts, File, counts
from tests.shapes.measured import MODES, PACKAGES

PAGE = ROOT / "docs" / "shapes.md"
BEGIN, END = "<!-- written by make shapes -->\n", "<!-- until here -->\n"


def written(text: str, files: Sequence[File]) -> str:
    """The page with new tables. ValueError where it has no place for them."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{PAGE} has no place for tables")
    return f"{before}{BEGIN}\n{tables(files)}\n{END}{after}"


def tables(files: Sequence[File]) -> str:
    """All packages, then the files with lines that ran in one mode alone, most of them first."""
    lines = [*package_table(files), "", *file_table(file for file in files if any(file.only))]
    return "\n".join(lines) + "\n"


def package_table(files: Sequence[File]) -> Iterator[str]:
    yield _header("package", "share", "of what ran")
    yield "| --- |" + " ---: |" * 7
    for package in PACKAGES:
        found = counts(file for file in files if file.package == package)
        yield _row(f"`{package}`", found, f"{found.share:.1%}", f"{found.share_of_run:.1%}")
    total = counts(files)
    yield _row("**all**", total, f"**{total.share:.1%}**", f"{total.share_of_run:.1%}")


def file_table(files: Iterable[File]) -> Iterator[str]:
    yield _header("file", "lines")
    yield "| --- |" + " ---: |" * 5 + " --- |"
    for file in sorted(files, key=lambda file: (-sum(counts([file]).only), file.path)):
        yield _row(f"`{file.path}`", counts([file]), "; ".join(_spans(file)))


def _header(first: str, *last: str) -> str:
    names = (first, "lines in all", "both", *(f"only {mode}" for mode in MODES), "neither", *last)
    return f"| {' | '.join(names)} |"


def _row(name: str, found: Counts, *last: str) -> str:
    numbers = (found.executable, found.both, *found.only, found.neither)
    return f"| {' | '.join([name, *(f'{number:,}' for number in numbers), *last])} |"


def _spans(file: File) -> Iterator[str]:
    """`cluster: 12-15, 20`, or `all` where no line ran in another mode."""
    for mode, lines in zip(MODES, file.only, strict=True):
        if lines:
            whole = not file.both and len(lines) == sum(map(len, file.only))
            yield f"{mode}: {'all that ran' if whole else ', '.join(_runs(file, lines))}"


def _runs(file: File, lines: frozenset[int]) -> Iterator[str]:
    """Neighbours together: no line that could run stands between the first and the last."""
    others = sorted((file.both | file.neither).union(*file.only) - lines)
    begin = end = None
    for line in sorted(lines):
        if begin is not None and any(end < other < line for other in others):
            yield f"{begin}" if begin == end else f"{begin}-{end}"
            begin = None
        begin, end = line if begin is None else begin, line
    if begin is not None:
        yield f"{begin}" if begin == end else f"{begin}-{end}"
