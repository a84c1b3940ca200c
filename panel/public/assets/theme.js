// Sets a chosen theme before the first paint; a file of its own because inline scripts are forbidden.
try {
  var theme = localStorage.getItem("turnback.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch (error) {
  // Storage can be forbidden; the system's preference then decides.
}
