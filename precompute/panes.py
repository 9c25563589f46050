"""Panes are arithmetic.

    # width 15:  0         15         30         45
    #            (----A----](----B----](----C----]
    #                      ^ 15 belongs to A, whose end is 15

A pane is named by its end, a multiple of the width since the epoch, and holds `(end - width, end]`.
"""


def pane_end(t_ms: int, width_ms: int) -> int:
    """End of the pane that holds `t_ms`."""
    return -(-t_ms // width_ms) * width_ms


def on_grid(t_ms: int, width_ms: int) -> bool:
    """Whether `t_ms` is a pane's end."""
    return t_ms % width_ms == 0


def last_end(t_ms: int, width_ms: int) -> int:
    """The last pane end at or before `t_ms`."""
    return t_ms // width_ms * width_ms


def ends_between(after_ms: int, until_ms: int, width_ms: int) -> range:
    """Ends of the panes in `(after_ms, until_ms]`, in order."""
    first = last_end(after_ms, width_ms) + width_ms
    return range(first, until_ms + 1, width_ms)


def last_touched(t_ms: int, width_ms: int, reach_ms: int) -> int:
    """The last pane end that a sample at `t_ms` can change: `t <= end < t + reach`."""
    return last_end(t_ms + reach_ms - 1, width_ms)
