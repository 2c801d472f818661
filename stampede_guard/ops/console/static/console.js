// Replaces the parts of this page that the server renders anew. Without it, the page works and stands still.
"use strict";
(() => {
  const main = document.querySelector("main[data-stream]");
  const state = document.querySelector("[data-state]");
  if (!main || !window.EventSource) return;
  const stream = new EventSource(main.dataset.stream);
  stream.onopen = () => { state.textContent = "Live."; };
  stream.onerror = () => {
    state.textContent = stream.readyState === 2 ? "Not live: reload for new numbers." : "Connecting again.";
  };
  stream.onmessage = (event) => {
    const fresh = new DOMParser().parseFromString(event.data, "text/html");
    for (const part of fresh.querySelectorAll("[data-live][id]")) {
      const old = document.getElementById(part.id);
      // Somebody types or chooses in it, or has selected text.
      if (!old || old.contains(document.activeElement)) continue;
      if (!getSelection().isCollapsed && old.contains(getSelection().anchorNode)) continue;
      for (const open of old.querySelectorAll("details[open][id]")) {
        const again = part.querySelector("#" + CSS.escape(open.id));
        if (again) again.open = true;
      }
      // Where the reader has scrolled to, a wide table stays.
      const places = [...old.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
      old.replaceWith(document.adoptNode(part));
      part.querySelectorAll(".scroll").forEach((box, at) => { box.scrollLeft = places[at] || 0; });
    }
  };
})();
