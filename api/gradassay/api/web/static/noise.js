// Noise floor by family: median and 99.9 % quantile on a logarithmic axis.
gradassay.chart("noise", (data, look) => {
  const { number } = gradassay;
  const parts = [
    ["median", "q50", "circle"],
    ["99.9 % quantile", "q999", "diamond"],
  ];
  const names = parts.map(([name]) => name);
  const seen = data.flatMap((row) => [row.q50, row.q999]).filter((value) => value > 0);
  return {
    legend: look.legend(names),
    grid: { ...look.grid(names), bottom: 8, right: 30 },
    tooltip: look.tooltip(({ seriesName, value }) => `${value[1]}, ${seriesName}: ${number(value[0])}`),
    xAxis: look.axis({
      type: "log",
      min: 10 ** Math.floor(Math.log10(Math.min(...seen)) - 0.05),
      max: 10 ** Math.ceil(Math.log10(Math.max(...seen)) + 0.05),
      axisLabel: { formatter: (value) => value.toExponential(0) },
    }),
    yAxis: look.axis({ type: "category", data: data.map((row) => row.family).reverse() }),
    series: parts.map(([name, key, symbol], index) => ({
      name,
      type: "scatter",
      symbol,
      symbolSize: 11,
      itemStyle: { color: look.series[index] },
      data: data.filter((row) => row[key] > 0).map((row) => [row[key], row.family]),
    })),
  };
});
