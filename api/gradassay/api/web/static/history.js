// Parameter history: ratio around 1, and residual beside its tolerance, both by run and on logarithmic axes.
(() => {
  const { chart, factor, number } = gradassay;
  const SHAPES = { agree: "circle", diverge: "diamond" };

  const line = (data, key, look) => ({
    name: key,
    type: "line",
    symbolSize: 9,
    lineStyle: { color: look.series[0], width: 1.5 },
    itemStyle: { color: look.series[0] },
    data: data.map((point) => ({
      value: point[key] > 0 ? point[key] : null,
      symbol: SHAPES[point.verdict] ?? "triangle",
      itemStyle: { color: { agree: look.agree, diverge: look.diverge }[point.verdict] ?? look.doubt },
    })),
  });
  const across = (data, look) =>
    look.axis({
      type: "category",
      data: data.map((_, index) => index),
      axisLabel: { formatter: (index) => data[index].label, rotate: look.narrow ? 60 : data.length > 8 ? 35 : 0 },
    });
  const tooltip = (look, data, write) => ({
    ...look.tooltip(([{ dataIndex }]) => {
      const point = data[dataIndex];
      return [point.label, point.text, ...write(point)].join("\n");
    }),
    trigger: "axis",
  });

  chart("history-ratio", (data, look) => {
    const ratios = data.map((point) => point.ratio).filter((ratio) => ratio > 0);
    return {
      grid: { ...look.grid([]), bottom: 8, right: 24 },
      tooltip: tooltip(look, data, (point) => [`ratio ${factor(point.ratio)}`]),
      xAxis: across(data, look),
      yAxis: look.axis({
        type: "log",
        logBase: 2,
        min: 2 ** Math.floor(Math.log2(Math.min(0.5, ...ratios))),
        max: 2 ** Math.ceil(Math.log2(Math.max(2, ...ratios))),
        axisLabel: { formatter: factor },
      }),
      series: [
        {
          ...line(data, "ratio", look),
          markLine: {
            silent: true,
            symbol: "none",
            lineStyle: { color: look.agree, type: "dashed" },
            label: { formatter: "1", color: look.agree, position: "end" },
            data: [{ yAxis: 1 }],
          },
        },
      ],
    };
  });

  chart("history-residual", (data, look) => {
    const names = ["residual", "tolerance"];
    const seen = data.flatMap((point) => [point.residual, point.tolerance]).filter((value) => value > 0);
    return {
      legend: look.legend(names),
      grid: { ...look.grid(names), bottom: 8, right: 24 },
      tooltip: tooltip(look, data, (point) => names.map((name) => `${name} ${number(point[name])}`)),
      xAxis: across(data, look),
      yAxis: look.axis({
        type: "log",
        min: 10 ** Math.floor(Math.log10(Math.min(...seen))),
        max: 10 ** Math.ceil(Math.log10(Math.max(...seen))),
        axisLabel: { formatter: (value) => `1e${Math.round(Math.log10(value))}` },
      }),
      series: [
        {
          name: "tolerance",
          type: "line",
          step: "middle",
          symbol: "none",
          data: data.map((point) => (point.tolerance > 0 ? point.tolerance : null)),
          lineStyle: { color: look.agree, type: "dashed", width: 1.5 },
          itemStyle: { color: look.agree },
          areaStyle: { color: look.agree, opacity: 0.12, origin: "start" },
        },
        line(data, "residual", look),
      ],
    };
  });
})();
