// Before the first paint, so that a chosen theme does not flash. A file of its own: the policy
// allows no inline scripts.
try {
  var theme = localStorage.getItem("headwater.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser without storage follows the system.
}
