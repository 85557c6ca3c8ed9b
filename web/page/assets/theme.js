// Light or dark before the first paint: a classic script, since modules run
// only after the document was parsed and would let the page flash.
(() => {
  try {
    const theme = localStorage.getItem('tare.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden; the system's choice is good then.
  }
})();
