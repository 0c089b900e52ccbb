// What Material adds to a page after it was loaded: names for its landmarks, focus for what scrolls.
const mend = () => {
  document.querySelectorAll("nav.md-code__nav").forEach((nav, i) => {
    nav.ariaLabel = `Code ${i + 1}`;
  });
  document.querySelectorAll(".md-typeset__scrollwrap, pre > code").forEach((block) => {
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
  });
};
document$.subscribe(() => {
  mend();
  new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
  addEventListener("resize", mend);
});
