"use strict";

// What all pages on which people act have in common: messages, requests, and the help.

const csrf = document.querySelector('meta[name="csrf"]').content;
const byId = (id) => document.getElementById(id);

function say(text) {
  byId("status").textContent = text;
}

function warn(text, canRetry = false) {
  byId("alert").textContent = text;
  byId("alert").hidden = !text;
  byId("retry").hidden = !canRetry;
}

async function call(path, body) {
  const options = { cache: "no-store" };
  if (body !== undefined) {
    options.method = "POST";
    options.headers = { "Content-Type": "application/json", "X-CSRF-Token": csrf };
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  const document_ = await response.json();
  if (!response.ok) {
    const problem = new Error(document_.error);
    problem.status = response.status;
    throw problem;
  }
  return document_;
}

function toggleHelp() {
  const help = byId("help");
  if (help.open) help.close();
  else help.showModal();
}
