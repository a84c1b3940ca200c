// Naming one more who may read a session.

import { useState } from "react";

import type { Grant } from "../../client/sharing";
import { PlusIcon } from "../icons";

export function AddGrant({
  onAdd,
}: {
  /** Whether it was taken. */
  onAdd: (grant: Grant) => Promise<boolean>;
}) {
  const [principal, setPrincipal] = useState("");
  const [busy, setBusy] = useState(false);
  const name = principal.trim();
  return (
    <form
      className="add-grant"
      onSubmit={(event) => {
        event.preventDefault();
        if (name === "" || busy) return;
        setBusy(true);
        void onAdd({ principal: name, rights: ["read"] }).then((taken) => {
          setBusy(false);
          if (taken) setPrincipal("");
        });
      }}
    >
      <input
        aria-label="Name of a person or program"
        placeholder="Name, as in their key"
        autoComplete="off"
        spellCheck={false}
        value={principal}
        onChange={(event) => setPrincipal(event.currentTarget.value)}
      />
      <button type="submit" className="button" disabled={busy || name === ""}>
        <PlusIcon />
        Let them read
      </button>
    </form>
  );
}
