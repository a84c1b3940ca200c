// Over what somebody else has written: a person's own act, never a run's. Both values are seen before it is
// agreed to, and only what was seen is overwritten.

import { useEffect, useId, useRef, useState } from "react";

import type { RestValues } from "../../client/types";
import { Action } from "../common/Action";
import { Values } from "./Values";

export function Overwrite({
  tool,
  values,
  blocked,
  onOverwrite,
}: {
  tool: string;
  values: RestValues[];
  /** Why it cannot be done just now. */
  blocked: string | null;
  onOverwrite: () => Promise<void>;
}) {
  const [asking, setAsking] = useState(false);
  const [sending, setSending] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const id = useId();
  const was = useRef(false);
  useEffect(() => {
    if (asking) heading.current?.focus();
    else if (was.current) opener.current?.focus();
    was.current = asking;
  }, [asking]);
  if (!asking) {
    return (
      <>
        <Values values={values} />
        <Action
          ref={opener}
          className="button small"
          blocked={blocked}
          label={`Overwrite theirs… (${tool})`}
          onAct={() => setAsking(true)}
        >
          Overwrite theirs…
        </Action>
      </>
    );
  }
  return (
    <section
      className="overwrite"
      aria-labelledby={id}
      lang="en"
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        event.stopPropagation();
        setAsking(false);
      }}
    >
      <h4 id={id} ref={heading} tabIndex={-1}>
        Write over what somebody else has written?
      </h4>
      <Values values={values} caption="What is there now is lost. It is kept on record who did this." />
      <div className="actions start">
        <Action
          className="button danger"
          blocked={sending ? "It is on its way" : blocked}
          onAct={() => {
            setSending(true);
            void onOverwrite().then(() => setSending(false));
          }}
        >
          Overwrite theirs
        </Action>
        <button type="button" className="button" onClick={() => setAsking(false)}>
          Keep theirs
        </button>
      </div>
    </section>
  );
}
