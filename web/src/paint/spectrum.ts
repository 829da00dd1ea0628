/**
 * Paints a sample as a line over frequency, or over the index of its elements: each row of the matrix one line.
 */
import type { ChartTheme } from '../chart';
import { axisScale, tickLabels } from '../model/axis';
import { decadeTicks, rowOf, shareOf, type Box } from '../model/picture';
import { short } from '../model/quantity';
import { valueTicks, type Range } from '../model/scale';
import type { Sample } from '../wire/picture';
import { leftTicks, line, lowerTicks, useFont, type Tick } from './axes';

/** What a spectrum is painted from. */
export interface SpectrumScene {
  readonly sample: Sample;
  /** Ends of the axes: frequency or index, and value. */
  readonly x: Range;
  readonly y: Range;
  readonly logX: boolean;
  readonly logY: boolean;
  readonly unitX: string;
  readonly unitY: string;
  /** Where a pixel of the sample is on the x-axis. */
  readonly position: (column: number) => number;
  /** Pixel looked at, and that of the peak. */
  readonly column: number | null;
  readonly peak: { readonly row: number; readonly column: number } | null;
  readonly theme: ChartTheme;
  /** Colours of the rows. */
  readonly pens: readonly string[];
}

/** Returns where a spectrum is painted. */
export function spectrumBox(width: number, height: number, { fontPx }: ChartTheme): Box {
  const [left, below, above] = [fontPx * 6, fontPx * 2.2, fontPx * 1.8];
  return { x: left, y: above, width: Math.max(20, width - left - fontPx * 2.6), height: Math.max(20, height - below - above) };
}

/** Paints into a box. */
export function paintSpectrum(pen: CanvasRenderingContext2D, box: Box, scene: SpectrumScene): void {
  const { sample, x, y, theme } = scene;
  leftTicks(pen, box, ticks(y, scene.unitY, scene.logY, box.height / (theme.fontPx * 4)), theme, true);
  lowerTicks(pen, box, withUnit(ticks(x, scene.unitX, scene.logX, box.width / (theme.fontPx * 7)), scene.logX ? scene.unitX : axisScale(x, scene.unitX).head), theme, true);
  useFont(pen, theme);
  pen.textAlign = 'right';
  pen.fillText(scene.logY ? scene.unitY : axisScale(y, scene.unitY).head, box.x - 6, theme.fontPx * 0.8);
  const atX = (column: number): number => box.x + shareOf(scene.position(column), x, scene.logX) * box.width;
  // Zero lies below a logarithmic axis: the line runs along its end.
  const atY = (value: number): number => box.y + box.height * (1 - Math.max(0, Math.min(1, shareOf(value, y, scene.logY))));
  if (scene.column !== null) line(pen, theme.axis, [atX(scene.column), box.y], [atX(scene.column), box.y + box.height]);
  scene.pens.forEach((colour, row) => {
    pen.strokeStyle = colour;
    pen.lineWidth = Math.max(1.25, theme.linePx);
    pen.beginPath();
    let down = false;
    rowOf(sample, row).forEach((value, column) => {
      const place = atX(column);
      if (Number.isNaN(value) || !Number.isFinite(place)) {
        down = false;
        return;
      }
      if (down) pen.lineTo(place, atY(value));
      else pen.moveTo(place, atY(value));
      if (!down && sample.columns === 1) pen.lineTo(place + 2, atY(value));
      down = true;
    });
    pen.stroke();
  });
  if (scene.peak === null) return;
  const value = rowOf(sample, scene.peak.row)[scene.peak.column] ?? NaN;
  const [peakX, peakY] = [atX(scene.peak.column), atY(value)];
  if (!Number.isFinite(peakX)) return;
  pen.fillStyle = theme.ink;
  pen.beginPath();
  pen.moveTo(peakX, peakY - 3);
  pen.lineTo(peakX - 4, peakY - 10);
  pen.lineTo(peakX + 4, peakY - 10);
  pen.fill();
}

function ticks(range: Range, unit: string, log: boolean, wanted: number): readonly Tick[] {
  if (log) return decadeTicks(range, wanted).map((at) => ({ share: shareOf(at, range, true), label: powerText(at) }));
  const at = valueTicks(range, Math.max(1, wanted));
  const labels = tickLabels(at, axisScale(range, unit), range);
  return at.map((value, k) => ({ share: shareOf(value, range, false), label: labels[k] ?? '' }));
}

/** The last label has the unit. */
function withUnit(labelled: readonly Tick[], unit: string): readonly Tick[] {
  return labelled.map(({ share, label }, k) => ({ share, label: k === labelled.length - 1 ? `${label} ${unit}`.trim() : label }));
}

/** Small and large powers of ten are written as such. */
function powerText(value: number): string {
  const power = Math.round(Math.log10(value));
  if (power >= -2 && power <= 6) return power >= 0 ? short(value) : value.toFixed(-power);
  const raised = [...String(power)].map((digit) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(digit)] ?? '⁻').join('');
  return `10${raised}`;
}
