"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const { colours: COLOURS, dashes: DASHES, symbols: SYMBOLS } = data.palette;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const hidden = new Set();
  const several = (key) => new Set(data.rows.map((row) => row[key]).filter((value) => value !== "–" && value !== null && value !== undefined)).size > 1;
  const nameOf = (row) => [row.label, several("protocol") ? row.protocol : ""].filter(Boolean).join(", ");
  data.rows.forEach((row) => { row.name = nameOf(row); });
  // By name, not by rank: the same models have the same colours on another dataset.
  const names = [...new Set(data.rows.map((row) => row.name))].sort();
  data.rows.forEach((row) => { row.number = names.indexOf(row.name); });
  const rowOf = (run) => data.rows.find((row) => row.label === run.label && row.dataset === run.dataset && row.protocol === run.protocol);
  const colour = (row) => COLOURS[row.number % COLOURS.length];
  const dash = (row) => DASHES[Math.floor(row.number / COLOURS.length) % DASHES.length];
  // One dataset at a time, as figures of two cannot be ranked together; the others can be left open.
  const CHOICES = { dataset: "Dataset", loss: "Loss", recipe: "Recipe", tau_strategy: "Temperature" };
  const choices = Object.keys(CHOICES).filter(several);
  const choice = (key) => choices.includes(key) ? by(`choice-${key}`).value : "";
  const ofDataset = (row) => !choice("dataset") || row.dataset === choice("dataset") || row.dataset === "–";
  const chosenRow = (row) => ofDataset(row) && choices.every((key) => key === "dataset" || !choice(key) || String(row[key]) === choice(key));
  const shownRow = (row) => row && !hidden.has(row.number) && chosenRow(row);
  const element = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const figure = (value) => value === null || value === undefined ? "–" : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-GB") : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(4);

  // Leaderboard
  const BEYOND = ["giniindex", "averagepopularity", "itemcoverage", "tailpercentage"];
  const metrics = [...new Set(data.rows.flatMap((row) => Object.keys(row.test)))];
  const isBeyond = (name) => BEYOND.includes(name.split("@")[0]);
  const costs = [...new Set(data.rows.flatMap((row) => Object.keys(row.cost || {})))];
  const lowerIsBetter = (key) => costs.includes(key) || key.startsWith("giniindex") || key.startsWith("averagepopularity");
  const pValue = (row) => row.significance && row.significance.p_holm !== undefined ? row.significance.difference : row.test["ndcg@20"] ? 0 : null;
  const against = (row) => {
    if (!row.test["ndcg@20"]) return "–";
    if (!row.significance) return "best";
    if (row.significance.error) return "not comparable";
    const p = row.significance.p_holm;
    return `${row.significance.difference >= 0 ? "+" : ""}${row.significance.difference.toFixed(4)}, ${p < 1e-4 ? "<0.0001" : p.toPrecision(2)}${p < 0.05 ? " *" : ""}`;
  };
  const spread = (value) => value ? figure(value.mean) + (value.std === null ? "" : ` ± ${figure(value.std)}`) : "–";
  const columns = [
    { key: "name", title: "Method", kind: "text", value: (row) => row.name, show: (row) => row.name, in: "*" },
    ...choices.filter((key) => key !== "dataset").map((key) => ({ key, title: CHOICES[key], kind: "text", value: (row) => row[key] || "", show: (row) => row[key] || "–", in: "*" })),
    ...metrics.map((name) => ({ key: name, title: name, kind: "number", value: (row) => row.test[name] ? row.test[name].mean : null, show: (row) => spread(row.test[name]), in: isBeyond(name) ? "beyond" : "accuracy" })),
    { key: "against", title: "against the best, p", kind: "number", value: pValue, show: against, in: "accuracy" },
    ...costs.map((name) => ({ key: name, title: name, kind: "number", value: (row) => row.cost ? row.cost[name] : null, show: (row) => figure(row.cost ? row.cost[name] : null), in: "cost" })),
    { key: "protocol", title: "Protocol", kind: "text", value: (row) => row.protocol, show: (row) => data.protocols[row.protocol].replace(" protocol", ""), in: "*" },
    { key: "seeds", title: "seeds", kind: "number", value: (row) => row.seeds, show: (row) => String(row.seeds), in: "*" },
    { key: "state", title: "State", kind: "text", value: (row) => row.state, show: (row) => row.error ? `failed: ${row.error.trim().split("\n").pop()}` : row.state, in: "*" },
  ];
  let sorted = { key: "ndcg@20", down: true };
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
    head.append(element("th", "Show", { class: "text", scope: "col" }));
    for (const column of view) {
      const cell = element("th", undefined, { scope: "col", class: column.kind === "text" ? "text" : "" });
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
    const words = by("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = ordered(data.rows.filter((row) => chosenRow(row) && words.every((word) => `${row.name} ${row.dataset} ${row.protocol} ${row.state}`.toLowerCase().includes(word))));
    const body = rows.map((row) => {
      const line = element("tr"), box = element("input", undefined, { type: "checkbox", "aria-label": `show ${row.name} in the charts` });
      box.checked = !hidden.has(row.number);
      box.addEventListener("change", () => { box.checked ? hidden.delete(row.number) : hidden.add(row.number); drawCharts(); });
      const first = element("td", undefined, { class: "text" });
      first.append(box);
      line.append(first);
      for (const column of view) {
        const values = data.rows.filter(ofDataset).map(column.value).filter((value) => typeof value === "number");
        const best = column.in !== "*" && column.key !== "against" && values.length > 1 && column.value(row) === (lowerIsBetter(column.key) ? Math.min(...values) : Math.max(...values));
        const kind = column.key === "name" ? "text name" : column.key === "state" && row.error ? "text error" : column.kind === "text" ? "text" : best ? "best" : "";
        line.append(element("td", column.show(row), { class: kind }));
      }
      return line;
    });
    by("leaderboard").tHead.replaceChildren(head);
    by("leaderboard").tBodies[0].replaceChildren(...body);
    by("count").textContent = `${rows.length} of ${data.rows.filter(ofDataset).length} rows`;
  }

  // Charts
  const narrow = () => window.innerWidth < 640;
  function layout(x, y, more = {}) {
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    const line = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
    const soft = getComputedStyle(document.documentElement).getPropertyValue("--soft").trim();
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12 }, margin: { l: 50, r: 12, t: narrow() ? 12 : 36, b: 45 },
      legend: { orientation: "h", y: narrow() ? -0.4 : -0.22 }, hovermode: "closest", modebar: { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: ink }, ...more,
      xaxis: { ...axis, title: { text: x }, ...more.xaxis }, yaxis: { ...axis, title: { text: y }, ...more.yaxis },
    };
  }
  function draw(id, traces, made) {
    const place = by(id), figures = traces.filter((trace) => !trace.meta);
    const old = place.nextElementSibling;
    if (old && old.matches("details")) old.remove();
    if (!traces.length) {
      if (window.Plotly && place.data) Plotly.purge(place);
      place.classList.add("empty");
      place.textContent = "No run shown has figures for this chart.";
      return;
    }
    if (place.classList.contains("empty")) { place.classList.remove("empty"); place.textContent = ""; }
    Plotly.react(place, traces, made, { responsive: true, displaylogo: false, displayModeBar: !narrow(), modeBarButtonsToRemove: ["lasso2d", "select2d"] });
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
      const span = (values) => Math.max(...values) - Math.min(...values), label = 0.15; // A name's width as a share of the axis; a phone has a legend instead
      const wide = span(rows.map(x)) || 1, high = span(rows.map(y));
      const close = (row, other) => x(other) > x(row) && x(other) - x(row) < label * wide && Math.abs(y(other) - y(row)) <= 0.1 * high + std(row) + std(other);
      const ends = [Math.min(...rows.map(x)) - label * wide, Math.max(...rows.map(x)) + label * wide];
      draw("chart-scatter", rows.map((row) => ({
        type: "scatter", mode: narrow() ? "markers" : "markers+text", name: row.name, x: [row.cost[time]], y: [y(row)],
        text: [`  ${row.name}  `], textposition: rows.some((other) => close(row, other)) ? "middle left" : "middle right",
        error_y: { type: "data", array: [std(row)], visible: std(row) > 0 },
        marker: { color: colour(row), symbol: SYMBOLS[row.number % SYMBOLS.length], size: 11 },
      })), layout(time, `test ${metric}`, { xaxis: { type: "log", range: ends, dtick: "D2" }, showlegend: narrow() }));
    },
    curves() {
      const metric = by("metric-curves").value, axis = by("axis").value;
      draw("chart-curves", once(runsShown().filter((run) => run.curves[metric]).map((run) => {
        const row = rowOf(run);
        return { type: "scatter", mode: run.epochs.length > 1 ? "lines" : "markers", name: row.name, legendgroup: row.name, x: run[axis], y: run.curves[metric], hovertext: `seed ${run.seed}`, line: { color: colour(row), dash: dash(row), width: 2 } };
      })), layout(axis === "epochs" ? "epoch (the first is 0)" : "seconds", `validation ${metric}`));
    },
    trace() {
      const traces = runsShown().filter((run) => run.temperature).flatMap((run) => {
        const row = rowOf(run), t = run.temperature, x = t.tau_0.map((_, place) => place);
        const band = { type: "scatter", mode: "lines", legendgroup: row.name, line: { width: 0 }, hoverinfo: "skip", meta: "band", x };
        return [{ ...band, y: t.tau_u_min }, { ...band, y: t.tau_u_max, fill: "tonexty", fillcolor: colour(row) + "33" },
          { type: "scatter", mode: x.length > 1 ? "lines" : "markers", name: row.name, legendgroup: row.name, x, y: t.tau_0, hovertext: `seed ${run.seed}`, line: { color: colour(row), dash: dash(row), width: 2 } }];
      });
      draw("chart-trace", once(traces), layout("epoch (the first is 0)", "temperature"));
    },
    taus() {
      draw("chart-taus", once(runsShown().filter((run) => run.taus).map((run) => {
        const row = rowOf(run);
        return { type: "scatter", mode: "lines", name: row.name, legendgroup: row.name, x: run.taus.middle, y: run.taus.share, hovertext: `seed ${run.seed}`, line: { color: colour(row), dash: dash(row), shape: "hvh", width: 2 } };
      })), layout("tau_u", "share of users"));
    },
    popularity() {
      const rows = data.rows.filter(shownRow).map((row) => ({ row, runs: data.runs.filter((run) => rowOf(run) === row && run.by_popularity) })).filter((one) => one.runs.length);
      draw("chart-popularity", rows.map(({ row, runs }) => {
        const groups = runs[0].by_popularity.map((_, place) => runs.map((run) => run.by_popularity[place].recall).filter((value) => value !== null));
        return { type: "bar", name: row.name, x: data.groups, y: groups.map((values) => values.length ? values.reduce((a, b) => a + b, 0) / values.length : null), marker: { color: colour(row) } };
      }), layout("items", "recall within the group", { barmode: "group" }));
    },
  };
  const drawCharts = () => Object.values(drawings).forEach((one) => one());

  // Runs
  function drawRuns() {
    for (const run of data.runs) {
      const details = element("details"), about = { folder: run.folder, state: run.state, epochs: run.epochs_made, error: run.error || undefined, result: run.result, environment: run.environment, configuration: run.config };
      const state = run.result && run.result.stopped_by === "budget" ? "out of budget" : run.state;
      details.append(element("summary", `${nameOf(rowOf(run))}${several("dataset") && run.dataset !== "–" ? `, ${run.dataset}` : ""}, seed ${run.seed}: ${state}, ${run.epochs_made} epochs`));
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
  const complete = data.runs.filter((run) => run.state === "complete").length;
  by("summary").textContent = `${data.runs.length} runs, ${complete} complete.`;
  if (data.skipped.length) {
    by("skipped").hidden = false;
    by("skipped").append(element("strong", "Left out:"), ...data.skipped.map((text) => element("div", text)));
  }
  for (const key of choices) {
    const label = element("label", `${CHOICES[key]} `), select = element("select", undefined, { id: `choice-${key}` });
    const values = [...new Set(data.rows.map((row) => row[key]).filter((value) => value && value !== "–"))].sort();
    if (key !== "dataset") select.append(element("option", "all", { value: "" }));
    select.append(...values.map((value) => element("option", value, { value })));
    select.addEventListener("change", () => { drawTable(); drawCharts(); });
    label.append(select);
    by("choices").append(label);
  }
  options("metric-scatter", metrics);
  options("metric-curves", [...new Set(data.runs.flatMap((run) => Object.keys(run.curves)))]);
  by("filter").addEventListener("input", drawTable);
  by("columns").addEventListener("change", drawTable);
  by("metric-scatter").addEventListener("change", drawings.scatter);
  by("time").addEventListener("change", drawings.scatter);
  by("metric-curves").addEventListener("change", drawings.curves);
  by("axis").addEventListener("change", drawings.curves);
  dark.addEventListener("change", drawCharts);
  drawTable();
  drawRuns();
  drawCharts();
})();
