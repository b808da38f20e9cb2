"""What a tenant and strangers send to the dashboard: what costs it, or the API server, is bounded."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from api.process.identities import OF_ONE, SECONDS_OF_ONE
from tests.attacks.conftest import TENANT, Battlefield
from tests.attacks.dashboard import API, Page, opened

pytestmark = pytest.mark.asyncio(loop_scope="package")
TOKENS = 200
JOB = f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: x, namespace: {TENANT}}}\nspec: {{}}\n"
SIXTIES = "59" + ":59" * 80_000
"""A number to the base 60 in YAML 1.1: reading it takes time with the square of its length."""


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def page(battlefield: Battlefield, request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    async with opened(battlefield, request) as page:
        yield page


@pytest.mark.parametrize("tag", ["", "!!int ", "!!float "], ids=["plain", "integer", "float"])
async def test_a_number_to_the_base_60_is_not_computed(battlefield: Battlefield, page: Page, tag: str) -> None:
    """Two such questions held the dashboard for seconds. What is plain is a text; a tag makes no number of it."""
    text = JOB + f"a: {tag}'{SIXTIES}'\n" if tag else JOB + f"a: {SIXTIES}\n"
    answers = await asyncio.gather(*(page.what_if(battlefield.token, text) for _ in range(6)))
    plain = await page.what_if(battlefield.token, JOB)
    assert plain[0] == (200 if battlefield.on_real_server else 403), "the embedded server knows no rights of the tenant"
    for status, errors in answers:
        if tag:
            assert status == 200, errors
            assert re.search(r"59:59.*\.\.\.': must be a number of at most 64 characters", errors[0])
        else:
            assert (status, errors) == plain


async def reviews(battlefield: Battlefield, request: pytest.FixtureRequest) -> int:
    """TokenReviews that the API server has answered."""
    if battlefield.stage.server is not None:
        return battlefield.token_reviews()
    cluster = request.getfixturevalue("package_cluster")
    metrics = await asyncio.to_thread(cluster.kubectl, "get", "--raw", "/metrics")
    counted = re.findall(r'(?m)^apiserver_request_total\{.*resource="tokenreviews".*\} (\S+)$', metrics)
    return sum(int(float(count)) for count in counted)


@pytest.mark.parametrize("path", [f"{API}session", "/mcp"], ids=["page", "assistant"])
async def test_unknown_tokens_cost_few_reviews(
    battlefield: Battlefield, page: Page, request: pytest.FixtureRequest, path: str
) -> None:
    """Each would cost the API server a TokenReview. Who has signed in before goes on."""
    assert (await page.ask(f"{API}session", battlefield.token))[0] == 200
    before, started = await reviews(battlefield, request), time.monotonic()
    answers = [await page.ask(path, f"made-up{path}{number}") for number in range(TOKENS)]
    own, _ = await page.ask(f"{API}session", battlefield.token)
    most = (
        OF_ONE + (time.monotonic() - started) / SECONDS_OF_ONE + 1
    )  # and the tenant's own, should it be asked about again
    assert own == 200
    assert {status for status, _ in answers} <= {401, 429}
    assert (429 in {status for status, _ in answers}) is (most < TOKENS)
    assert await reviews(battlefield, request) - before <= most
