import { describe, expect, it } from "vitest";

import { changesOf, hasWorld, lineOf, PARTS, told } from "./world";

describe("hasWorld", () => {
  it("is where there are tools of the demo's server", () => {
    expect(hasWorld(["files__read", "demo__invite"])).toBe(true);
    expect(hasWorld(["files__demo__read", "demo_invite"])).toBe(false);
  });
});

describe("changesOf", () => {
  const fields = { phone: "555-0101", amount: 300, to: ["ada@example.org"] };

  it("has what was written otherwise, in the form that the field has", () => {
    const written = { phone: "7", amount: "350", to: '["ben@example.org"]' };
    expect(changesOf(fields, written)).toEqual({ phone: "7", amount: 350, to: ["ben@example.org"] });
  });

  it("has nothing of what was written back as it was", () => {
    expect(changesOf(fields, { phone: "555-0101", amount: "300" })).toEqual({});
  });

  it("is none where a value is not what its field holds", () => {
    expect(changesOf(fields, { amount: "a lot" })).toBeNull();
    expect(changesOf(fields, { to: "{}" })).toBeNull();
    expect(changesOf(fields, { amount: "null" })).toBeNull();
  });

  it("still has a field that somebody else has removed meanwhile", () => {
    expect(changesOf({}, { phone: "7" })).toEqual({ phone: "7" });
  });
});

describe("a thing", () => {
  const contacts = PARTS[0]!;

  it("is told in a line, or by its id", () => {
    expect(lineOf(contacts, { id: "ada", fields: { name: "Ada" } })).toBe("Ada");
    expect(lineOf(contacts, { id: "ada", fields: {} })).toBe("ada");
    expect(told(["a"])).toBe('["a"]');
  });
});
