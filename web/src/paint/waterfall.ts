/**
 * Paints spectra over time: a column of colours for each moment, the lowest frequency below.
 */
import type { ChartTheme } from '../chart';
import { axisScale, tickLabels } from '../model/axis';
import { colourise } from '../model/colour-map';
import type { Box } from '../model/picture';
import { valueTicks, type Range } from '../model/scale';
import { relativeLabel, relativeTicks } from '../model/run-marks';
import { tickLabel, timeTicks, type Zone } from '../model/time';
import { hatch, leftTicks, line, lowerTicks } from './axes';
import { BAR_PX, paintBar } from './colour-bar';

/** A stretch of time. */
export interface Stretch {
  readonly from: bigint;
  readonly spanNs: bigint;
}

/** What a waterfall is painted from. */
export interface WaterfallScene {
  /** Values from the highest bin down; NaN where nothing is known. */
  readonly values: Float32Array;
  readonly bins: number;
  readonly count: number;
  /** The stretch of time of all columns. */
  readonly stretch: Stretch;
  /** The stretch of time that is seen. */
  readonly seen: Stretch;
  readonly range: Range;
  readonly unit: string;
  /** Frequency or index: the ends of the axis. */
  readonly y: Range;
  readonly unitY: string;
  /** The place looked at, as shares of the box. */
  readonly place: { readonly across: number; readonly down: number } | null;
  readonly zone: Zone;
  /** The start of a run that time is counted from. */
  readonly zero: bigint | null;
  readonly theme: ChartTheme;
}

/** Returns where the picture is painted. */
export function waterfallBox(width: number, height: number, { fontPx }: ChartTheme): Box {
  const [left, right, below, above] = [fontPx * 6, fontPx * 6.5 + BAR_PX, fontPx * 2.2, fontPx * 1.8];
  return { x: left, y: above, width: Math.max(20, width - left - right), height: Math.max(20, height - below - above) };
}

/** Paints into a box; `small` is a canvas of its own for the pixels. */
export function paintWaterfall(pen: CanvasRenderingContext2D, small: HTMLCanvasElement, box: Box, scene: WaterfallScene): void {
  const { seen, bins, theme, y, zone, zero } = scene;
  hatch(pen, box, theme);
  if (bins > 0 && scene.count > 0) paintPixels(pen, small, box, scene);
  const at = valueTicks(y, box.height / (theme.fontPx * 4));
  const scale = axisScale(y, scene.unitY);
  const labels = tickLabels(at, scale, y);
  leftTicks(pen, box, at.map((value, k) => ({ share: (value - y.low) / (y.high - y.low), label: labels[k] ?? '' })), theme, false);
  pen.textAlign = 'right';
  pen.fillText(scale.head, box.x - 6, theme.fontPx * 0.8);
  const [from, to, wanted] = [seen.from, seen.from + seen.spanNs, box.width / (theme.fontPx * 9)];
  const times = zero === null ? timeTicks(from, to, wanted, zone) : relativeTicks(from, to, wanted, zero);
  const label = (time: bigint): string => (zero === null ? tickLabel(time, times, zone) : relativeLabel(time, times, zero));
  lowerTicks(pen, box, times.at.map((time) => ({ share: Number(time - seen.from) / Number(seen.spanNs), label: label(time) })), theme, false);
  paintBar(pen, { x: box.x + box.width + theme.fontPx, y: box.y, height: box.height }, scene);
  if (scene.place === null) return;
  const [x, row] = [box.x + scene.place.across * box.width, box.y + scene.place.down * box.height];
  for (const [colour, thick] of [[theme.ground, 3], [theme.ink, 1]] as const) {
    pen.globalAlpha = thick === 3 ? 0.5 : 0.9;
    line(pen, colour, [x, box.y], [x, box.y + box.height], thick);
    line(pen, colour, [box.x, row], [box.x + box.width, row], thick);
  }
  pen.globalAlpha = 1;
}

function paintPixels(pen: CanvasRenderingContext2D, small: HTMLCanvasElement, box: Box, { values, bins, count, stretch, seen, range }: WaterfallScene): void {
  if (small.width !== count) small.width = count;
  if (small.height !== bins) small.height = bins;
  const context = small.getContext('2d');
  if (context === null) return;
  const data = context.createImageData(count, bins);
  colourise(values, range, data.data);
  context.putImageData(data, 0, 0);
  const share = (ns: bigint): number => Number(ns) / Number(seen.spanNs);
  pen.save();
  pen.beginPath();
  pen.rect(box.x, box.y, box.width, box.height);
  pen.clip();
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, box.x + share(stretch.from - seen.from) * box.width, box.y, share(stretch.spanNs) * box.width, box.height);
  pen.restore();
}
