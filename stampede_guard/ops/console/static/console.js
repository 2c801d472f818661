// Replaces the parts of this page that the server renders anew. Without it, the page works and stands still.
// A page and what the server sends later may have different parts: without the store, there is only the trouble.
"use strict";
(() => {
  const main = document.querySelector("main[data-stream]");
  const state = document.querySelector("[data-state]");
  if (!main || !window.EventSource) return;
  const parts = (page) => [...page.querySelectorAll("[data-live][id]")].map((part) => part.id).join(" ");
  const AGAIN_MS = 30000;
  let failures = 0;
  function connect() {
    const stream = new EventSource(main.dataset.stream);
    stream.onopen = () => { failures = 0; state.textContent = "Live."; };
    stream.onerror = () => {
      // The server ends a stream after some updates, and the browser connects again: the first failure is none.
      failures += 1;
      if (stream.readyState === EventSource.CLOSED) {
        // There is no place for this page, or a proxy has answered for a server that is away.
        state.textContent = "Not live now: reload for new numbers.";
        setTimeout(connect, AGAIN_MS);
      } else if (failures > 1) state.textContent = "Connecting again.";
    };
    stream.onmessage = show;
  }
  function show(event) {
    const fresh = new DOMParser().parseFromString(event.data, "text/html");
    if (parts(fresh) !== parts(main)) {
      // Even while somebody types: old numbers must not stay.
      main.replaceChildren(...fresh.body.childNodes);
      return;
    }
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
  }
  connect();
})();
