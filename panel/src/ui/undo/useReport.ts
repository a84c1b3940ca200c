// A report as it is now, and the acknowledging of what is left.

import { useCallback, useEffect, useState } from "react";

import { acknowledge, getReport } from "../../client/undos";
import type { RestReport, RestResidue } from "../../client/types";

export function useReport(
  id: string,
  undoId: string,
  revision: number,
  fail: (error: unknown) => void,
): { report: RestReport | null; said: string; onAcknowledge: (residue: RestResidue) => void } {
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
  return { report, said, onAcknowledge };
}

function replaced(report: RestReport, after: RestResidue): RestReport {
  return {
    ...report,
    residues: report.residues.map((one) => (one.residue_id === after.residue_id ? after : one)),
  };
}
