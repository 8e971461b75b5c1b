"use strict";

// The page of one annotator. Clips of the next pairs are fetched and decoded ahead. An answer is
// kept in this browser until the server has confirmed that it is stored.

const keptUnder = `imitbench ${location.pathname}`;
const speeds = [0.25, 0.5, 1, 2, 4];
const retryAfter = 3000;
const lookAfter = 1000; // while the queue of a training is empty
const driftAllowed = 0.06; // seconds between the clips of a pair

const prepared = new Map(); // by place in the sequence: what `prepare` returns
let state = null;
let shown = null; // the prepared pair on the page
let shownSince = 0;
let paused = false;
let speed = 2;
let busy = false; // while an answer is on its way
let retryTimer = 0;
let growTimer = 0;
let answeredHere = 0;

// Clips.

function makeVideo(number, side) {
  const video = document.createElement("video");
  video.muted = true;
  video.playsInline = true;
  video.preload = "auto";
  video.setAttribute("aria-label", `${side} clip`);
  const ready = fetch(`clips/${number}.mp4`)
    .then((response) => (response.ok ? response.blob() : Promise.reject(new Error("missing"))))
    .then((blob) => new Promise((resolve, reject) => {
      video.addEventListener("loadeddata", resolve, { once: true });
      video.addEventListener("error", () => reject(new Error("not decodable")), { once: true });
      video.src = URL.createObjectURL(blob);
      video.load();
    }));
  return { video, ready };
}

function prepare(task) {
  if (!prepared.has(task.position)) {
    const left = makeVideo(task.left, "Left");
    const right = makeVideo(task.right, "Right");
    const entry = { task, left: left.video, right: right.video, failed: false, loaded: false };
    entry.ready = Promise.all([left.ready, right.ready]).then(
      () => { entry.loaded = true; },
      () => { entry.failed = true; },
    );
    prepared.set(task.position, entry);
  }
  return prepared.get(task.position);
}

function forget(entry) {
  for (const video of [entry.left, entry.right]) {
    video.pause();
    URL.revokeObjectURL(video.src);
    video.removeAttribute("src");
  }
}

function playBoth() {
  if (!shown || !shown.loaded) return;
  for (const video of [shown.left, shown.right]) {
    video.playbackRate = speeds[speed];
    if (paused) video.pause();
    else if (!video.ended) video.play().catch(() => {});
  }
}

// Both clips start again when both have ended, and the right one follows the left one.
function keepInStep() {
  requestAnimationFrame(keepInStep);
  if (!shown || !shown.loaded || paused) return;
  const { left, right } = shown;
  if (left.ended && right.ended) {
    left.currentTime = 0;
    right.currentTime = 0;
    playBoth();
  } else if (!left.ended && !right.ended && !left.seeking && !right.seeking
             && Math.abs(left.currentTime - right.currentTime) > driftAllowed * speeds[speed]) {
    right.currentTime = left.currentTime;
  }
}

// The page.

function showProgress() {
  byId("name").textContent = state.name;
  byId("question").textContent = state.question;
  byId("bar").max = state.total;
  byId("bar").value = state.done;
  byId("count").textContent = `${state.done} of ${state.total}`;
  const left = state.goal - answeredHere;
  byId("goal").textContent = left > 0
    ? `Goal for now: ${state.goal} answers, ${left} to go.`
    : `Goal of ${state.goal} answers reached. Take a break, or go on.`;
}

function allowAnswers() {
  const playable = !busy && shown !== null && shown.loaded;
  for (const id of ["choose-left", "choose-right", "choose-tie"]) byId(id).disabled = !playable;
  byId("choose-skip").disabled = busy || shown === null || !(shown.loaded || shown.failed);
  byId("undo").disabled = busy || state === null || state.done === 0;
}

function show(task) {
  const entry = task ? prepare(task) : null;
  if (entry !== shown) {
    if (shown) {
      shown.left.pause();
      shown.right.pause();
    }
    shown = entry;
    byId("left").replaceChildren(...(entry ? [entry.left] : []));
    byId("right").replaceChildren(...(entry ? [entry.right] : []));
    for (const video of entry ? [entry.left, entry.right] : []) {
      if (video.currentTime > 0) video.currentTime = 0; // seeking would blank the first frame
    }
    shownSince = 0;
  }
  for (const id of ["stage", "more", "controls"]) byId(id).hidden = !entry && !(id === "more" && state.done);
  byId("choose-tie").hidden = byId("choose-skip").hidden = !entry;
  byId("end").hidden = Boolean(entry);
  if (state.grows) {
    byId("end-title").textContent = "No pair waits for you now.";
    byId("end-text").textContent = "All your answers are stored. The training's next pairs appear here by themselves.";
  }
  allowAnswers();
  if (!entry) return;
  const whenReady = () => {
    if (shown !== entry) return;
    shownSince ||= performance.now();
    if (entry.failed) warn("A clip of this pair cannot be shown in this browser. Please skip it.");
    allowAnswers();
    playBoth();
  };
  if (entry.loaded || entry.failed) whenReady();
  else entry.ready.then(whenReady);
}

function applyState(fresh) {
  state = fresh;
  for (const task of state.next) prepare(task);
  for (const [position, entry] of prepared) {
    if (position < state.done - 1) {
      forget(entry);
      prepared.delete(position);
    }
  }
  showProgress();
  show(state.next[0]);
  clearTimeout(growTimer);
  if (state.grows && state.next.length < 2) growTimer = setTimeout(lookForMore, lookAfter);
}

// The pairs of a running training come while the page is open.
async function lookForMore() {
  if (busy) {
    growTimer = setTimeout(lookForMore, lookAfter);
    return;
  }
  try {
    const fresh = await call("state");
    if (!busy) {
      applyState(fresh);
      return;
    }
  } catch {
    // The server may come back.
  }
  growTimer = setTimeout(lookForMore, lookAfter);
}

// Answers.

function keep(answer) {
  try {
    if (answer) localStorage.setItem(keptUnder, JSON.stringify(answer));
    else localStorage.removeItem(keptUnder);
  } catch {
    // Without storage, an answer is kept as long as the page is open.
  }
}

function kept() {
  try {
    return JSON.parse(localStorage.getItem(keptUnder));
  } catch {
    return null;
  }
}

const spoken = { left: "left", right: "right", tie: "equally good", skip: "skipped" };

async function send(answer) {
  clearTimeout(retryTimer);
  busy = true;
  allowAnswers();
  try {
    const fresh = await call("answer", answer);
    keep(null);
    busy = false;
    answeredHere += 1;
    warn("");
    applyState(fresh);
    say(`Pair ${answer.position + 1}: ${spoken[answer.choice]}.`);
  } catch (problem) {
    if (problem.status === 409) { // answered in another window
      keep(null);
      busy = false;
      warn(problem.message);
      applyState(await call("state"));
      return;
    }
    const reason = problem.status ? problem.message : "The server cannot be reached.";
    warn(`${reason} Your answer is kept in this browser and will be sent again.`, true);
    byId("retry").onclick = () => send(answer);
    retryTimer = setTimeout(() => send(answer), retryAfter);
  }
}

function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function choose(choice) {
  if (busy || !shown || !(shown.loaded || (shown.failed && choice === "skip"))) return;
  const answer = {
    key: newKey(),
    position: shown.task.position,
    choice,
    response_ms: Math.round(performance.now() - shownSince),
  };
  keep(answer);
  warn("");
  const following = state.next[1];
  busy = true;
  if (following) show(following);
  send(answer);
}

async function undo() {
  if (busy || !state || state.done === 0) return;
  busy = true;
  allowAnswers();
  try {
    const fresh = await call("undo", { position: state.done - 1 });
    busy = false;
    answeredHere = Math.max(0, answeredHere - 1);
    warn("");
    applyState(fresh);
    say("The last answer was taken back.");
  } catch (problem) {
    busy = false;
    warn(problem.status ? problem.message : "The server cannot be reached. Try again.");
    allowAnswers();
  }
}

// Controls.

function togglePause() {
  paused = !paused;
  byId("pause-text").textContent = paused ? "Play" : "Pause";
  playBoth();
}

function changeSpeed(step) {
  speed = Math.min(speeds.length - 1, Math.max(0, speed + step));
  byId("speed").textContent = `${speeds[speed]}×`;
  playBoth();
}

const keys = {
  ArrowLeft: () => choose("left"),
  ArrowRight: () => choose("right"),
  ArrowDown: () => choose("tie"),
  s: () => choose("skip"),
  u: undo,
  " ": togglePause,
  "+": () => changeSpeed(1),
  "=": () => changeSpeed(1),
  "-": () => changeSpeed(-1),
  "?": toggleHelp,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act || (byId("help").open && event.key !== "?")) return;
  // The space bar presses a button that was reached by keyboard, but not one that was clicked.
  if (event.key === " " && event.target instanceof HTMLButtonElement
      && event.target.matches(":focus-visible")) return;
  event.preventDefault();
  act();
});

byId("choose-left").addEventListener("click", () => choose("left"));
byId("choose-right").addEventListener("click", () => choose("right"));
byId("left").addEventListener("click", () => choose("left"));
byId("right").addEventListener("click", () => choose("right"));
byId("choose-tie").addEventListener("click", () => choose("tie"));
byId("choose-skip").addEventListener("click", () => choose("skip"));
byId("undo").addEventListener("click", undo);
byId("pause").addEventListener("click", togglePause);
byId("slower").addEventListener("click", () => changeSpeed(-1));
byId("faster").addEventListener("click", () => changeSpeed(1));
byId("help-button").addEventListener("click", toggleHelp);

async function start() {
  try {
    applyState(await call("state"));
  } catch (problem) {
    warn(problem.status ? problem.message : "The server cannot be reached. Load the page again.");
    return;
  }
  const unsent = kept();
  if (unsent) send(unsent);
  keepInStep();
}

start();
