// What the theme leaves out for keyboards, screen readers and print. The pages read well without it.
(() => {
  const SCROLLERS = "mjx-container, .pst-scrollable-table-container, .output.text_html, .bd-article pre";

  // A name that differs from the visible words cannot be spoken to a voice control.
  function dropFalseNames() {
    for (const named of document.querySelectorAll("button.search-button-field, .theme-switch-button, summary[aria-label]")) {
      named.removeAttribute("aria-label");
    }
    document.querySelector("#pst-primary-sidebar")?.setAttribute("role", "complementary");
    document.querySelector("#pst-primary-sidebar")?.setAttribute("aria-label", "Course");
  }

  // An empty heading cell names nothing; as an ordinary cell it is skipped.
  function emptyHeadings(root = document) {
    for (const head of root.querySelectorAll("th")) {
      if (head.textContent.trim() || head.querySelector("img, svg, input")) continue;
      const cell = document.createElement("td");
      cell.className = head.className;
      head.replaceWith(cell);
    }
  }

  // What scrolls sideways can be reached by keyboard, and only while it scrolls.
  // All is measured before anything is changed: a page is laid out once, not once for each formula.
  function reachable(elements) {
    const measured = elements.map((element) => {
      const inline = element.localName === "mjx-container" && !element.hasAttribute("display");
      const room = inline ? element.closest("p, li, dd, td, div").clientWidth : element.clientWidth;
      return { element, inline, scrolls: element.scrollWidth > room + 1 };
    });
    for (const { element, inline, scrolls } of measured) {
      if (inline) element.toggleAttribute("data-wide", scrolls);
      if (scrolls && !element.hasAttribute("tabindex")) {
        element.dataset.scrolls = "";
        element.tabIndex = 0;
        if (element.localName === "mjx-container") {
          element.setAttribute("role", "group");
          element.setAttribute("aria-label", "formula, scrolls sideways");
        }
      } else if (!scrolls && "scrolls" in element.dataset) {
        delete element.dataset.scrolls;
        for (const name of ["tabindex", "role", "aria-label"]) element.removeAttribute(name);
      }
    }
  }

  function watchScrollers() {
    // a new element is reported at once, and again whenever its size changes
    const sizes = new ResizeObserver((entries) => reachable(entries.map((entry) => entry.target)));
    const known = new WeakSet();
    const scan = () => {
      const found = [...document.querySelectorAll(SCROLLERS)];
      for (const element of found.filter((one) => !known.has(one))) {
        known.add(element);
        sizes.observe(element);
      }
      return found;
    };
    scan();
    // letters of formulas arrive late, and what they change need not be the size of a box; parts
    // that are not laid out yet report themselves when they are
    const near = (one) => one.checkVisibility?.({ contentVisibilityAuto: true }) ?? true;
    const again = () => reachable(scan().filter(near));
    addEventListener("load", () => {
      document.fonts?.ready.then(again);
      window.MathJax?.startup?.promise?.then(again);
    });
  }

  // A box is ticked by its reader, and stays so in this browser; its name is the line it stands in.
  function checklists() {
    const known = (name) => `ticked:${location.pathname}:${name}`;
    document.querySelectorAll(".task-list-item-checkbox").forEach((box, index) => {
      const line = box.closest("li");
      const name = known(line.textContent.trim().slice(0, 80));
      line.id ||= `line-${index}`;
      box.setAttribute("aria-labelledby", line.id);
      box.disabled = false;
      try {
        box.checked = localStorage.getItem(name) === "1";
        box.addEventListener("change", () => localStorage.setItem(name, box.checked ? "1" : "0"));
      } catch {
        // no storage here: the box works until the page is left
      }
    });
  }

  // On paper nothing can be unfolded, so everything is.
  function unfoldForPrint() {
    let folded = [];
    const open = () => {
      folded = folded.concat([...document.querySelectorAll("details:not([open])")]);
      for (const part of folded) part.open = true;
    };
    const close = () => {
      for (const part of folded) part.open = false;
      folded = [];
    };
    addEventListener("beforeprint", open);
    addEventListener("afterprint", close);
    matchMedia("print").addEventListener("change", (event) => (event.matches ? open() : close()));
  }

  function start() {
    dropFalseNames();
    emptyHeadings();
    checklists();
    watchScrollers();
    unfoldForPrint();
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
