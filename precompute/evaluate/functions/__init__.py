"""Every function: one line in the registry of its family.

A rule gets the call, what to evaluate against, and the evaluator for its arguments. A new function is a rule in the
file of its family, a line in that file's mapping, and a test.
"""

from collections.abc import Mapping

from precompute.evaluate.context import Rule
from precompute.evaluate.functions import over_time

FUNCTIONS: Mapping[str, Rule] = {**over_time.RULES}
