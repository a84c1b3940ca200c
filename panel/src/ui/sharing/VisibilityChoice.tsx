// Whether a project's members see a session.

import type { Visibility } from "../../client/types";

const CHOICES: [Visibility, string, string][] = [
  ["project", "The whole project", "Viewers may read and fork it, editors write in it"],
  ["private", "Private", "Only its owner, the project’s owners, and those it is shared with"],
];

export function VisibilityChoice({
  visibility,
  blocked,
  onChoose,
}: {
  visibility: Visibility;
  /** Why it cannot be changed. */
  blocked: string | null;
  onChoose: (visibility: Visibility) => void;
}) {
  return (
    <fieldset className="choices" title={blocked ?? undefined}>
      <legend>Who sees it</legend>
      {CHOICES.map(([value, label, detail]) => (
        <label key={value}>
          <input
            type="radio"
            name="visibility"
            checked={visibility === value}
            disabled={blocked !== null}
            onChange={() => onChoose(value)}
          />
          <span>
            {label}
            <small>{detail}</small>
          </span>
        </label>
      ))}
    </fieldset>
  );
}
