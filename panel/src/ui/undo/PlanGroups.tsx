// What an undo of effects would do, in three groups, with who is touched and what is left all the same.

import { useContext } from "react";

import type { RestMember, RestPlan } from "../../client/types";
import { counted } from "../../client/words";
import { PageLink } from "../common/PageLink";
import { sessionPath } from "../router";
import { toSecond } from "../time";
import { Said } from "./Said";
import { StandingBadge } from "./StandingBadge";
import { OutsideContext } from "./useOutside";
import type { Check, PlanState } from "./usePlan";

const GROUPS: readonly [RestMember["group"], (members: RestMember[]) => string][] = [
  ["stays", () => "Cannot be taken back"],
  ["compensated", () => "Will be compensated, and leaves something"],
  ["reverted", clean],
];

function clean(members: RestMember[]): string {
  const cancels = members.filter(({ verb }) => verb === "cancel").length;
  if (cancels === 0) return "Will be reverted";
  return cancels === members.length ? "Will be cancelled" : "Will be reverted or cancelled";
}

const CHECKS: Readonly<Record<Check, string>> = {
  unchecked: "not looked at yet",
  go: "as we left it",
  already: "as before already",
  review: "changed by somebody else: it will be left to you",
  unreadable: "it cannot be read now",
};

export function PlanGroups({ state }: { state: PlanState }) {
  const { plan, checks, include } = state;
  if (plan === null) return <p role="status">Looking at what was done outside</p>;
  const open = plan.members.filter((member) => looks(member) && !known(checks, member)).length;
  return (
    <div className="plan" lang={plan.language}>
      <p role="status" className="plan-status" lang="en">
        {open > 0
          ? `${counted(plan.members.length, "effect")}; ${open} still being looked at`
          : counted(plan.members.length, "effect")}
      </p>
      {GROUPS.map(([group, heading]) => {
        const members = plan.members.filter((member) => member.group === group);
        return (
          members.length > 0 && (
            <section key={group} data-group={group}>
              <h3 lang="en">
                {heading(members)} <small>({members.length})</small>
              </h3>
              <ul>
                {members.map((member) => (
                  <Member
                    key={member.effect_id}
                    member={member}
                    check={looks(member) ? (checks.get(member.effect_id) ?? "unchecked") : null}
                  />
                ))}
              </ul>
            </section>
          )
        );
      })}
      <Inherited inherited={plan.inherited} />
      {plan.missing.length > 0 && (
        <div className="note warn" lang="en">
          <p>
            What was done elsewhere depends on it:{" "}
            {plan.missing.map((one) => `${one.tool} ${one.what}`).join(", ")}. Both are taken back,
            or neither.
          </p>
          <button type="button" className="button small" onClick={include}>
            Take those back too
          </button>
        </div>
      )}
      {plan.cycle.length > 0 && (
        <p className="note warn" lang="en">
          Some of these would each have to go before the other, so no order is safe.
        </p>
      )}
    </div>
  );
}

/** Effects in the inherited part of a fork: each belongs to the session that made it. */
function Inherited({ inherited }: Pick<RestPlan, "inherited">) {
  const { owners } = useContext(OutsideContext);
  const names = new Map([...owners.values()].flatMap((one) => (one.id ? [[one.id, one.name]] : [])));
  const counts = new Map<string, number>();
  for (const { session_id } of inherited) counts.set(session_id, (counts.get(session_id) ?? 0) + 1);
  return [...counts].map(([sessionId, count]) => (
    <p className="note" lang="en" key={sessionId}>
      {counted(count, "effect")} {count === 1 ? "belongs" : "belong"} to{" "}
      {names.has(sessionId) ? (
        <PageLink className="link" to={sessionPath(sessionId)}>
          <bdi>{names.get(sessionId) ?? "another session"}</bdi>
        </PageLink>
      ) : (
        "another session of the family"
      )}
      , and can be taken back from there alone. The canvas rewinds all the same.
    </p>
  ));
}

/** Whether a look at the world says more of it than the log does. */
function looks({ group, hold_until }: RestMember): boolean {
  return group !== "stays" && hold_until === null;
}

function known(checks: PlanState["checks"], { effect_id }: RestMember): boolean {
  return (checks.get(effect_id) ?? "unchecked") !== "unchecked";
}

function Member({ member, check }: { member: RestMember; check: Check | null }) {
  const { leaves } = member;
  return (
    <li>
      <span>
        <code>{member.tool}</code> <bdi>{member.what}</bdi>{" "}
        {member.in_doubt && <StandingBadge standing="in_doubt" />}
      </span>
      {member.people.length > 0 && (
        <small lang="en">
          Touched:{" "}
          {member.people.map((one, nth) => (
            <bdi className="whole" key={one}>
              {one}
              {nth < member.people.length - 1 && ","}{" "}
            </bdi>
          ))}
        </small>
      )}
      {leaves && (
        <span className="plan-leaves" dir="auto">
          <Said text={leaves.what} /> <Said text={leaves.settles} />
        </span>
      )}
      {member.not_kept.length > 0 && (
        <small lang="en">Not brought back: {member.not_kept.join(", ")}</small>
      )}
      {member.restored && (
        <small lang="en">From before a restore from backup: it is left alone unless all is as it was</small>
      )}
      {member.hold_until !== null && (
        <small className="plan-check" data-check="go" lang="en">
          held back until {toSecond(member.hold_until)}: it will be cancelled before it is sent
        </small>
      )}
      {member.hold_until === null && member.verb === "cancel" && (
        <small lang="en">will be cancelled before it takes effect, if its server confirms it</small>
      )}
      {check !== null && (
        <small className="plan-check" data-check={check} lang="en">
          {CHECKS[check]}
        </small>
      )}
    </li>
  );
}
