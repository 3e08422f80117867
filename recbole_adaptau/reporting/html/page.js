"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const { colours: COLOURS, dashes: DASHES, symbols: SYMBOLS } = data.palette;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const hidden = new Set();
  const several = (key) => new Set(data.rows.map((row) => row[key]).filter((value) => value !== "–" && value !== null && value !== undefined)).size > 1;
  // By name, not by rank: the same models have the same colours on another dataset.
  const names = [...new Set(data.rows.map((row) => row.label))].sort();
  data.rows.forEach((row) => { row.number = names.indexOf(row.label); });
  const rowOf = (run) => data.rows.find((row) => row.label === run.label && row.dataset === run.dataset && row.protocol === run.protocol);
  const colour = (row) => COLOURS[row.number % COLOURS.length];
  const dash = (row) => DASHES[Math.floor(row.number / COLOURS.length) % DASHES.length];
  // One dataset and protocol at a time, as figures of two cannot be ranked together; the others can be left open.
  const APART = ["dataset", "protocol"];
  const CHOICES = { dataset: "Dataset", protocol: "Protocol", loss: "Loss", recipe: "Recipe", tau_strategy: "Temperature" };
  const choices = Object.keys(CHOICES).filter(several);
  const choice = (key) => choices.includes(key) ? by(`choice-${key}`).value : "";
  const rankedHere = (row) => row.dataset === "–" || APART.every((key) => !choice(key) || row[key] === choice(key));
  const said = (row) => [row.label, ...Object.keys(CHOICES).map((key) => row[key]), row.state].join(" ").toLowerCase();
  const chosenRow = (row) => rankedHere(row) && choices.every((key) => APART.includes(key) || !choice(key) || row[key] === choice(key)) &&
    by("filter").value.toLowerCase().split(/\s+/).every((word) => said(row).includes(word));
  const shownRow = (row) => row && !hidden.has(row) && chosenRow(row);
  const element = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const figure = (value) => value === null || value === undefined ? "–" : Math.abs(value) >= 1000 || (Math.abs(value) >= 10 && Number.isInteger(value)) ? Math.round(value).toLocaleString("en-GB") : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(4);

  // Leaderboard
  const BEYOND = ["giniindex", "averagepopularity", "itemcoverage", "tailpercentage"];
  const RANKED_BY = "ndcg@20";  // Its column comes first, so that a phone shows it, too
  const metrics = [...new Set(data.rows.flatMap((row) => Object.keys(row.test)))].sort((a, b) => (b === RANKED_BY) - (a === RANKED_BY));
  const isBeyond = (name) => BEYOND.includes(name.split("@")[0]);
  const costs = [...new Set(data.rows.flatMap((row) => Object.keys(row.cost || {})))];
  const lowerIsBetter = (key) => costs.includes(key) || key.startsWith("giniindex") || key.startsWith("averagepopularity");
  const difference = (row) => row.significance ? row.significance.difference : row.test["ndcg@20"] ? 0 : null;
  const against = (row) => {
    if (!row.test["ndcg@20"]) return "–";
    if (!row.significance) return "best";
    if (row.significance.error) return "not comparable";
    const p = row.significance.p_holm;
    return `${row.significance.difference >= 0 ? "+" : ""}${row.significance.difference.toFixed(4)}, ${p < 1e-4 ? "<0.0001" : p.toPrecision(2)}${p < 0.05 ? " *" : ""}`;
  };
  const spread = (value) => value ? figure(value.mean) + (value.std === null ? "" : ` ± ${figure(value.std)}`) : "–";
  const ofMetric = (name) => ({ key: name, title: name, kind: "number", value: (row) => row.test[name] ? row.test[name].mean : null, show: (row) => spread(row.test[name]), in: isBeyond(name) ? "beyond" : "accuracy" });
  const columns = [
    { key: "name", title: "Method", kind: "text", value: (row) => row.label, show: (row) => row.label, in: "*" },
    ...metrics.slice(0, 1).map(ofMetric),
    { key: "against", title: "against the best, p", kind: "number", value: difference, show: against, in: "accuracy" },
    ...choices.filter((key) => !APART.includes(key)).map((key) => ({ key, title: CHOICES[key], kind: "text", value: (row) => row[key], show: (row) => row[key] || "–", in: "*" })),
    ...metrics.slice(1).map(ofMetric),
    ...costs.map((name) => ({ key: name, title: name, kind: "number", value: (row) => row.cost ? row.cost[name] : null, show: (row) => figure(row.cost ? row.cost[name] : null), in: "cost" })),
    { key: "protocol", title: "Protocol", kind: "text", value: (row) => row.protocol, show: (row) => data.protocols[row.protocol].replace(" protocol", ""), in: "*" },
    { key: "seeds", title: "seeds", kind: "number", value: (row) => row.seeds, show: (row) => String(row.seeds), in: "*" },
    { key: "state", title: "State", kind: "text", value: (row) => row.state, show: (row) => row.error ? `failed: ${row.error.trim().split("\n").pop()}` : row.state, in: "*" },
  ];
  let sorted = { key: RANKED_BY, down: true };
  const inView = () => columns.filter((column) => column.in === "*" || by("columns").value === "all" || column.in === by("columns").value);
  function ordered(rows) {
    const column = columns.find((one) => one.key === sorted.key) || columns[0];
    const sign = sorted.down ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      if (x === null || x === undefined) return y === null || y === undefined ? 0 : 1;
      if (y === null || y === undefined) return -1;
      return sign * (column.kind === "text" ? String(x).localeCompare(String(y)) : x - y);
    });
  }
  function drawTable() {
    const head = element("tr"), view = inView();
    const rows = ordered(data.rows.filter(chosenRow));
    const all = element("input", undefined, { type: "checkbox", "aria-label": "show all of these rows in the charts" }), show = element("th", undefined, { class: "text", scope: "col" });
    all.checked = rows.every((row) => !hidden.has(row));
    all.addEventListener("change", () => { rows.forEach((row) => all.checked ? hidden.delete(row) : hidden.add(row)); draws(); });
    show.append(all);
    head.append(show);
    for (const column of view) {
      const cell = element("th", undefined, { scope: "col", class: column.key === "name" ? "text name" : column.kind === "text" ? "text" : "" });
      const button = element("button", column.title, { type: "button", "data-key": column.key });
      if (column.key === sorted.key) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      button.addEventListener("click", () => {
        sorted = { key: column.key, down: sorted.key === column.key ? !sorted.down : column.kind !== "text" && !lowerIsBetter(column.key) };
        drawTable();
        by("leaderboard").querySelector(`button[data-key="${column.key}"]`).focus();
      });
      cell.append(button);
      head.append(cell);
    }
    const body = rows.map((row) => {
      const line = element("tr"), box = element("input", undefined, { type: "checkbox", "aria-label": `show ${row.label} in the charts` });
      box.checked = !hidden.has(row);
      box.addEventListener("change", () => { box.checked ? hidden.delete(row) : hidden.add(row); all.checked = rows.every((one) => !hidden.has(one)); drawCharts(); });
      const first = element("td", undefined, { class: "text" });
      first.append(box);
      line.append(first);
      for (const column of view) {
        const values = data.rows.filter(rankedHere).map(column.value).filter((value) => typeof value === "number");
        const best = column.in !== "*" && column.key !== "against" && values.length > 1 && column.value(row) === (lowerIsBetter(column.key) ? Math.min(...values) : Math.max(...values));
        const kind = column.key === "name" ? "text name" : column.key === "state" && row.error ? "text error" : column.kind === "text" ? "text" : best ? "best" : "";
        line.append(element("td", column.show(row), { class: kind }));
      }
      return line;
    });
    if (!rows.length) {
      body.push(element("tr"));
      body[0].append(element("td", "No row has all that is chosen above.", { class: "text", colspan: view.length + 1 }));
    }
    by("leaderboard").tHead.replaceChildren(head);
    by("leaderboard").tBodies[0].replaceChildren(...body);
    by("count").textContent = `${rows.length} of ${data.rows.filter(rankedHere).length} rows`;
  }

  // Charts
  const narrow = () => window.innerWidth < 640;
  const MARGIN = 60, PLOT = 270, LINE = 20;
  function layout(x, y, more = {}) {
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    const line = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
    const soft = getComputedStyle(document.documentElement).getPropertyValue("--soft").trim();
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12 }, margin: { l: 50, r: 12, t: narrow() ? 12 : 36, b: MARGIN },
      legend: { orientation: "h", tracegroupgap: 0, yref: "container", y: 0, yanchor: "bottom", x: 0 }, hovermode: "closest", modebar: { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: ink }, ...more,
      xaxis: { ...axis, title: { text: x }, ...more.xaxis }, yaxis: { ...axis, title: { text: y }, ...more.yaxis },
    };
  }
  function draw(id, traces, made) {
    const place = by(id), figures = traces.filter((trace) => !trace.meta);
    if (!window.Plotly) return;
    const old = place.nextElementSibling;
    if (old && old.matches("details")) old.remove();
    if (!traces.length) {
      if (place.data) Plotly.purge(place);
      place.classList.add("empty");
      place.textContent = "No run shown has figures for this chart.";
      return;
    }
    if (place.classList.contains("empty")) { place.classList.remove("empty"); place.textContent = ""; }
    // As high as the legend needs below the plot: names as wide as the longest, as many in a line as fit, long ones broken.
    const letters = Math.floor((place.clientWidth - 70) / 7), fold = new RegExp(`.{1,${letters}}(?:[ +]|$)|.{1,${letters}}`, "g");
    const named = made.showlegend === false ? [] : traces.filter((trace) => trace.showlegend !== false).map((trace) => trace.name.match(fold));
    const beside = Math.max(1, Math.floor(place.clientWidth / (70 + 6 * Math.max(...named.flat().map((part) => part.length), 0))));
    const lines = Math.ceil(named.reduce((sum, parts) => sum + parts.length, 0) / beside);
    made.height = PLOT + MARGIN + made.margin.t + LINE * lines;
    made.margin.b += LINE * lines;
    made.legend.maxheight = LINE * (lines + 1);
    // Plotly would fit the old legend's margin into a lower chart, and fail.
    if (place.layout && place.layout.height > made.height) Plotly.purge(place);
    Plotly.react(place, traces.map((trace) => trace.name ? { ...trace, name: trace.name.match(fold).join("<br>") } : trace), made, { responsive: true, displaylogo: false, showSendToCloud: false, displayModeBar: !narrow(), modeBarButtonsToRemove: ["lasso2d", "select2d"] });
    place.after(asTable(figures, made));
  }
  function asTable(traces, made) {
    const details = element("details"), box = element("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": "figures of the chart" });
    details.append(element("summary", "Figures of this chart"), box);
    details.addEventListener("toggle", () => {
      if (!details.open || box.firstChild) return;
      const table = element("table"), head = element("tr");
      for (const title of ["", made.xaxis.title.text, made.yaxis.title.text]) head.append(element("th", title, { scope: "col" }));
      const body = element("tbody");
      for (const trace of traces) trace.x.forEach((x, place) => {
        const line = element("tr");
        line.append(element("td", trace.name, { class: "text" }), element("td", typeof x === "number" ? figure(x) : x), element("td", figure(trace.y[place])));
        body.append(line);
      });
      const top = element("thead");
      top.append(head);
      table.append(top, body);
      box.append(table);
    });
    return details;
  }
  const runsShown = () => data.runs.filter((run) => shownRow(rowOf(run)));
  function once(traces) {
    const seen = new Set();
    for (const trace of traces) { trace.showlegend = !trace.meta && !seen.has(trace.legendgroup); if (!trace.meta) seen.add(trace.legendgroup); }
    return traces;
  }
  const drawings = {
    scatter() {
      const metric = by("metric-scatter").value, time = by("time").value;
      const rows = data.rows.filter((row) => shownRow(row) && row.test[metric] && row.cost && row.cost[time]);
      const x = (row) => Math.log10(row.cost[time]), y = (row) => row.test[metric].mean, std = (row) => row.test[metric].std || 0;
      const span = (values) => Math.max(...values) - Math.min(...values), label = 0.15; // A name's width as a share of the axis; a phone and many rows have a legend instead
      const wide = span(rows.map(x)) || 1, high = span(rows.map(y));
      const close = (row, other) => x(other) > x(row) && x(other) - x(row) < label * wide && Math.abs(y(other) - y(row)) <= 0.1 * high + std(row) + std(other);
      const ends = [Math.min(...rows.map(x)) - label * wide, Math.max(...rows.map(x)) + label * wide];
      const crowded = narrow() || rows.length > 8;
      draw("chart-scatter", rows.map((row) => ({
        type: "scatter", mode: crowded ? "markers" : "markers+text", name: row.label, x: [row.cost[time]], y: [y(row)],
        text: [`  ${row.label}  `], textposition: rows.some((other) => close(row, other)) ? "middle left" : "middle right",
        error_y: { type: "data", array: [std(row)], visible: std(row) > 0 },
        marker: { color: colour(row), symbol: SYMBOLS[row.number % SYMBOLS.length], size: 11 },
      })), layout(time, `test ${metric}`, { xaxis: { type: "log", range: ends, dtick: "D2" }, showlegend: crowded }));
    },
    curves() {
      const metric = by("metric-curves").value, axis = by("axis").value;
      draw("chart-curves", once(runsShown().filter((run) => run.curves[metric]).map((run) => {
        const row = rowOf(run);
        return { type: "scatter", mode: run.epochs.length > 1 ? "lines" : "markers", name: row.label, legendgroup: row.label, x: run[axis], y: run.curves[metric], hovertext: `seed ${run.seed}`, line: { color: colour(row), dash: dash(row), width: 2 } };
      })), layout(axis === "epochs" ? "epoch (the first is 0)" : "seconds", `validation ${metric}`));
    },
    trace() {
      const runs = runsShown().filter((run) => run.temperature), few = new Set(runs.map(rowOf)).size <= 4;
      const traces = runs.flatMap((run) => {
        const row = rowOf(run), t = run.temperature, x = t.epochs;
        const band = { type: "scatter", mode: "lines", legendgroup: row.label, line: { width: 0 }, hoverinfo: "skip", meta: "band", x };
        return [...few ? [{ ...band, y: t.tau_u_min }, { ...band, y: t.tau_u_max, fill: "tonexty", fillcolor: colour(row) + "33" }] : [],
          { type: "scatter", mode: x.length > 1 ? "lines" : "markers", name: row.label, legendgroup: row.label, x, y: t.tau_0, hovertext: `seed ${run.seed}`, line: { color: colour(row), dash: dash(row), width: 2 } }];
      });
      draw("chart-trace", once(traces), layout("epoch (the first is 0)", "temperature"));
    },
    taus() {
      draw("chart-taus", once(runsShown().filter((run) => run.taus).map((run) => {
        const row = rowOf(run);
        return { type: "scatter", mode: "lines", name: row.label, legendgroup: row.label, x: run.taus.middle, y: run.taus.share, hovertext: `seed ${run.seed}`, line: { color: colour(row), dash: dash(row), shape: "hvh", width: 2 } };
      })), layout("tau_u", "share of users"));
    },
    popularity() {
      const rows = data.rows.filter(shownRow).map((row) => ({ row, runs: data.runs.filter((run) => rowOf(run) === row && run.by_popularity) })).filter((one) => one.runs.length);
      draw("chart-popularity", rows.map(({ row, runs }) => {
        const groups = runs[0].by_popularity.map((_, place) => runs.map((run) => run.by_popularity[place].recall).filter((value) => value !== null));
        return { type: "bar", name: row.label, x: data.groups, y: groups.map((values) => values.length ? values.reduce((a, b) => a + b, 0) / values.length : null), marker: { color: colour(row) } };
      }), layout("items", "recall within the group", { barmode: "group" }));
    },
  };
  const drawCharts = () => Object.values(drawings).forEach((one) => one());

  const plotly = async () => {
    const bytes = Uint8Array.from(atob(by("plotly").textContent), (letter) => letter.charCodeAt(0));
    document.head.append(element("script", await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text()));
  };
  const tooOld = () => document.querySelectorAll(".chart").forEach((place) => { place.textContent = "This browser is too old for the charts."; });

  // Runs
  function drawRuns() {
    by("runs").replaceChildren();
    for (const run of data.runs.filter((run) => chosenRow(rowOf(run)))) {
      const details = element("details"), about = { folder: run.folder, state: run.state, epochs: run.epochs_made, error: run.error || undefined, result: run.result, environment: run.environment, configuration: run.config };
      const state = run.result && run.result.stopped_by === "budget" ? "out of budget" : run.state;
      details.append(element("summary", `${[run.label, ...APART.filter((key) => choice(key) && run.dataset !== "–").map((key) => run[key])].join(", ")}, seed ${run.seed}: ${state}, ${run.epochs_made} epochs`));
      details.addEventListener("toggle", () => {
        if (details.children.length > 1) return;
        const box = element("div", undefined, { class: "scroll", tabindex: "0" });
        box.append(element("pre", JSON.stringify(about, null, 1)));
        details.append(box);
      });
      by("runs").append(details);
    }
  }
  function options(id, names) {
    const wanted = names.includes("ndcg@20") ? "ndcg@20" : names[0];
    by(id).replaceChildren(...names.map((name) => { const made = element("option", name); made.selected = name === wanted; return made; }));
  }
  function draws() { drawTable(); drawRuns(); drawCharts(); }
  const complete = data.runs.filter((run) => run.state === "complete").length;
  by("summary").textContent = `${data.runs.length} runs, ${complete} complete.`;
  if (data.skipped.length) {
    by("skipped").hidden = false;
    by("skipped").append(element("strong", "Left out:"), ...data.skipped.map((text) => element("div", text)));
  }
  for (const key of choices) {
    const label = element("label", `${CHOICES[key]} `), select = element("select", undefined, { id: `choice-${key}` });
    const values = [...new Set(data.rows.map((row) => row[key]).filter((value) => value && value !== "–"))].sort();
    if (!APART.includes(key)) select.append(element("option", "all", { value: "" }));
    select.append(...values.map((value) => element("option", value, { value })));
    select.addEventListener("change", draws);
    label.append(select);
    by("choices").append(label);
  }
  options("metric-scatter", metrics);
  options("metric-curves", [...new Set(data.runs.flatMap((run) => Object.keys(run.curves)))]);
  by("filter").addEventListener("input", draws);
  by("columns").addEventListener("change", drawTable);
  by("metric-scatter").addEventListener("change", drawings.scatter);
  by("time").addEventListener("change", drawings.scatter);
  by("metric-curves").addEventListener("change", drawings.curves);
  by("axis").addEventListener("change", drawings.curves);
  dark.addEventListener("change", drawCharts);
  drawTable();
  drawRuns();
  plotly().then(drawCharts, tooOld);
})();
