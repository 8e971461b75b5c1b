// The search runs in a worker, which browsers do not start for pages that are opened from files.
// There, the worker's script runs in a hidden frame instead.
(() => {
  if (location.protocol !== "file:") return;

  // Runs in the frame, before the worker's script.
  const globals = `
    self.postMessage = (data) => frameElement.worker.receive(data);
    self.importScripts = (...urls) => urls.reduce((before, url) => before.then(() =>
      new Promise((resolve, reject) => {
        const script = document.createElement("script");
        Object.assign(script, { src: url, onload: resolve, onerror: reject });
        document.head.append(script);
      })), Promise.resolve());`;

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const source = new URL(url, document.baseURI).href;
      this.frame = document.createElement("iframe");
      this.frame.worker = this;
      this.frame.hidden = true;
      this.frame.srcdoc = `<script>${globals}</script><script src="${encodeURI(decodeURI(source))}"></script>`;
      this.loaded = new Promise((resolve) => {
        this.frame.addEventListener("load", resolve, { once: true });
      });
      document.body.append(this.frame);
    }

    async postMessage(data) {
      await this.loaded;
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    receive(data) {
      this.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.IFrameWorker = window.Worker = IFrameWorker;
})();
