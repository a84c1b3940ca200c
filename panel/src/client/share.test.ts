import { describe, expect, it } from "vitest";

import { shareWorkflow } from "./share";
import type { Workflow } from "./types";

function workflow(text: string): Workflow {
  return JSON.parse(text) as Workflow;
}

const ONE = '{"operatorID":"a","operatorType":"Limit","operatorProperties":{"limit":5,"x":1}}';
const TWO = '{"operatorID":"b","operatorType":"Sort"}';

describe("shareWorkflow", () => {
  it("takes over what is equal, and nothing else", () => {
    const before = workflow(`{"operators":[${ONE},${TWO}],"links":[],"settings":{"a":1}}`);
    const changed = ONE.replace("5", "6");
    const after = shareWorkflow(before, workflow(`{"operators":[${changed},${TWO}],"links":[]}`));
    expect(after.operators?.[1]).toBe(before.operators?.[1]);
    expect(after.operators?.[0]).not.toBe(before.operators?.[0]);
    expect(after.links).toBe(before.links);
    expect(after.settings).toBeUndefined();
  });

  it("keeps the document as it came, to the order of its members", () => {
    const before = workflow(`{"operators":[${ONE}]}`);
    const text = `{"links":[],"odd":true,"operators":[${ONE.replace('"limit":5,"x":1', '"x":1,"limit":5')}]}`;
    expect(JSON.stringify(shareWorkflow(before, workflow(text)))).toBe(text);
  });
});
