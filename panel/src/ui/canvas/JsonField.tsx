// A value as JSON text, for what has no field of its own; applied only when it is whole.

import { useEffect, useId, useState } from "react";

import { parseJson } from "../../client/json";
import type { JsonObject } from "../../client/types";

export function JsonField({
  label,
  value,
  disabled,
  onApply,
}: {
  label: string;
  value: JsonObject;
  disabled: boolean;
  onApply: (value: JsonObject) => void;
}) {
  const id = useId();
  const shown = JSON.stringify(value, null, 2);
  const [text, setText] = useState(shown);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    setText(shown);
    setProblem(null);
  }, [shown]);

  const apply = () => {
    try {
      const parsed = parseJson(text);
      if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) {
        setProblem("This has to be a JSON object.");
        return;
      }
      setProblem(null);
      onApply(parsed as JsonObject);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };

  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea
        id={id}
        className="code"
        rows={Math.min(18, Math.max(4, text.split("\n").length))}
        spellCheck={false}
        disabled={disabled}
        value={text}
        aria-invalid={problem !== null}
        aria-describedby={`${id}-problem`}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <p className="field-problem" id={`${id}-problem`} role="alert">
        {problem}
      </p>
      {text !== shown && (
        <div className="actions">
          <button type="button" className="button small" onClick={() => setText(shown)}>
            Discard
          </button>
          <button type="button" className="button primary small" disabled={disabled} onClick={apply}>
            Apply
          </button>
        </div>
      )}
    </div>
  );
}
