// Which page an address shows.

import { Account } from "./account/Account";
import { Boundary } from "./common/Boundary";
import { NotFoundPage } from "./common/NotFoundPage";
import { ToastProvider } from "./common/Toasts";
import { SessionListPage } from "./list/SessionListPage";
import { useRoute } from "./router";
import { SessionPage } from "./session/SessionPage";

export function App() {
  const route = useRoute();
  return (
    <Boundary sentence="This page cannot be shown. Reload it, or go back to the list." of={route}>
      <ToastProvider>
        <Account>
          {route.page === "list" && <SessionListPage />}
          {route.page === "session" && <SessionPage key={route.id} id={route.id} at={route.at} />}
          {route.page === "unknown" && <NotFoundPage sentence="There is nothing at this address." />}
        </Account>
      </ToastProvider>
    </Boundary>
  );
}
