// Names for landmarks of the theme, and keyboard access to what scrolls.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  const seen = new Map();
  const mend = () => {
    for (const nav of document.querySelectorAll("nav:not([data-named])")) {
      const name = nav.getAttribute("aria-label") ?? (nav.matches(".md-code__nav") ? "Code block" : null);
      if (name === null) continue;
      const count = (seen.get(name) ?? 0) + 1;
      seen.set(name, count);
      nav.setAttribute("aria-label", count === 1 ? name : `${name} ${count}`);
      nav.dataset.named = "";
    }
    for (const part of document.querySelectorAll("pre > code, .md-typeset__scrollwrap"))
      if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
  };
  mend();
  addEventListener("resize", mend);
  new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
});
