// Runs before the first paint, so that the selected theme does not flash. A separate file, because
// the content security policy allows no inline scripts.
try {
  var theme = localStorage.getItem("headwater.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Without storage the theme of the system is used.
}
