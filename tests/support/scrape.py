"""What `/metrics` of a running server says."""

from __future__ import annotations

from processes import Process
from prometheus_client.parser import text_string_to_metric_families
from serving import Server

Samples = dict[str, float]


async def scrape(server: Server | Process) -> Samples:
    """Every sample by its name and labels, as in `turnback_sockets{dialect="v1"}`."""
    answer = await server.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = ",".join(f'{k}="{v}"' for k, v in sorted(sample.labels.items()))
            samples[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return samples
