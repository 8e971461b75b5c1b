// The search index leaves these words out. In a query, where every word also finds longer ones that
// begin like it, they would find those only: "a" finds "actions" and "algorithm".
(() => {
  const words = "a an and are be can do does for from how i in is it me my of on or the to what when where which why with";
  const leftOut = new Set(words.split(" "));
  const query = 2; // among the kinds of messages of the theme's search
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...options) {
    if (message?.type === query && typeof message.data === "string") {
      const kept = message.data.split(/\s+/).filter((word) => !leftOut.has(word.toLowerCase()));
      if (kept.some(Boolean)) message = { ...message, data: kept.join(" ") };
    }
    return post.call(this, message, ...options);
  };
})();
