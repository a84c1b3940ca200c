// What one principal may do with a session, beside what its role gives it.

import type { Grant } from "../../client/sharing";
import { CloseButton } from "../common/CloseButton";

const OPTIONAL = [
  ["run", "Write"],
  ["fork", "Fork"],
] as const;

export function GrantRow({
  grant,
  onChange,
  onRemove,
}: {
  grant: Grant;
  onChange: (rights: Grant["rights"]) => void;
  onRemove: () => void;
}) {
  return (
    <li className="grant" aria-label={grant.principal}>
      <bdi>{grant.principal}</bdi>
      <span className="grant-rights">
        <span>Read</span>
        {OPTIONAL.map(([right, label]) => (
          <label key={right}>
            <input
              type="checkbox"
              checked={grant.rights.includes(right)}
              onChange={(event) =>
                onChange(toggled(grant.rights, right, event.currentTarget.checked))
              }
            />
            {label}
          </label>
        ))}
      </span>
      <CloseButton label={`Take the rights of ${grant.principal} back`} onClose={onRemove} />
    </li>
  );
}

function toggled(
  rights: Grant["rights"],
  right: "run" | "fork",
  is: boolean,
): Grant["rights"] {
  return is ? [...rights, right] : rights.filter((one) => one !== right);
}
