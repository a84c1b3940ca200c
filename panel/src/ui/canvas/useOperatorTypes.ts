// The server's catalogue of operator types, asked for once.

import { useEffect, useState } from "react";

import { operatorTypes, type Problem } from "../../client/rest";
import type { OperatorType } from "../../client/types";

let asked: Promise<OperatorType[]> | null = null;

export function useOperatorTypes(): { types: OperatorType[] | null; problem: string | null } {
  const [types, setTypes] = useState<OperatorType[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    asked ??= operatorTypes();
    asked.then(setTypes, (error: Problem) => {
      asked = null; // the next page asks again
      setProblem(error.message);
    });
  }, []);
  return { types, problem };
}
