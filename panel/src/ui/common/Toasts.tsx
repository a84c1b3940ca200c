// Short notes of what went wrong, in the server's own sentence.

import {
  createContext,
  useCallback,
  useContext,
  useMemo,
  useRef,
  useState,
  type ReactNode,
} from "react";

import { advice } from "../../client/advice";
import { Problem } from "../../client/rest";
import { AlertIcon, CloseIcon } from "../icons";

interface Toast {
  id: number;
  text: string;
  /** What the person can do about it. */
  advice: string | null;
  path: string | null;
}

interface Toasts {
  /** Shows a failure; anything that is not a `Problem` is a fault of the page and says so. */
  fail(error: unknown): void;
}

const Context = createContext<Toasts | null>(null);

const LIFETIME = 9_000;

export function ToastProvider({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<Toast[]>([]);
  const nextId = useRef(0);

  const dismiss = useCallback((id: number) => {
    setToasts((all) => all.filter((toast) => toast.id !== id));
  }, []);

  const fail = useCallback(
    (error: unknown) => {
      const id = nextId.current++;
      const toast =
        error instanceof Problem
          ? { id, text: error.message, advice: advice(error.code), path: error.path }
          : { id, text: `The page failed: ${String(error)}`, advice: null, path: null };
      setToasts((all) => [...all.filter((one) => one.text !== toast.text).slice(-3), toast]);
      setTimeout(() => dismiss(id), LIFETIME);
    },
    [dismiss],
  );

  const value = useMemo(() => ({ fail }), [fail]);
  return (
    <Context value={value}>
      {children}
      <div className="toasts" role="alert">
        {toasts.map((toast) => (
          <div className="toast" key={toast.id}>
            <AlertIcon />
            <div className="toast-text">
              {toast.text}
              {toast.advice !== null && <span className="toast-advice">{toast.advice}</span>}
              {toast.path !== null && (
                <span className="toast-path">
                  at <code>{toast.path}</code>
                </span>
              )}
            </div>
            <button
              type="button"
              className="button icon-only quiet small"
              aria-label="Dismiss"
              onClick={() => dismiss(toast.id)}
            >
              <CloseIcon />
            </button>
          </div>
        ))}
      </div>
    </Context>
  );
}

export function useToasts(): Toasts {
  const toasts = useContext(Context);
  if (!toasts) throw new Error("`useToasts` is used outside `ToastProvider`");
  return toasts;
}
