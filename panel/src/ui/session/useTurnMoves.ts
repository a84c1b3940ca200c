// Revert, redo, checkout, as a person does them: what happens to the composer, to the focus, and when
// a revert is looked at first.

import { useCallback, useEffect, useMemo, useRef, useState, type RefObject } from "react";

import type { ForkRequest } from "../../client/forks";
import type { Turn } from "../../client/paths";
import { Problem } from "../../client/rest";
import type { Session, View } from "../../client/session";
import type { TurnActions } from "../conversation/TurnView";
import type { Draft } from "../conversation/useDraft";
import type { Agreed } from "../preview/RevertPreview";
import type { PreviewState, Target } from "../preview/usePreview";
import { navigate, sessionPath } from "../router";

export interface TurnMoves {
  actions: TurnActions;
  redo: (all: boolean) => void;
  /** Carries out the revert that is looked at, as it was agreed to. */
  agree: (target: Target, agreed: Agreed) => void;
  /** The prompt of the reverted turn, while a draft keeps it out of the composer. */
  kept: string | null;
  addKept: () => void;
  /** To the message field, as soon as it is drawn. */
  focusComposer: () => void;
}

export function useTurnMoves({
  session,
  view,
  turns,
  draft,
  composer,
  preview,
  acts,
  renew,
  fork,
  undo,
  fail,
}: {
  session: Session;
  view: View;
  turns: readonly Turn[];
  draft: Draft;
  composer: RefObject<HTMLTextAreaElement | null>;
  preview: PreviewState;
  /** Whether something outside, done since then, may be in force. */
  acts: (target: Target) => boolean;
  /** The plan of the undo is to be made anew. */
  renew: () => void;
  fork: (request: ForkRequest) => void;
  /** What turns did outside is to be undone. */
  undo: (turnIds: string[]) => void;
  fail: (error: unknown) => void;
}): TurnMoves {
  const [kept, setKept] = useState<string | null>(null);
  /** The prompt that a revert has put into the composer. */
  const returned = useRef<string | null>(null);
  const { canRedo } = view.state;
  const newest = useRef<Turn | undefined>(undefined);
  newest.current = turns.at(-1);
  const reaching = useRef(acts);
  reaching.current = acts;

  useEffect(() => {
    if (!canRedo) setKept(null);
  }, [canRedo]);

  // What has had the composer's place is gone only after the next draw.
  const [focusing, setFocusing] = useState(0);
  const focusComposer = useCallback(() => setFocusing((count) => count + 1), []);
  useEffect(() => {
    if (focusing > 0) composer.current?.focus({ preventScroll: true });
  }, [focusing, composer]);

  /** The reverted prompt returns to the composer, but never over a draft, nor after what follows it. */
  const reverted = useCallback(
    ({ turn, step }: Target) => {
      const whole = step === null && turn.prompt?.kind !== "edit";
      const prompt = whole ? (turn.prompt?.content ?? null) : null;
      const now = draft.now().trim();
      const untouched =
        !draft.sending() &&
        (now === "" || draft.now() === returned.current || now === prompt?.trim());
      returned.current = untouched ? prompt : null;
      if (untouched) draft.set(prompt ?? "");
      setKept(untouched ? null : prompt);
      focusComposer();
    },
    [draft.now, draft.set, draft.sending, focusComposer],
  );

  const revert = useCallback(
    async (target: Target) => {
      // The newest turn goes alone, and Redo is there: to be asked first would only be in the way.
      if (target.step !== null || target.turn !== newest.current || reaching.current(target)) {
        preview.open(target);
        return;
      }
      try {
        await session.revert({ messageId: target.turn.id });
        reverted(target);
      } catch (problem) {
        // It is another person's: that is to be seen before it is agreed to.
        if (problem instanceof Problem && problem.code === "confirmation_required") {
          preview.open(target);
        } else fail(problem);
      }
    },
    [session, reverted, preview.open, fail],
  );

  const agree = useCallback(
    async (target: Target, { expectedHeadId, keepEdits, confirm, planId }: Agreed) => {
      const { turn, step } = target;
      preview.setAgreed(true);
      try {
        await session.revert(step ? { stepId: step.id } : { messageId: turn.id }, {
          expectedHeadId,
          ...(keepEdits ? { keepEdits } : {}),
          ...(confirm ? { confirm } : {}),
          ...(planId === null ? {} : { effects: "undo", planId }),
        });
        preview.close();
        reverted(target);
      } catch (problem) {
        // The sheet stays and is fetched anew, for what there is now.
        preview.setAgreed(false);
        if (problem instanceof Problem && problem.code === "plan_changed") renew();
        fail(problem);
      }
    },
    [session, reverted, preview.close, preview.setAgreed, renew, fail],
  );

  const redo = useCallback(
    async (all: boolean) => {
      try {
        await session.redo({ all });
      } catch (problem) {
        fail(problem);
        return;
      }
      // A prompt that the revert returned, and that nobody touched, goes back with the redo.
      if (draft.now() === returned.current) draft.set("");
      returned.current = null;
      focusComposer();
    },
    [session, draft.now, draft.set, fail, focusComposer],
  );

  const checkout = useCallback(
    async (stepId: string) => {
      try {
        await session.checkout(stepId);
      } catch (problem) {
        fail(problem);
      }
    },
    [session, fail],
  );

  /** The turn that is to be reverted as soon as its agent has stopped. */
  const [stopping, setStopping] = useState<string | null>(null);
  const stopAndRevert = useCallback(
    async (turn: Turn) => {
      setStopping(turn.id);
      try {
        await session.stop();
      } catch (problem) {
        setStopping(null);
        fail(problem);
      }
    },
    [session, fail],
  );
  const { agent } = view.state;
  useEffect(() => {
    if (stopping === null || agent !== "AVAILABLE") return;
    setStopping(null);
    const turn = newest.current;
    // A stop starts no undo: what has been done outside by then is looked at first, as ever.
    if (turn?.id === stopping) void revert({ turn, step: null });
  }, [stopping, agent, revert]);

  const actions = useMemo(
    (): TurnActions => ({
      revert: (turn) => void revert({ turn, step: null }),
      preview: (turn) => preview.open({ turn, step: null }),
      revertStep: (turn, step) => void revert({ turn, step }),
      look: (stepId) => navigate(sessionPath(session.id, stepId)),
      checkout: (stepId) => void checkout(stepId),
      undo: (turn) => undo([turn.id]),
      stopAndRevert: (turn) => void stopAndRevert(turn),
      fork,
    }),
    [revert, preview.open, session.id, checkout, undo, stopAndRevert, fork],
  );

  const addKept = useCallback(() => {
    if (kept === null) return;
    const now = draft.now();
    draft.set(now.trim() === "" ? kept : `${now.trimEnd()}\n${kept}`);
    setKept(null);
    focusComposer();
  }, [kept, draft.now, draft.set, focusComposer]);

  return {
    actions,
    redo: (all) => void redo(all),
    agree: (target, agreed) => void agree(target, agreed),
    kept,
    addKept,
    focusComposer,
  };
}
