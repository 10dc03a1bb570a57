// Browsers run no workers for pages that are opened as files. The site's search asks for one: here it runs in a frame.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.running = new Promise(done => {
        this.frame.onload = () => {
          const inner = this.frame.contentWindow;
          inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inner.document.createElement("script");
          script.onload = done;
          script.src = new URL(address, location);
          inner.document.body.append(script);
        };
      });
      document.body.append(this.frame);
    }
    postMessage(data) {
      this.running.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
