import { describe, expect, it } from "vitest";

import { familyFrom, rowsOf, withForks, type Row } from "./family";
import type { RestFamily, RestRelative } from "./types";

function one(session_id: string, extra: Partial<RestRelative> = {}): RestRelative {
  return { session_id, name: session_id, archived: false, deleted: false, ...extra };
}

function answer(session_id: string, extra: Partial<RestFamily> = {}): RestFamily {
  return { session_id, lineage: null, ancestors: [], children: [], next_cursor: null, ...extra };
}

const drawn = (rows: Row[]) =>
  rows.map((row) => `${"  ".repeat(row.level - 1)}${row.kind === "more" ? "…" : row.id}`);

describe("familyFrom", () => {
  it("leads from the oldest down to the session and its forks", () => {
    const family = familyFrom(
      answer("me", { ancestors: [one("mother"), one("eve")], children: [one("b"), one("a")] }),
      "Me",
      false,
    );
    expect(family.root).toBe("eve");
    expect(drawn(rowsOf(family, new Set(["eve", "mother", "me"])))).toEqual([
      "eve",
      "  mother",
      "    me",
      "      b",
      "      a",
      "    …",
      "  …",
    ]);
  });

  it("leaves out what was deleted, and joins what is above to what is below", () => {
    const gone = { deleted: true, name: null };
    const family = familyFrom(
      answer("me", { ancestors: [one("mother", gone), one("eve")], children: [one("x", gone)] }),
      "Me",
      false,
    );
    expect(drawn(rowsOf(family, new Set(["eve", "me"])))).toEqual(["eve", "  me", "  …"]);
  });
});

describe("withForks", () => {
  it("adds a page to those that are known, each once", () => {
    const family = familyFrom(answer("me", { ancestors: [one("eve")] }), "Me", false);
    const page = { children: [one("b"), one("me")], next_cursor: "c" };
    const more = withForks(family, answer("eve", page));
    expect(more.members.get("eve")?.children).toEqual(["me", "b"]);
    const all = withForks(more, answer("eve", { children: [one("a")] }));
    expect(drawn(rowsOf(all, new Set(["eve"])))).toEqual(["eve", "  me", "  b", "  a"]);
  });

  it("says of each line where it stands, and which can be opened", () => {
    const family = familyFrom(answer("me", { children: [one("a"), one("b")] }), "Me", false);
    const leaf = withForks(family, answer("a"));
    expect(rowsOf(leaf, new Set(["me"]))).toEqual([
      { kind: "session", id: "me", level: 1, place: 1, of: 1, open: true },
      { kind: "session", id: "a", level: 2, place: 1, of: 2, open: null },
      { kind: "session", id: "b", level: 2, place: 2, of: 2, open: false },
    ]);
  });
});
