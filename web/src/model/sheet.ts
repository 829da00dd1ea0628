/**
 * Where the plots of a picture lie: rows as on the page, each plot under its title and its legend.
 *
 * Lengths are CSS pixels; nothing here draws.
 */

/** A plot to be placed. */
export interface SheetPlot {
  /** Place and size of its chart on the page. */
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly chartHeight: number;
  /** Widths of the entries of its legend. */
  readonly entries: readonly number[];
}

/** A plot's place. */
export interface PlacedPlot {
  readonly left: number;
  readonly titleTop: number;
  readonly chartTop: number;
  /** Places of the entries of the legend. */
  readonly entries: readonly { readonly x: number; readonly y: number }[];
}

/** A picture's size and the places in it. */
export interface Sheet {
  readonly width: number;
  readonly height: number;
  readonly plots: readonly PlacedPlot[];
}

/** Margin of the picture, and distance of two plots. */
export const MARGIN = 16;
/** Height of a line of text. */
export const LINE = 20;
/** Height of the last line of the foot, which has the time. */
export const FOOT = 28;

/** Places plots as they lie on the page, those with the same top in one row, above lines of text. */
export function sheetOf(plots: readonly SheetPlot[], footLines = 1): Sheet {
  const left = Math.min(...plots.map((plot) => plot.left));
  const tops = [...new Set(plots.map(({ top }) => Math.round(top)))].sort((a, b) => a - b);
  const placed = new Map<SheetPlot, PlacedPlot>();
  let y = MARGIN;
  for (const top of tops) {
    let height = 0;
    for (const plot of plots.filter((each) => Math.round(each.top) === top)) {
      const { places, lines } = flow(plot.entries, plot.width);
      const head = LINE * (1 + lines);
      const x = MARGIN + plot.left - left;
      const entries = places.map((place) => ({ x: x + place.x, y: y + LINE + place.line * LINE }));
      placed.set(plot, { left: x, titleTop: y, chartTop: y + head, entries });
      height = Math.max(height, head + plot.chartHeight);
    }
    y += height + MARGIN;
  }
  const right = Math.max(...plots.map((plot) => plot.left + plot.width)) - left;
  return { width: Math.ceil(right + 2 * MARGIN), height: Math.ceil(y + FOOT + (footLines - 1) * LINE), plots: plots.map((plot) => placed.get(plot) as PlacedPlot) };
}

/** Sets words of these widths in lines. */
function flow(widths: readonly number[], room: number): { places: readonly { x: number; line: number }[]; lines: number } {
  let [x, line] = [0, 0];
  const places = widths.map((width) => {
    if (x > 0 && x + width > room) [x, line] = [0, line + 1];
    const place = { x, line };
    x += width + MARGIN;
    return place;
  });
  return { places, lines: widths.length === 0 ? 0 : line + 1 };
}
