"""`python manage.py compilekernels`: compile the numba kernels into their cache, once per install."""

import time
from typing import Any

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Compile the kernels into the cache beside the code, so that the first start is a quick one."
    requires_system_checks: tuple[str, ...] = ()

    def handle(self, *args: Any, **given: Any) -> None:
        self.stdout.write("compiling the kernels, once; this can take a minute or two …")
        self.stdout.flush()
        begin_s = time.monotonic()
        from asap_project.warm import warm
        from precompute.kernels import forget_old_kernels

        warm()
        forget_old_kernels()
        self.stdout.write(f"kernels are compiled ({time.monotonic() - begin_s:.1f} s)")
