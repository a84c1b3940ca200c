import { expect, test } from "vitest";

import { parseJson } from "./json";
import { asText, commentsOf, own } from "./loose";

test("what is no text is shown as none, and a number as itself", () => {
  expect(["a", 5, parseJson("1.0"), null, undefined, {}, ["x"], true].map(asText)).toEqual([
    "a",
    "5",
    "1",
    "",
    "",
    "",
    "",
    "",
  ]);
});

test("a box whose comments are no list has none", () => {
  expect(commentsOf({ commentBoxID: "c", comments: "none" as never })).toEqual([]);
  expect(commentsOf({ commentBoxID: "c" })).toEqual([]);
});

test("a name that every object inherits is no member", () => {
  for (const name of ["__proto__", "constructor", "toString"]) {
    expect(own<unknown>({}, name)).toBeUndefined();
    expect(own<unknown>(JSON.parse(`{"${name}": 1}`) as Record<string, unknown>, name)).toBe(1);
  }
});
