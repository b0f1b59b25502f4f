// Before the first paint: the color scheme that the user chose here, if it is not the system's.
try {
  var scheme = localStorage.getItem('steward.scheme');
  if (scheme === 'light' || scheme === 'dark') document.documentElement.dataset.scheme = scheme;
} catch (e) {
  // No storage: the system's.
}
