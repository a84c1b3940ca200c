// What is streaming just now; the finished step takes its place.

import type { Streaming } from "../../client/reducer";
import { Prose } from "./Prose";
import { StreamingCard } from "./StreamingCard";

export function Running({ streaming, word }: { streaming: Streaming | null; word: string }) {
  const calls = streaming?.calls ?? [];
  const text = streaming?.text ?? "";
  return (
    <div className="running">
      <span className="station" aria-hidden="true" />
      {text !== "" && <Prose text={text} />}
      {calls.map((call) => (
        <StreamingCard key={call.toolCallId} name={call.toolName} partial={call.arguments} />
      ))}
      {text === "" && calls.length === 0 && <p className="thinking">{word}</p>}
    </div>
  );
}
