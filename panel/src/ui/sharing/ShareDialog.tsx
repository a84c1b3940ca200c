// Who may do what with a session: who sees it, and what each of those may do who were named.

import { useCallback, useEffect, useRef, useState } from "react";

import type { Problem } from "../../client/rest";
import {
  dropGrant,
  getGrants,
  getSession,
  setGrant,
  setVisibility,
  type Grant,
} from "../../client/sharing";
import type { SessionInfo } from "../../client/types";
import { useCaller } from "../account/useCaller";
import { Dialog } from "../common/Dialog";
import { AddGrant } from "./AddGrant";
import { GrantRow } from "./GrantRow";
import { VisibilityChoice } from "./VisibilityChoice";

interface Shared {
  session: SessionInfo;
  /** Null where they are not this reader's to know. */
  grants: Grant[] | null;
}

export function ShareDialog({
  id,
  sharing,
  onClose,
}: {
  id: string;
  /** Rises with each change, whoever has made it. */
  sharing: number;
  onClose: () => void;
}) {
  const { principal, key_id } = useCaller();
  const [shared, setShared] = useState<Shared | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [said, setSaid] = useState("");
  const heading = useRef<HTMLHeadingElement>(null);

  // Changes go one after the other; what is asked meanwhile may miss those that are still to come.
  const asked = useRef(0);
  const changing = useRef(0);
  const queue = useRef<Promise<unknown>>(Promise.resolve());

  const load = useCallback(async () => {
    const turn = ++asked.current;
    try {
      const session = await getSession(id);
      const grants = session.rights.includes("manage") ? await getGrants(id) : null;
      if (turn === asked.current && changing.current === 0) setShared({ session, grants });
    } catch (error) {
      if (turn === asked.current) setProblem((error as Problem).message);
    }
  }, [id]);
  useEffect(() => void load(), [load, sharing]);

  /** Shows at once what the change will come to, and afterwards what it has. */
  const change = async (
    act: () => Promise<unknown>,
    done: string,
    will: (now: Shared) => Shared = (now) => now,
  ): Promise<boolean> => {
    setShared((now) => now && will(now));
    setProblem(null);
    changing.current += 1;
    const doing = queue.current.then(act);
    queue.current = doing.catch(() => undefined);
    try {
      await doing;
      setSaid(done);
      return true;
    } catch (error) {
      setProblem((error as Problem).message);
      return false;
    } finally {
      changing.current -= 1;
      await load();
    }
  };

  const name = shared?.session.name ?? "";
  return (
    <Dialog title={shared ? `Share “${name}”` : "Share"} onClose={onClose}>
      <p className="sr-only" role="status">
        {said}
      </p>
      {shared === null && problem === null && <p className="hint">Loading</p>}
      {shared !== null && (
        <>
          <p className="hint">{ownerWords(shared.session, principal, key_id === null)}</p>
          <VisibilityChoice
            visibility={shared.session.visibility}
            blocked={shared.grants === null ? WHO : null}
            onChoose={(visibility) =>
              void change(
                () => setVisibility(id, visibility),
                visibility === "private" ? "It is private now." : "The project sees it now.",
                (now) => ({ ...now, session: { ...now.session, visibility } }),
              )
            }
          />
          {shared.grants !== null && (
            <section className="grants" aria-label="People with rights of their own">
              <h3 ref={heading} tabIndex={-1}>
                People with rights of their own
              </h3>
              {shared.grants.length === 0 ? (
                <p className="hint">Nobody yet. Their roles in the project count besides.</p>
              ) : (
                <ul>
                  {shared.grants.map((grant) => (
                    <GrantRow
                      key={grant.principal}
                      grant={grant}
                      onChange={(rights) =>
                        void change(
                          () => setGrant(id, { ...grant, rights }),
                          `Changed what ${grant.principal} may do.`,
                          (now) => ({
                            ...now,
                            grants: now.grants?.map((one) =>
                              one.principal === grant.principal ? { ...one, rights } : one,
                            ) ?? null,
                          }),
                        )
                      }
                      onRemove={() =>
                        void change(
                          () => dropGrant(id, grant.principal),
                          `Took the rights of ${grant.principal} back.`,
                        ).then(() => heading.current?.focus())
                      }
                    />
                  ))}
                </ul>
              )}
              <AddGrant
                onAdd={(grant) =>
                  change(() => setGrant(id, grant), `Shared with ${grant.principal}.`)
                }
              />
            </section>
          )}
        </>
      )}
      {problem !== null && (
        <p className="note warn" role="alert">
          {problem}
        </p>
      )}
      <div className="actions">
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

const WHO = "Only its owner and the project’s owners may change this";

function ownerWords({ owner, rights }: SessionInfo, principal: string, isLocal: boolean): string {
  if (isLocal) {
    return "This server has no keys yet: whoever reaches it may read and write. What you set here counts once it has.";
  }
  const whose = owner === principal ? "This session is yours." : `This session is ${owner}’s.`;
  return rights.includes("manage") ? whose : `${whose} ${WHO}.`;
}
