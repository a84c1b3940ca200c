// The revert that a person looks at: fetched when they ask, and anew whenever HEAD has moved, so that
// what they agree to is what happens.

import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import type { Turn } from "../../client/paths";
import {
  listedChanges,
  marksOf,
  mergedWorkflow,
  type ListedChange,
  type Marks,
} from "../../client/preview";
import { revertPreview, type Problem } from "../../client/rest";
import type { RestPreview, Step, Workflow } from "../../client/types";
import { operatorName } from "../canvas/flow";

/** A turn, or one of its steps, that would be reverted to before. */
export interface Target {
  turn: Turn;
  step: Step | null;
}

export interface Looked {
  target: Target;
  preview: RestPreview;
  /** Null where the present workflow cannot be read, and so not be compared. */
  seen: { workflow: Workflow; marks: Marks; changes: ListedChange[] } | null;
  /** HEAD moved while it was looked at, and this is what it would be now. */
  renewed: boolean;
}

export interface PreviewState {
  target: Target | null;
  looked: Looked | null;
  /** What is looked at holds for HEAD as it is now. */
  fits: boolean;
  open: (target: Target) => void;
  close: () => void;
  /** It has been agreed to, and is on its way. */
  agreed: boolean;
  /** Whether what is looked at has been agreed to and is on its way: HEAD then moves by it. */
  setAgreed: (agreed: boolean) => void;
}

export function usePreview(
  id: string,
  headId: string,
  workflow: Workflow,
  fail: (error: unknown) => void,
): PreviewState {
  const [target, setTarget] = useState<Target | null>(null);
  const [found, setFound] = useState<{
    target: Target;
    preview: RestPreview;
    then: Workflow;
    renewed: boolean;
  } | null>(null);
  const [agreed, setAgreed] = useState(false);
  const failing = useRef(fail);
  failing.current = fail;

  useEffect(() => {
    if (target === null || agreed) return;
    let wanted = true;
    const { turn, step } = target;
    void revertPreview(id, step ? { stepId: step.id } : { turnId: turn.id }).then(
      ({ preview, workflow: then }) => {
        if (!wanted) return;
        setFound((before) => ({
          target,
          preview,
          then,
          renewed:
            before?.target === target &&
            (before.renewed || before.preview.head_id !== preview.head_id),
        }));
      },
      (problem: Problem) => {
        if (!wanted) return;
        setTarget(null);
        failing.current(problem);
      },
    );
    return () => {
      wanted = false;
    };
  }, [id, target, headId, agreed]);

  const current = target !== null && found?.target === target ? found : null;
  const looked = useMemo((): Looked | null => {
    if (current === null) return null;
    const { preview, then, renewed } = current;
    const { diff } = preview;
    if (diff === null) return { target: current.target, preview, seen: null, renewed };
    const names = new Map(
      [...(then.operators ?? []), ...(workflow.operators ?? [])].map((one) => [
        one.operatorID,
        operatorName(one),
      ]),
    );
    const seen = {
      workflow: mergedWorkflow(workflow, then, diff),
      marks: marksOf(diff),
      changes: listedChanges(diff, (operatorID) => names.get(operatorID) ?? operatorID),
    };
    return { target: current.target, preview, seen, renewed };
  }, [current, workflow]);

  const open = useCallback((next: Target) => setTarget(next), []);
  const close = useCallback(() => {
    setTarget(null);
    setFound(null);
    setAgreed(false);
  }, []);
  const fits = looked?.preview.head_id === headId;
  return { target, looked, fits, open, close, agreed, setAgreed };
}
