/**
 * The bar that says which value has which colour.
 */
import type { ChartTheme } from '../chart';
import { axisScale, tickLabels } from '../model/axis';
import { colourAt } from '../model/colour-map';
import { valueTicks, type Range } from '../model/scale';
import { useFont } from './axes';

/** Width of the bar. */
export const BAR_PX = 12;
const STEPS = 64;

/** Draws the bar with the unit above it and labels beside it. */
export function paintBar(
  pen: CanvasRenderingContext2D,
  { x, y, height }: { readonly x: number; readonly y: number; readonly height: number },
  { range, unit, theme }: { readonly range: Range; readonly unit: string; readonly theme: ChartTheme },
): void {
  for (let step = 0; step < STEPS; step += 1) {
    const [red, green, blue] = colourAt((step + 0.5) / STEPS);
    pen.fillStyle = `rgb(${red} ${green} ${blue})`;
    pen.fillRect(x, y + ((STEPS - 1 - step) / STEPS) * height, BAR_PX, height / STEPS + 0.5);
  }
  useFont(pen, theme);
  pen.textAlign = 'left';
  const scale = axisScale(range, unit);
  const at = valueTicks(range, height / (theme.fontPx * 4));
  tickLabels(at, scale, range).forEach((label, k) => {
    const share = ((at[k] ?? 0) - range.low) / (range.high - range.low);
    pen.fillText(label, x + BAR_PX + 6, y + (1 - share) * height);
  });
  pen.fillText(scale.head, x, y - theme.fontPx);
}
