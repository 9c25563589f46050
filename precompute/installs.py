"""One database, one single node: its panes are made of one log, and another's would be served as its own.

    install      in the folder of the log: the id of this install; made at its first start
"""

import secrets
from collections.abc import Callable
from pathlib import Path

from precompute.errors import InstallMismatch
from precompute.progress_file import replace_file

Claim = Callable[[str], str]
"""Gives the database this install id where it has none; the one that it has then."""


def agree_on_install(folder: Path, is_new: bool, claim: Claim) -> None:
    """Make sure that the database is this install's. One that was there before installs had ids takes the database's.

    folder: of the log. is_new: nothing was ever written there. Raises InstallMismatch where the database is another's,
    StoreError, and OSError.
    """
    path = folder / "install"
    known = path.read_text() if path.exists() else ""
    own = known or secrets.token_hex(8)
    holder = claim(own)
    if holder != own and (known or is_new):
        raise InstallMismatch(
            f"the database at database.url holds the summaries of install {holder}, but {folder.parent} is "
            f"{f'install {known}' if known else 'a new install'}: name a database of its own, or use the data_dir of "
            f"{holder}; if that is gone for good, delete the row of the table precompute_nodeinstall"
        )
    if holder != known:
        replace_file(path, holder.encode(), durable=True)
