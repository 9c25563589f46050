"""Names of accumulators, their parameters, and what the registry says of them."""

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.sketches.base import one_pane
from precompute.sketches.columns import size_bytes
from precompute.sketches.registry import FAMILIES, accumulator, best, canonical, family_of, fitted, kept_of_vectors


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("kll", "kll"),
        ("kll()", "kll"),
        ("kll(k=200)", "kll"),
        (" kll ( k = 0400 ) ", "kll(k=400)"),
        ("quantile(alpha=5e-3)", "quantile(alpha=0.005)"),
        ("le(bounds=1  2.50)", "le(bounds=1.0 2.5)"),
    ],
)
def test_however_a_name_is_written_it_means_one_accumulator(written: str, name: str) -> None:
    assert canonical(written) == name
    assert accumulator(written).name == name
    assert canonical(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("kl", "no accumulator kl; did you mean kll"),
        ("zzz", "no accumulator zzz; there are sum, count"),
        ("", "is no accumulator"),
        ("kll(k=400", "is no accumulator"),
        ("kll(k=1" + "0" * 500 + ")", "is no accumulator"),
        ("kll(400)", "'400' is no parameter of kll; it has k"),
        ("sum(k=1)", "'k' is no parameter of sum; it has none"),
        ("kll(k=9, k=10)", "k is given twice"),
        ("kll(k=4.5)", "k should be a whole number"),
        ("kll(k=1e3)", "k should be a whole number"),
        ("kll(k=99999)", "k should be between 8 and 4096"),
        ("req(k=13)", "k should be even"),
        ("quantile(alpha=inf)", "alpha should be between 0.001 and 0.1"),
        ("quantile(alpha=nan)", "alpha should be between"),
        ("quantile(alpha=x)", "alpha should be a number"),
        ("le(bounds=2 1)", "bounds should rise"),
        ("le(bounds=1 1)", "bounds should rise"),
        ("le(bounds=)", "bounds should rise"),
        ("le(bounds=1 nan)", "bounds should be between"),
        ("le(bounds=1:2)", "bounds should be numbers with spaces between"),
    ],
)
def test_a_name_that_is_none_is_refused_with_the_remedy(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("(", r"\(")):
        accumulator(name)


@given(family=st.sampled_from(("", *FAMILIES)), rest=st.text(max_size=60))
def test_any_text_is_a_name_or_refused(family: str, rest: str) -> None:
    with contextlib.suppress(ValueError):
        name = canonical(family + rest)
        assert canonical(name) == name


@pytest.mark.parametrize("accuracy_sla", [0.9, 0.95, 0.99, 0.995])
@pytest.mark.parametrize("family", ["quantile", "kll", "req", "tdigest"])
def test_an_accuracy_gives_parameters_whose_bound_keeps_to_it(family: str, accuracy_sla: float) -> None:
    name = fitted(family, accuracy_sla)
    assert family_of(name).name == family
    assert accumulator(name).answers["quantile"].size <= 1 - accuracy_sla + 1e-12


def test_however_low_an_accuracy_no_sketch_of_no_use_is_chosen() -> None:
    assert [fitted(name, 0.3) for name in ("kll", "req", "tdigest")] == ["kll", "req", "tdigest"]
    assert fitted("quantile", 0.3) == "quantile(alpha=0.1)"


@pytest.mark.parametrize("name", ["kll(k=20)", "le", "quantile(alpha=0.02)", "req(k=4)"])
def test_what_cannot_keep_to_an_accuracy_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"answers quantile within .*, not within 0\.01"):
        fitted(name, 0.99)


@pytest.mark.parametrize("accuracy_sla", [0.0, 1.0, -1.0, math.nan, 2.0])
def test_an_accuracy_is_a_share(accuracy_sla: float) -> None:
    with pytest.raises(ValueError, match="accuracy_sla"):
        fitted("kll", accuracy_sla)


def test_every_accuracy_beyond_the_limits_of_a_family_is_refused() -> None:
    for name in ("kll", "req", "tdigest", "quantile"):
        with pytest.raises(ValueError, match="between"):
            fitted(name, 1 - 1e-6)


def test_exact_accumulators_keep_to_every_accuracy() -> None:
    assert fitted("sum", 0.999999) == "sum"


@pytest.mark.parametrize("name", kept_of_vectors())
@pytest.mark.parametrize("n", [1, 50, 1000, 100_000])
def test_the_bytes_that_a_family_states_are_not_exceeded(name: str, n: int) -> None:
    values = 10 ** np.random.default_rng(n).uniform(-3, 2.9, n)
    state = accumulator(name).build(one_pane(values, np.zeros(n, np.int32), np.zeros(n, np.int32), 1))
    offsets = 8 * sum(1 for c in accumulator(name).columns if c.name.endswith("off"))
    assert size_bytes(state) - offsets <= family_of(name).row_bytes(accumulator(name), n)


@pytest.mark.parametrize("name", kept_of_vectors())
def test_up_to_the_few_values_that_a_family_states_it_is_exact(name: str) -> None:
    if "quantile" not in accumulator(name).answers:
        return
    n = family_of(name).few
    values = np.random.default_rng(1).normal(0, 10, n)
    state = accumulator(name).build(one_pane(values, np.zeros(n, np.int32), np.zeros(n, np.int32), 1))
    for phi in np.linspace(0, 1, 41) if n else ():
        found = accumulator(name).estimate(state, "quantile", float(phi))[0]
        assert math.isclose(found, np.quantile(values, phi), rel_tol=1e-12)


def test_the_best_way_is_the_exact_one_then_the_always_held_then_the_narrowest() -> None:
    def needs(*kept: str) -> tuple[str, ...] | None:
        way = best("quantile", kept)
        return way.needs if way else None

    assert needs("le", "tdigest", "kll", "quantile(alpha=0.1)") == ("quantile(alpha=0.1)",)
    assert needs("le", "tdigest", "kll") == ("kll",)
    assert needs("le", "req") == ("req",)
    assert needs("sum", "count") is None
    assert best("avg", ("count", "kll", "sum")) is not None
    assert best("avg", ("sum", "kll")) is None
