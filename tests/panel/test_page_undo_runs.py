"""A person at the page while effects are taken back: twice, in two tabs, away, and in part."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from desk import Desk
from gate import Gate
from playwright.async_api import expect
from processes import eventually
from scripted_provider import call, text
from undoing import Place, place, report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from playwright.async_api import Locator
    from scripted_provider import ScriptedProvider

pytestmark = pytest.mark.browser


@asynccontextmanager
async def at_desk(
    url: str,
    folder: Path,
    provider: ScriptedProvider,
    desk_of: Callable[..., Any],
    *,
    locale: str = "en-US",
    **more: Any,
) -> AsyncIterator[tuple[Place, Desk]]:
    """A world, a server whose agent reaches it, and a page on a new session of it."""
    async with place(url, folder, provider, **more) as world:
        desk: Desk = await desk_of(world.server, locale=locale)
        await desk.open(await world.server.session())
        yield world, desk
        await desk.page.close()


async def says(world: Place, desk: Desk, prompt: str, *calls: dict[str, Any]) -> None:
    """A message, upon which the agent makes these calls."""
    world.provider.will([text("I shall"), *calls], [text("done")])
    await desk.ask(prompt)


async def plan(desk: Desk, prompt: str) -> Locator:
    """What the turn did outside is to be undone, and the conversation stays: the sheet of it."""
    await desk.page.get_by_role("button", name=f"More for “{prompt}”", exact=True).click()
    await desk.page.get_by_role("menuitem", name="Undo what it did outside").click()
    return desk.page.get_by_role("dialog", name="Undo effects outside")


async def another_tab(desk: Desk) -> Desk:
    """The same person's second tab on the same session."""
    page = await desk.page.context.new_page()
    return await Desk(page, desk.service).open(desk.id)


def outside(desk: Desk) -> Locator:
    return desk.page.get_by_role("region", name="Effects outside")


def reported(desk: Desk) -> Locator:
    return desk.page.get_by_role("dialog", name="What the undo came to")


async def undos(world: Place, session: str) -> list[dict[str, Any]]:
    answer = await world.server.http.get(f"/sessions/{session}/undos")
    return list(answer.json()["undos"])


async def test_a_second_click_in_the_same_tab_or_in_another_joins_the_first(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, desk_of: Callable[..., Any]
) -> None:
    async with at_desk(fresh_database, tmp_path, provider, desk_of) as (w, desk):
        await says(w, desk, "set", w.set_phone("2"), w.set_phone("2", "ben", nth=1))
        other = Desk(await desk.page.context.new_page(), desk.service)
        gate = await Gate.before(other.page)
        await other.open(desk.id)
        mine, theirs = await plan(desk, "set"), await plan(other, "set")
        await expect(theirs.get_by_role("button", name="Undo these effects")).to_be_enabled()
        # What the first click begins has not reached the second tab when it clicks.
        gate.to_page.stops = "WsServerUndoEvent"
        (tmp_path / "hang").touch()
        await mine.get_by_role("button", name="Undo these effects").dblclick()
        await expect(outside(desk)).to_contain_text("Effects outside are being taken back")
        await theirs.get_by_role("button", name="Undo these effects").click()
        running = other.page.get_by_role("dialog", name="What is being taken back")
        await expect(running).to_be_visible()
        gate.to_page.open()
        (tmp_path / "hang").unlink()
        for one in (desk, other):
            await expect(reported(one).locator(".report-headline")).to_have_text(
                "Fully reverted: 2 reverted"
            )
        [undo] = await undos(w, desk.id)
        assert (undo["outcome"], w.phone("ann"), w.phone("ben")) == ("fully_reverted", "1", "1")
        assert w.calls("set_phone") == 4
        assert await other.page.locator(".toast").count() == 0


async def test_an_undo_goes_on_while_nobody_looks_and_is_stopped_and_the_rest_tried_later(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, desk_of: Callable[..., Any]
) -> None:
    async with at_desk(fresh_database, tmp_path, provider, desk_of) as (w, first):
        await says(w, first, "set", w.set_phone("2"), w.set_phone("2", "ben", nth=1))
        session, context = first.id, first.page.context
        sheet = await plan(first, "set")
        (tmp_path / "hang").touch()
        await sheet.get_by_role("button", name="Undo these effects").click()
        await eventually(lambda: w.calls("set_phone") == 3)
        await first.page.close()

        desk = await Desk(await context.new_page(), first.service).open(session)
        await expect(outside(desk)).to_contain_text("0 of 2 effects done")
        await expect(outside(desk).get_by_role("progressbar")).to_have_attribute("max", "2")
        refused = desk.page.get_by_role("button", name="Revert to before “set”")
        await expect(refused).to_have_attribute(
            "title", "Cannot revert now: effects outside are being taken back"
        )
        await desk.page.reload()
        await expect(outside(desk)).to_contain_text("0 of 2 effects done")
        await outside(desk).get_by_role("button", name="Stop").click()

        async def stopped() -> bool:
            return [undo["stopped"] for undo in await undos(w, session)] == [True]

        await eventually(stopped)  # else the next one is begun when this one is let go
        (tmp_path / "hang").unlink()
        await expect(outside(desk)).to_contain_text("Reverted, 1 thing remains")
        assert sorted((w.phone("ann"), w.phone("ben"))) == ["1", "2"]

        await outside(desk).get_by_role("button", name="Show the report").click()
        await reported(desk).get_by_role("button", name="Try the rest in a new plan").click()
        rest = reported(desk).get_by_role("region", name="The rest, in a new plan")
        await expect(rest.get_by_role("heading", name="The rest")).to_be_focused()
        await expect(rest).to_contain_text("Will be reverted (1)")
        await rest.get_by_role("button", name="Undo these effects").click()
        await expect(reported(desk).locator(".report-headline")).to_have_text(
            "Fully reverted: 1 reverted"
        )
        assert (w.phone("ann"), w.phone("ben")) == ("1", "1")
        assert [undo["generation"] for undo in await undos(w, session)] == [2, 1]


async def test_what_depends_on_it_is_taken_back_too_or_nothing_is(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, desk_of: Callable[..., Any]
) -> None:
    async with at_desk(fresh_database, tmp_path, provider, desk_of) as (w, desk):
        await says(w, desk, "first", w.set_phone("2"))
        await says(w, desk, "second", w.set_phone("3", nth=0))
        sheet = await plan(desk, "first")
        await expect(sheet).to_contain_text("What was done elsewhere depends on it")
        act = sheet.get_by_role("button", name="Undo these effects")
        await expect(act).to_be_disabled()
        await sheet.get_by_role("button", name="Take those back too").click()
        await expect(sheet).to_contain_text("Will be reverted (2)")
        await act.click()
        await expect(reported(desk).locator(".report-headline")).to_have_text(
            "Fully reverted: 2 reverted"
        )
        assert w.phone() == "1"


async def test_theirs_is_overwritten_by_a_person_who_has_seen_both_values_and_says_so_twice(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, desk_of: Callable[..., Any]
) -> None:
    async with at_desk(fresh_database, tmp_path, provider, desk_of) as (w, desk):
        await says(w, desk, "set", w.set_phone("2"))
        w.person_sets("555-theirs")
        sheet = await plan(desk, "set")
        await expect(sheet.locator("[data-check=review]")).to_have_count(1)
        await sheet.get_by_role("button", name="Undo these effects").click()
        await expect(reported(desk)).to_contain_text("Not reverted: 1 needs a review")
        assert w.phone() == "555-theirs"

        opener = reported(desk).get_by_role("button", name="Overwrite theirs… (python.set_phone)")
        await opener.click()
        ask = reported(desk).get_by_role("region", name="Write over what somebody else")
        await expect(ask.get_by_role("heading")).to_be_focused()
        await expect(ask.get_by_role("row", name="555-theirs")).to_contain_text("1")
        await ask.get_by_role("button", name="Keep theirs").click()
        await expect(opener).to_be_focused()
        assert w.phone() == "555-theirs"

        await opener.click()
        await ask.get_by_role("button", name="Overwrite theirs", exact=True).click()
        await expect(reported(desk).locator(".report-headline")).to_have_text(
            "Fully reverted: 1 reverted"
        )
        assert w.phone() == "1"
        newest, _ = await undos(w, desk.id)
        assert (await report(w.server, desk.id, newest["undo_id"]))["by"] == "local"


async def test_calls_that_wait_outlive_a_reload_and_a_second_person_sees_them_decided(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, desk_of: Callable[..., Any]
) -> None:
    more = {"approval": "irreversible"}
    async with at_desk(fresh_database, tmp_path, provider, desk_of, **more) as (w, desk):
        w.provider.will([text("I shall"), w.set_phone("2"), w.send_mail("hi", nth=1)], [text("so")])
        await desk.send("both")
        mine = desk.page.get_by_role("region", name="Waits for you: python.send_mail")
        await expect(mine).to_be_visible()
        await desk.page.reload()
        await expect(mine).to_be_visible()
        await expect(desk.page.locator(".running")).to_contain_text("I shall")
        so_far = desk.page.get_by_role("list", name="Done in this step so far")
        await expect(so_far).to_contain_text("python.set_phone")
        await expect(so_far.locator("[data-standing=in_force]")).to_have_count(1)

        await desk.page.get_by_role("button", name="History").click()
        tree = desk.page.get_by_role("tree", name="History")
        at_work = tree.get_by_role("treeitem").last
        await expect(at_work).to_contain_text("Waits for a decision about python.send_mail")
        await expect(at_work).to_contain_text("python.set_phone")
        await desk.page.keyboard.press("Escape")

        other: Desk = await desk_of(w.server)
        await other.page.goto(w.server.url)
        await expect(other.page.locator(".session-row .tag")).to_have_text("Waits for you")
        await other.page.goto(desk.page.url)
        theirs = other.page.get_by_role("region", name="Waits for you: python.send_mail")
        await theirs.get_by_role("button", name="Deny").click()
        await expect(mine).to_have_count(0)
        await expect(desk.status).to_have_text("Ready")
        await expect(desk.page.locator(".tool", has_text="python.send_mail")).to_have_attribute(
            "data-state", "error"
        )
        assert w.calls("send_mail") == 0
        await other.page.close()


async def test_a_page_that_has_not_come_as_a_person_says_so_where_one_decides(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, desk_of: Callable[..., Any]
) -> None:
    async with place(fresh_database, tmp_path, provider, approval="irreversible") as w:
        desk: Desk = await desk_of(w.server, person=False)
        await desk.open(await w.server.session())
        w.provider.will([text("I shall"), w.send_mail("hi")], [text("so")])
        await desk.send("mail")
        card = desk.page.get_by_role("region", name="Waits for you: python.send_mail")
        await expect(card).to_contain_text("open the page by the address that turnback address")
        for act in ("Approve", "Deny"):
            button = card.get_by_role("button", name=act, exact=True)
            await expect(button).to_be_disabled()
        await desk.page.close()


async def test_old_turns_say_how_they_stand_and_redo_says_what_it_does_not_do_again(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, desk_of: Callable[..., Any]
) -> None:
    async with at_desk(fresh_database, tmp_path, provider, desk_of) as (w, desk):
        await says(w, desk, "mail", w.set_phone("2"), w.send_mail("hi", nth=1))
        await desk.revert_button("mail").click()
        await desk.sheet.get_by_role("button", name="Revert the canvas only").click()
        await expect(desk.dock).to_contain_text("2 effects of it outside are still in force")
        await desk.dock.get_by_role("button", name="Undo them…").click()
        sheet = desk.page.get_by_role("dialog", name="Undo effects outside")
        await expect(sheet).to_contain_text("Will be reverted (1)")
        await sheet.get_by_role("button", name="Undo these effects").click()
        await expect(reported(desk)).to_contain_text("Partially reverted: 1 needs you, 1 reverted")
        await desk.page.keyboard.press("Escape")
        await expect(desk.dock).not_to_contain_text("still in force")  # the report's dock has it
        await expect(desk.dock).to_contain_text(
            "1 effect of it outside is no longer in force; Redo does not do it again"
        )

        residue = (await w.server.http.get(f"/sessions/{desk.id}/residues")).json()["residues"][0]
        await outside(desk).get_by_role("button", name="Show the report").click()
        box = reported(desk).get_by_role("checkbox")
        await expect(box).not_to_be_checked()
        path = f"/sessions/{desk.id}/residues/{residue['residue_id']}/acknowledge"
        assert (await w.server.http.post(path)).status_code == 200
        await expect(box).to_be_checked()
        await desk.page.keyboard.press("Escape")
        await expect(outside(desk)).to_have_count(0)

        await desk.redo.click()
        await expect(desk.prompts).to_have_count(1)
        phone = desk.page.locator(".tool", has_text="python.set_phone")
        await expect(phone.locator(".standing-badge")).to_have_text("reverted")
        mail = desk.page.locator(".tool", has_text="python.send_mail")
        await expect(mail.locator(".standing-badge")).to_have_text("in force")
        assert (w.phone(), w.calls("send_mail")) == ("1", 1)


async def test_what_has_settled_says_so_on_an_open_page_whose_report_is_in_its_readers_language(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, desk_of: Callable[..., Any]
) -> None:
    more: dict[str, Any] = {"undo_settle_interval": 0.2, "locale": "de-DE"}
    async with at_desk(fresh_database, tmp_path, provider, desk_of, **more) as (w, desk):
        await says(w, desk, "mail", w.send_mail("hi"))
        sheet = await plan(desk, "mail")
        await sheet.get_by_role("button", name="Undo these effects").click()
        german = reported(desk).locator(".report[lang=de] .report-headline")
        await expect(german).to_have_text("Nicht zurückgenommen: 1 braucht dich")
        database = w.server.app.state.sessions.dao._db
        async with database.connection(writes=True) as connection:  # its time has come
            await connection.execute("update residues set settles_at = now()")
        await expect(reported(desk)).to_contain_text("It has settled.")
        await expect(reported(desk).get_by_role("checkbox")).to_be_checked()
        await expect(german).to_contain_text("Nicht zurückgenommen")


async def test_a_held_mail_shows_what_time_is_left_and_is_truly_cancelled_by_one_press(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, desk_of: Callable[..., Any]
) -> None:
    async with at_desk(fresh_database, tmp_path, provider, desk_of) as (w, desk):
        args = {"to": str(tmp_path / "mailbox"), "text": "hi"}
        await says(w, desk, "mail", call("python__mail_later", args, id="held"))
        held = desk.page.get_by_role("region", name="Held back")
        await expect(held).to_contain_text(re.compile(r"sent at \d+:\d\d:\d\d.*\(in \d+ s\)"))
        card = desk.page.locator(".tool", has_text="python.mail_later")
        await expect(card.locator(".standing-badge")).to_contain_text("held until")
        await desk.page.reload()
        await expect(held).to_be_visible()
        await held.get_by_role("button", name="Cancel python.mail_later before it").click()
        await expect(held).to_have_count(0)
        await expect(card.locator(".standing-badge")).to_have_text("cancelled")
        await expect(desk.said).to_have_text("Fully reverted: 1 cancelled.")
        await expect(outside(desk)).to_have_count(0)
        assert w.calls("mail_later") == 0


async def test_a_fork_says_whose_the_effects_are_that_it_has_inherited(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, desk_of: Callable[..., Any]
) -> None:
    async with at_desk(fresh_database, tmp_path, provider, desk_of) as (w, desk):
        await says(w, desk, "set", w.set_phone("2"))
        parent = desk.id
        answer = await w.server.http.post(f"/sessions/{parent}/fork", json={})
        await desk.open(answer.json()["session"]["id"])
        card = desk.page.locator(".tool", has_text="python.set_phone")
        await expect(card.locator(".owner-badge")).to_have_text("belongs to set")
        await expect(card.locator(".standing-badge")).to_have_text("in force")
        await card.locator("summary").click()
        await expect(card.get_by_role("link", name="set")).to_have_attribute("href", f"/s/{parent}")

        await desk.revert_button("set").click()
        await expect(desk.sheet).to_contain_text("1 effect belongs to set")
        await expect(
            desk.sheet.get_by_role("button", name="Revert and undo effects")
        ).to_be_disabled()
        await desk.sheet.get_by_role("button", name="Revert the canvas only").click()
        await expect(desk.prompts).to_have_count(0)
        assert (w.phone(), w.calls("set_phone")) == ("2", 1)
