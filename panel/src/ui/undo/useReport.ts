// A report as it is now, and what a person does about what is left.

import { useCallback, useEffect, useState } from "react";

import { acknowledge, getReport, overwrite } from "../../client/undos";
import type { RestReport, RestResidue } from "../../client/types";

export function useReport(
  id: string,
  undoId: string,
  revision: number,
  fail: (error: unknown) => void,
  /** To the report of another undo: what overwrites is one. */
  onReport: (undoId: string) => void,
): {
  report: RestReport | null;
  said: string;
  onAcknowledge: (residue: RestResidue) => void;
  onOverwrite: (residue: RestResidue) => Promise<void>;
} {
  const [report, setReport] = useState<RestReport | null>(null);
  const [said, setSaid] = useState("");
  useEffect(() => {
    let wanted = true;
    getReport(id, undoId).then((found) => {
      if (wanted) setReport((now) => (now && now.revision > found.revision ? now : found));
    }, fail);
    return () => {
      wanted = false;
    };
  }, [id, undoId, revision, fail]);

  const onAcknowledge = useCallback(
    (residue: RestResidue) => {
      acknowledge(id, residue.residue_id).then((after) => {
        setReport((now) => now && replaced(now, after));
        setSaid("Acknowledged.");
      }, fail);
    },
    [id, fail],
  );
  const onOverwrite = useCallback(
    async (residue: RestResidue) => {
      try {
        const next = await overwrite(id, residue.residue_id);
        if (next !== null) onReport(next);
      } catch (problem) {
        fail(problem);
      }
    },
    [id, fail, onReport],
  );
  return { report, said, onAcknowledge, onOverwrite };
}

function replaced(report: RestReport, after: RestResidue): RestReport {
  return {
    ...report,
    residues: report.residues.map((one) => (one.residue_id === after.residue_id ? after : one)),
  };
}
