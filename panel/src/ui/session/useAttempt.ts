// Does something that may be refused: the refusal is shown, and whether it was done is answered.

import { useCallback } from "react";

import { useToasts } from "../common/Toasts";

export type Attempt = (act: () => Promise<unknown>) => Promise<boolean>;

export function useAttempt(): Attempt {
  const { fail } = useToasts();
  return useCallback(
    async (act) => {
      try {
        await act();
        return true;
      } catch (problem) {
        fail(problem);
        return false;
      }
    },
    [fail],
  );
}
