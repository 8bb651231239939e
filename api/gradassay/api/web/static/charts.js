// Charts: each element [data-chart] is drawn by the function registered under that name, from the JSON in the element
// that data-source names. A page registers with gradassay.chart(name, (data, look) => ECharts option).
(() => {
  const kinds = new Map();
  const drawn = new Map();
  const COLOURS = ["ink", "soft", "line", "raised", "agree", "diverge", "doubt", "accent"];
  const SERIES = 8;

  // Custom properties hold light-dark(); only a computed colour says which of the two it is.
  const readColours = () => {
    const probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
    const colour = (name) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    const colours = Object.fromEntries(COLOURS.map((name) => [name, colour(name)]));
    colours.series = Array.from({ length: SERIES }, (_, index) => colour(`series-${index + 1}`));
    probe.remove();
    return colours;
  };

  // What charts look like: colours of the theme, and parts of options that all of them share.
  const look = (width, height) => {
    const colours = readColours();
    const font = getComputedStyle(document.body).fontFamily;
    return {
      ...colours,
      width,
      height,
      narrow: width < 560,
      text: { fontFamily: font, color: colours.ink },
      // Painted on the canvas: as HTML it would need styles in attributes, which the page's policy forbids.
      tooltip: (formatter) => ({
        renderMode: "richText",
        confine: true,
        backgroundColor: colours.raised,
        borderColor: colours.line,
        textStyle: { color: colours.ink, fontSize: 12, fontFamily: font },
        formatter,
      }),
      legend: (names) => ({
        data: names,
        top: 0,
        left: 0,
        itemWidth: 12,
        itemHeight: 10,
        textStyle: { color: colours.ink },
      }),
      // Below as many rows of legend as these names take.
      grid: (names) => {
        const rows = names.length ? Math.ceil(names.reduce((sum, name) => sum + 34 + 7.5 * name.length, 0) / width) : 0;
        return { left: 8, right: 14, top: 14 + 22 * rows, bottom: 34, containLabel: true };
      },
      axis: ({ axisLabel, ...options }) => ({
        nameTextStyle: { color: colours.soft },
        axisLine: { show: true, lineStyle: { color: colours.line } },
        axisTick: { lineStyle: { color: colours.line } },
        splitLine: { show: options.type === "log", lineStyle: { color: colours.line, opacity: 0.6 } },
        axisLabel: { color: colours.soft, hideOverlap: true, ...axisLabel },
        ...options,
      }),
    };
  };

  const number = (value) => {
    if (value === null || value === undefined) return "—";
    if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(1);
    return String(Number(value.toPrecision(4)));
  };
  const factor = (value) => {
    const inverse = 1 / value;
    const whole = Math.round(inverse);
    return value < 1 && inverse < 1e5 && Math.abs(inverse - whole) < 1e-6 ? `1/${whole}` : number(value);
  };
  // Names come from files of others: short enough for a tooltip, and without the braces that rich text reads.
  const name = (text) => {
    const plain = text.replaceAll("{", "(").replaceAll("}", ")");
    return plain.length > 56 ? `${plain.slice(0, 24)}…${plain.slice(-31)}` : plain;
  };

  const draw = (element) => {
    const source = document.getElementById(element.dataset.source);
    const option = kinds.get(element.dataset.chart);
    if (!source || !option) return;
    const shared = look(element.clientWidth, element.clientHeight);
    drawn.get(element)?.dispose();
    const chart = echarts.init(element);
    chart.setOption({ animation: false, textStyle: shared.text, ...option(JSON.parse(source.textContent), shared) });
    drawn.set(element, chart);
  };
  // An element is drawn once it has a width: at once where it is visible, later inside what is folded.
  const observer = new ResizeObserver((changes) => {
    for (const { target } of changes) {
      if (target.clientWidth && drawn.get(target)?.getWidth() !== target.clientWidth) draw(target);
    }
  });
  const start = () => {
    for (const [element, chart] of drawn) {
      if (element.isConnected) continue;
      observer.unobserve(element);
      chart.dispose();
      drawn.delete(element);
    }
    for (const element of document.querySelectorAll("[data-chart]")) {
      if (!drawn.has(element)) observer.observe(element);
    }
  };

  window.gradassay = { chart: (kind, option) => kinds.set(kind, option), factor, name, number };
  document.addEventListener("DOMContentLoaded", start);
  document.addEventListener("htmx:afterSettle", start);
  document.addEventListener("gradassay:theme", () => [...drawn.keys()].forEach(draw));
})();
