// A session's settings: its name, who sees it, and what its next run is held to.

import { useEffect, useState } from "react";

import type { Problem } from "../../client/rest";
import { changeSession, runLimits, type RunLimit } from "../../client/settings";
import { getSession } from "../../client/sharing";
import type { SessionInfo } from "../../client/types";
import { Dialog } from "../common/Dialog";
import { READ_ONLY } from "../session/obstacle";
import { VisibilityChoice } from "../sharing/VisibilityChoice";
import { changeOf, formOf, LIMITS, type Form } from "./form";
import { LimitField } from "./LimitField";

const TOOLS = [
  ["addOperator", "Add operators"],
  ["modifyOperator", "Change operators"],
  ["deleteOperator", "Remove operators"],
  ["getWorkflow", "Look at the workflow"],
] as const;

interface Loaded {
  session: SessionInfo;
  most: Record<RunLimit, number>;
}

export function SettingsDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [form, setForm] = useState<Form | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    let wanted = true;
    void Promise.all([getSession(id), runLimits()]).then(
      ([session, most]) => {
        if (!wanted) return;
        setLoaded({ session, most });
        setForm(formOf(session));
      },
      (error: Problem) => wanted && setProblem(error.message),
    );
    return () => {
      wanted = false;
    };
  }, [id]);

  const save = async (session: SessionInfo, now: Form) => {
    const change = changeOf(now, session);
    if (change === null) return onClose();
    setBusy(true);
    setProblem(null);
    try {
      await changeSession(id, change);
      onClose();
    } catch (error) {
      setProblem((error as Problem).message);
      setBusy(false);
    }
  };

  const set = (change: Partial<Form>) => setForm((now) => now && { ...now, ...change });
  const rights = loaded?.session.rights ?? [];
  const fixed = !rights.includes("run");
  const held = fixed || loaded?.session.archived === true;
  return (
    <Dialog title="Settings of this session" onClose={onClose}>
      {loaded === null && problem === null && <p className="hint">Loading</p>}
      <form
        className="settings"
        onSubmit={(event) => {
          event.preventDefault();
          if (loaded && form && !busy) void save(loaded.session, form);
        }}
      >
        {loaded && form && (
          <>
            {fixed && <p className="hint">{READ_ONLY}.</p>}
            <label className="limit">
              <span>Name</span>
              <input
                required
                maxLength={200}
                value={form.name}
                disabled={fixed}
                onChange={(event) => set({ name: event.currentTarget.value })}
              />
            </label>
            <VisibilityChoice
              visibility={form.visibility}
              blocked={rights.includes("manage") ? null : "Only its owner may change this"}
              onChoose={(visibility) => set({ visibility })}
            />
            <fieldset className="choices">
              <legend>What its next run is held to</legend>
              {!fixed && held && (
                <p className="hint">Take the session out of the archive to change this.</p>
              )}
              {LIMITS.map((limit) => (
                <LimitField
                  key={limit}
                  limit={limit}
                  most={loaded.most[limit]}
                  value={form.limits[limit]}
                  disabled={held}
                  onChange={(text) => set({ limits: { ...form.limits, [limit]: text } })}
                />
              ))}
            </fieldset>
            <fieldset className="choices">
              <legend>What the agent may do on the canvas</legend>
              {TOOLS.map(([tool, label]) => (
                <label key={tool}>
                  <input
                    type="checkbox"
                    checked={!form.disabled.includes(tool)}
                    disabled={held}
                    onChange={(event) =>
                      set({
                        disabled: event.currentTarget.checked
                          ? form.disabled.filter((one) => one !== tool)
                          : [...form.disabled, tool],
                      })
                    }
                  />
                  {label}
                </label>
              ))}
            </fieldset>
          </>
        )}
        {problem !== null && (
          <p className="note warn" role="alert">
            {problem}
          </p>
        )}
        <div className="actions">
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="button primary" disabled={form === null || busy}>
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
}
