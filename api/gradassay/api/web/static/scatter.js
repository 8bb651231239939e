// The charts of one assay: ratio and residual of every parameter, in the model's order, on logarithmic axes.
(() => {
  const { chart, factor, name, number } = window.gradassay;
  const BAND = "within the noise";
  const MOST_TICKS = 8;
  const LABEL_HEIGHT = 13;
  const MANY = 1000;
  const power = (value) => `1e${Math.round(Math.log10(value))}`;

  // A logarithmic axis whose ticks and ends are whole powers, at most MOST_TICKS apart.
  const logarithmic = (look, base, low, high, formatter) => {
    const exponent = (value) => Math.log(value) / Math.log(base);
    const step = Math.ceil((exponent(high) - exponent(low)) / MOST_TICKS - 1e-9);
    return look.axis({
      type: "log",
      logBase: base,
      interval: step,
      min: base ** (Math.floor(exponent(low) / step + 1e-9) * step),
      max: base ** (Math.ceil(exponent(high) / step - 1e-9) * step),
      axisLabel: { formatter },
    });
  };
  // Guide lines with their names at their right end; names that would overlap stand together.
  const guides = (data, look, axis, height) => {
    const place = (value) => (height * Math.log(value / axis.min)) / Math.log(axis.max / axis.min);
    const named = [];
    for (const { value, label } of data.guides) {
      const below = named.at(-1);
      if (below && place(value) - place(below.value) < LABEL_HEIGHT) below.labels.push(label);
      else named.push({ value, labels: [label] });
    }
    return data.guides.map(({ value }) => ({
      yAxis: value,
      name: (named.find((one) => one.value === value)?.labels ?? []).join(", "),
      lineStyle: { color: value === 1 ? look.agree : look.soft, type: value === 1 ? "solid" : "dashed", opacity: 0.8 },
    }));
  };

  const series = (data, column, look) => {
    const sizes = data.names.length > MANY ? [3, 5] : [5, 9];
    return data.families.map((title, family) => ({
      type: "scatter",
      name: title,
      itemStyle: { color: look.series[family % look.series.length], opacity: 0.85 },
      data: data[column].flatMap((value, index) =>
        data.family[index] === family && value ? [{ value: [index + 1, value], symbolSize: sizes[data.diverge[index]] }] : [],
      ),
    }));
  };
  const tooltip = (data, look) =>
    look.tooltip(({ value: [position] }) => {
      const index = position - 1;
      const seen = `ratio ${number(data.ratio[index])} · residual ${number(data.residual[index])}`;
      return `${name(data.names[index])}\n${name(data.families[data.family[index]])} · ${seen}`;
    });
  const across = (data, look) =>
    look.axis({
      type: "value",
      min: 0.5,
      max: data.names.length + 0.5,
      minInterval: 1,
      splitNumber: look.narrow ? 4 : 8,
      name: "parameters in the model's order",
      nameLocation: "middle",
      nameGap: 26,
      axisLabel: { formatter: (value) => (Number.isInteger(value) ? value.toLocaleString("en") : "") },
    });

  chart("ratio", (data, look) => {
    const grid = look.grid(data.families);
    const yAxis = logarithmic(look, 2, data.low, data.high, factor);
    const lines = guides(data, look, yAxis, look.height - grid.top - grid.bottom - 18);
    const longest = Math.max(...lines.map((line) => line.name.length));
    return {
      grid: { ...grid, right: Math.min(14 + 6.2 * longest, look.width / 3) },
      legend: look.legend(data.families),
      tooltip: tooltip(data, look),
      xAxis: across(data, look),
      yAxis,
      series: [
        ...series(data, "ratio", look),
        {
          type: "scatter",
          data: [],
          markLine: {
            silent: true,
            symbol: "none",
            label: { position: "end", formatter: "{b}", color: look.soft, fontSize: 11, distance: 6 },
            data: lines,
          },
        },
      ],
    };
  });

  chart("residual", (data, look) => {
    const seen = [...data.residual, ...data.tolerance].filter(Boolean);
    const names = [...data.families, BAND];
    return {
      grid: look.grid(names),
      legend: look.legend(names),
      tooltip: tooltip(data, look),
      xAxis: across(data, look),
      yAxis: logarithmic(
        look,
        10,
        10 ** Math.floor(Math.log10(seen.reduce((one, two) => Math.min(one, two), 1)) - 0.1),
        10 ** Math.ceil(Math.log10(seen.reduce((one, two) => Math.max(one, two), 1e-6)) + 0.1),
        power,
      ),
      series: [
        ...series(data, "residual", look),
        {
          type: "line",
          name: BAND,
          silent: true,
          symbol: "none",
          z: 1,
          lineStyle: { color: look.agree, width: 1, type: "dashed" },
          itemStyle: { color: look.agree },
          areaStyle: { color: look.agree, opacity: 0.1, origin: "start" },
          data: data.tolerance.flatMap((value, index) => (value ? [[index + 0.5, value], [index + 1.5, value]] : [])),
        },
      ],
    };
  });
})();
