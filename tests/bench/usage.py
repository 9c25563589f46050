"""What a server's processes use, and what machine this is, read from /proc."""

import os
import platform
import threading
from pathlib import Path

from tests.running import poll_until

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE_S = 2.0
_IDLE_SHARE = 0.05
SETTLE_S = 300.0


def tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found, todo = [], [pid]
    while todo:
        here = todo.pop()
        found.append(here)
        for path in Path(f"/proc/{here}/task").glob("*/children"):
            todo += [int(child) for child in path.read_text().split()]
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds, user and system, of the processes of a tree and of those of their children that have ended."""
    return sum(_process_cpu_s(process) for process in tree(pid))


def _process_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / _TICKS_PER_S


def memory_bytes(pid: int) -> int:
    """Resident memory of a tree; pages that its processes share are counted once (Pss)."""
    return sum(_process_memory_bytes(process) for process in tree(pid))


def _process_memory_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("smaps_rollup has no Pss")


def disk_bytes(folder: Path) -> int:
    """Space that the files below a folder take on disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def wait_until_idle(pid: int) -> None:
    """Until the tree uses hardly any CPU: what a server does after its replies belongs to them."""

    def is_idle() -> bool:
        before_s = cpu_s(pid)
        threading.Event().wait(_IDLE_S)
        return cpu_s(pid) - before_s <= _IDLE_SHARE * _IDLE_S

    poll_until(is_idle, SETTLE_S, "the server is idle")


def cores() -> int:
    """Cores that this process, and so every server it starts, may use."""
    return len(os.sched_getaffinity(0))


def cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
