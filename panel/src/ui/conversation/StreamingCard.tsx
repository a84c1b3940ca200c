// A tool call whose arguments are still arriving.

import { ToolCard } from "./ToolCard";
import type { JsonObject } from "../../client/types";

/** What can be read of arguments so far: the strings that are complete. */
function soFar(partial: string): JsonObject {
  try {
    return JSON.parse(partial) as JsonObject;
  } catch {
    const found: JsonObject = {};
    for (const [, key, value] of partial.matchAll(/"(operatorId|operatorType|summary)"\s*:\s*"([^"\\]*)"/g)) {
      if (key !== undefined && value !== undefined) found[key] = value;
    }
    return found;
  }
}

export function StreamingCard({ name, partial }: { name: string; partial: string }) {
  return <ToolCard name={name} input={soFar(partial)} result={null} />;
}
