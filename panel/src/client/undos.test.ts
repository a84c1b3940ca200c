import { describe, expect, it } from "vitest";

import { INITIAL, reduce, type SessionState } from "./reducer";
import { headline, openResidues, remains } from "./undoWords";
import type { Approval, ServerFrame, Undo, UndoItem } from "./types";

function item(effectId: string, extra: Partial<UndoItem> = {}): UndoItem {
  return {
    effectId,
    messageId: "t1",
    verb: "revert",
    state: "pending",
    reason: null,
    standing: "in_force",
    check: "unchecked",
    residue: null,
    ...extra,
  };
}

function undo(extra: Partial<Undo> = {}): Undo {
  return {
    undoId: "u1",
    planId: "p1",
    undoRevision: 1,
    phase: "run",
    by: "local",
    turnIds: ["t1"],
    items: [item("e1"), item("e2")],
    spent: { calls: 0, reads: 0, tokens: 0 },
    outcome: null,
    counts: {},
    ...extra,
  };
}

function told(extra: Partial<Undo>, eventSeq: number | null): ServerFrame {
  return { type: "WsServerUndoEvent", ...undo(extra), eventSeq };
}

const LEFT = { residueId: "r1", template: "mail_sent", status: "open" as const, settlesAt: null };

describe("undos", () => {
  it("keeps the newest of each, whichever comes last", () => {
    let state: SessionState = reduce(INITIAL, told({ undoRevision: 3 }, 1));
    const newest = state.undos.get("u1");
    state = reduce(state, told({ undoRevision: 2, phase: "ended" }, 2));
    expect(state.undos.get("u1")).toBe(newest);
    expect(state.eventSeq).toBe(2);
  });

  it("does not take a frame twice", () => {
    const state = reduce(INITIAL, told({}, 4));
    expect(reduce(state, told({ undoRevision: 9 }, 4))).toBe(state);
  });

  it("keeps what is found of a plan apart, and of the newest plans alone", () => {
    let state: SessionState = INITIAL;
    for (const planId of ["p1", "p2", "p3", "p4", "p5"]) {
      state = reduce(state, told({ undoId: null, planId, phase: "plan" }, null));
    }
    expect(state.undos.size).toBe(0);
    expect([...state.checks.keys()]).toEqual(["p2", "p3", "p4", "p5"]);
  });

  it("says no more than the report, and first what needs a person", () => {
    const ended = undo({
      phase: "ended",
      outcome: "partially_reverted",
      counts: { needs_you: 1, revert: 1 },
      items: [item("e1", { state: "needs_you", residue: LEFT }), item("e2", { state: "reverted" })],
    });
    expect(headline(ended)).toBe("Partially reverted: 1 needs you, 1 reverted");
    expect(openResidues(ended)).toBe(1);
    expect(remains(ended)).toBe("Reverted, 1 thing remains");
    const known = { ...LEFT, status: "acknowledged" as const };
    const seen = { ...ended, items: [item("e1", { residue: known }), item("e2")] };
    expect(remains(seen)).toBe("Partially reverted");
    const nothing = { ...ended, outcome: "not_reverted" as const };
    expect(remains(nothing)).toBe("Not reverted, 1 thing remains");
  });

  it("counts how far it has come while it goes on", () => {
    expect(headline(undo({ counts: { revert: 1 } }))).toBe(
      "1 of 2 effects done (1 reverted)",
    );
  });
});

describe("calls that wait", () => {
  const asked = (
    toolCallId: string,
    status: Approval["status"],
    eventSeq: number,
  ): ServerFrame => ({
    type: "WsServerApprovalEvent",
    messageId: "t1",
    stepId: "s1",
    eventSeq,
    approval: {
      toolCallId,
      toolName: "mail.send",
      input: {},
      class: "irreversible",
      because: null,
      argsHash: "h",
      askedAt: 0,
      expiresAt: 1,
      status,
      edited: null,
      by: null,
    },
  });

  it("are those that nobody has decided about", () => {
    let state = reduce(INITIAL, asked("c1", "waiting", 1));
    state = reduce(state, asked("c2", "waiting", 2));
    state = reduce(state, asked("c1", "denied", 3));
    expect(state.waitingFor.map((one) => one.toolCallId)).toEqual(["c2"]);
  });
});

describe("the page", () => {
  it("never says a bare undone", () => {
    const sources = import.meta.glob<string>("../ui/**/*.tsx", { query: "?raw", import: "default", eager: true });
    const said = /(["'`])(?:(?!\1)[^\n])*\bundone\b|>[^<>{}=;()]*\bundone\b[^<>{}=;()]*</i;
    const wrong = Object.entries(sources).filter(([, source]) => said.test(source.replaceAll(/^\s*\/\/.*$/gm, "")));
    expect(wrong.map(([path]) => path)).toEqual([]);
    expect(Object.keys(sources).length).toBeGreaterThan(50);
    expect(said.test(`title="It was undone"`) && said.test("<p>All undone</p>")).toBe(true);
  });
});
