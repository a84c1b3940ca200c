import { describe, expect, it } from "vitest";

import type { SessionInfo } from "../../client/types";
import { changeOf, formOf } from "./form";

const SESSION = {
  name: "Orders",
  visibility: "project",
  settings: {
    max_steps: 20,
    run_timeout: null,
    tool_timeout: null,
    max_tool_output: null,
    disabled_tools: ["deleteOperator", "addOperator"],
  },
} as unknown as SessionInfo;

describe("changeOf", () => {
  const form = formOf(SESSION);

  it("is nothing for a form as it was, whatever the order of the tools", () => {
    expect(changeOf(form, SESSION)).toBeNull();
    const disabled = ["addOperator", "deleteOperator"];
    expect(changeOf({ ...form, name: " Orders ", disabled }, SESSION)).toBeNull();
    expect(changeOf({ ...form, name: " " }, SESSION)).toBeNull();
  });

  it("names only what is another, and gives an emptied limit back to the server", () => {
    const limits = { ...form.limits, max_steps: "", run_timeout: "2.5" };
    expect(changeOf({ ...form, limits, name: "Trips" }, SESSION)).toEqual({
      name: "Trips",
      settings: { max_steps: null, run_timeout: 2.5 },
    });
    expect(changeOf({ ...form, visibility: "private", disabled: [] }, SESSION)).toEqual({
      visibility: "private",
      settings: { disabled_tools: [] },
    });
  });
});
