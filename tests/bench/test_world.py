"""The service that rows are measured on, started as an operator starts it."""

from __future__ import annotations

import httpx

from bench.world import serving


async def test_rows_are_measured_on_a_service_that_answers_where_it_says(
    fresh_database: str,
) -> None:
    async with (
        serving(fresh_database) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client,
    ):
        assert (await client.get("/readyz")).status_code == 200
