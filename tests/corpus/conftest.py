"""The folder of the corpus, where there is one."""

import os
from pathlib import Path

import pytest

from tests.corpus.reading import FILE


@pytest.fixture(scope="session")
def corpus_dir() -> Path:
    folder = Path(os.environ.get("CORPUS_DIR", ""))
    if not (folder / FILE).is_file():
        pytest.skip(f"needs CORPUS_DIR, a folder with {FILE}")
    return folder
