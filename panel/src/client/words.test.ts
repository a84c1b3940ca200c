import { describe, expect, it } from "vitest";

import { firstWords, repeated } from "./words";

describe("firstWords", () => {
  it("is the first line, without the marks of code", () => {
    expect(firstWords("Linked `op1` to `op2`")).toBe("Linked op1 to op2");
    expect(firstWords("one\ntwo")).toBe("one…");
    expect(firstWords("a ` alone")).toBe("a ` alone");
    expect(firstWords("aaaa bbbb cccc", 10)).toBe("aaaa bbbb…");
  });
});

describe("repeated", () => {
  it("is what stands more than once", () => {
    expect([...repeated(["a", "b", "a", "a", "c", "c"])]).toEqual(["a", "c"]);
  });
});
