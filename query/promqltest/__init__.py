"""Scripts in the format of Prometheus' language tests, run against the real head, parser and evaluator.

script      text to commands
notation    series lines: labels, and values as sequences
world       what a script has loaded, in a head
expected    what an evaluation must come to, and how results are compared
run         commands in order, every evaluation with its reruns, to outcomes
features    what cannot be had here, by name
"""
