"""Numbers to test against, computed from the published formulas by code that shares nothing with
the package: plain Python, NumPy and SciPy.

Each module but `write` has `vectors()`; `python -m oracles.write` from `tests/` writes them beside
it as JSON. Tests read the JSON through the fixtures `golden` and `oracle`.
"""
