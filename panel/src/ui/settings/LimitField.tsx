// One limit of a session's runs: a number, or nothing for the server's own.

import type { RunLimit } from "../../client/settings";

const WORDS: Readonly<Record<RunLimit, [label: string, unit: string]>> = {
  max_steps: ["Steps of a run", ""],
  run_timeout: ["Time of a run", "seconds"],
  tool_timeout: ["Time of a tool call", "seconds"],
  max_tool_output: ["Length of a tool’s answer", "characters"],
};

export function LimitField({
  limit,
  most,
  value,
  disabled,
  onChange,
}: {
  limit: RunLimit;
  /** The server's. */
  most: number;
  value: string;
  disabled: boolean;
  onChange: (value: string) => void;
}) {
  const [label, unit] = WORDS[limit];
  const isTime = unit === "seconds";
  return (
    <label className="limit">
      <span>
        {label}
        <small>
          {unit === "" ? "" : `${unit}, `}at most {most.toLocaleString()}
        </small>
      </span>
      <input
        type="number"
        min={isTime ? 0.001 : 1}
        max={most}
        step={isTime ? "any" : 1}
        placeholder={String(most)}
        value={value}
        disabled={disabled}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
    </label>
  );
}
