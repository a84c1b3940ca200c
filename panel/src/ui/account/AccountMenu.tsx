// Who is signed in, and the way out; nothing where nobody has to sign in.

import { signOut } from "../../client/caller";
import { Menu } from "../common/Menu";
import { useToasts } from "../common/Toasts";
import { PersonIcon, SignOutIcon } from "../icons";
import { useCaller } from "./useCaller";

export function AccountMenu() {
  const { principal, project, role, key_id } = useCaller();
  const { fail } = useToasts();
  if (key_id === null) return null;
  return (
    <Menu
      label={`Signed in as ${principal}`}
      title={`${principal}, ${role ?? "guest"} in ${project}`}
      className="button quiet account"
      trigger={
        <>
          <PersonIcon />
          <bdi>{principal}</bdi>
        </>
      }
      items={[
        {
          label: "Sign out",
          detail: `${principal}, ${role ?? "guest"} in ${project}`,
          icon: <SignOutIcon />,
          onSelect: () => void signOut().catch(fail),
        },
      ]}
    />
  );
}
