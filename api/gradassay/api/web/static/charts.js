// Charts: each element [data-chart] is drawn by the function of that name, from the JSON in the element that
// data-source names. Register others with gradassay.chart(name, (data, theme, width) => option).
(() => {
  const kinds = new Map();
  const drawn = new Map();
  const probe = document.createElement("span");

  // Custom properties hold light-dark(); only a computed colour says which of the two it is.
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const readTheme = () => {
    probe.hidden = true;
    document.body.append(probe);
    const theme = Object.fromEntries(
      ["ink", "soft", "line", "card", "raised", "agree", "diverge", "doubt", "accent"].map((name) => [name, colour(name)]),
    );
    theme.series = Array.from({ length: 8 }, (_, index) => colour(`series-${index + 1}`));
    theme.font = getComputedStyle(document.body).fontFamily;
    probe.remove();
    return theme;
  };

  const common = (theme) => ({
    animation: false,
    textStyle: { fontFamily: theme.font, color: theme.ink },
    // Tooltips are painted on the canvas: as HTML they would need styles in attributes, which the policy forbids.
    tooltip: {
      renderMode: "richText",
      confine: true,
      backgroundColor: theme.raised,
      borderColor: theme.line,
      textStyle: { color: theme.ink, fontSize: 12, fontFamily: theme.font },
    },
    legend: { type: "plain", top: 0, left: 0, itemWidth: 12, itemHeight: 10, textStyle: { color: theme.ink } },
  });
  const axis = (theme, options) => ({
    nameTextStyle: { color: theme.soft },
    axisLabel: { color: theme.soft, hideOverlap: true, ...options.axisLabel },
    axisLine: { show: true, lineStyle: { color: theme.line } },
    axisTick: { lineStyle: { color: theme.line } },
    splitLine: { show: options.type === "log", lineStyle: { color: theme.line, opacity: 0.6 } },
    minorSplitLine: { show: false },
    ...options,
    ...(options.axisLabel ? { axisLabel: { color: theme.soft, hideOverlap: true, ...options.axisLabel } } : {}),
  });

  const draw = (element) => {
    const source = document.getElementById(element.dataset.source);
    const kind = kinds.get(element.dataset.chart);
    if (!source || !kind) return;
    drawn.get(element)?.dispose();
    const chart = echarts.init(element, null, { renderer: "canvas" });
    const theme = readTheme();
    chart.setOption({ ...common(theme), ...kind(JSON.parse(source.textContent), theme, element.clientWidth) });
    drawn.set(element, chart);
  };
  const each = (root, action) => {
    if (root.matches?.("[data-chart]")) action(root);
    root.querySelectorAll("[data-chart]").forEach(action);
  };
  const forget = () => {
    for (const [element, chart] of drawn) {
      if (element.isConnected) continue;
      chart.dispose();
      drawn.delete(element);
    }
  };
  const observer = new ResizeObserver((changes) => {
    for (const { target } of changes) {
      if (target.clientWidth && drawn.get(target)?.getWidth() !== target.clientWidth) draw(target);
    }
  });
  const start = (root) => {
    forget();
    each(root, (element) => {
      if (drawn.has(element)) return;
      draw(element);
      observer.observe(element);
    });
  };

  window.gradassay = { chart: (name, option) => kinds.set(name, option), axis };
  document.addEventListener("DOMContentLoaded", () => start(document.body));
  document.addEventListener("htmx:afterSettle", (event) => start(event.detail.elt));
  document.addEventListener("gradassay:theme", () => [...drawn.keys()].forEach(draw));
})();
