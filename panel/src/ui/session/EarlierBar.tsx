// In the composer's place while an earlier state is looked at: what it is, and the two ways on.

import { useEffect, useRef } from "react";

import { firstWords } from "../../client/words";
import type { Step } from "../../client/types";
import { Action } from "../common/Action";
import { EyeIcon } from "../icons";
import { full } from "../time";
import type { Look } from "./useEarlier";

export function EarlierBar({
  look,
  blocked,
  onBack,
  onCheckout,
}: {
  look: Look;
  blocked: string | null;
  onBack: () => void;
  onCheckout: () => void;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  return (
    <section className="earlier" aria-labelledby="earlier-heading">
      <EyeIcon />
      <div className="earlier-words">
        <h2 id="earlier-heading" ref={heading} tabIndex={-1}>
          Looking at an earlier state
        </h2>
        <p>{sentence(look)}</p>
      </div>
      <div className="actions">
        <button type="button" className="button" onClick={onBack}>
          Back to now
        </button>
        {look.phase === "ready" && (
          <Action
            className="button primary"
            blocked={blocked}
            title="Make this the present state; what came later stays as a line of its own"
            onAct={onCheckout}
          >
            Check out
          </Action>
        )}
      </div>
    </section>
  );
}

function sentence(look: Look): string {
  switch (look.phase) {
    case "loading":
      return "Loading it";
    case "failed":
      return look.problem.code === "unknown_step"
        ? "This session has no such step. The link may be of another session."
        : look.problem.message;
    case "ready": {
      const { path } = look.earlier;
      const step = path.at(-1);
      if (!step) return "The beginning, before the first message. Nothing can be changed here.";
      return `${place(path, step)}, ${full(step.timestamp)}. Nothing can be changed here.`;
    }
  }
}

function place(path: readonly Step[], step: Step): string {
  const prompt = path.findLast((one) => one.messageId === step.messageId && one.role === "user");
  const words = prompt ? `“${firstWords(prompt.content)}”` : "a message";
  return step.isEnd && step.role === "agent" ? `After ${words}` : `Within ${words}, step ${step.stepId}`;
}
