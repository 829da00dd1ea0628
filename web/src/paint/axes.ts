/**
 * Axes of the panels that show whole samples: ticks with labels at the left and below, and a hatch for what is no number.
 */
import type { Box } from '../model/picture';
import type { ChartTheme } from '../chart';

/** A tick: its share of the axis, and its label. */
export interface Tick {
  readonly share: number;
  readonly label: string;
}

/** Pixels between a label and its axis. */
const LABEL_GAP_PX = 6;
/** Pixels between the lines of a hatch. */
const HATCH_PX = 6;

/** Prepares for text of the theme. */
export function useFont(pen: CanvasRenderingContext2D, theme: ChartTheme): void {
  pen.font = `${theme.fontPx}px ${theme.font}`;
  pen.fillStyle = theme.axis;
  pen.textBaseline = 'middle';
}

/** Draws ticks at the left of a box, with lines across it if asked for. */
export function leftTicks(pen: CanvasRenderingContext2D, box: Box, ticks: readonly Tick[], theme: ChartTheme, lines: boolean): void {
  useFont(pen, theme);
  pen.textAlign = 'right';
  for (const { share, label } of ticks) {
    const y = box.y + (1 - share) * box.height;
    if (lines) line(pen, theme.grid, [box.x, Math.round(y) + 0.5], [box.x + box.width, Math.round(y) + 0.5]);
    pen.fillText(label, box.x - LABEL_GAP_PX, y);
  }
}

/** Draws ticks below a box, with lines across it if asked for. */
export function lowerTicks(pen: CanvasRenderingContext2D, box: Box, ticks: readonly Tick[], theme: ChartTheme, lines: boolean): void {
  useFont(pen, theme);
  pen.textAlign = 'center';
  let free = -Infinity;
  for (const { share, label } of ticks) {
    const x = box.x + share * box.width;
    if (lines) line(pen, theme.grid, [Math.round(x) + 0.5, box.y], [Math.round(x) + 0.5, box.y + box.height]);
    const half = pen.measureText(label).width / 2;
    if (x - half < free) continue;
    pen.fillText(label, x, box.y + box.height + LABEL_GAP_PX + theme.fontPx / 2);
    free = x + half + LABEL_GAP_PX;
  }
}

/** Draws a line. */
export function line(pen: CanvasRenderingContext2D, colour: string, from: readonly [number, number], to: readonly [number, number], widthPx = 1): void {
  pen.strokeStyle = colour;
  pen.lineWidth = widthPx;
  pen.beginPath();
  pen.moveTo(...from);
  pen.lineTo(...to);
  pen.stroke();
}

/** Hatches a box: what is seen of it later is no number. */
export function hatch(pen: CanvasRenderingContext2D, { x, y, width, height }: Box, theme: ChartTheme): void {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  pen.fillStyle = theme.grid;
  pen.fillRect(x, y, width, height);
  pen.strokeStyle = theme.axis;
  pen.globalAlpha = 0.55;
  pen.lineWidth = 1;
  pen.beginPath();
  for (let at = -height; at < width; at += HATCH_PX) {
    pen.moveTo(x + at, y + height);
    pen.lineTo(x + at + height, y);
  }
  pen.stroke();
  pen.restore();
}
