// What is written but not sent, kept over a reload; and what has been sent but not taken yet, which
// comes back when it is refused or when the page is gone before the answer.

import { useCallback, useEffect, useRef, useState } from "react";

function read(key: string): string {
  try {
    return sessionStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

function write(key: string, text: string): void {
  try {
    if (text === "") sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, text);
  } catch {
    // Storage can be forbidden or full; the draft then lives as long as the page.
  }
}

export interface Draft {
  text: string;
  /** The text as it is now, for what runs later. */
  now: () => string;
  set: (text: string) => void;
  /** Empties the field and keeps what was in it until the server has it; whether it was taken. */
  send: (send: (content: string) => Promise<boolean>) => Promise<boolean>;
  /** Whether something has been sent that the server has not answered. */
  sending: () => boolean;
}

/** `newest` is the newest prompt of the conversation, null until it is known. */
export function useDraft(id: string, newest: string | null): Draft {
  const draftKey = `turnback.draft.${id}`;
  const sentKey = `turnback.sent.${id}`;
  const [text, setText] = useState(() => read(draftKey));
  const current = useRef(text);
  const underway = useRef(0);

  const set = useCallback(
    (next: string) => {
      current.current = next;
      setText(next);
      write(draftKey, next);
    },
    [draftKey],
  );

  // A page that was left between sending and the answer: was it taken?
  const unanswered = useRef(read(sentKey));
  useEffect(() => {
    if (newest === null || unanswered.current === "") return;
    const sent = unanswered.current;
    unanswered.current = "";
    write(sentKey, "");
    if (newest.trim() !== sent && current.current === "") set(sent);
  }, [newest, sentKey, set]);

  const send = useCallback(
    async (deliver: (content: string) => Promise<boolean>) => {
      const content = current.current.trim();
      set("");
      write(sentKey, content);
      underway.current += 1;
      const taken = await deliver(content);
      underway.current -= 1;
      write(sentKey, "");
      // What was not taken goes back, before whatever has been written meanwhile.
      if (!taken) set([content, current.current].filter((part) => part !== "").join("\n"));
      return taken;
    },
    [sentKey, set],
  );
  const now = useCallback(() => current.current, []);
  const sending = useCallback(() => underway.current > 0, []);
  return { text, now, set, send, sending };
}
