// Over the composer, or in its place: what the conversation is in the middle of.

import type { SessionState } from "../../client/reducer";
import { PendingDock } from "../conversation/PendingDock";
import { RedoDock } from "../conversation/RedoDock";
import { RevertPreview } from "../preview/RevertPreview";
import type { PreviewState } from "../preview/usePreview";
import type { PlanState } from "../undo/usePlan";
import { EarlierBar } from "./EarlierBar";
import type { Look } from "./useEarlier";
import type { Pending } from "./usePending";
import type { TurnMoves } from "./useTurnMoves";

export function Dock({
  state,
  look,
  preview,
  plan,
  pending,
  moves,
  cannot,
  undecided,
  blocked,
  onBack,
  onCheckout,
  onShow,
  onUndo,
}: {
  state: SessionState;
  /** An earlier state that is looked at. */
  look: Look | null;
  preview: PreviewState;
  plan: PlanState;
  pending: Pending | null;
  moves: TurnMoves;
  /** Why nothing can be changed; `blocked`: that, or what is looked at. */
  cannot: string | null;
  /** Why this page cannot decide what a person has to. */
  undecided: string | null;
  blocked: string | null;
  onBack: () => void;
  onCheckout: () => void;
  /** To a node of the canvas. */
  onShow: (nodeId: string) => void;
  /** What turns did outside is to be undone; null for who may not. */
  onUndo: ((turnIds: string[]) => void) | null;
}) {
  const { target, looked, fits, close } = preview;
  if (look !== null) {
    return <EarlierBar look={look} blocked={cannot} onBack={onBack} onCheckout={onCheckout} />;
  }
  if (target !== null) {
    return (
      <RevertPreview
        target={target}
        looked={looked}
        plan={plan}
        blocked={cannot ?? (fits ? null : "It is being looked at anew")}
        undecided={undecided}
        onShow={onShow}
        onRevert={(agreed) => moves.agree(target, agreed)}
        onClose={close}
      />
    );
  }
  if (pending !== null && !state.canRedo) return <PendingDock pending={pending} />;
  return (
    <RedoDock
      state={state}
      blocked={blocked}
      kept={moves.kept}
      onRedo={moves.redo}
      onKept={moves.addKept}
      onUndo={onUndo}
    />
  );
}
