"use strict";
(() => {
  const section = document.getElementById("xray"), find = name => section.querySelector(name);
  const sources = [...section.querySelectorAll(".xray-data")], canvas = find("canvas"), slider = find("input"), go = find(".go");
  const which = find("select"), told = find(".told"), legend = find(".legend"), draw = canvas.getContext("2d");
  const STAGES = ["erased", "open", "full", "being emptied", "the drive's tables", "bad"];
  const { ramp: RAMP, streams: STREAMS, stream: STREAM } = XRAY_COLOURS;
  const HELD = ["idle", "host read", "host program", "copy read", "copy program", "erase"];
  const STAGE = [null, "#e8a33a", "#44618f", "#d2452f", "#7d5fa8", null];
  const HOLD = ["", "#7fc4e8", "#1f4e9c", "#e3b96a", "#c8642f", "#8c2a4a"];
  let by = "valid", frame = 0, timer = null, xray = null, layout = null, pointed = null;
  const plays = "plays" in section.dataset;
  const dark = matchMedia("(prefers-color-scheme:dark)");
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  async function unpack(text, frames, length) {
    const packed = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const out = new Uint8Array(frames * length), reader = stream.getReader();
    let end = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (end + value.length > out.length) throw new Error("more cells than there are");
      out.set(value, end); end += value.length;
    }
    for (let at = length; at < out.length; at++) out[at] += out[at - length];
    return out;
  }

  async function open(source) {
    const x = JSON.parse(source.textContent), frames = x.at_ns.length;
    x.planes = x.dies * x.planes_per_die; x.cells = x.planes * x.cells_per_plane;
    for (const name of ["stage", "stream", "valid", "written", "changed", "wear"])
      x[name] = await unpack(x[name], frames, x.cells);
    if (x.held) x.held = await unpack(x.held, frames, x.dies);
    // With few small blocks, each block shows its units and a label.
    x.slots = x.blocks_per_cell === 1 && x.cells <= 64 && x.units_per_block <= 64 ? x.units_per_block : 0;
    x.units = x.units && x.slots ? await unpack(x.units, frames, x.cells * x.slots) : null;
    // Frames since the last change of each cell; 255: unchanged since the start.
    x.age = new Uint8Array(frames * x.cells).fill(255);
    for (let f = 1; f < frames; f++) for (let c = 0, at = f * x.cells; c < x.cells; c++, at++) {
      const before = x.age[at - x.cells];
      x.age[at] = x.changed[at] ? 0 : before >= 254 ? before : before + 1;
    }
    x.wearMost = 0;
    for (const wear of x.wear) if (wear > x.wearMost) x.wearMost = wear;
    x.shares = spread(x);
    // Frames are labelled with the virtual time, or with host pages if the run has no timing.
    x.isTimed = x.at_ns[frames - 1] > x.at_ns[0];
    xray = x; frame = telling(x); slider.max = frames - 1; slider.value = frame;
    const per = x.blocks_per_cell === 1 ? "Each cell is a block" : `Each cell is ${x.blocks_per_cell} blocks`;
    const planes = x.planes_per_die > 1 ? `, a row of cells for each of its ${x.planes_per_die} planes` : "";
    find(".about").textContent = `${per}; ${x.dies === 1 ? "one die" : x.dies + " dies"}${planes}. ` +
      `${frames} frames of the measurement. Orange rims: open, being written; red: being emptied by collection; crosses: bad.` +
      (x.slots ? x.units ? " Units of a block are in their order on flash." : " In each block the valid units come first, then stale and unwritten ones." : "") +
      (x.held ? " The bar of a die says what held it at that moment." : "");
    place(); key(); paint();
  }

  // 1st and 99th percentile of the valid shares of full blocks: the ends of the colour scale. They are at
  // least a twentieth of a block apart.
  function spread(x) {
    const counts = new Array(256).fill(0); let all = 0;
    for (let at = 0; at < x.valid.length; at++) if (x.stage[at] === 2) counts[x.valid[at]]++, all++;
    const reach = share => { let seen = 0; return counts.findIndex(count => (seen += count) > share * (all - 1)); };
    const [low, high] = all ? [reach(.01), reach(.99)] : [0, 255];
    return high - low < 13 ? [Math.max(0, high - 13), Math.max(13, high)] : [low, high];
  }

  // Frame shown first: of the second half, the one whose full blocks differ most in their valid shares. After
  // a prefill, all blocks of the first frame have one colour.
  function telling(x) {
    let best = 0, most = -1;
    for (let f = x.at_ns.length >> 1; f < x.at_ns.length; f++) {
      let count = 0, sum = 0, squares = 0;
      for (let at = f * x.cells; at < (f + 1) * x.cells; at++)
        if (x.stage[at] === 2) count++, sum += x.valid[at], squares += x.valid[at] ** 2;
      const spread = count ? squares / count - (sum / count) ** 2 : 0;
      if (spread > most) best = f, most = spread;
    }
    return best;
  }

  // Largest cell size for which all dies fit next to each other.
  function place() {
    const width = section.clientWidth - 2 * parseFloat(getComputedStyle(section).paddingLeft);
    const most = Math.max(260, Math.min(560, innerHeight * .62)), head = xray.dies > 1 || xray.held ? xray.slots ? 28 : 17 : 4;
    const gap = 10, rim = 3;
    let best = null;
    for (let across = 1; across <= xray.dies; across++) {
      const room = (width - gap * (across - 1)) / across, down = Math.ceil(xray.dies / across);
      if (room < 12) break;
      for (let size = xray.slots ? 150 : 22; size >= 1; size -= size > 4 ? 1 : .5) {
        const columns = Math.floor(room / size);
        if (columns < 1) continue;
        const rows = Math.ceil(xray.cells_per_plane / columns);
        const plane = rows * size + rim, die = head + xray.planes_per_die * plane, height = down * (die + gap);
        if (height > most && size > 1) continue;
        if (!best || size > best.size || size === best.size && height < best.height)
          best = { across, size, columns: Math.min(columns, xray.cells_per_plane), rows, plane, die, height, room, head, gap, width };
        break;
      }
    }
    layout = best;
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(best.height * ratio);
    canvas.style.height = best.height + "px";
    draw.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  function mix(stops, share) {
    const at = Math.max(0, Math.min(1, share)) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2), part = at - low;
    const one = stops[low], other = stops[low + 1], of = (text, from) => parseInt(text.slice(from, from + 2), 16);
    return `rgb(${[1, 3, 5].map(from => Math.round(of(one, from) * (1 - part) + of(other, from) * part)).join()})`;
  }

  const ramp = Array.from({ length: 256 }, (_, at) => mix(RAMP, at / 255));
  function colour(at) {
    const stage = xray.stage[at];
    if (stage === 5) return null;
    if (by === "wear") return ramp[Math.round(255 * xray.wear[at] / Math.max(1, xray.wearMost))];
    if (by === "age") return xray.age[at] === 255 ? ramp[0] : ramp[255 - Math.round(225 * Math.min(1, Math.log1p(xray.age[at]) / Math.log1p(xray.at_ns.length)))];
    if (by === "stage") return STAGE[stage];
    if (stage === 0) return null;
    if (by === "stream") return STREAM[xray.stream[at]] || STREAM[0];
    return stage === 4 ? STAGE[4] : ramp[Math.round(255 * Math.max(0, Math.min(1, (xray.valid[at] - xray.shares[0]) / (xray.shares[1] - xray.shares[0]))))];
  }

  function corner(die, plane, cell) {
    const { across, size, columns, room, gap, head } = layout;
    const x = (die % across) * (room + gap), y = Math.floor(die / across) * (layout.die + gap);
    return [x + (cell % columns) * size, y + head + plane * layout.plane + Math.floor(cell / columns) * size];
  }

  const isDetailed = () => xray.slots > 0 && layout.size >= 40;
  // Draws a block with its number and its units. Colours other than validity and stream apply to the whole
  // block.
  function detail(at, cell, x, y, inner) {
    const stage = xray.stage[at], top = 17, high = inner - top - 4, wide = inner - 4;
    draw.fillStyle = css("--soft"); draw.font = "13px system-ui,sans-serif";
    const texts = [`block ${cell}: ${STAGES[stage]}`, `${cell}: ${STAGES[stage]}`, `${cell}`];
    draw.fillText(texts.find(text => draw.measureText(text).width < inner - 4) || texts[2], x, y + 12);
    const [valid, written] = [xray.valid, xray.written].map(of => Math.round(of[at] / 255 * xray.slots));
    const across = xray.slots <= 8 ? 1 : Math.ceil(Math.sqrt(xray.slots)), down = Math.ceil(xray.slots / across);
    const isSlotted = stage < 4 && (by === "valid" || by === "stream");
    for (let slot = 0; slot < (isSlotted ? xray.slots : 1); slot++) {
      const isValid = xray.units ? xray.units[at * xray.slots + slot] === 1 : slot < valid;
      const isStale = isSlotted && !isValid && slot < written;
      draw.fillStyle = !isSlotted ? colour(at) || css("--line") : !isValid && slot >= written ? css("--line")
        : by === "stream" ? STREAM[xray.stream[at]] || STREAM[0] : isStale ? RAMP[1] : RAMP[RAMP.length - 1];
      draw.globalAlpha = isStale && by === "stream" ? .3 : 1;
      if (isSlotted) draw.fillRect(x + 2 + slot % across * wide / across, y + top + 2 + Math.floor(slot / across) * high / down, wide / across - 2, high / down - 2);
      else draw.fillRect(x + 2, y + top + 2, wide - 2, high - 2);
    }
    draw.globalAlpha = 1;
    if (stage === 1 || stage === 3) { draw.strokeStyle = STAGE[stage]; draw.lineWidth = 3; draw.strokeRect(x + .5, y + top + .5, wide + 1, high + 1); }
  }

  function paint() {
    const { size, width, height } = layout, inner = size >= 4 ? size - 1 : size;
    const soft = css("--soft"), line = css("--line"), back = css("--back");
    draw.fillStyle = back; draw.fillRect(0, 0, width, height);
    draw.textBaseline = "alphabetic";
    const thick = isDetailed() ? 6 : 3;
    for (let die = 0; die < xray.dies; die++) {
      draw.font = `${isDetailed() ? 14 : 11}px system-ui,sans-serif`;
      const [left, top] = corner(die, 0, 0);
      if (layout.head > 10) {
        const held = xray.held ? xray.held[frame * xray.dies + die] : 0;
        const wide = Math.min(layout.columns * size, layout.room);
        draw.fillStyle = held ? HOLD[held] : line; draw.fillRect(left, top - thick - 1, wide - 1, thick);
        draw.fillStyle = soft;
        const text = layout.room > 110 && xray.held ? `die ${die}  ${HELD[held]}` : layout.room > 46 ? `die ${die}` : `${die}`;
        draw.fillText(text, left, top - thick - 4);
      }
      for (let plane = 0; plane < xray.planes_per_die; plane++) for (let cell = 0; cell < xray.cells_per_plane; cell++) {
        const at = frame * xray.cells + (die * xray.planes_per_die + plane) * xray.cells_per_plane + cell;
        const [x, y] = corner(die, plane, cell), stage = xray.stage[at], fill = colour(at);
        if (isDetailed() && stage !== 5) {
          detail(at, die * xray.planes_per_die * xray.cells_per_plane + plane * xray.cells_per_plane + cell, x, y, inner);
          continue;
        }
        draw.fillStyle = fill || line;
        if (stage !== 5) draw.fillRect(x, y, inner, inner);
        if (stage === 5) {
          draw.strokeStyle = soft; draw.lineWidth = 1; draw.beginPath();
          draw.moveTo(x + 1, y + 1); draw.lineTo(x + inner - 1, y + inner - 1);
          draw.moveTo(x + inner - 1, y + 1); draw.lineTo(x + 1, y + inner - 1); draw.stroke();
        } else if ((stage === 1 || stage === 3) && by !== "stage") {
          draw.strokeStyle = STAGE[stage]; draw.lineWidth = size >= 8 ? 2 : 1.4;
          draw.strokeRect(x + .5, y + .5, inner - 1, inner - 1);
        }
      }
    }
    if (pointed) {
      const [x, y] = corner(pointed.die, pointed.plane, pointed.cell);
      draw.strokeStyle = css("--ink"); draw.lineWidth = 1.5; draw.strokeRect(x - 1, y - 1, inner + 2, inner + 2);
    }
    tell();
  }

  const span = ns => ns >= 60e9 ? (ns / 60e9).toFixed(1) + " min" : ns >= 1e9 ? (ns / 1e9).toFixed(2) + " s" : ns >= 1e6 ? (ns / 1e6).toFixed(1) + " ms" : (ns / 1e3).toFixed(0) + " µs";
  function tell() {
    const pages = Math.round(xray.host_pages[frame]).toLocaleString("en") + " pages";
    find(".when").textContent = xray.isTimed ? span(xray.at_ns[frame] - xray.at_ns[0]) : pages;
    slider.setAttribute("aria-valuetext", find(".when").textContent);
    const first = frame * xray.cells;
    if (!pointed) {
      const counts = STAGES.map(() => 0); let valid = 0, used = 0;
      for (let at = first; at < first + xray.cells; at++) {
        counts[xray.stage[at]]++;
        if (xray.stage[at] === 2) valid += xray.valid[at], used++;
      }
      const what = xray.blocks_per_cell === 1 ? "blocks" : "cells";
      const parts = counts.map((count, stage) => count ? `${count.toLocaleString("en")} ${STAGES[stage]}` : "").filter(Boolean);
      told.textContent = `${what}: ${parts.join(", ")}` + (used ? `; full ones are ${(valid / used / 2.55).toFixed(0)} % valid` : "") + ".";
      return;
    }
    const { die, plane, cell } = pointed, at = first + (die * xray.planes_per_die + plane) * xray.cells_per_plane + cell;
    const block = (die * xray.planes_per_die + plane) * xray.blocks_per_plane + cell * xray.blocks_per_cell;
    const last = Math.min(xray.blocks_per_cell, xray.blocks_per_plane - cell * xray.blocks_per_cell) - 1;
    const name = last ? `blocks ${block}–${block + last}` : `block ${block}`, ago = xray.age[at];
    const when = ago === 255 ? "not written in the window so far" : ago ? `last written ${ago} frames ago` : "written since the frame before";
    told.textContent = `${name}, die ${die}, plane ${plane}: ${STAGES[xray.stage[at]]}, ${(xray.written[at] / 2.55).toFixed(0)} % written, ` +
      `${(xray.valid[at] / 2.55).toFixed(0)} % valid, ${xray.wear_min + xray.wear[at] * xray.wear_step} erases, ` +
      (xray.stream[at] ? `for ${STREAMS[xray.stream[at]]}, ` : "") + when + ".";
  }

  function key() {
    legend.textContent = "";
    const entry = (fill, text) => {
      const span = legend.appendChild(document.createElement("span")), mark = span.appendChild(document.createElement("i"));
      mark.style.background = fill; span.append(text);
    };
    const scale = (low, high) => {
      legend.append(low);
      const mark = legend.appendChild(document.createElement("i"));
      mark.className = "ramp"; mark.style.background = `linear-gradient(90deg,${RAMP.join()})`;
      legend.append(high);
    };
    const isOfUnits = isDetailed() && (by === "valid" || by === "stream");
    if (isOfUnits && by === "valid") entry(RAMP[RAMP.length - 1], "valid unit"), entry(RAMP[1], "stale unit");
    else if (by === "valid") scale(...xray.shares.map(share => share === 0 ? "nothing valid" : share === 255 ? "all valid" : `${(share / 2.55).toFixed(0)} % valid`));
    if (by === "age") scale("not written in the window", "written just now");
    if (by === "wear") scale(`${xray.wear_min} erases`, `${xray.wear_min + xray.wearMost * xray.wear_step} erases`);
    if (by === "stream") STREAMS.forEach((text, at) => { if (xray.stream.includes(at)) entry(STREAM[at], text); });
    const isThere = stage => xray.stage.includes(stage);
    if (by === "stage") STAGES.forEach((text, at) => { if (at !== 5 && isThere(at)) entry(STAGE[at] || css("--line"), text); });
    if (by === "valid" && isThere(4)) entry(STAGE[4], STAGES[4]);
    // Erased blocks also have an age and a wear.
    if (isOfUnits) entry(css("--line"), "unwritten" + (by === "stream" ? "; pale: stale" : ""));
    else if ((by === "valid" || by === "stream") && isThere(0)) entry(css("--line"), STAGES[0]);
    if (xray.held) HELD.forEach((text, at) => { if (at) entry(HOLD[at], "die: " + text); });
  }

  function stop() { clearInterval(timer); timer = null; go.textContent = "Play"; }
  function show(to) { frame = to; slider.value = to; paint(); }
  go.onclick = () => {
    if (timer) return stop();
    if (frame === xray.at_ns.length - 1) show(0);
    go.textContent = "Pause";
    timer = setInterval(() => frame + 1 < xray.at_ns.length ? show(frame + 1) : plays ? show(0) : stop(), xray.slots ? 500 : 160);
  };
  slider.oninput = () => { stop(); show(+slider.value); };
  section.querySelectorAll("[data-by]").forEach(button => button.onclick = () => {
    by = button.dataset.by;
    section.querySelectorAll("[data-by]").forEach(other => other.setAttribute("aria-pressed", other === button));
    key(); paint();
  });
  find(".save").onclick = () => download(canvas, `xray-${by}-${frame}`);
  canvas.onpointermove = canvas.onpointerdown = event => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const { room, gap, head, size, columns, across } = layout;
    const column = Math.floor(x / (room + gap)), die = Math.floor(y / (layout.die + gap)) * across + column;
    const inX = x - column * (room + gap), inY = y % (layout.die + gap) - head, plane = Math.floor(inY / layout.plane);
    const cell = Math.floor((inY - plane * layout.plane) / size) * columns + Math.floor(inX / size);
    const isOn = column < across && die < xray.dies && inY >= 0 && plane < xray.planes_per_die && inX < columns * size && cell < xray.cells_per_plane;
    pointed = isOn ? { die, plane, cell } : null;
    paint();
  };
  canvas.onpointerleave = () => { pointed = null; paint(); };
  let wide = 0;
  new ResizeObserver(() => { if (xray && wide !== section.clientWidth) { wide = section.clientWidth; place(); paint(); } }).observe(section);
  dark.addEventListener("change", () => xray && (key(), paint()));
  if (sources.length > 1) {
    which.hidden = false;
    sources.forEach((source, at) => which.add(new Option(JSON.parse(source.textContent).name, at)));
    which.onchange = () => start(sources[which.value]);
  }
  function start(source) {
    stop(); pointed = null;
    open(source).then(() => {
      section.dataset.ready = "yes";
      if (plays && xray.at_ns.length > 1 && !matchMedia("(prefers-reduced-motion:reduce)").matches) show(0), go.onclick();
    }, error => told.textContent = "This X-ray cannot be shown: " + error.message);
  }
  // Frame by its number, for tests.
  section.showFrame = show;
  start(sources[0]);
})();
