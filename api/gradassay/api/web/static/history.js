// Parameter history: ratio around 1, and residual beside the tolerance, both by run and on logarithmic axes.
(() => {
  const shades = (theme) => ({ agree: theme.agree, diverge: theme.diverge });
  const shape = (verdict) => (verdict === "agree" ? "circle" : verdict === "diverge" ? "diamond" : "triangle");
  const points = (data, theme, value) =>
    data.map((point) => ({
      value: point[value] > 0 ? point[value] : null,
      symbol: shape(point.verdict),
      itemStyle: { color: shades(theme)[point.verdict] ?? theme.doubt },
    }));
  const frame = (data, theme, width) => ({
    grid: { left: 8, right: 16, top: 34, bottom: 8, containLabel: true },
    xAxis: gradassay.axis(theme, {
      type: "category",
      data: data.map((point) => point.label),
      axisLabel: { rotate: width < 600 ? 60 : data.length > 8 ? 40 : 0 },
    }),
  });
  const tell = (data) => (items) => {
    const point = data[items[0].dataIndex];
    return [point.label, point.text, ...items.map((item) => `${item.seriesName}: ${item.value ?? "none"}`)].join("\n");
  };
  const tooltip = (data, theme) => ({
    trigger: "axis",
    renderMode: "richText",
    confine: true,
    backgroundColor: theme.raised,
    borderColor: theme.line,
    textStyle: { color: theme.ink, fontSize: 12, fontFamily: theme.font },
    formatter: tell(data),
  });

  gradassay.chart("history-ratio", (data, theme, width) => {
    const ratios = data.map((point) => point.ratio).filter((ratio) => ratio > 0);
    return {
      ...frame(data, theme, width),
      tooltip: tooltip(data, theme),
      yAxis: gradassay.axis(theme, {
        type: "log",
        logBase: 2,
        min: Math.min(0.5, ...ratios) / 1.2,
        max: Math.max(2, ...ratios) * 1.2,
        axisLabel: { formatter: (value) => String(Number(value.toPrecision(3))) },
      }),
      series: [
        {
          name: "ratio",
          type: "line",
          data: points(data, theme, "ratio"),
          symbolSize: 9,
          lineStyle: { color: theme.series[0], width: 1.5 },
          itemStyle: { color: theme.series[0] },
          connectNulls: false,
          markLine: {
            silent: true,
            symbol: "none",
            lineStyle: { color: theme.agree, type: "dashed" },
            label: { formatter: "1", color: theme.agree, position: "insideEndTop" },
            data: [{ yAxis: 1 }],
          },
        },
      ],
    };
  });

  gradassay.chart("history-residual", (data, theme, width) => ({
    ...frame(data, theme, width),
    tooltip: tooltip(data, theme),
    yAxis: gradassay.axis(theme, { type: "log", axisLabel: { formatter: (value) => value.toExponential(0) } }),
    series: [
      {
        name: "tolerance",
        type: "line",
        step: "middle",
        data: data.map((point) => (point.tolerance > 0 ? point.tolerance : null)),
        symbol: "none",
        lineStyle: { color: theme.agree, type: "dashed", width: 1.5 },
        itemStyle: { color: theme.agree },
        areaStyle: { color: theme.agree, opacity: 0.1, origin: "start" },
      },
      {
        name: "residual",
        type: "line",
        data: points(data, theme, "residual"),
        symbolSize: 9,
        lineStyle: { color: theme.series[0], width: 1.5 },
        itemStyle: { color: theme.series[0] },
        connectNulls: false,
      },
    ],
  }));
})();
