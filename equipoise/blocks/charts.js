"use strict";
// Draws a figure as SVG: lines, areas, points with bars of error, bars, heat maps. A figure is plain data in the words
// of plotly, as much of it as `figures.py` and the environments write. Texts only ever become text nodes.

const charts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&#36;": "$", "&quot;": '"', "&#x27;": "'" };
  const DASHES = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };
  const FONT = 12;
  const LETTER = 6.4; // pixels of a letter, about
  const LONGEST = 26; // letters of a name above or below the plot; the rest shows on hover

  const plain = (text) => String(text).replace(/<\/?b>|<\/?extra>/g, "").replace(/&(?:lt|gt|amp|quot|#36|#x27);/g, (entity) => ENTITIES[entity]);
  const lines = (text) => String(text).split("<br>").map(plain);
  const short = (text, most = LONGEST) => (text.length > most ? `${text.slice(0, most - 9)}…${text.slice(-8)}` : text);
  const finite = (values) => values.filter((value) => typeof value === "number" && Number.isFinite(value));
  const many = (value, length) => (Array.isArray(value) ? value : Array(length).fill(value));

  function make(tag, attributes = {}, text = null) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined && value !== null) element.setAttribute(name, value);
    if (text !== null) element.textContent = text;
    return element;
  }

  // Round numbers that divide a span into about so many parts.
  function ticks(low, high, most, step = 0) {
    if (!(high > low)) return [low];
    let each = step;
    if (!each || (high - low) / each > 2 * most) {
      const raw = (high - low) / most;
      const size = 10 ** Math.floor(Math.log10(raw));
      each = size * [1, 2, 5, 10].find((times) => times * size >= raw * 0.999);
    }
    const values = [];
    for (let k = Math.ceil(low / each - 1e-9); k * each <= high + each * 1e-9; k += 1) values.push(k * each);
    return values;
  }

  function written(value, format = "") {
    if (format.includes("%")) return `${+(100 * value).toFixed(1)} %`.replace("-", "−");
    const size = Math.abs(value);
    const text = size !== 0 && (size >= 1e6 || size < 1e-4) ? value.toExponential(1) : String(+value.toPrecision(6));
    return text.replace("-", "−");
  }

  // Everything that a trace reaches along an axis, its bars of error, too.
  function reached(trace, axis) {
    const values = many(trace[axis], 0);
    const error = trace[`error_${axis}`];
    if (trace.type === "heatmap") return values.flatMap((value) => [value - 0.5, value + 0.5]);
    if (trace.type === "bar") return axis === "x" ? [0, ...finite(values)] : values.flatMap((value) => [value - 0.5, value + 0.5]);
    if (!error) return finite(values);
    return finite(values.flatMap((value, i) => [value, value + (error.array[i] ?? 0), value - (error.arrayminus[i] ?? 0)]));
  }

  function span(figure, axis, categories) {
    const given = figure.layout[`${axis}axis`] ?? {};
    if (given.range) return given.range;
    const marks = (figure.layout.shapes ?? []).filter((shape) => axis === "x" && shape.type === "line").flatMap((shape) => [shape.x0, shape.x1]);
    const values = [...figure.data.flatMap((trace) => reached(trace, axis)), ...marks];
    if (given.rangemode === "tozero") values.push(0);
    if (!values.length) return [0, 1];
    let low = values.reduce((a, b) => Math.min(a, b));
    let high = values.reduce((a, b) => Math.max(a, b));
    if (categories) return [low, high];
    if (low === high) [low, high] = [low - (Math.abs(low) || 1) * 0.5, high + (Math.abs(high) || 1) * 0.5];
    const room = 0.05 * (high - low);
    return [low - (given.rangemode === "tozero" && low === 0 ? 0 : room), high + room];
  }

  // Blends "#rrggbb" colours of a scale [[0, …], …, [1, …]].
  function blended(scale, share) {
    const at = Math.min(Math.max(share, 0), 1);
    const next = Math.max(1, scale.findIndex(([place]) => place >= at));
    const [[from, first], [to, second]] = [scale[next - 1], scale[next]];
    const part = (at - from) / (to - from || 1);
    const channel = (hex, i) => parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
    return `rgb(${[0, 1, 2].map((i) => Math.round(channel(first, i) * (1 - part) + channel(second, i) * part)).join(",")})`;
  }

  function hovers(trace, i, j) {
    if (trace.hoverinfo === "skip") return null;
    const text = trace.hovertext;
    if (Array.isArray(text)) return j === undefined ? text[i] : text[j][i];
    if (trace.hovertemplate) {
      return trace.hovertemplate.replace(/%\{x[^}]*\}/, written(trace.x[i])).replace(/%\{y[^}]*\}/, written(+trace.y[i].toPrecision(4)));
    }
    return null;
  }

  // A box at the pointer with the text of what lies beneath.
  function tip(place) {
    const box = document.createElement("div");
    box.className = "hovertext";
    box.hidden = true;
    place.append(box);
    const hide = () => { box.hidden = true; };
    place.addEventListener("pointerleave", hide);
    return (element, text) => {
      element.addEventListener("pointerenter", (event) => {
        box.replaceChildren(...lines(text).map((line) => Object.assign(document.createElement("div"), { textContent: line })));
        box.hidden = false;
        const bounds = place.getBoundingClientRect();
        const left = Math.min(event.clientX - bounds.left + 12, bounds.width - box.offsetWidth - 4);
        box.style.left = `${Math.max(left, 0)}px`;
        box.style.top = `${Math.max(event.clientY - bounds.top - box.offsetHeight - 8, 0)}px`;
      });
      element.addEventListener("pointerleave", hide);
    };
  }

  function draw(place, figure, theme, fixed) {
    const width = Math.max(fixed ?? place.clientWidth, 200);
    const height = place.clientHeight || 300;
    const { data, layout } = figure;
    const [xaxis, yaxis] = [layout.xaxis ?? {}, layout.yaxis ?? {}];
    const named = data.filter((trace) => trace.name && trace.showlegend !== false);
    const legend = layout.showlegend !== false && (layout.showlegend || named.length > 1) ? named : [];
    const names = (axis, most) => (axis.ticktext ?? []).map((text) => short(plain(text), most));
    const room = Math.max(Math.floor((0.45 * width - 32) / LETTER), 12); // letters beside the plot
    const [xnames, ynames] = [names(xaxis, LONGEST), names(yaxis, Math.min(room, 49))];
    const [xspan, yspan] = [span(figure, "x", xnames.length), span(figure, "y", ynames.length)];
    const yvalues = yaxis.tickvals ?? ticks(...[...yspan].sort((a, b) => a - b), 5, yaxis.dtick);
    const ytexts = yaxis.ticktext ? ynames : yvalues.map((value) => written(value, yaxis.tickformat));
    const onTop = xaxis.side === "top";

    // margins
    const widest = ytexts.reduce((most, text) => Math.max(most, text.length), 0);
    const ytitle = plain(yaxis.title?.text ?? "");
    const left = Math.min(14 + LETTER * widest + (ytitle ? 18 : 0), 0.45 * width);
    const ends = (layout.annotations ?? []).filter((note) => note.xshift).map((note) => plain(note.text).length);
    const beside = data.filter((trace) => trace.type === "bar" && trace.text).flatMap((trace) => trace.text.map((text) => plain(text).length));
    const barred = beside.length ? Math.max(LETTER * Math.max(...beside) - 0.08 * width, 0) : 0; // a tenth of the axis is free
    const right = ends.length ? Math.min(12 + LETTER * Math.max(...ends), 0.4 * width) : 14 + barred;
    const rows = [];
    let used = Infinity;
    for (const trace of legend) {
      const needs = 30 + LETTER * short(plain(trace.name)).length;
      if (used + needs > width - left) { rows.push([]); used = 0; }
      rows.at(-1).push([trace, used]);
      used += needs;
    }
    const inner = width - left - right;
    const crowded = xnames.length > 0 && xnames.some((text) => LETTER * text.length > inner / xnames.length);
    const slanted = crowded ? Math.min(LETTER * Math.max(...xnames.map((text) => text.length)) * 0.75 + 8, 110) : 0;
    const xroom = 18 + slanted + (xaxis.title?.text ? 18 : 0);
    const top = 10 + 18 * rows.length + (onTop ? xroom : 8);
    const bottom = onTop ? 8 : xroom + 4;
    const [plotWidth, plotHeight] = [inner, Math.max(height - top - bottom, 20)];
    const X = (value) => left + ((value - xspan[0]) / (xspan[1] - xspan[0])) * plotWidth;
    const Y = (value) => top + (1 - (value - yspan[0]) / (yspan[1] - yspan[0])) * plotHeight;

    const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "font-size": FONT, fill: theme("muted") });
    place.replaceChildren(svg);
    const hover = tip(place);
    const write = (parent, x, y, text, more = {}) => parent.append(make("text", { x, y, ...more }, text));

    // what lies below: shades, the grid, the axes' numbers
    for (const shape of layout.shapes ?? []) {
      const [from, to] = [X(shape.x0), X(shape.x1)];
      if (shape.type === "rect") svg.append(make("rect", { x: from, y: top, width: Math.max(to - from, 0), height: plotHeight, fill: shape.fillcolor }));
      else svg.append(make("line", { x1: from, x2: to, y1: top, y2: top + plotHeight, stroke: shape.line.color, "stroke-dasharray": DASHES.dot }));
    }
    yvalues.forEach((value, i) => {
      const tick = make("g", { class: "ytick" });
      if (yaxis.showgrid !== false) tick.append(make("line", { x1: left, x2: left + plotWidth, y1: Y(value), y2: Y(value), stroke: theme("grid") }));
      write(tick, left - 6, Y(value) + 4, ytexts[i], { "text-anchor": "end" });
      if (yaxis.ticktext) hover(tick, yaxis.ticktext[i]);
      svg.append(tick);
    });
    const xvalues = xaxis.tickvals ?? ticks(...xspan, Math.max(2, Math.floor(plotWidth / 80)), xaxis.dtick);
    xvalues.forEach((value, i) => {
      const tick = make("g", { class: "xtick" });
      if (xaxis.showgrid !== false) tick.append(make("line", { x1: X(value), x2: X(value), y1: top, y2: top + plotHeight, stroke: theme("grid") }));
      const text = xaxis.ticktext ? xnames[i] : written(value, xaxis.tickformat);
      const at = onTop ? top - 6 : top + plotHeight + 16;
      if (crowded) write(tick, X(value), at, text, { "text-anchor": onTop ? "start" : "end", transform: `rotate(-45 ${X(value)} ${at})` });
      else write(tick, X(value), at, text, { "text-anchor": "middle" });
      if (xaxis.ticktext) hover(tick, xaxis.ticktext[i]);
      svg.append(tick);
    });
    if (xaxis.zeroline === true && xspan[0] <= 0 && xspan[1] >= 0) svg.append(make("line", { x1: X(0), x2: X(0), y1: top, y2: top + plotHeight, stroke: theme("faint") }));
    if (xaxis.title?.text) write(svg, left + plotWidth / 2, onTop ? top - 22 - slanted : height - 4, short(plain(xaxis.title.text), 60), { "text-anchor": "middle" });
    if (ytitle) write(svg, 0, 0, short(ytitle, 48), { "text-anchor": "middle", transform: `translate(12 ${top + plotHeight / 2}) rotate(-90)` });

    // the data
    const stacked = new Map(); // of bars: place -> where the next begins
    for (const trace of data) {
      const group = make("g", { class: `${trace.type ?? "scatter"}layer` });
      svg.append(group);
      const say = (element, i, j) => {
        const text = hovers(trace, i, j);
        if (text) hover(element, text);
        group.append(element);
      };
      if (trace.type === "heatmap") {
        const [cellWidth, cellHeight] = [Math.abs(X(1) - X(0)), Math.abs(Y(1) - Y(0))];
        trace.z.forEach((row, j) => row.forEach((value, i) => {
          const share = value === null ? 0 : (value - trace.zmin) / (trace.zmax - trace.zmin || 1);
          const fill = value === null ? "none" : blended(trace.colorscale, share);
          say(make("rect", { x: X(i) - cellWidth / 2 + 1, y: Y(j) - cellHeight / 2 + 1, width: Math.max(cellWidth - 2, 1), height: Math.max(cellHeight - 2, 1), fill, "pointer-events": "all" }), i, j);
          const text = trace.text ? plain(trace.text[j][i]) : "";
          const fits = LETTER * text.length <= cellWidth - 10;
          if (text) write(group, X(i), Y(j) + 4, fits ? text : text.split(" ± ")[0], { class: "heatmap-label", "text-anchor": "middle", fill: theme("ink"), "pointer-events": "none" });
        }));
        continue;
      }
      if (trace.type === "bar") {
        const thick = Math.abs(Y(1) - Y(0)) * (1 - (layout.bargap ?? 0.2));
        trace.x.forEach((value, i) => {
          if (value === null) return;
          const from = layout.barmode === "stack" ? stacked.get(i) ?? 0 : 0;
          stacked.set(i, from + value);
          const [x, end] = [X(from), X(from + value)];
          say(make("rect", { class: "point", x: Math.min(x, end), y: Y(trace.y[i]) - thick / 2, width: Math.abs(end - x), height: thick, fill: trace.marker.color, "pointer-events": "all" }), i);
          if (trace.text) write(group, end + 5, Y(trace.y[i]) + 4, plain(trace.text[i]), { fill: theme("ink") });
        });
        continue;
      }
      const colour = trace.line?.color ?? trace.marker?.color;
      const points = trace.x.map((x, i) => (trace.y[i] === null || x === null ? null : [X(x), Y(trace.y[i])]));
      const mode = trace.mode ?? "lines";
      if (mode.includes("lines")) {
        let path = "";
        let open = false;
        for (const point of points) {
          if (point) path += `${open ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
          open = Boolean(point);
        }
        const filled = trace.fill === "toself";
        group.append(make("path", {
          d: path + (filled ? "Z" : ""), fill: filled ? trace.fillcolor : "none", stroke: trace.line?.width === 0 ? "none" : colour,
          "stroke-width": trace.line?.width ?? 2, "stroke-dasharray": DASHES[trace.line?.dash ?? "solid"] || null, "stroke-linejoin": "round", "pointer-events": "none",
        }));
        if (filled) continue;
      }
      points.forEach((point, i) => {
        if (!point) return;
        for (const [axis, at] of [["x", X], ["y", Y]]) {
          const error = trace[`error_${axis}`];
          if (!error || error.array[i] === null) continue;
          const value = trace[axis][i];
          const [a, b] = [at(value - error.arrayminus[i]), at(value + error.array[i])];
          const bar = axis === "x" ? { x1: a, x2: b, y1: point[1], y2: point[1] } : { x1: point[0], x2: point[0], y1: a, y2: b };
          group.append(make("line", { ...bar, stroke: error.color, "stroke-width": error.thickness ?? 1.5 }));
        }
        const size = many(trace.marker?.size ?? 7, points.length)[i];
        const shown = mode.includes("markers");
        const opacity = shown ? many(trace.marker?.opacity ?? 1, points.length)[i] : 0;
        if (shown || trace.hoverinfo !== "skip") {
          say(make("circle", { class: "point", cx: point[0], cy: point[1], r: shown ? size / 2 : 5, fill: many(trace.marker?.color ?? colour, points.length)[i], opacity, "pointer-events": "all" }), i);
        }
      });
    }

    // names beside lines, and the legend
    for (const note of layout.annotations ?? []) {
      const x = X(note.x) + (note.xshift ?? 0);
      const y = note.yref === "paper" ? top + (1 - note.y) * plotHeight - 3 : Y(note.y) - (note.yshift ?? 0) + 4;
      write(svg, x, y, plain(note.text), { class: "annotation-text", fill: note.font?.color ?? theme("muted") });
    }
    rows.forEach((row, r) => row.forEach(([trace, x]) => {
      const y = 12 + 18 * r;
      const colour = trace.line?.color ?? trace.marker?.color;
      svg.append(make("line", { x1: left + x, x2: left + x + 18, y1: y - 4, y2: y - 4, stroke: colour, "stroke-width": 3, "stroke-dasharray": DASHES[trace.line?.dash ?? "solid"] || null }));
      write(svg, left + x + 23, y, short(plain(trace.name)), { class: "legendtext", fill: theme("ink") });
    }));
  }

  return { draw };
})();
