// Opens a session for as long as its page is shown.

import { useEffect, useState, useSyncExternalStore } from "react";

import { credentialsFor } from "../../client/caller";
import { seedFor } from "../../client/seed";
import { Session, socketUrl, type View } from "../../client/session";
import { useToasts } from "../common/Toasts";

export function useSession(id: string): [Session, View] {
  const { fail } = useToasts();
  const [session] = useState(() => new Session(id, socketUrl(id), fail, seedFor(id), credentialsFor(id)));
  const view = useSyncExternalStore(session.subscribe, session.getView);

  useEffect(() => {
    session.open();
    const online = () => session.retryNow();
    const leaving = () => session.flush();
    addEventListener("online", online);
    addEventListener("pagehide", leaving);
    return () => {
      removeEventListener("online", online);
      removeEventListener("pagehide", leaving);
      session.close();
    };
  }, [session]);

  return [session, view];
}
