"""One module a suite: `def run(case: dict[str, Any]) -> None` (or `async def`), found by the suite's name.

It maps one case onto our code: returns when the case holds, raises AssertionError when not, calls `pytest.skip(reason)`
for what is not supported yet. Gates: `tests.conformance.runner.gates(case)`.
"""
