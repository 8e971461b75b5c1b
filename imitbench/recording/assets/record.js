"use strict";

// The page on which a person demonstrates. States and pictures come over one long response; what
// the person does is sent whenever it changes, one request at a time.

const headBytes = 8;
const mostUndrawn = 15; // pictures that may wait to be drawn; older ones are lost
const retryAfter = 1000;
const inputEvery = 10; // milliseconds between two requests
const gamepadStep = 0.02; // smaller moves of a stick are noise

const down = new Set(); // keys and keys of touch buttons, in the order in which they were pressed
const canvas = byId("picture");
const pen = canvas.getContext("2d");
const counts = { received: 0, drawn: 0, lost: 0 };
let about = null;
let state = null;
let pointer = null; // [x, y] as fractions of the picture
let pad = { axes: [], buttons: [] };
let lastPicture = null;
let drawing = Promise.resolve();
let undrawn = 0;
let sending = false;
let unsent = false;
let ended = false;

// A name of this page that a reload keeps, so that it keeps the controls, too.
function pageName() {
  const fresh = Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  try {
    const kept = sessionStorage.getItem("imitbench page");
    // A tab that was duplicated has a copy of the storage, and must not have the same name.
    const reloaded = performance.getEntriesByType("navigation")[0]?.type === "reload";
    if (kept && reloaded) return kept;
    sessionStorage.setItem("imitbench page", fresh);
  } catch {
    // Without storage, a reload is another page.
  }
  return fresh;
}

const page = pageName();

// Inputs.

async function sendInputs() {
  unsent = true;
  if (sending) return;
  sending = true;
  while (unsent && state && state.yours && state.phase !== "complete" && !ended) {
    unsent = false;
    const inputs = { keys: [...down].slice(-16), pointer, axes: pad.axes, buttons: pad.buttons };
    try {
      await call("input", { page, inputs });
      await new Promise((resolve) => setTimeout(resolve, inputEvery)); // mice report more often
    } catch {
      break; // the stream tells who has the controls, and whether the server is there
    }
  }
  sending = false;
}

function release() {
  if (!down.size && !pointer) return;
  down.clear();
  pointer = null;
  canvas.classList.remove("acting");
  sendInputs();
}

function placeOf(event) {
  const box = canvas.getBoundingClientRect();
  const inside = (value) => Math.min(1, Math.max(0, value));
  return [
    inside((event.clientX - box.left - canvas.clientLeft) / canvas.clientWidth),
    inside((event.clientY - box.top - canvas.clientTop) / canvas.clientHeight),
  ];
}

canvas.addEventListener("pointerdown", (event) => {
  if (!about?.mouse || event.button > 0) return;
  event.preventDefault();
  canvas.focus();
  canvas.setPointerCapture(event.pointerId);
  pointer = placeOf(event);
  canvas.classList.add("acting");
  sendInputs();
});
canvas.addEventListener("pointermove", (event) => {
  if (!pointer) return;
  pointer = placeOf(event);
  sendInputs();
});
function endDrag() {
  if (about?.mouse === "drag" && pointer) {
    pointer = null;
    canvas.classList.remove("acting");
    sendInputs();
  }
}
canvas.addEventListener("pointerup", endDrag);
canvas.addEventListener("pointercancel", endDrag);
canvas.addEventListener("contextmenu", (event) => event.preventDefault());

function readGamepad() {
  requestAnimationFrame(readGamepad);
  const found = [...(navigator.getGamepads?.() ?? [])].find(Boolean);
  if (!found) return;
  const axes = found.axes.slice(0, 16).map((value) => Math.min(1, Math.max(-1, Math.round(value / gamepadStep) * gamepadStep)));
  const buttons = found.buttons.flatMap((button, number) => (button.pressed ? [number] : []));
  if (String([axes, buttons]) === String([pad.axes, pad.buttons])) return;
  pad = { axes, buttons };
  sendInputs();
}

// Commands.

async function perform(command) {
  if (ended) return;
  try {
    const answer = await call("command", { page, command });
    warn("");
    if (!ended) say(answer.said); // otherwise the end was told already
  } catch (problem) {
    if (state?.phase === "complete") return;
    warn(problem.status ? problem.message : "The server cannot be reached.");
  }
}

function pauseIfRunning() {
  release();
  if (state?.yours && state.phase === "running") perform("pause");
}

function help() {
  toggleHelp();
  if (byId("help").open) pauseIfRunning(); // nobody acts while reading
}

const pageKeys = {
  Enter: () => perform("keep"),
  Backspace: () => perform("discard"),
  r: () => perform("restart"),
  z: () => perform("undo"),
  p: () => perform(state?.phase === "paused" ? "resume" : "pause"),
  c: () => { if (state?.round) perform("switch"); },
  "?": help,
};

const keyOf = (event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);

document.addEventListener("keydown", (event) => {
  const key = keyOf(event);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (byId("help").open && key !== "?") return;
  // Enter and the space bar press a button that was reached by keyboard.
  const onButton = event.target instanceof HTMLButtonElement && event.target.matches(":focus-visible");
  if (onButton && (key === "Enter" || key === " ")) return;
  if (pageKeys[key]) {
    event.preventDefault();
    if (!event.repeat) pageKeys[key]();
  } else if (taskKeys.has(key)) {
    event.preventDefault();
    if (event.repeat) return;
    down.add(key);
    sendInputs();
  }
});
document.addEventListener("keyup", (event) => {
  if (down.delete(keyOf(event))) sendInputs();
});
window.addEventListener("blur", release);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) pauseIfRunning();
});

for (const command of ["keep", "discard", "restart", "undo"]) {
  byId(command).addEventListener("click", () => perform(command));
}
byId("pause").addEventListener("click", pageKeys.p);
byId("switch").addEventListener("click", pageKeys.c);
byId("finish").addEventListener("click", () => perform("finish"));
byId("help-button").addEventListener("click", help);
// After a click, Enter means keep, and not the same button again.
document.addEventListener("click", (event) => {
  if (event.detail > 0 && event.target.closest("main button")) canvas.focus({ preventScroll: true });
});
byId("retry").addEventListener("click", () => perform("take over"));

// What is shown.

const taskKeys = new Set();
const spoken = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "Space" };

function touchButton(key, what) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = spoken[key] ?? key;
  button.setAttribute("aria-label", `${button.textContent}: ${what}`);
  button.tabIndex = -1; // the key itself does the same
  button.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    button.setPointerCapture(event.pointerId);
    down.add(key);
    sendInputs();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    button.addEventListener(end, () => { if (down.delete(key)) sendInputs(); });
  }
  return button;
}

function showAbout() {
  byId("env").textContent = about.env;
  document.title = `${about.env} · imitbench`;
  for (const { what, keys, others } of about.controls) {
    const names = document.createElement("dt");
    for (const key of keys) {
      taskKeys.add(key);
      const shown = document.createElement("kbd");
      shown.textContent = spoken[key] ?? key;
      names.append(shown, " ");
      byId("touch").append(touchButton(key, what));
    }
    names.append(others.join(", "));
    const meaning = document.createElement("dd");
    meaning.textContent = what;
    byId("controls").append(names, meaning);
  }
  byId("touch").hidden = taskKeys.size === 0;
}

function hint() {
  if (!state.yours) return "You are watching";
  if (state.phase === "learning") return "The policy is learning";
  if (state.phase === "complete" && state.round) return "The training is done";
  if (state.phase === "ready" && state.round?.policy) return "Press C to let the policy act, or act yourself";
  if (state.acting === "policy") return "The policy acts: take over where it fails";
  if (state.phase === "running" && state.round?.policy) return "You act: press C to give back";
  if (state.phase === "ready") {
    const then = state.steps ? "go on" : "begin"; // after an undo
    return about.mouse ? `Press on the picture, or a key, to ${then}` : `Press a key to ${then}`;
  }
  if (state.phase === "paused") return "Paused";
  if (state.phase === "ended") return "The episode has ended: keep or discard it";
  if (state.phase === "complete") return "All episodes are kept";
  return "";
}

function showRound() {
  const { round, acting } = state;
  for (const part of document.querySelectorAll(".coaching")) part.hidden = !round;
  byId("round-part").hidden = byId("switch").hidden = byId("finish").hidden = !round;
  canvas.classList.toggle("policy", acting === "policy");
  if (!round) return;
  byId("round").textContent = `${round.number}, ${round.steps} of ${round.min_steps} steps`;
  byId("switch-text").textContent = acting === "policy" ? "Take over" : "Let the policy act";
  const possible = state.yours && round.policy && ["ready", "running"].includes(state.phase);
  byId("switch").disabled = !possible;
  byId("finish").disabled = !state.yours || !round.policy || ["learning", "complete"].includes(state.phase);
}

function showState(fresh) {
  const before = state;
  state = fresh;
  if (before && before.phase !== state.phase && state.phase === "ready") release();
  if (before && before.acting === "person" && state.acting === "policy") release();
  byId("bar").max = state.goal;
  byId("bar").value = state.kept;
  byId("count").textContent = `${state.kept} of ${state.goal} kept`;
  showRound();
  byId("steps").textContent = state.steps;
  byId("return").textContent = state.return === null ? "–" : Number(state.return.toPrecision(4));
  byId("success-part").hidden = state.success === null;
  byId("success").textContent = state.success ? "yes" : "no";
  byId("rate").textContent = state.real_hz === null ? "–" : state.real_hz.toFixed(1);
  byId("asked").textContent = state.asked_hz;
  byId("hint").textContent = hint();
  byId("pause-text").textContent = state.phase === "paused" ? "Go on" : "Pause";
  const mine = state.yours && !["learning", "complete"].includes(state.phase);
  byId("keep").disabled = byId("discard").disabled = byId("restart").disabled = !mine || state.steps === 0;
  byId("undo").disabled = !mine || state.steps === 0 || !state.undo;
  byId("pause").disabled = !mine || !["running", "paused"].includes(state.phase);
  if (state.problem) {
    warn(`The environment failed: ${state.problem}. What was kept is stored.`);
  } else if (!state.yours && (!before || before.yours)) {
    warn("Another tab has the controls. You can watch, or take over.", true);
  } else if (state.yours && before && !before.yours) {
    warn("");
  }
}

function draw(image) {
  if (canvas.width !== image.width || canvas.height !== image.height) {
    canvas.width = image.width;
    canvas.height = image.height;
  }
  pen.drawImage(image, 0, 0);
  image.close();
  counts.drawn += 1;
}

function showPicture(number, bytes) {
  counts.received += 1;
  if (lastPicture !== null && number > lastPicture + 1) counts.lost += number - lastPicture - 1;
  lastPicture = number;
  if (undrawn >= mostUndrawn) {
    counts.lost += 1;
  } else {
    undrawn += 1;
    const decoded = createImageBitmap(new Blob([bytes], { type: "image/jpeg" })); // several at once
    drawing = drawing.then(() => decoded).then(draw).catch(() => { counts.lost += 1; }).finally(() => { undrawn -= 1; });
  }
  byId("lost").textContent = counts.lost;
}

// The stream.

function take(buffer) {
  let start = 0;
  while (buffer.length - start >= headBytes) {
    const head = new DataView(buffer.buffer, buffer.byteOffset + start, headBytes);
    const middle = start + headBytes + head.getUint32(0);
    const end = middle + head.getUint32(4);
    if (buffer.length < end) break;
    const fresh = JSON.parse(new TextDecoder().decode(buffer.subarray(start + headBytes, middle)));
    showState(fresh);
    if (end > middle) showPicture(fresh.picture, buffer.slice(middle, end));
    start = end;
  }
  return buffer.subarray(start);
}

async function follow() {
  const response = await fetch(`frames/${page}`, { cache: "no-store" });
  if (!response.ok) throw new Error((await response.json()).error);
  warn("");
  state = null;
  lastPicture = null;
  const reader = response.body.getReader();
  let rest = new Uint8Array(0);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const joined = new Uint8Array(rest.length + value.length);
    joined.set(rest);
    joined.set(value, rest.length);
    rest = take(joined);
  }
}

function finish() {
  ended = true;
  if (!state.problem) say(`${state.round ? "Training goes on without you. " : ""}All your episodes are stored. You may close this page.`);
}

async function start() {
  try {
    about = await call("about");
  } catch (problem) {
    warn(problem.status ? problem.message : "The server cannot be reached. Load the page again.");
    return;
  }
  showAbout();
  readGamepad();
  while (!ended) {
    let told = "The server cannot be reached. What you kept is stored. Start the command again, and open its new link.";
    try {
      await follow();
      if (state?.phase === "complete" || state?.problem) return finish();
    } catch (problem) {
      if (!(problem instanceof TypeError)) told = problem.message;
    }
    for (const id of ["keep", "discard", "restart", "undo", "pause", "switch", "finish"]) byId(id).disabled = true;
    warn(told);
    await new Promise((resolve) => setTimeout(resolve, retryAfter));
  }
}

start();
