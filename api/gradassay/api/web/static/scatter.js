// The charts of one assay: ratio and residual of every parameter, in the model's order, on logarithmic axes.
(() => {
  const { axis, chart } = window.gradassay;
  const NARROW = 560;

  const number = (value) => {
    if (value === null) return "—";
    if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(1);
    return String(Number(value.toPrecision(4)));
  };
  const factor = (value) => {
    const inverse = 1 / value;
    if (value < 1 && inverse < 1e5 && Math.abs(inverse - Math.round(inverse)) < 1e-6) return `1/${Math.round(inverse)}`;
    return number(value);
  };
  // Names come from files of others; rich text gives braces a meaning.
  const plain = (text) => text.replaceAll("{", "(").replaceAll("}", ")");
  const middle = (text) => (text.length > 56 ? `${text.slice(0, 24)}…${text.slice(-31)}` : text);

  const points = (data, column, theme) =>
    data.families.map((name, family) => ({
      type: "scatter",
      name,
      itemStyle: { color: theme.series[family % theme.series.length], opacity: 0.85 },
      symbolSize: (_, { dataIndex, seriesIndex }) => (sizes[seriesIndex][dataIndex] ? 9 : 5),
      data: data[column].flatMap((value, index) => (data.family[index] === family && value ? [[index, value]] : [])),
    }));
  let sizes = [];
  const remember = (data, column) => {
    sizes = data.families.map((_, family) =>
      data[column].flatMap((value, index) => (data.family[index] === family && value ? [data.diverge[index]] : [])),
    );
  };

  const across = (data, theme, width) =>
    axis(theme, {
      type: "value",
      min: -0.5,
      max: data.names.length - 0.5,
      minInterval: 1,
      name: "parameter, in the model's order",
      nameLocation: "middle",
      nameGap: 26,
      splitNumber: width < NARROW ? 4 : 8,
      axisLabel: { showMinLabel: false, showMaxLabel: false, formatter: (value) => (Number.isInteger(value) ? value : "") },
    });
  const legendRows = (data, width) => {
    const room = data.families.reduce((sum, name) => sum + 34 + 7.5 * name.length, 0);
    return Math.max(1, Math.ceil(room / width));
  };
  const hint = (data, label) => ({
    formatter: ({ value }) => {
      const index = value[0];
      return plain(
        [
          middle(data.names[index]),
          `${label} ${number(value[1])}`,
          `ratio ${number(data.ratio[index])} · residual ${number(data.residual[index])}`,
        ].join("\n"),
      );
    },
  });

  chart("ratio", (data, theme, width) => {
    remember(data, "ratio");
    const series = points(data, "ratio", theme);
    series.push({
      type: "scatter",
      data: [],
      silent: true,
      markLine: {
        silent: true,
        symbol: "none",
        animation: false,
        data: data.guides.map(({ value, label }) => ({
          yAxis: value,
          name: label,
          lineStyle: { color: value === 1 ? theme.agree : theme.soft, type: value === 1 ? "solid" : "dashed", width: 1, opacity: 0.8 },
        })),
        label: { position: "insideEndTop", formatter: "{b}", color: theme.soft, fontSize: 11, distance: 3 },
      },
    });
    return {
      aria: { enabled: false },
      grid: { left: 8, right: 12, top: 14 + 22 * legendRows(data, width), bottom: 34, containLabel: true },
      legend: { data: data.families, top: 0, left: 0, itemWidth: 12, itemHeight: 10, textStyle: { color: theme.ink } },
      tooltip: { ...tooltip(theme), ...hint(data, "ratio") },
      xAxis: across(data, theme, width),
      yAxis: axis(theme, { type: "log", logBase: 2, min: data.low, max: data.high, axisLabel: { formatter: factor } }),
      series,
    };
  });

  chart("residual", (data, theme, width) => {
    remember(data, "residual");
    const band = data.tolerance.flatMap((value, index) => (value ? [[index - 0.5, value], [index + 0.5, value]] : []));
    const seen = [...data.residual, ...data.tolerance].filter(Boolean);
    const low = 10 ** Math.floor(Math.log10(Math.min(...seen, 1)) - 0.1);
    const high = 10 ** Math.ceil(Math.log10(Math.max(...seen, 1e-6)) + 0.1);
    return {
      aria: { enabled: false },
      grid: { left: 8, right: 12, top: 14 + 22 * legendRows({ families: [...data.families, "within the noise"] }, width), bottom: 34, containLabel: true },
      legend: { data: [...data.families, "within the noise"], top: 0, left: 0, itemWidth: 12, itemHeight: 10, textStyle: { color: theme.ink } },
      tooltip: { ...tooltip(theme), ...hint(data, "residual") },
      xAxis: across(data, theme, width),
      yAxis: axis(theme, { type: "log", logBase: 10, min: low, max: high, axisLabel: { formatter: (value) => value.toExponential(0).replace("e+", "e") } }),
      series: [
        ...points(data, "residual", theme),
        {
          type: "line",
          name: "within the noise",
          silent: true,
          symbol: "none",
          data: band,
          lineStyle: { color: theme.agree, width: 1, type: "dashed" },
          itemStyle: { color: theme.agree },
          areaStyle: { color: theme.agree, opacity: 0.1, origin: "start" },
          z: 1,
        },
      ],
    };
  });

  function tooltip(theme) {
    return {
      renderMode: "richText",
      confine: true,
      backgroundColor: theme.raised,
      borderColor: theme.line,
      textStyle: { color: theme.ink, fontSize: 12, fontFamily: theme.font },
    };
  }
})();
