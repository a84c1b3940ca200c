"""The browser's client of docs/protocol.md, as it stands there, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from protocol_document import blocks

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

    from conftest import Service

pytestmark = pytest.mark.browser

DRIVE = """
async (session) => {
  %s
  const frames = [];
  const waiting = [];
  const view = openSession(session, {}, (_, frame) => {
    frames.push(frame);
    for (const look of waiting.splice(0)) look();
  });
  const until = async (which) => {
    for (let at = 0; ; at++) {
      while (at >= frames.length) await new Promise((resolve) => waiting.push(resolve));
      if (which(frames[at])) return frames[at];
    }
  };
  window.client = { view, frames, until };
  await until((frame) => frame.type === "WsServerSnapshotEvent");
}
"""
PROMPT = """
async (content) => {
  const { view, frames, until } = window.client;
  let after = frames.length;
  const next = (which) => until((frame) => frames.indexOf(frame) >= after && which(frame));
  view.send("Prompt", { content });
  const told = await next((frame) => frame.step?.role === "user");
  after = frames.indexOf(told);
  await next((frame) => frame.state === "AVAILABLE");
  return told.step.messageId;
}
"""
MOVE = """
async ([command, members]) => {
  const { view, frames, until } = window.client;
  const before = frames.length;
  view.send(command, members);
  await until((frame) => frames.indexOf(frame) >= before && frame.type === "WsServerAckEvent");
  return view.headId;
}
"""
HEAD = "() => [client.view.headId, client.view.seq, [...client.view.steps.keys()]]"
COUNT = "() => client.frames.filter((frame) => frame.type === 'WsServerSnapshotEvent').length"


async def test_the_browsers_client_of_the_document_works_and_comes_back(
    mortal: Service, browser: Browser
) -> None:
    (program,) = blocks("js")
    session = await mortal.session()
    page: Page = await browser.new_page()
    await page.goto(mortal.url)
    await page.evaluate(DRIVE % program, session)
    turn = await page.evaluate(PROMPT, "add a CSVFileScan")
    tip = (await mortal.get(f"/sessions/{session}"))["head_id"]
    assert await page.evaluate(MOVE, ["Revert", {"messageId": turn}]) == "step-initial"
    assert await page.evaluate(MOVE, ["Redo", {}]) == tip
    await mortal.kill()
    await mortal.start()
    await mortal.command(session, type="WsClientPromptCommand", content="add a Filter")
    await page.wait_for_function(
        "() => client.view.state === 'AVAILABLE' && client.view.steps.size > 3"
    )
    row: Any = await mortal.get(f"/sessions/{session}")
    await page.wait_for_function("(seq) => client.view.seq === seq", arg=row["revision"])
    head, seq, steps = await page.evaluate(HEAD)
    assert (head, seq) == (row["head_id"], row["revision"])
    listed = await mortal.get(f"/sessions/{session}/steps")
    assert steps == [step["id"] for step in listed["steps"]]
    assert await page.evaluate(COUNT) == 1  # it was told what it had missed, and no more
    await page.close()
