// A tool call whose arguments are still arriving.

import { ToolCard } from "./ToolCard";

/** What can be read of arguments so far: the strings that are complete. */
function soFar(partial: string): Record<string, unknown> {
  try {
    return JSON.parse(partial) as Record<string, unknown>;
  } catch {
    const found: Record<string, string> = {};
    for (const [, key, value] of partial.matchAll(/"(operatorId|operatorType|summary)"\s*:\s*"([^"\\]*)"/g)) {
      if (key !== undefined && value !== undefined) found[key] = value;
    }
    return found;
  }
}

export function StreamingCard({ id, name, partial }: { id: string; name: string; partial: string }) {
  return <ToolCard id={id} name={name} input={soFar(partial)} result={null} />;
}
